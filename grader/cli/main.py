"""The `headway` command: it parses, calls and prints; grader/cli/commands does the work."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from grader.cli import exporting, grading, instructors, own_models
from grader.cli.arguments import AnyDrawable, AnyExercise, AnyName, AnyWalk, ExerciseName, Names, RequiredName, join_optional, join_words, split_names
from grader.cli.commands import completing
from grader.cli.help_page import ForwardingCommand, ReadableCommand
from grader.course.syllabus import UnknownName, is_handout
from grader.version import __version__

INSTRUCTORS = ("handout", "gradescope", "grade", "regrade", "override", "note", "marks", "similarity", "course", "export")
WHOLE_KIT_ONLY = ("stubs", "dev-check", *INSTRUCTORS)  # a handout, which learners have, cannot do these

app = typer.Typer(
    name="headway",
    help="Build a transformer by hand, one tested piece at a time. `headway` alone shows your points and the next exercise.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _status(context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version of Headway.")] = False) -> None:
    if version:
        print(f"headway {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        from grader.cli.commands.status import status

        raise typer.Exit(status())


@app.command("status")
def status_command() -> None:
    """Show your points and the next exercise, like `headway` alone."""
    from grader.cli.commands.status import status

    raise typer.Exit(status())


@app.command()
def check(name: AnyName = None) -> None:
    """Test an exercise, a chapter, or your next exercise.

    Earlier chapters use the reference solution. In its own chapter, an exercise uses your code where that passes its tests, and the
    reference solution elsewhere.

    Exit status: 0 if everything passed, 1 if not."""
    from grader.cli.commands.check import check

    raise typer.Exit(check(join_optional(name)))


@app.command()
def watch(name: AnyName = None) -> None:
    """Test the function that you changed, each time you save.

    With the name of an exercise, it tests only that exercise."""
    from grader.cli.commands.watch import watch

    raise typer.Exit(watch(join_optional(name)))


@app.command("next")
def next_command() -> None:
    """Show the next exercise."""
    from grader.cli.commands.status import show_next

    raise typer.Exit(show_next())


@app.command("list")
def list_command() -> None:
    """List every exercise, with its points."""
    from grader.cli.commands.status import list_all

    raise typer.Exit(list_all())


@app.command()
def hint(
    name: AnyName = None,
    level: Annotated[int | None, typer.Option(min=1, max=3, metavar="N", help="Show hint N: 1 is a question, 2 the idea, 3 how to write it.")] = None,
) -> None:
    """Show the next hint; each says more than the one before."""
    from grader.cli.commands.hint import hint

    raise typer.Exit(hint(join_optional(name), level))


@app.command()
def repro(
    name: AnyExercise = None,
    debug: Annotated[bool, typer.Option("--pdb", help="Stop in the debugger before the call, or where your code raises an error.")] = False,
) -> None:
    """Make a failed call again, outside of the tests.

    Without NAME it is the call of the last failure. The call is a script in exercises/.headway/repro, which you can also open in your
    editor.

    Exit status: 0 if the result is right, 1 if it is still wrong."""
    from grader.cli.commands.repro import repro

    raise typer.Exit(repro(join_optional(name), debug))


@app.command()
def diff(name: ExerciseName, peek: Annotated[bool, typer.Option("--peek", help="Show the reference although your code does not pass yet.")] = False) -> None:
    """Compare your code with the reference, after yours passes."""
    from grader.cli.commands.diff import diff

    raise typer.Exit(diff(join_words(name), peek))


@app.command()
def show(
    name: AnyDrawable = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE.png|FILE.svg", help="Write the picture to this file.", show_default=False)] = None,
) -> None:
    """Draw your result of an exercise next to the reference's."""
    from grader.cli.commands.show import show

    raise typer.Exit(show(join_optional(name), out))


@app.command()
def reset(name: RequiredName, undo: Annotated[bool, typer.Option("--undo", help="Restore the code that the last reset saved.")] = False) -> None:
    """Restore the stub of an exercise, and save your code."""
    from grader.cli.commands.reset import reset, undo_reset

    raise typer.Exit((undo_reset if undo else reset)(join_words(name)))


@app.command("open")
def open_command(name: AnyName = None) -> None:
    """Open an exercise in your editor, at its line."""
    from grader.cli.commands.open import open_in_editor

    raise typer.Exit(open_in_editor(join_optional(name)))


