"""Commands for authors of the course: what is generated from it, and the quality gate."""

from __future__ import annotations

from typing import Annotated

from grader.cli.arguments import argument, complete_name, option
from grader.console.output import make_console, print_error, print_wrapped
from grader.counts import format_count
from grader.course.status import read_course
from grader.course.stubs import check_chapter_table, check_stubs, write_chapter_table, write_stubs


def stubs(
    check: Annotated[bool, option("Change nothing; fail if a stub does not match its solution.", "--check")] = False,
) -> int:
    """Make the stubs from the solutions.

    It also draws the lessons' pictures and writes the table of chapters."""
    read_course()
    return _check_stubs() if check else _write_stubs()


def _write_stubs() -> int:
    from grader.teaching.pictures import write_lesson_pictures

    outcomes = write_stubs()
    for outcome in outcomes:
        if outcome.state == "failed":
            print_error(outcome.sentence)
        elif outcome.state != "unchanged":
            print_wrapped(make_console(), outcome.sentence)
    if unchanged := sum(outcome.state == "unchanged" for outcome in outcomes):
        make_console().print(f"{format_count(unchanged, 'stub is', 'stubs are')} unchanged.")
    if not outcomes:
        make_console().print("No chapter has a solution yet.")
    for name in write_lesson_pictures():
        print_wrapped(make_console(), f"exercises/pictures/{name} was drawn again.")
    if write_chapter_table():
        print_wrapped(make_console(), "The table of chapters and exercises on the page chapters.md was changed.")
    return int(any(outcome.state == "failed" for outcome in outcomes))


def _check_stubs() -> int:
    problems = [*check_stubs(), *check_chapter_table()]
    for problem in problems:
        print_error(problem)
    if not problems:
        make_console().print("Stubs and solutions match.")
    return int(bool(problems))


def dev_check(
    names: Annotated[
        list[str] | None,
        argument("NAMES", "Exercises and chapters (default: all).", complete_name),
    ] = None,
    full: Annotated[bool, option("Three seeds, in process and in workers.", "--full")] = False,
    tenth: Annotated[
        int | None, option("Try only this tenth of each exercise's known mistakes.", "--tenth", min=1, max=10)
    ] = None,
) -> int:
    """Check the course itself.

    It checks that the tests catch and name every known mistake, and accept every correct variant."""
    read_course().chosen(names or ())
    from grader.tests.quality.devcheck.check import run

    return run(names or (), full, tenth or 0)
