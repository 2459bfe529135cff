"""`headway handout` and `headway gradescope`: the folders and archives that an instructor distributes."""

from __future__ import annotations

from pathlib import Path

from grader.console.output import make_console, print_error, print_wrapped
from grader.course.progress import format_points
from grader.course.status import read_course, short_path
from grader.files import problem


def handout(folder: Path, chapters: str, hidden: str, force: bool) -> int:
    """Make the folder for learners; the exit status is 0, or 2 if that is not possible."""
    read_course()
    from grader.classroom.handout.handout_folder import HandoutProblem, make_handout

    try:
        made = make_handout(folder, _names(chapters), _names(hidden), force)
    except HandoutProblem as trouble:
        print_error(str(trouble))
        return 2
    except OSError as trouble:
        print_error(problem(trouble, f"make {short_path(folder)}"))
        return 2
    console = make_console()
    for chapter in made.chapters:
        count = len(chapter.exercises)
        print_wrapped(console, f"{chapter.id} {chapter.title}: {count} exercise{'s' * (count != 1)}, {format_points(chapter.points)} points")
    for name, reason in made.hidden.items():
        print_wrapped(console, f"hidden: {name}" + (f" ({reason})" if reason else ""))
    console.print()
    print_wrapped(console, f"The handout is in {short_path(made.folder)}.")
    if made.hidden:
        print_wrapped(console, "Only you can grade hidden exercises, with this kit: the handout has their stubs, but neither their tests nor their reference.")
    print_wrapped(console, "The reference in it is sealed. That stops accidental reading but not a determined reader; hide exercises whose solutions must stay secret.")
    return 0


def gradescope(archive: Path, chapters: str, points: Path | None, seed: int) -> int:
    """Make the archive for Gradescope; the exit status is 0, or 2 if that is not possible."""
    read_course()
    from grader.classroom.handout.gradescope import write_archive
    from grader.classroom.intake.problems import GradingProblem

    try:
        graded = write_archive(archive, _names(chapters), seed, points)
    except GradingProblem as trouble:
        print_error(str(trouble))
        return 2
    except OSError as trouble:
        print_error(problem(trouble, f"write {short_path(archive)}"))
        return 2
    console = make_console()
    whole = "all chapters" if len(graded) > 1 and not _names(chapters) else ", ".join(f"{chapter.id} {chapter.title}" for chapter in graded)
    print_wrapped(console, f"The autograder for {whole} is in {short_path(archive)}. Upload this file under Configure Autograder.")
    print_wrapped(console, "It contains the reference and the tests, so do not give it to students. Choose a base image with Python 3.11 or newer (Ubuntu 24.04).")
    return 0


def _names(words: str) -> list[str]:
    """Split typed names, which commas, spaces or both separate."""
    return words.replace(",", " ").split()
