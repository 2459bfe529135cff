"""The commands `headway export ...`: they parse, and grader/cli/commands/export.py does the work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from grader.cli.instructor_options import AssignmentName, CourseFile, Key

export_commands = typer.Typer(help="Write the marks into a platform's table (for instructors).", rich_markup_mode=None, no_args_is_help=True)

Exported = Annotated[Path, typer.Argument(metavar="FILE", help="The file that you exported. It stays as it is.", show_default=False)]
GradesFolder = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="The folder of the gradebook (default: grades, or grades/NAME for an assignment).", show_default=False),
]
To = Annotated[Path | None, typer.Option("--to", metavar="FILE", help="The file to write (default: FILE-graded.csv, next to FILE).", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="Replace an earlier file.")]
Scale = Annotated[
    bool | None,
    typer.Option("--scale/--no-scale", help="If the largest grade in the file is another one: convert the points, or write them as they are.", show_default=False),
]
Keep = Annotated[bool, typer.Option("--keep", help="Leave the grades that the file has already.")]
Zeros = Annotated[bool, typer.Option("--zeros", help="Write 0 for people without a submission that can be graded.")]
Column = Annotated[str, typer.Option("--column", metavar="TITLE", help="The column of the grades, if it has another title.", show_default=False)]


@export_commands.command()
def canvas(
    file: Exported,
    out: GradesFolder = None,
    assignment: AssignmentName = "",
    course: CourseFile = None,
    to: To = None,
    column: Annotated[
        str, typer.Option("--column", metavar="TITLE", help="The assignment in Canvas (default: the name or title in course.toml).", show_default=False)
    ] = "",
    new: Annotated[bool, typer.Option("--new", help="Add a missing column; Canvas makes an assignment of it.")] = False,
    scale: Scale = None,
    keep: Keep = False,
    zeros: Zeros = False,
    force: Force = False,
    key: Key = None,
) -> None:
    """Write the marks into a Canvas gradebook (CSV), to import there.

    Download it with Export in Canvas' gradebook. Only the cells of this assignment change.

    Exit status: 0 if every mark is written, 1 if some fit no row or were not graded, 2 if nothing is written."""
    from grader.classroom.platforms.filling import Options
    from grader.cli.commands.export import Wanted, export_canvas

    raise typer.Exit(export_canvas(file, Wanted(out, course, assignment, to, force, Options(scale, keep, zeros), key), column, new))


@export_commands.command()
def moodle(
    file: Exported,
    out: GradesFolder = None,
    assignment: AssignmentName = "",
    course: CourseFile = None,
    to: To = None,
    column: Column = "",
    scale: Scale = None,
    keep: Keep = False,
    zeros: Zeros = False,
    force: Force = False,
    key: Key = None,
) -> None:
    """Write the marks into a Moodle grading worksheet (CSV).

    It also writes a zip with everybody's feedback, for "Upload multiple feedback files in a zip".

    Exit status: 0 if every mark is written, 1 if some fit no row or were not graded, 2 if nothing is written."""
    from grader.classroom.platforms.filling import Options
    from grader.cli.commands.export import Wanted, export_moodle

    raise typer.Exit(export_moodle(file, Wanted(out, course, assignment, to, force, Options(scale, keep, zeros), key), column))


@export_commands.command()
def gradescope(
    file: Exported,
    out: GradesFolder = None,
    assignment: AssignmentName = "",
    course: CourseFile = None,
    to: To = None,
    scale: Scale = None,
    keep: Keep = False,
    zeros: Zeros = False,
    force: Force = False,
    key: Key = None,
) -> None:
    """Write the marks into Gradescope's grades or roster (CSV).

    Exit status: 0 if every mark is written, 1 if some fit no row or were not graded, 2 if nothing is written."""
    from grader.classroom.platforms.filling import Options
    from grader.cli.commands.export import Wanted, export_gradescope

    raise typer.Exit(export_gradescope(file, Wanted(out, course, assignment, to, force, Options(scale, keep, zeros), key)))


@export_commands.command()
def plain(
    out: GradesFolder = None,
    assignment: AssignmentName = "",
    course: CourseFile = None,
    to: Annotated[Path | None, typer.Option("--to", metavar="FILE", help="The file to write (default: plain.csv, with the grades).", show_default=False)] = None,
    force: Force = False,
    key: Key = None,
) -> None:
    """Write a table (CSV) of everybody with all ids and the points.

    Exit status: 0 if it is written, 2 if not."""
    from grader.cli.commands.export import Wanted, export_plain

    raise typer.Exit(export_plain(Wanted(out, course, assignment, to, force, key=key)))
