"""`headway path`: the ways through the course, and choosing one."""

from __future__ import annotations

from typing import Annotated

from grader.cli.arguments import argument, completing, known_name
from grader.console.output import make_console, print_wrapped
from grader.course.paths import WHOLE_COURSE, choose_path, chosen_path, load_paths
from grader.course.progress import Score
from grader.course.status import current_scores, is_passed, read_course
from grader.course.syllabus import Syllabus
from rich.console import Console
from rich.text import Text

NAMES = completing(lambda: [*load_paths(), WHOLE_COURSE])


def path(name: Annotated[str | None, argument("NAME", "A path, or all for the whole course.", NAMES)] = None) -> int:
    """Show the ways through the course, or choose one.

    A path is a part of the course in an order of its own. After you have chosen one, `headway`, the watch and the book
    show its chapters, and what is left of it. Every other exercise stays open."""
    if name is None:
        return _list_paths()
    chosen = known_name("path", "headway path", name, [*load_paths(), WHOLE_COURSE])
    choose_path(chosen)
    console = make_console()
    if chosen == WHOLE_COURSE:
        print_wrapped(console, "Headway shows the whole course again.")
        return 0
    route = load_paths()[chosen]
    print_wrapped(console, f"You are on the path {route.name}, about {route.course.hours} hours.")
    print_wrapped(console, f"At its end: {route.goal}")
    print_wrapped(
        console,
        "Where an exercise uses a part that is not on this path and that you have not written, "
        "it uses the reference solution.",
    )
    if route.read_first:
        listed = ", ".join(f"{chapter.number} {chapter.title}" for chapter in route.read_first)
        print_wrapped(console, f"Read these lessons on the way too, if they are new to you: {listed}.")
    ways = "`headway` shows what is next, and `headway list` all of it"
    print_wrapped(console, f"{ways}; `headway path all` goes back to the whole course.")
    return 0


def _list_paths() -> int:
    console, scores, chosen = make_console(), current_scores(), chosen_path()
    for route in load_paths().values():
        _print_row(console, route.name, route.course, scores, route is chosen)
        print_wrapped(console, f"At its end: {route.goal}")
        console.print()
    _print_row(console, WHOLE_COURSE, read_course(), scores, chosen is None)
    print_wrapped(console, "The whole course, in the order of its chapters.")
    console.print(Text("\nTo choose one: headway path NAME", style="dim"))
    return 0


def _print_row(console: Console, name: str, course: Syllabus, scores: dict[str, Score], is_chosen: bool) -> None:
    passed, count = (sum(is_passed(exercise, scores) for exercise in course.exercises), len(course.exercises))
    exercises = f"{passed} of {count} exercises passed" if passed else f"{count} exercises"
    rest = f"  about {course.hours} hours, {exercises}{', chosen' if is_chosen else ''}"
    console.print(Text.assemble((name, "bold"), rest))
