"""`headway handout` and `headway gradescope`: the folders and archives that an instructor distributes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from grader.cli import arguments as given
from grader.cli.arguments import argument, complete_exercise, completing, known_name, option, split_option
from grader.console.output import make_console, print_wrapped
from grader.counts import format_count
from grader.course.paths import load_paths
from grader.course.progress import format_points
from grader.course.status import read_course, short_path
from grader.files import UserProblem, problem

DONE = 0
complete_path = completing(load_paths)


def hidden_option(text: str) -> typer.models.OptionInfo:
    return option(text, metavar="NAMES", autocompletion=complete_exercise)


@contextmanager
def described(doing: str) -> Iterator[None]:
    """UserProblem, in a sentence, for a file that cannot be read or written."""
    try:
        yield
    except OSError as trouble:
        raise UserProblem(problem(trouble, doing)) from trouble


def handout(
    folder: Annotated[Path, argument("DIR", "The folder to make.")],
    chapters: given.Chapters = "",
    hidden: Annotated[
        str, hidden_option("Exercises that only you grade: the folder has neither their tests nor their reference.")
    ] = "",
    path: Annotated[
        str,
        option(
            "A path: its chapters and those that it wants read first.", autocompletion=complete_path, metavar="NAME"
        ),
    ] = "",
    github: Annotated[
        bool, option("Make the folder a git repository with one commit: a template for GitHub.", "--github")
    ] = False,
    force: Annotated[bool, option("Replace an earlier handout.", "--force")] = False,
    assignment: given.AssignmentName = "",
    course: given.CourseFile = None,
) -> int:
    """Make the folder that learners get.

    It contains stubs, lessons and tests. The reference is sealed. With --path, `headway` shows learners the exercises
    of that path. With --assignment it has the chapters of the
    assignment's exercises, and hides those that course.toml calls hidden: their stubs are there, but neither their
    tests nor their reference."""
    read_course()
    from grader.classroom.grading_options import choose_assignment
    from grader.classroom.handout.handout_folder import chapters_of, make_handout

    chosen = choose_assignment(course, assignment, {"--chapters": chapters, "--hidden": hidden, "--path": path})
    included, secret = split_option(chapters), split_option(hidden)
    if path:
        if included:
            raise UserProblem("give --chapters or --path, not both: a path has its own chapters")
        path = known_name("path", "headway path", path, load_paths())
        included = chapters_of(load_paths()[path])
    if chosen is not None:
        term, one = chosen
        included, secret = one.chapters, term.hidden_in(one)
    with described(f"make {short_path(folder)}"):
        made = make_handout(folder, included, secret, force, path, github)
    console = make_console()
    for chapter in made.chapters:
        count = format_count(len(chapter.exercises), "exercise")
        print_wrapped(console, f"{chapter.id} {chapter.title}: {count}, {format_points(chapter.points)} points")
    for name, reason in made.hidden.items():
        print_wrapped(console, f"hidden: {name}" + (f" ({reason})" if reason else ""))
    console.print()
    print_wrapped(console, f"The handout is in {short_path(made.folder)}.")
    if github:
        made_git = "It is a git repository with one commit: push it, and make it a template in its settings."
        print_wrapped(console, made_git)
    if made.hidden:
        contents = "the handout has their stubs, but neither their tests nor their reference"
        print_wrapped(console, f"Only you can grade hidden exercises, with this kit: {contents}.")
    sealed = "The reference in it is sealed. That stops accidental reading but not a determined reader"
    print_wrapped(console, f"{sealed}; hide exercises whose solutions must stay secret.")
    return DONE


def gradescope(
    archive: Annotated[Path, argument("OUT.zip", "The archive to make.")],
    chapters: given.Chapters = "",
    exercises: given.Exercises = "",
    hidden: Annotated[str, hidden_option("Exercises whose results students see after you publish the grades.")] = "",
    seed: given.Seed = None,
    torch_index: Annotated[
        str,
        option(
            "A package index with a CPU build of torch; PyTorch's page on its installation has the address.",
            metavar="ADDRESS",
        ),
    ] = "",
    assignment: given.AssignmentName = "",
    course: given.CourseFile = None,
) -> int:
    """Make an autograder for Gradescope.

    With --assignment it grades the exercises of the assignment by the rules of course.toml. Students see the results of
    its hidden exercises after you publish the grades.

    If the rules for late work have no due date, the due date in Gradescope counts. An extension in Gradescope always
    counts."""
    from grader.classroom.grading_options import choose_assignment
    from grader.classroom.handout.gradescope import rules_of_assignment, write_archive
    from grader.classroom.judging.rules import Rules

    read_course()
    others = {"--chapters": chapters, "--exercises": exercises, "--hidden": hidden}
    chosen = choose_assignment(course, assignment, others)
    names, secret = split_option(exercises), split_option(hidden)
    rules = Rules()
    if chosen is not None:
        names, secret = [exercise.name for exercise in chosen[1].exercises], list(chosen[1].hidden)
        rules = rules_of_assignment(*chosen)
    with described(f"write {short_path(archive)}"):
        path, graded = write_archive(archive, split_option(chapters), names, rules, secret, seed or 0, torch_index)
    whole = chosen[1].title if chosen else format_count(len(graded), "exercise")
    said = [f"The autograder for {whole} is in {short_path(path)}. Upload this file under Configure Autograder."]
    if secret:
        said.append(
            f"Students see the results of {', '.join(secret)}, and their points, after you have published the grades."
        )
    if rules.has_deductions and rules.due is None:
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
        print_wrapped(make_console(), sentence)
    return DONE
