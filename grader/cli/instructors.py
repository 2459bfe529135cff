"""The commands that describe a course and make what learners get (for instructors): they parse, and grader/cli/commands does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from grader.cli.commands import completing
from grader.cli.instructor_options import AssignmentName, CourseFile, Points

course_commands = typer.Typer(help="Describe the course of a term (for instructors).", rich_markup_mode=None, no_args_is_help=True)


def handout(
    folder: Annotated[Path | None, typer.Argument(metavar="DIR", help="The folder to make.", show_default=False)] = None,
    chapters: Annotated[str, typer.Option(metavar="ch03,ch05", help="The chapters that learners get (default: all).", autocompletion=completing.chapters)] = "",
    hidden: Annotated[
        str,
        typer.Option(metavar="NAMES", help="Exercises that only you grade: the folder has neither their tests nor their reference.", autocompletion=completing.exercises),
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier handout.")] = False,
    into: Annotated[
        Path | None, typer.Option("--into", metavar="FOLDER", help="Update this earlier handout; its owner's work stays.", show_default=False)
    ] = None,
    assignment: AssignmentName = "",
    course: CourseFile = None,
) -> None:
    """Make the folder that learners get (for instructors).

    It contains stubs, lessons and tests. The reference is sealed. With --assignment it has the chapters of the assignment's exercises, and
    hides those that course.toml calls hidden: their stubs are there, but neither their tests nor their reference."""
    from grader.cli.commands.handout import handout, update_handout

    if into is not None:
        raise typer.Exit(update_handout(into, folder, chapters, hidden, course, assignment))
    if folder is None:
        raise typer.BadParameter("name the folder to make, or an earlier handout with --into", param_hint="DIR")
    raise typer.Exit(handout(folder, chapters, hidden, force, course, assignment))


def gradescope(
    archive: Annotated[Path, typer.Argument(metavar="OUT.zip", help="The archive to make.")],
    chapters: Annotated[str, typer.Option(metavar="ch03,ch05", help="The chapters to grade (default: all).", autocompletion=completing.chapters)] = "",
    exercises: Annotated[str, typer.Option(metavar="NAMES", help="The exercises to grade (default: all of these chapters).", autocompletion=completing.exercises)] = "",
    hidden: Annotated[
        str, typer.Option(metavar="NAMES", help="Exercises whose results students see after you publish the grades.", autocompletion=completing.exercises)
    ] = "",
    points: Points = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Draw other examples; the run stays repeatable.")] = 0,
    torch_index: Annotated[
        str, typer.Option(metavar="ADDRESS", help="A package index with a CPU build of torch; PyTorch's page on its installation has the address.", show_default=False)
    ] = "",
    assignment: AssignmentName = "",
    course: CourseFile = None,
) -> None:
    """Make an autograder for Gradescope (for instructors).

    With --assignment it grades the exercises of the assignment by the rules of course.toml. Students see the results of its hidden exercises
    after you publish the grades.

    If the rules for late work have no due date, the due date in Gradescope counts. An extension in Gradescope always counts."""
    from grader.cli.commands.handout import gradescope

    raise typer.Exit(gradescope(archive, chapters, exercises, hidden, points, seed, torch_index, course, assignment))


@course_commands.command()
def init(
    export: Annotated[
        Path | None,
        typer.Argument(metavar="EXPORT", help="The people: a CSV from Canvas, Moodle or Gradescope, or your own.", show_default=False),
    ] = None,
    folder: Annotated[Path, typer.Option("--into", metavar="DIR", help="The folder of the course.")] = Path("."),
    title: Annotated[str, typer.Option(metavar="TEXT", help="The title of the course (default: the name of the folder).", show_default=False)] = "",
    columns: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="FIELD=TITLE", help="The title of a column of EXPORT, as in number=Matrikelnummer. You can repeat it.", show_default=False),
    ] = None,
) -> None:
    """Write a course.toml with comments, and the roster.

    The columns of the roster, and so the fields, are name, email, login, number, canvas_id, moodle_id, section and group.

    Exit status: 0 if it is written, 2 if not."""
    from grader.cli.commands.course import init

    raise typer.Exit(init(export, folder, title, columns or ()))


@course_commands.command()
def check(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The course file (default: course.toml in this folder).", show_default=False)] = None,
) -> None:
    """Say what does not fit in course.toml, with its line.

    Exit status: 0 if everything fits, 1 if not, 2 if there is no such file."""
    from grader.cli.commands.course import check

    raise typer.Exit(check(file))
