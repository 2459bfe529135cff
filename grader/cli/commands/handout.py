"""`headway handout` and `headway gradescope`: the folders and archives that an instructor distributes."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from grader.cli.arguments import argument, complete_exercise, option
from grader.cli.options import AssignmentName, Chapters, CourseFile, Exercises, Points, Seed, split_option
from grader.console.output import make_console, print_error, print_wrapped
from grader.course.progress import format_points
from grader.course.status import read_course, short_path
from grader.course.syllabus import ROOT, is_handout
from grader.files import problem

if TYPE_CHECKING:
    from grader.classroom.handout.update import Update

DONE, WRONG_USE = 0, 2

Hidden = Annotated[
    str,
    option(
        "Exercises that only you grade: the folder has neither their tests nor their reference.",
        metavar="NAMES",
        autocompletion=complete_exercise,
    ),
]


def handout(
    folder: Annotated[Path | None, argument("DIR", "The folder to make.")] = None,
    chapters: Chapters = "",
    hidden: Hidden = "",
    force: Annotated[bool, option("Replace an earlier handout.", "--force")] = False,
    into: Annotated[
        Path | None, option("Update this earlier handout; its owner's work stays.", "--into", metavar="FOLDER")
    ] = None,
    assignment: AssignmentName = "",
    course: CourseFile = None,
) -> int:
    """Make the folder that learners get (for instructors).

    It contains stubs, lessons and tests. The reference is sealed. With --assignment it has the chapters of the
    assignment's exercises, and hides those that course.toml calls hidden: their stubs are there, but neither their
    tests nor their reference."""
    if into is not None:
        return _update_handout(into, folder, chapters, hidden, course, assignment)
    if folder is None:
        raise typer.BadParameter("name the folder to make, or an earlier handout with --into", param_hint="DIR")
    read_course()
    from grader.classroom.handout.handout_folder import HandoutProblem, make_handout
    from grader.classroom.intake.problems import GradingProblem

    try:
        made = make_handout(folder, *_choose(chapters, hidden, course, assignment), force)
    except (HandoutProblem, GradingProblem) as trouble:
        print_error(str(trouble))
        return WRONG_USE
    except OSError as trouble:
        print_error(problem(trouble, f"make {short_path(folder)}"))
        return WRONG_USE
    console = make_console()
    for chapter in made.chapters:
        count = f"{len(chapter.exercises)} exercise{'s' * (len(chapter.exercises) != 1)}"
        print_wrapped(console, f"{chapter.id} {chapter.title}: {count}, {format_points(chapter.points)} points")
    for name, reason in made.hidden.items():
        print_wrapped(console, f"hidden: {name}" + (f" ({reason})" if reason else ""))
    console.print()
    print_wrapped(console, f"The handout is in {short_path(made.folder)}.")
    if made.hidden:
        contents = "the handout has their stubs, but neither their tests nor their reference"
        print_wrapped(console, f"Only you can grade hidden exercises, with this kit: {contents}.")
    advice = "hide exercises whose solutions must stay secret"
    print_wrapped(
        console, f"The reference in it is sealed. That stops accidental reading but not a determined reader; {advice}."
    )
    return DONE


def _choose(chapters: str, hidden: str, course: Path | None, assignment: str) -> tuple[list[str], list[str]]:
    """The chapters and the hidden exercises: those that are named, or those of an assignment.

    GradingProblem if both are named.
    """
    from grader.cli.commands.grading_options import choose_assignment

    chosen = choose_assignment(course, assignment, {"--chapters": chapters, "--hidden": hidden})
    if chosen is None:
        return split_option(chapters), split_option(hidden)
    term, one = chosen
    return list(dict.fromkeys(exercise.chapter for exercise in one.exercises)), term.hidden_in(one)


def _update_handout(
    into: Path, folder: Path | None, chapters: str, hidden: str, course: Path | None, assignment: str
) -> int:
    """Update an earlier handout: from this one, or in the whole kit from one that is made for it.

    Conflicts are no failure.
    """
    from grader.classroom.handout.update import UpdateProblem, update_folder

    if folder is not None:
        print_error("--into updates a folder and makes no other; leave out DIR")
        return WRONG_USE
    try:
        if is_handout():
            if chapters or hidden or course or assignment:
                print_error("this handout is used as it is; leave out --chapters, --hidden, --assignment and --course")
                return WRONG_USE
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
                    return WRONG_USE
                update = update_folder(made.folder, into)
    except UpdateProblem as trouble:
        print_error(str(trouble))
        return WRONG_USE
    except OSError as trouble:
        print_error(problem(trouble, f"update {short_path(into)}") + "; the same command continues")
        return WRONG_USE
    _print_update(update)
    return DONE


def _print_update(update: Update) -> None:
    console = make_console()
    if not (update.added or update.replaced or update.conflicts):
        print_wrapped(console, f"{short_path(update.folder)} is up to date.")
        return
    chapters = [Path(path).stem for path in update.added if re.fullmatch(r"exercises/ch\d\d_\w+\.py", path)]
    print_wrapped(
        console, f"{short_path(update.folder)}: {len(update.added)} files added, {len(update.replaced)} files updated."
    )
    if chapters:
        print_wrapped(console, f"New chapters: {', '.join(chapters)}.")
    for path in update.conflicts:
        new = f"the handout has a new version. Yours stays; the new one is {path}.new. Compare them."
        print_wrapped(console, f"{path}: you changed this file, and {new}")
    if update.needs_installation:
        advice = "run `make learn` there once (or the pip command of README.md). The environment stays."
        print_wrapped(console, f"The required packages have changed: {advice}")


def gradescope(
    archive: Annotated[Path, argument("OUT.zip", "The archive to make.")],
    chapters: Chapters = "",
    exercises: Exercises = "",
    hidden: Annotated[
        str,
        option(
            "Exercises whose results students see after you publish the grades.",
            metavar="NAMES",
            autocompletion=complete_exercise,
        ),
    ] = "",
    points: Points = None,
    seed: Seed = None,
    torch_index: Annotated[
        str,
        option(
            "A package index with a CPU build of torch; PyTorch's page on its installation has the address.",
            metavar="ADDRESS",
        ),
    ] = "",
    assignment: AssignmentName = "",
    course: CourseFile = None,
) -> int:
    """Make an autograder for Gradescope (for instructors).

    With --assignment it grades the exercises of the assignment by the rules of course.toml. Students see the results of
    its hidden exercises after you publish the grades.

    If the rules for late work have no due date, the due date in Gradescope counts. An extension in Gradescope always
    counts."""
    read_course()
    from grader.classroom.handout.gradescope import rules_of_assignment, write_archive
    from grader.classroom.intake.problems import GradingProblem
    from grader.classroom.judging.rules import read_rules
    from grader.cli.commands.grading_options import choose_assignment

    try:
        others = {"--chapters": chapters, "--exercises": exercises, "--hidden": hidden, "--points": points}
        chosen = choose_assignment(course, assignment, others)
        names, secret, rules = (
            split_option(exercises),
            split_option(hidden),
            read_rules(points, needs_due=False) if points else None,
        )
        if chosen is not None:
            names = [exercise.name for exercise in chosen[1].exercises]
            secret, rules = list(chosen[1].hidden), rules_of_assignment(*chosen)
        made = write_archive(archive, split_option(chapters), names, seed or 0, rules, secret, torch_index)
    except GradingProblem as trouble:
        print_error(str(trouble))
        return WRONG_USE
    except OSError as trouble:
        print_error(problem(trouble, f"write {short_path(archive)}"))
        return WRONG_USE
    console = make_console()
    if chosen is not None:
        whole = chosen[1].title
    elif exercises:
        whole = ", ".join(exercise.name for exercise in made.exercises)
    else:
        whole = ", ".join(f"{chapter.id} {chapter.title}" for chapter in made.chapters) if chapters else "all chapters"
    said = [f"The autograder for {whole} is in {short_path(made.path)}. Upload this file under Configure Autograder."]
    if secret:
        said.append(
            f"Students see the results of {', '.join(secret)}, and their points, after you have published the grades."
        )
    if rules is not None and rules.has_deductions and rules.due is None:
        said.append(
            "Your rules have no due date, so the due date of the assignment in Gradescope counts, "
            "and the extensions there."
        )
    said.append(
        "It contains the reference and the tests, so do not give it to students. "
        "Choose a base image with Python 3.11 or newer (Ubuntu 24.04)."
    )
    if torch_index:
        said.append(
            f"setup.sh installs torch from {torch_index}. Gradescope shows whether that works when it builds the image."
        )
    else:
        said.append(
            "setup.sh installs torch from the usual index: with its files for graphics cards, some GB. "
            "A CPU build is enough and much smaller: copy the address of its index from PyTorch's page on "
            "installation, and make the archive again with --torch-index ADDRESS."
        )
    for sentence in said:
        print_wrapped(console, sentence)
    return DONE
