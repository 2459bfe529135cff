"""The `headway` command: it parses, calls and prints; grader/cli/commands does the work."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from grader.cli import instructors
from grader.cli.arguments import AnyDrawable, AnyExercise, AnyName, AnyWalk, ExerciseName, Names, RequiredName, join_optional, join_words, split_names
from grader.cli.commands import completing
from grader.cli.help_page import ForwardingCommand, ReadableCommand
from grader.course.syllabus import UnknownName, is_handout
from grader.version import __version__

WHOLE_KIT_ONLY = ("stubs", "dev-check", "handout", "gradescope", "grade", "regrade")  # a handout, which learners have, cannot do these

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


@app.command()
def play(
    checkpoint: Annotated[
        str | None,
        typer.Argument(metavar="CHECKPOINT", help="A checkpoint's name or folder; by default the newest.", autocompletion=completing.checkpoints, show_default=False),
    ] = None,
    gpt2: Annotated[Path | None, typer.Option("--gpt2", metavar="FOLDER", help="Play with GPT-2, downloaded from Hugging Face.", show_default=False)] = None,
    cache: Annotated[bool, typer.Option("--cache/--no-cache", help="Write with your KV cache, or feel the difference.")] = True,
    web: Annotated[bool, typer.Option("--web", help="Play on a page in your browser, which also shows the inside of the model.")] = False,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, metavar="N", help="With --web: the port of the page's server; 0 is any free port.", show_default=False)
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="With --web: open your browser, or only print the address.")] = True,
) -> None:
    """Type a beginning, and a model of yours goes on with it.

    /help lists the commands. Without a terminal, each line of the input is answered. With --web, Control-C stops the page."""
    from grader.cli.commands.play import play

    raise typer.Exit(play(checkpoint, gpt2, cache, web, port, browser))


@app.command()
def train(
    text: Annotated[Path | None, typer.Option(metavar="FILE|FOLDER", help="Your own text. Without it: little stories.", show_default=False)] = None,
    preset: Annotated[str | None, typer.Option(metavar="tiny|small", help="The size of the model. Default: tiny.", show_default=False)] = None,
    minutes: Annotated[float | None, typer.Option(min=0.05, max=100_000, metavar="M", help="How long. Default: 2 for tiny.", show_default=False)] = None,
    steps: Annotated[int | None, typer.Option(min=1, max=10_000_000, metavar="N", help="How many steps, instead of minutes.", show_default=False)] = None,
    model: Annotated[str | None, typer.Option(metavar="gpt|moe|translate", help="A GPT, one with experts, or a translator.", show_default=False)] = None,
    positions: Annotated[str | None, typer.Option(metavar="KIND", help="learned, sinusoidal, rope or alibi.", show_default=False)] = None,
    norm: Annotated[str | None, typer.Option(metavar="pre|post", help="Where the blocks normalise.", show_default=False)] = None,
    tokens: Annotated[str | None, typer.Option(metavar="words|bpe", help="Your WordTokenizer or your BPETokenizer.", show_default=False)] = None,
    heads: Annotated[int | None, typer.Option(min=1, max=1024, metavar="N", help="Heads in each layer.", show_default=False)] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The checkpoint is checkpoints/NAME.", show_default=False)] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, metavar="N", help="Use other random numbers.", show_default=False)] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted training: NAME's, or the latest.")] = False,
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where the model is.")] = "auto",
) -> None:
    """Train a language model of your own parts on real text.

    What does not pass its tests yet is the reference's. Control-C saves the model, and --resume goes on as if nothing had happened."""
    from grader.cli.commands.train import Options, train

    raise typer.Exit(train(Options(text, preset, minutes, steps, model, positions, norm, tokens, heads, seed, name, resume, device)))


@app.command()
def compare(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="A B", help="Two checkpoints, or two designs.", autocompletion=completing.comparable, show_default=False)
    ] = None,
    minutes: Annotated[float | None, typer.Option(min=0.05, max=100_000, metavar="M", help="How long each design trains. Default: 2.", show_default=False)] = None,
    steps: Annotated[int | None, typer.Option(min=1, max=10_000_000, metavar="N", help="How many steps, instead of minutes.", show_default=False)] = None,
    text: Annotated[Path | None, typer.Option(metavar="FILE|FOLDER", help="Train the designs on this text.", show_default=False)] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31 - 1, metavar="N", help="Train the designs with this seed.", show_default=False)] = None,
    prompt: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="Both continue this text; may be repeated.", show_default=False)] = None,
    picture: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Write both loss curves to this file.", show_default=False)] = None,
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where the models are.")] = "auto",
) -> None:
    """Compare two models, or two designs of a model.

    `headway compare stories stories-2` compares two checkpoints. `headway compare learned rope` trains two designs for the same number of
    steps, on the same text with the same seed, and compares them. The designs are learned, sinusoidal, rope, alibi; pre, post; dense, moe;
    heads=1, heads=4 (any number); words, bpe; tiny, small; translate. Several changes are one word with commas: rope,heads=1.

    The models stay in checkpoints/, so the same command trains nothing the second time. After Control-C it goes on."""
    from grader.cli.commands.compare import Options, compare

    raise typer.Exit(compare(Options(tuple(names or ()), steps, minutes, text, seed, tuple(prompt or ()), picture, device)))


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


for command in (instructors.grade, instructors.regrade, instructors.handout, instructors.gradescope):
    app.command()(command)
for registered in app.registered_commands:
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
        if sys.argv[1:2] and sys.argv[1] in WHOLE_KIT_ONLY:
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
