"""The commands for instructors: they parse, and grader/cli/commands does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from grader.cli.commands import completing


def grade(
    submissions: Annotated[Path, typer.Argument(metavar="SUBMISSIONS", help="A folder, an archive, or a table (CSV) of people and paths.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the gradebook and all that is made of it go.")] = Path("grades"),
    chapters: Annotated[str, typer.Option(metavar="ch03,ch05", help="The chapters to grade; all unless given.", autocompletion=completing.chapters)] = "",
    exercises: Annotated[str, typer.Option(metavar="NAMES", help="Single exercises to grade.", autocompletion=completing.exercises)] = "",
    points: Annotated[Path | None, typer.Option(metavar="FILE", help="Your own weights and late rules (TOML).", show_default=False)] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Other examples, just as repeatable.")] = 0,
    jobs: Annotated[int | None, typer.Option("-j", "--jobs", min=1, max=64, metavar="N", help="How many at once (one per processor).", show_default=False)] = None,
    require_isolation: Annotated[bool, typer.Option("--require-isolation", help="Refuse unless every layer of the sandbox is on; headway doctor lists them.")] = False,
    dask: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Grade on a Dask cluster.", show_default=False)] = None,
    changed: Annotated[bool, typer.Option("--changed", help="Say afterwards whose submission is new or changed. (Unchanged ones are never graded twice.)")] = False,
) -> None:
    """Grade a class (for instructors).

    Exit status 0: every submission was graded; 1: some could not be; 2: wrong use."""
    from grader.cli.commands.grade import grade

    raise typer.Exit(grade(submissions, out, [chapters], [exercises], seed, points, jobs, require_isolation, dask, changed))


def regrade(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose submission.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder of the grades.")] = Path("grades"),
    jobs: Annotated[int | None, typer.Option("-j", "--jobs", min=1, max=64, metavar="N", show_default=False)] = None,
) -> None:
    """Grade one person again (for instructors).

    With the arguments of the last `headway grade`."""
    from grader.cli.commands.grade import regrade

    raise typer.Exit(regrade(name, out, jobs))


def handout(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make.")],
    chapters: Annotated[str, typer.Option(metavar="ch03,ch05", help="The chapters to give out; all unless given.", autocompletion=completing.chapters)] = "",
    hidden: Annotated[str, typer.Option(metavar="NAMES", help="Exercises that only you grade: no tests and no reference.", autocompletion=completing.exercises)] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier handout.")] = False,
) -> None:
    """Make the folder that learners get (for instructors).

    Stubs, lessons and tests, with the reference sealed."""
    from grader.cli.commands.handout import handout

    raise typer.Exit(handout(folder, chapters, hidden, force))


def gradescope(
    archive: Annotated[Path, typer.Argument(metavar="OUT.zip", help="The archive to make.")],
    chapters: Annotated[str, typer.Option(metavar="ch03,ch05", help="The chapters it grades; all unless given.", autocompletion=completing.chapters)] = "",
    points: Annotated[Path | None, typer.Option(metavar="FILE", help="Your own weights and late rules (TOML).", show_default=False)] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Other examples, just as repeatable.")] = 0,
) -> None:
    """Make an autograder for Gradescope (for instructors)."""
    from grader.cli.commands.handout import gradescope

    raise typer.Exit(gradescope(archive, chapters, points, seed))
