"""The status page, the next step, and the list of all exercises."""

from __future__ import annotations

from grader.console.page import bar, command_line, page, say
from grader.course.progress import Score, load, number
from grader.course.status import Step, current_chapter, done, earned, next_step, passed, read_course, shown
from grader.course.syllabus import EXERCISES, Chapter, is_handout
from rich.console import Console
from rich.text import Text


def status() -> int:
    """Where you are in the twelve chapters, and the one next thing to do."""
    course, scores = read_course(), load()
    here, console = current_chapter(scores), page()
    mine, all_points = sum(earned(chapter, scores) for chapter in course.chapters), sum(chapter.points for chapter in course.chapters)
    heading, total = Text.assemble(("Headway", "bold"), ": a transformer, built by hand"), f"{number(mine)} of {number(all_points)} points"
    beside = console.width - len(heading) - 1
    console.print(Text.assemble(heading, total.rjust(beside) if beside >= len(total) + 2 else f"\n{total}"))
    console.print()
    for chapter in course.chapters:
        console.print(_chapter_line(chapter, scores, chapter is here, console.width), no_wrap=True, overflow="ellipsis")
    console.print()
    if not scores and here is not None:
        console.print("Nothing is done yet. Each exercise is a few lines; begin with the first.\n")
    _print_step(console, next_step(scores))
    return 0


def show_next() -> int:
    """The one next thing to do."""
    read_course()
    _print_step(page(), next_step())
    return 0


def list_all() -> int:
    """Every exercise by chapter, with its points."""
    course, scores, console = read_course(), load(), page()
    step = next_step(scores)
    for chapter in course.chapters:
        heading = Text.assemble((f"{chapter.id} {chapter.title}", "bold"), f": {chapter.about}")
        if not chapter.exercises:
            heading = Text(f"{heading.plain} ({_why_empty()})", style="dim")
        console.print(heading, no_wrap=True, overflow="ellipsis")
        for exercise in chapter.exercises:
            score = scores.get(exercise.name, Score(0.0, exercise.points))
            mark = "x" if score.passed else ">" if step and exercise is step.exercise else " "
            line = Text.assemble((f" {mark} ", "green" if score.passed else "bold"), (f"{score!s:>9}  ", "dim"), exercise.name)
            console.print(line, no_wrap=True, overflow="ellipsis")
    console.print("\nx is passed, > is next. `headway check NAME` tests one, `headway hint NAME` helps.")
    return 0


def _chapter_line(chapter: Chapter, scores: dict[str, Score], here: bool, width: int) -> Text:
    """Where the terminal is narrow the bar gives way first: the points stay to be read."""
    line = Text.assemble((f" {'>' if here else ' '} {chapter.number:>2}  {chapter.title:<22} ", "bold" if here else ""))
    if not chapter.exercises:
        return line.append(_why_empty(), "dim")
    points = earned(chapter, scores)
    tally = f"{number(points):>5}/{number(chapter.points)}"
    if (room := width - len(line) - len(tally) - 4) > 3:
        line.append("  ").append_text(bar(1.0 if done(chapter, scores) else points / chapter.points, min(room, 20))).append("  ")
    line.append(tally)
    passes = sum(passed(exercise, scores) for exercise in chapter.exercises)
    told = f"  {passes} of {len(chapter.exercises)} passed"
    return line.append(told, "dim") if (passes or here) and len(line) + len(told) <= width else line


def _why_empty() -> str:
    return "not in this handout" if is_handout() else "not written yet"


def _print_step(console: Console, step: Step | None) -> None:
    if step is None:
        if not any(chapter.exercises for chapter in read_course().chapters):
            console.print("The course has no exercises yet.")
        else:
            say(console, "Everything there is has been passed." + ("" if is_handout() else " `headway diff NAME` shows how the reference does it."))
            if (EXERCISES / "AFTERWARDS.md").exists():
                say(console, "What you can read and build now is in exercises/AFTERWARDS.md.")
        return
    exercise = step.exercise
    name, where = f"Next: {exercise.name}", f" ({number(exercise.points)} points), {step.place}"
    if len(name + where) > console.width:
        where = where.replace(", ", ",\n", 1)
    console.print(Text.assemble((name, "bold"), where), soft_wrap=True)
    say(console, exercise.promise)
    if step.place.problem:
        say(console, step.place.problem, style="red")
    lesson = EXERCISES / f"{step.chapter.name}.md"
    if step.place.file.exists():
        start = f"The lesson is {shown(lesson)}. Write" if lesson.exists() else "Write"
        console.print(f"{start} the code, then test it with")
    console.print()
    console.print(command_line(step.command))
    if step.place.file.exists():
        console.print(Text("\nor let it be tested at every save: headway watch", style="dim"))
    console.print()

