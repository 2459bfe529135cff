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


def handout(folder: Path, chapters: str, hidden: str, force: bool, course: Path | None = None, assignment: str = "") -> int:
    """Make the folder for learners; the exit status is 0, or 2 if that is not possible."""
    read_course()
    from grader.classroom.handout.handout_folder import HandoutProblem, make_handout
    from grader.classroom.intake.problems import GradingProblem

    try:
        made = make_handout(folder, *_choose(chapters, hidden, course, assignment), force)
    except (HandoutProblem, GradingProblem) as trouble:
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


def _choose(chapters: str, hidden: str, course: Path | None, assignment: str) -> tuple[list[str], list[str]]:
    """The chapters and the hidden exercises: those that are named, or those of an assignment. GradingProblem if both are named."""
    from grader.cli.commands.grading_request import choose_assignment

    chosen = choose_assignment(course, assignment, {"--chapters": chapters, "--hidden": hidden})
    if chosen is None:
        return _names(chapters), _names(hidden)
    term, one = chosen
    return list(dict.fromkeys(exercise.chapter for exercise in one.exercises)), term.hidden_in(one)


def update_handout(into: Path, folder: Path | None, chapters: str, hidden: str, course: Path | None = None, assignment: str = "") -> int:
    """Update an earlier handout: from this one, or in the whole kit from one that is made for it. The exit status: 0, also for conflicts, 2 if it is impossible."""
    from grader.classroom.handout.update import UpdateProblem, update_folder

    if folder is not None:
        print_error("--into updates a folder and makes no other; leave out DIR")
        return 2
    try:
        if is_handout():
            if chapters or hidden or course or assignment:
                print_error("this handout is used as it is; leave out --chapters, --hidden, --assignment and --course")
                return 2
            update = update_folder(ROOT, into)
        else:
            read_course()
            from grader.classroom.handout.handout_folder import HandoutProblem, make_handout
            from grader.classroom.intake.problems import GradingProblem

            with tempfile.TemporaryDirectory(prefix="headway-") as place:
                try:
                    made = make_handout(Path(place) / "handout", *_choose(chapters, hidden, course, assignment))
                except (HandoutProblem, GradingProblem) as trouble:
                    print_error(str(trouble))
                    return 2
                update = update_folder(made.folder, into)
    except UpdateProblem as trouble:
        print_error(str(trouble))
        return 2
    except OSError as trouble:
        print_error(problem(trouble, f"update {short_path(into)}") + "; the same command continues")
        return 2
    _print_update(update)
    return 0


def _print_update(update: Update) -> None:
    console = make_console()
    if not (update.added or update.replaced or update.conflicts):
        print_wrapped(console, f"{short_path(update.folder)} is up to date.")
        return
    chapters = [Path(path).stem for path in update.added if re.fullmatch(r"exercises/ch\d\d_\w+\.py", path)]
    print_wrapped(console, f"{short_path(update.folder)}: {len(update.added)} files added, {len(update.replaced)} files updated.")
    if chapters:
        print_wrapped(console, f"New chapters: {', '.join(chapters)}.")
    for path in update.conflicts:
        print_wrapped(console, f"{path}: you changed this file, and the handout has a new version. Yours stays; the new one is {path}.new. Compare them.")
    if update.needs_installation:
        print_wrapped(console, "The required packages have changed: run `make learn` there once (or the pip command of README.md). The environment stays.")


def gradescope(
    archive: Path, chapters: str, exercises: str, hidden: str, points: Path | None, seed: int, torch_index: str, course: Path | None = None, assignment: str = ""
) -> int:
    """Make the archive for Gradescope; the exit status is 0, or 2 if that is not possible."""
    read_course()
    from grader.classroom.handout.gradescope import write_archive
    from grader.classroom.handout.gradescope_rules import rules_of_assignment
    from grader.classroom.intake.problems import GradingProblem
    from grader.classroom.judging.rules import read_rules
    from grader.cli.commands.grading_request import choose_assignment

    try:
        chosen = choose_assignment(course, assignment, {"--chapters": chapters, "--exercises": exercises, "--hidden": hidden, "--points": points})
        names, secret, rules = _names(exercises), _names(hidden), read_rules(points, needs_due=False) if points else None
        if chosen is not None:
            names, secret, rules = [exercise.name for exercise in chosen[1].exercises], list(chosen[1].hidden), rules_of_assignment(*chosen)
        made = write_archive(archive, _names(chapters), names, seed, rules, secret, torch_index)
    except GradingProblem as trouble:
        print_error(str(trouble))
        return 2
    except OSError as trouble:
        print_error(problem(trouble, f"write {short_path(archive)}"))
        return 2
    console = make_console()
    if chosen is not None:
        whole = chosen[1].title
    elif exercises:
        whole = ", ".join(exercise.name for exercise in made.exercises)
    else:
        whole = ", ".join(f"{chapter.id} {chapter.title}" for chapter in made.chapters) if chapters else "all chapters"
    print_wrapped(console, f"The autograder for {whole} is in {short_path(made.path)}. Upload this file under Configure Autograder.")
    if secret:
        print_wrapped(console, f"Students see the results of {', '.join(secret)}, and their points, after you have published the grades.")
    if rules is not None and rules.has_deductions and rules.due is None:
        print_wrapped(console, "Your rules have no due date, so the due date of the assignment in Gradescope counts, and the extensions there.")
    print_wrapped(console, "It contains the reference and the tests, so do not give it to students. Choose a base image with Python 3.11 or newer (Ubuntu 24.04).")
    if torch_index:
        print_wrapped(console, f"setup.sh installs torch from {torch_index}. Gradescope shows whether that works when it builds the image.")
    else:
        print_wrapped(
            console,
            "setup.sh installs torch from the usual index: with its files for graphics cards, some GB. A CPU build is enough and much smaller: copy the address "
            "of its index from PyTorch's page on installation, and make the archive again with --torch-index ADDRESS.",
        )
    return 0


def _names(words: str) -> list[str]:
    """Split typed names, which commas, spaces or both separate."""
    return words.replace(",", " ").split()
