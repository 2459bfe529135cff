"""The status page, the next step, and the list of all exercises."""

from __future__ import annotations

import sys
from pathlib import Path
from shutil import which
from typing import Annotated

from grader.cli.arguments import argument, completing
from grader.console.output import command_line, make_console, print_wrapped, progress_bar
from grader.course.progress import Score, format_points
from grader.course.status import (
    Step,
    current_chapter,
    current_scores,
    is_complete,
    is_passed,
    next_step,
    points_earned,
    read_course,
    short_path,
)
from grader.course.subjects import exercises_of, find_subject, load_subjects
from grader.course.syllabus import EXERCISES, Chapter, Syllabus, is_handout
from rich.console import Console
from rich.text import Text

TITLE_COLUMNS = 22  # a bar gives its columns to longer titles
MIN_WIDE_COLUMNS = 60  # of a terminal in which all titles are as wide as the longest one


def status() -> int:
    """Show your points and the next exercise, like `headway` alone."""
    course, scores = read_course(), current_scores()
    here, console = current_chapter(scores), make_console()
    mine = sum(points_earned(chapter, scores) for chapter in course.chapters)
    all_points = sum(chapter.points for chapter in course.chapters)
    heading = Text.assemble(("Headway", "bold"), ": a transformer, built by hand")
    total = f"{format_points(mine)} of {format_points(all_points)} points"
    beside = console.width - len(heading) - 1
    console.print(Text.assemble(heading, total.rjust(beside) if beside >= len(total) + 2 else f"\n{total}"))
    console.print()
    longest = max(len(chapter.title) for chapter in course.chapters) if console.width >= MIN_WIDE_COLUMNS else 0
    for chapter in course.chapters:
        line = _chapter_line(chapter, scores, chapter is here, console.width, longest)
        console.print(line, no_wrap=True, overflow="ellipsis")
    console.print()
    if left := _hours_left(course, scores):
        print_wrapped(console, left)
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
    """A sentence about the time that the course still takes; empty if nothing is left or no chapter says its hours."""
    chapters = [chapter for chapter in course.chapters if chapter.exercises and chapter.hours]
    left = sum(chapter.hours * (1 - points_earned(chapter, scores) / chapter.points) for chapter in chapters)
    total = sum(chapter.hours for chapter in chapters)
    if left == total:
        return f"The course takes about {round(total)} hours." if total else ""
    return f"About {max(1, round(left))} of {round(total)} hours are left." if left else ""


def show_next() -> int:
    """Show the next exercise."""
    read_course()
    _print_step(make_console(), next_step())
    return 0


def list_all(
    subject: Annotated[
        str | None, argument("SUBJECT", "Such as cache, positions or LoRA.", completing(load_subjects))
    ] = None,
) -> int:
    """List every exercise, with its points; or those of one subject, from all chapters."""
    course, scores, console = read_course(), current_scores(), make_console()
    step = next_step(scores)
    chosen = exercises_of(find_subject(subject)) if subject else course.exercises
    for chapter in course.chapters:
        heading = Text.assemble((f"{chapter.id} {chapter.title}", "bold"), f": {chapter.about}")
        if not chapter.exercises:
            heading = Text(f"{heading.plain} ({_why_empty()})", style="dim")
        exercises = [exercise for exercise in chapter.exercises if exercise in chosen]
        if exercises or not subject:
            console.print(heading, no_wrap=True, overflow="ellipsis")
        for exercise in exercises:
            score = scores.get(exercise.name, Score(0.0, exercise.points))
            mark = "x" if score.passed else ">" if step and exercise is step.exercise else " "
            line = Text.assemble(
                (f" {mark} ", "green" if score.passed else "bold"), (f"{score!s:>9}  ", "dim"), exercise.name
            )
            console.print(line, no_wrap=True, overflow="ellipsis")
    console.print("\nx: passed, >: next. To test an exercise: headway check NAME. For a hint: headway hint NAME")
    if not subject:
        print_wrapped(console, f"`headway list SUBJECT` lists those of one subject: {', '.join(load_subjects())}.")
    return 0


def _chapter_line(chapter: Chapter, scores: dict[str, Score], here: bool, width: int, longest: int) -> Text:
    """One line for a chapter; in a narrow terminal the bar is left out first, never the points."""
    title = f"{chapter.title:<{longest or TITLE_COLUMNS}}"
    line = Text.assemble((f" {'>' if here else ' '} {chapter.number:>2}  {title} ", "bold" if here else ""))
    if not chapter.exercises:
        return line.append(_why_empty(), "dim")
    points = points_earned(chapter, scores)
    tally = f"{format_points(points):>6}/{format_points(chapter.points)}"
    if (room := width - len(line) - len(tally) - 4) > 3:
        share = 1.0 if is_complete(chapter, scores) else points / chapter.points
        line.append("  ").append_text(progress_bar(share, min(room, 20 - max(longest - TITLE_COLUMNS, 0)))).append("  ")
    line.append(tally)
    passes = sum(is_passed(exercise, scores) for exercise in chapter.exercises)
    count = f"  {passes} of {len(chapter.exercises)} passed"
    return line.append(count, "dim") if (passes or here) and len(line) + len(count) <= width else line


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
            print_wrapped(console, f"You have passed every exercise.{more}")
            if (EXERCISES / "AFTERWARDS.md").exists():
                print_wrapped(console, "exercises/AFTERWARDS.md says what you can read and build next.")
        return
    exercise = step.exercise
    name, where = f"Next: {exercise.name}", f" ({format_points(exercise.points)} points), {step.location}"
    if len(name + where) > console.width:
        where = where.replace(", ", ",\n", 1)
    console.print(Text.assemble((name, "bold"), where), soft_wrap=True)
    print_wrapped(console, exercise.promise)
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
