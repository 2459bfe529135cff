"""`headway handout` and `headway gradescope`: the folders and archives that an instructor distributes."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from grader.console.output import make_console, print_error, print_wrapped
from grader.course.progress import format_points
from grader.course.status import read_course, short_path
from grader.course.syllabus import ROOT, is_handout
from grader.files import problem

if TYPE_CHECKING:
    from grader.classroom.handout.update import Update


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


def update_handout(into: Path, folder: Path | None, chapters: str, hidden: str) -> int:
    """Update an earlier handout: from this one, or in the whole kit from one that is made for it. The exit status: 0, 1 for conflicts, 2 if it is impossible."""
    from grader.classroom.handout.update import UpdateProblem, update_folder

    if folder is not None:
        print_error("--into updates a folder and makes no other; leave out DIR")
        return 2
    try:
        if is_handout():
            if chapters or hidden:
                print_error("this handout is used as it is; leave out --chapters and --hidden")
                return 2
            update = update_folder(ROOT, into)
        else:
            read_course()
            from grader.classroom.handout.handout_folder import HandoutProblem, make_handout

            with tempfile.TemporaryDirectory(prefix="headway-") as place:
                try:
                    made = make_handout(Path(place) / "handout", _names(chapters), _names(hidden))
                except HandoutProblem as trouble:
                    print_error(str(trouble))
                    return 2
                update = update_folder(made.folder, into)
    except UpdateProblem as trouble:
        print_error(str(trouble))
        return 2
    except OSError as trouble:
        print_error(problem(trouble, f"update {short_path(into)}") + "; the same command continues")
        return 2
    return _print_update(update)


def _print_update(update: Update) -> int:
    console = make_console()
    if not (update.added or update.replaced or update.conflicts):
        print_wrapped(console, f"{short_path(update.folder)} is up to date.")
        return 0
    chapters = [Path(path).stem for path in update.added if re.fullmatch(r"exercises/ch\d\d_\w+\.py", path)]
    print_wrapped(console, f"{short_path(update.folder)}: {len(update.added)} files added, {len(update.replaced)} files updated.")
    if chapters:
        print_wrapped(console, f"New chapters: {', '.join(chapters)}.")
    for path in update.conflicts:
        print_wrapped(console, f"{path}: you changed this file, and the handout has a new version. Yours stays; the new one is {path}.new. Compare them.")
    if update.needs_installation:
        print_wrapped(console, "The required packages have changed: run `make learn` there once (or the pip command of README.md). The environment stays.")
    return int(bool(update.conflicts))


def gradescope(archive: Path, chapters: str, exercises: str, hidden: str, points: Path | None, seed: int, torch_index: str) -> int:
    """Make the archive for Gradescope; the exit status is 0, or 2 if that is not possible."""
    read_course()
    from grader.classroom.handout.gradescope import write_archive
    from grader.classroom.intake.problems import GradingProblem

    try:
        made = write_archive(archive, _names(chapters), _names(exercises), seed, points, _names(hidden), torch_index)
    except GradingProblem as trouble:
        print_error(str(trouble))
        return 2
    except OSError as trouble:
        print_error(problem(trouble, f"write {short_path(archive)}"))
        return 2
    console = make_console()
    if exercises:
        whole = ", ".join(exercise.name for exercise in made.exercises)
    else:
        whole = ", ".join(f"{chapter.id} {chapter.title}" for chapter in made.chapters) if chapters else "all chapters"
    print_wrapped(console, f"The autograder for {whole} is in {short_path(made.path)}. Upload this file under Configure Autograder.")
    if hidden:
        print_wrapped(console, f"Students see the results of {', '.join(_names(hidden))}, and their points, after you have published the grades.")
    print_wrapped(console, "It contains the reference and the tests, so do not give it to students. Choose a base image with Python 3.11 or newer (Ubuntu 24.04).")
    if not torch_index:
        print_wrapped(console, "setup.sh installs torch with its files for graphics cards, some GB; --torch-index ADDRESS installs a CPU build instead.")
    return 0


def _names(words: str) -> list[str]:
    """Split typed names, which commas, spaces or both separate."""
    return words.replace(",", " ").split()
