"""The commands for instructors: they parse, and grader/cli/commands does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from grader.cli.commands import completing

course = typer.Typer(help="Set up a course with its people and assignments (for instructors).", rich_markup_mode=None, no_args_is_help=True)

AT_ONCE = "How many submissions run at the same time (default: one per processor)."


def grade(
    submissions: Annotated[Path, typer.Argument(metavar="SUBMISSIONS", help="A folder, an archive, or a table (CSV) of people and paths.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the gradebook, the report and the feedback.")] = Path("grades"),
    chapters: Annotated[str, typer.Option(metavar="ch03,ch05", help="The chapters to grade (default: all).", autocompletion=completing.chapters)] = "",
    exercises: Annotated[str, typer.Option(metavar="NAMES", help="The exercises to grade (default: all of these chapters).", autocompletion=completing.exercises)] = "",
    points: Annotated[Path | None, typer.Option(metavar="FILE", help="Your own points and rules for late work (TOML).", show_default=False)] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Draw other examples; the run stays repeatable.")] = 0,
    jobs: Annotated[int | None, typer.Option("-j", "--jobs", min=1, max=64, metavar="N", help=AT_ONCE, show_default=False)] = None,
    require_isolation: Annotated[
        bool, typer.Option("--require-isolation", help="Refuse to run if a layer of the sandbox is missing; `headway doctor` lists the layers.")
    ] = False,
    dask: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Grade on a Dask cluster.", show_default=False)] = None,
    changed: Annotated[bool, typer.Option("--changed", help="List whose submission is new or changed. (Unchanged submissions are never graded twice.)")] = False,
) -> None:
    """Grade a class (for instructors).

    Exit status: 0 if every submission was graded, 1 if some could not be graded, 2 if the command is wrong."""
    from grader.cli.commands.grade import grade

    raise typer.Exit(grade(submissions, out, [chapters], [exercises], seed, points, jobs, require_isolation, dask, changed))


def regrade(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the person, as in the gradebook.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder with the gradebook.")] = Path("grades"),
    jobs: Annotated[int | None, typer.Option("-j", "--jobs", min=1, max=64, metavar="N", help=AT_ONCE, show_default=False)] = None,
) -> None:
    """Grade one person again (for instructors).

    It uses the arguments of the last `headway grade`."""
    from grader.cli.commands.grade import regrade

    raise typer.Exit(regrade(name, out, jobs))


def handout(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make.")],
    chapters: Annotated[str, typer.Option(metavar="ch03,ch05", help="The chapters that learners get (default: all).", autocompletion=completing.chapters)] = "",
    hidden: Annotated[
        str,
        typer.Option(metavar="NAMES", help="Exercises that only you grade: the folder has neither their tests nor their reference.", autocompletion=completing.exercises),
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier handout.")] = False,
) -> None:
    """Make the folder that learners get (for instructors).

    It contains stubs, lessons and tests. The reference is sealed."""
    from grader.cli.commands.handout import handout

    raise typer.Exit(handout(folder, chapters, hidden, force))


def gradescope(
    archive: Annotated[Path, typer.Argument(metavar="OUT.zip", help="The archive to make.")],
    chapters: Annotated[str, typer.Option(metavar="ch03,ch05", help="The chapters to grade (default: all).", autocompletion=completing.chapters)] = "",
    points: Annotated[Path | None, typer.Option(metavar="FILE", help="Your own points and rules for late work (TOML).", show_default=False)] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Draw other examples; the run stays repeatable.")] = 0,
) -> None:
    """Make an autograder for Gradescope (for instructors)."""
    from grader.cli.commands.handout import gradescope

    raise typer.Exit(gradescope(archive, chapters, points, seed))


@course.command()
def init(
    export: Annotated[
        Path | None,
        typer.Argument(metavar="EXPORT", help="The people: a CSV from Canvas, Moodle or Gradescope, or your own.", show_default=False),
    ] = None,
    folder: Annotated[Path, typer.Option("--into", metavar="DIR", help="The folder of the course.")] = Path("."),
    title: Annotated[str, typer.Option(metavar="TEXT", help="The title of the course (default: the name of the folder).", show_default=False)] = "",
) -> None:
    """Write a course.toml with comments, and the roster.

    Exit status: 0 if it is written, 2 if not."""
    from grader.cli.commands.course import init

    raise typer.Exit(init(export, folder, title))


@course.command()
def check(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="The course file (default: course.toml in this folder).", show_default=False)] = None,
) -> None:
    """Say what does not fit in course.toml, with its line.

    Exit status: 0 if everything fits, 1 if not, 2 if there is no such file."""
    from grader.cli.commands.course import check

    raise typer.Exit(check(file))