@app.command()
def doctor() -> None:
    """Check the installation, and whether the tests find your code."""
    from grader.cli.commands.doctor import doctor

    raise typer.Exit(doctor())


@app.command()
def book(
    name: AnyName = None,
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="The port of the book's server; 0 is any free port.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open your browser, or only print the address.")] = True,
) -> None:
    """Read the lessons as a book in your browser.

    It opens at the current chapter, or at NAME; Control-C stops it."""
    from grader.cli.commands.book import book

    raise typer.Exit(book(join_optional(name), port, browser))


@app.command(cls=ForwardingCommand)
def measure(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A measurement.", autocompletion=completing.measurements, show_default=False)] = None,
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="OPTIONS", help="Options of the measurement, for example --seed 1 or --target exercises.", show_default=False),
    ] = None,
) -> None:
    """Repeat the measurement behind a table of a lesson.

    Without NAME it lists the measurements. `headway measure NAME --help` shows what NAME measures, and its options."""
    from grader.cli.commands.measure import measure

    raise typer.Exit(measure(name, options or []))


@app.command()
def walk(
    name: AnyWalk = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, metavar="N", help="Use other random numbers; the run stays repeatable.")] = 0,
    pace: Annotated[bool, typer.Option("--pace", help="Wait for a key before each step.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the picture to this file (.svg).", show_default=False)] = None,
) -> None:
    """Take a guided tour of what you have built, or list the tours.

    Without NAME it lists them."""
    from grader.cli.commands.walk import walk

    raise typer.Exit(walk(" ".join(name) if name else None, seed, pace, out))


for model_command in (own_models.train, own_models.play, own_models.compare):
    app.command()(model_command)


@app.command()
def stubs(check: Annotated[bool, typer.Option("--check", help="Change nothing; fail if a stub does not match its solution.")] = False) -> None:
    """Make the stubs from the solutions (for maintainers)."""
    from grader.cli.commands.maintain import check_stubs_command, write_stubs_command

    raise typer.Exit(check_stubs_command() if check else write_stubs_command())


@app.command("dev-check")
def dev_check(
    names: Names = None,
    full: Annotated[bool, typer.Option("--full", help="Three seeds, in process and in workers.")] = False,
    changed: Annotated[bool, typer.Option("--changed", help="Try only what has changed since tests/checked.toml was written.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Test everything again, and ignore tests/checked.toml.")] = False,
    table: Annotated[bool, typer.Option("--table", help="Print only the table, in Markdown, with totals for each chapter.")] = False,
) -> None:
    """Check the course itself (for maintainers).

    It checks that the tests catch and name every known mistake, and accept every correct variant."""
    from grader.cli.commands.maintain import dev_check

    raise typer.Exit(dev_check(split_names(names), full, fresh, table, changed))


for command in (
    grading.grade, grading.regrade, grading.override, grading.note, grading.marks, grading.similarity, instructors.handout, instructors.gradescope,
):  # fmt: skip
    app.command()(command)
GROUPS = {"course": instructors.course_commands, "export": exporting.export_commands}
for name, group in GROUPS.items():
    app.add_typer(group, name=name)
for registered in (*app.registered_commands, *(command for group in GROUPS.values() for command in group.registered_commands)):
    if registered.cls is not ForwardingCommand:
        registered.cls = ReadableCommand


def main() -> None:
    """Run `headway`; a problem that the user can fix is printed as one sentence, without a traceback."""
    from grader.console.output import print_error, replace_unencodable
    from grader.course.source import SourceProblem

    replace_unencodable()
    if is_handout():
        for command in app.registered_commands:
            command.hidden = (command.name or getattr(command.callback, "__name__", "")) in WHOLE_KIT_ONLY
        for group in app.registered_groups:
            group.hidden = group.name in WHOLE_KIT_ONLY
        updates = sys.argv[1:2] == ["handout"] and any(word.partition("=")[0] == "--into" for word in sys.argv)
        if sys.argv[1:2] and sys.argv[1] in WHOLE_KIT_ONLY and not updates:
            print_error(f"`headway {sys.argv[1]}` does not work in a handout (the folder that learners get); it needs the whole kit")
            sys.exit(2)
    try:
        app()
    except (UnknownName, SourceProblem) as error:
        print_error(str(error))
        sys.exit(2 if isinstance(error, UnknownName) else 1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print_error(f"{where}{(error.strerror or str(error)).lower()}")
        sys.exit(1)


if __name__ == "__main__":
    main()
