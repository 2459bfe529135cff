"""The status page, the next step, and the list of all exercises."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import which
from typing import Annotated

from grader.cli.arguments import AnyName, argument, complete_name, named
from grader.console.output import command_line, make_console, print_wrapped, progress_bar
from grader.counts import format_count
from grader.course.hunts import Hunts
from grader.course.paths import chosen_path, load_paths
from grader.course.practice import Practices
from grader.course.progress import Score, format_points
from grader.course.status import (
    Step,
    all_passed,
    current_chapter,
    current_scores,
    exercise_of,
    hours_left,
    is_complete,
    is_passed,
    next_step,
    points_earned,
    read_course,
    read_route,
    short_path,
    step_of,
)
from grader.course.syllabus import EXERCISES, Chapter, Syllabus, find_exercises, is_handout, load_subjects
from rich.console import Console
from rich.text import Text

NUMBER_COLUMNS = 8  # of a chapter's number, with its mark and spaces, on the status page
MIN_BAR_COLUMNS, MAX_BAR_COLUMNS = 4, 16


def complete_listed(incomplete: str) -> list[str]:
    return [name for name in load_subjects() if name.startswith(incomplete)] + complete_name(incomplete)


def status() -> int:
    """Show your points and the next exercise, like `headway` alone.

    A chosen path shows its chapters only."""
    course, scores = read_route(), current_scores()
    here, console = current_chapter(scores), make_console()
    mine = sum(points_earned(chapter, scores) for chapter in course.chapters)
    all_points = sum(chapter.points for chapter in course.chapters)
    heading = Text.assemble(("Headway", "bold"), ": a transformer, built by hand")
    total = f"{format_points(mine)} of {format_points(all_points)} points"
    beside = console.width - len(heading) - 1
    console.print(Text.assemble(heading, total.rjust(beside) if beside >= len(total) + 2 else f"\n{total}"))
    console.print()
    for line in _chapter_lines(course.chapters, scores, here, console.width):
        console.print(line, no_wrap=True, overflow="ellipsis")
    console.print()
    if left := _hours_left(course, scores):
        print_wrapped(console, left)
    if scores and (due := [exercise.name for exercise in Practices(scores).due()]):
        verb = "is" if len(due) == 1 else "are"
        print_wrapped(console, f"{' and '.join(due)} {verb} due to be written once more: headway again")
    if scores and (hunting := _hunting(course, scores)):
        print_wrapped(console, hunting)
    if not scores and here is not None:
        advice = "Each one needs a few lines of code; start with the first."
        print_wrapped(console, f"You have not passed an exercise yet. {advice}")
        way = "or open the book with `headway book`"
        if here.number == 0:
            lesson = short_path(EXERCISES / f"{here.name}.md")
            print_wrapped(console, f"In chapter 0 you watch a model learn, and write one: read {lesson}, {way}.")
        elif (introduction := EXERCISES / "ch00_big_picture.md").is_file():
            print_wrapped(console, f"What you are going to build: read {short_path(introduction)}, {way}.")
        console.print()
    _print_step(console, next_step(scores))
    return 0


def _hours_left(course: Syllabus, scores: dict[str, Score]) -> str:
    """A sentence about the time that the path or the course still takes; empty if nothing is left."""
    path, hours = chosen_path(), hours_left(course, scores)
    if not hours:
        return ""
    if hours == course.hours:
        ways = " `headway path` shows shorter ways through it." if load_paths() and not path else ""
        return f"The {f'path {path.name}' if path else 'course'} takes about {course.hours} hours.{ways}"
    where = f" on the path {path.name}" if path else ""
    return f"About {hours} of {course.hours} hours {'is' if hours == 1 else 'are'} left{where}."


def _hunting(course: Syllabus, scores: dict[str, Score]) -> str:
    """A line about hunts, from the first complete chapter on; empty before."""
    hunts = Hunts()
    if hunts.current:
        return f"A mistake hides in {short_path(hunts.current.file)}: headway hunt"
    if repaired := sum(hunt.repaired for hunt in hunts.all):
        return f"You have found {format_count(repaired, 'mistake')} in code that others wrote: headway hunt"
    if any(is_complete(chapter, scores) for chapter in course.chapters):
        return "To find a mistake in code that works otherwise: headway hunt"
    return ""


def show_next(name: AnyName = None) -> int:
    """Show the next exercise, or the next one of a chapter."""
    found, scores, console = named(name) if name else None, current_scores(), make_console()
    if isinstance(found, Chapter) and is_complete(found, scores):
        print_wrapped(console, f"You have passed every exercise of {found.id} {found.title}.")
        found = None
    exercise = exercise_of(found)
    _print_step(console, step_of(exercise) if exercise else None)
    return 0


def list_all(
    words: Annotated[
        list[str] | None,
        argument("SUBJECT", "Such as cache, positions or LoRA; or chapters or exercises.", complete_listed),
    ] = None,
) -> int:
    """List all exercises, or those of a subject or a chapter.

    Each has its points, minutes and difficulty. After `headway path NAME`, without SUBJECT, those of the path."""
    path, scores, console = chosen_path(), current_scores(), make_console()
    course, step = read_course() if words else read_route(), next_step(scores)
    chosen = find_exercises(words) if words else course.exercises
    for chapter in course.chapters:
        heading = Text.assemble((f"{chapter.id} {chapter.title}", "bold"), f": {chapter.about}")
        if not chapter.exercises:
            heading = Text(f"{heading.plain} ({_why_empty()})", style="dim")
        exercises = [exercise for exercise in chapter.exercises if exercise in chosen]
        if exercises or not words:
            console.print(heading, no_wrap=True, overflow="ellipsis")
        for exercise in exercises:
            score = scores.get(exercise.name, Score(0.0, exercise.points))
            mark = "x" if score.passed else ">" if step and exercise is step.exercise else " "
            line = Text.assemble(
                (f" {mark} ", "green" if score.passed else "bold"), (f"{score!s:>9}  ", "dim"), exercise.name,
                (f"  {exercise.effort}", "dim"),
            )  # fmt: skip
            console.print(line, no_wrap=True, overflow="ellipsis")
    console.print("\nx: passed, >: next. To test an exercise: headway check NAME. For a hint: headway hint NAME")
    if path and not words:
        print_wrapped(console, f"These are on the path {path.name}; `headway list ch03` lists a whole chapter.")
    if not words:
        print_wrapped(console, f"`headway list SUBJECT` lists those of one subject: {', '.join(load_subjects())}.")
    return 0


def _chapter_lines(
    chapters: Sequence[Chapter], scores: dict[str, Score], here: Chapter | None, width: int
) -> list[Text]:
    """A line for each chapter, all in the same columns. A narrow terminal has no counts, a narrower one no bars, and
    one that is narrower still cuts long titles; every line has its points."""
    rows = [(chapter, _tally(chapter, scores), _passes(chapter, scores, here)) for chapter in chapters]
    most = max(len(tally) for _, tally, _ in rows)
    room = width - NUMBER_COLUMNS - most  # for the titles and what is between them and the points
    titles = min(max(len(chapter.title) for chapter in chapters), room - 1)
    counts = max(len(count) for _, _, count in rows)
    counts = counts if room - titles - counts > MIN_BAR_COLUMNS + 4 else 0
    bar = min(room - titles - counts - 5, MAX_BAR_COLUMNS)
    lines = []
    for chapter, tally, count in rows:
        title = chapter.title if len(chapter.title) <= titles else f"{chapter.title[: titles - 1]}…"
        mark = ">" if chapter is here else " "
        line = Text.assemble((f" {mark} {chapter.number:>2}  {title:<{titles}} ", "bold" if chapter is here else ""))
        if not chapter.exercises:
            lines.append(line.append(_why_empty(), "dim"))
            continue
        if bar >= MIN_BAR_COLUMNS:
            share = 1.0 if is_complete(chapter, scores) else points_earned(chapter, scores) / chapter.points
            line.append("  ").append_text(progress_bar(share, bar)).append("  ")
        lines.append(line.append(f"{tally:>{most}}").append(count if counts else "", "dim"))
    return lines


def _tally(chapter: Chapter, scores: dict[str, Score]) -> str:
    return (
        f"{format_points(points_earned(chapter, scores))}/{format_points(chapter.points)}" if chapter.exercises else ""
    )


def _passes(chapter: Chapter, scores: dict[str, Score], here: Chapter | None) -> str:
    passes = sum(is_passed(exercise, scores) for exercise in chapter.exercises)
    return f"  {passes} of {len(chapter.exercises)} passed" if passes or chapter is here else ""


def _why_empty() -> str:
    return "not in this handout" if is_handout() else "no exercises yet"


def _activation() -> str:
    """The command after which `headway` can be typed; empty where it can be already, or in no virtual environment."""
    scripts = Path(sys.executable).parent
    if which("headway") or not (scripts / "activate").is_file():
        return ""
    return f"{'' if sys.platform == 'win32' else '. '}{short_path(scripts / 'activate')}"


def _print_step(console: Console, step: Step | None) -> None:
    if step is None:
        if not any(chapter.exercises for chapter in read_course().chapters):
            console.print("The course has no exercises yet.")
        else:
            more = "" if is_handout() else " To compare your code with the reference: headway diff NAME"
            print_wrapped(console, f"{all_passed()}{more}")
            if chosen_path() is None and (EXERCISES / "AFTERWARDS.md").exists():
                print_wrapped(console, "exercises/AFTERWARDS.md says what you can read and build next.")
        return
    exercise = step.exercise
    name, where = f"Next: {exercise.name}", f" ({format_points(exercise.points)} points), {step.location}"
    if len(name + where) > console.width:
        where = where.replace(", ", ",\n", 1)
    console.print(Text.assemble((name, "bold"), where), soft_wrap=True)
    print_wrapped(console, exercise.promise + (f" About {exercise.effort}." if exercise.effort else ""))
    if step.location.problem:
        print_wrapped(console, step.location.problem, style="red")
    lesson = EXERCISES / f"{step.chapter.name}.md"
    if step.location.file.exists():
        start = f"Read {short_path(lesson)}, write" if lesson.exists() else "Write"
        console.print(f"{start} the code, then test it:")
    console.print()
    if activation := _activation():
        console.print(command_line(activation))
    console.print(command_line(step.command))
    if step.location.file.exists():
        console.print(Text("\nTo test it each time you save the file: headway watch", style="dim"))
    console.print()
