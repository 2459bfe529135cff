"""`headway compare`: two trained models side by side, or two designs, which it trains first."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from grader.cli.arguments import argument, complete_model, option
from grader.cli.commands.train import (
    BOTH_LENGTHS,
    DONE,
    FAILED,
    INTERRUPTED,
    UNUSABLE,
    Device,
    DeviceName,
    Minutes,
    Seed,
    Steps,
    Text,
    find_device,
    train_to_end,
)  # fmt: skip
from grader.console.output import command_line, make_console, print_error, print_wrapped
from grader.counts import format_count
from grader.files import UserProblem
from grader.models.packages import require_packages

if TYPE_CHECKING:
    from grader.models.comparison.measuring import Comparison
    from grader.models.training.training_run import Training

MAX_PICTURE_NAME_CHARACTERS = 80
LAYERS = ("attention", "recurrent", "hybrid")


def compare(
    names: Annotated[
        list[str] | None,
        argument("A B", "Two checkpoints, two designs, modern, or kinds of layers.", complete_model),
    ] = None,
    minutes: Minutes = None,
    steps: Steps = None,
    text: Text = None,
    seed: Seed = None,
    prompt: Annotated[list[str] | None, option("Both continue this text; may be repeated.", metavar="TEXT")] = None,
    picture: Annotated[Path | None, option("Write both loss curves to this file.", metavar="FILE.svg")] = None,
    device: DeviceName = Device.auto,
) -> int:
    """Compare two models, or two designs of a model.

    `headway compare stories stories-2` compares two checkpoints. `headway compare learned rope` trains two designs for
    the same number of steps, on the same text with the same seed, and compares them. The designs are learned,
    sinusoidal, rope, alibi; pre, post; dense, moe; heads=1, layers=6, batch=8, warmup=0, dropout=0.1 (any number);
    words, bpe; mini, tiny, small; from chapter 20 qk_norm, latent, sink, gated, soft_cap=30, predict=2, muon, wsd.
    Several changes are one word with commas: rope,heads=1. --minutes, --steps, --text and --seed are for the training
    of two designs.

    `headway compare modern` trains a mini GPT and eight changes of chapter 20, each with four seeds and 300 steps, and
    prints what each change does. That takes some minutes on two idle cores; --steps changes it.

    `headway compare attention recurrent hybrid` trains models with attention, with the recurrent layers of chapter 22,
    and with one attention layer in four. It compares loss, memory, speed and recall, with three seeds. That takes about
    ten minutes on two idle cores; --steps changes it. Two of the three names compare two of them.

    What is trained stays in checkpoints/, so the same command trains nothing the second time. After Control-C it goes
    on."""
    if names and (names == ["modern"] or _are_layers(names)):
        for option_name, value in (("minutes", minutes), ("prompt", prompt), ("picture", picture)):
            if value:
                advice = f"leave it out, or give two instead of {' '.join(names)}"
                raise UserProblem(f"--{option_name} is for the comparison of two models; {advice}")
        return (_modern if names == ["modern"] else partial(_layers, names))(steps, text, seed or 0, device)
    if names is None or len(names) != 2:
        checkpoints, designs = "`headway compare stories stories-rope`", "`headway compare learned rope`"
        print_error(f"give two checkpoints, such as {checkpoints}, or two designs, such as {designs}")
        return UNUSABLE
    if steps is not None and minutes is not None:
        print_error(BOTH_LENGTHS)
        return UNUSABLE
    require_packages("compare", exit_status=FAILED)
    where, (first, second) = find_device(device), names
    folders = _folders((first, second), dict(steps=steps, minutes=minutes, text=text, seed=seed), where)
    return INTERRUPTED if folders is None else _compare(folders, prompt or [], picture, where)


def _folders(names: tuple[str, str], training: dict[str, Any], device: str) -> tuple[Path, Path] | None:
    """The two checkpoints, after training where the names are designs; None after Control-C."""
    from grader.models.checkpoint import CheckpointProblem, find_checkpoint, list_checkpoints
    from grader.models.comparison.trainings import EXAMPLES, is_design, nearest_word
    from grader.models.design import DesignProblem

    saved = [path.name for path in list_checkpoints()]
    designs = [is_design(word) and word not in saved for word in names]
    for word in (word for word, is_one in zip(names, designs) if not is_one):
        try:
            find_checkpoint(word)
        except CheckpointProblem:
            near = nearest_word(word, saved)
            more = f"did you mean {near}?" if near else f"the designs are {EXAMPLES}"
            raise CheckpointProblem(f"{word!r} is neither a checkpoint nor a design; {more}") from None
    if all(designs):
        return _train_designs(names, training, device)
    if any(designs):
        checkpoint, design = (names[number] for number in (designs.index(False), designs.index(True)))
        advice = "give two checkpoints or two designs"
        raise DesignProblem(f"{checkpoint} is a checkpoint and {design} is a design; {advice}")
    for name, value in training.items():
        if value is not None:
            why = "is for the training of two designs, and these are trained checkpoints; leave it out"
            raise DesignProblem(f"--{name} {why}")
    return find_checkpoint(names[0]), find_checkpoint(names[1])


# ---- all parts of chapter 20


def _modern(steps: int | None, text: Path | None, seed: int, device: Device) -> int:
    from grader.console.output import show_progress
    from grader.teaching.measurements import result_table

    require_packages("compare", exit_status=FAILED)
    from grader.models.comparison.trainings import COLUMNS, STEPS, conclusions, table_rows, train_all

    console, count = make_console(), steps or STEPS
    rows = train_all(count, text, seed, find_device(device), show_progress)
    console.print(result_table(f"After {format_count(count, 'step')}", COLUMNS, table_rows(rows)))
    for sentence in conclusions(rows):
        print_wrapped(console, sentence)
    return DONE


# ---- the layers of chapter 22


def _are_layers(names: list[str]) -> bool:
    """Whether these are kinds of layers. UserProblem if only some are, or if they cannot be compared."""
    kinds = [name for name in names if name in LAYERS]
    if kinds and (len(kinds) != len(names) or len(set(kinds)) != len(kinds) or len(kinds) < 2):
        advice = f"give two or three different ones of {', '.join(LAYERS)}, and nothing else"
        raise UserProblem(f"{kinds[0]} is a kind of layer; {advice}")
    return bool(kinds)


def _layers(names: list[str], steps: int | None, text: Path | None, seed: int, device: Device) -> int:
    from grader.console.output import show_progress
    from grader.teaching.measurements import result_table

    require_packages("compare", exit_status=FAILED)
    from grader.chapters.ch22_recurrent.layer_comparison.layer_report import sentences, tables
    from grader.chapters.ch22_recurrent.layer_comparison.trainings import STEPS, train_all

    if device == Device.cuda:
        raise UserProblem("layers are compared on the CPU; leave out --device cuda")
    console, found = make_console(), train_all(names, steps or STEPS, text, seed, show_progress)
    for title, columns, rows in tables(found):
        console.print(result_table(title, columns, rows))
    for sentence in (*sentences(found), *found.said):
        print_wrapped(console, sentence)
    return DONE


# ---- training


def _train_designs(words: tuple[str, str], options: dict[str, Any], device: str) -> tuple[Path, Path] | None:
    from grader.console.output import show_progress
    from grader.models.comparison.trainings import entries_of, train_pair
    from grader.models.training.recipes import Settings

    entries = entries_of(words, Settings(text=options["text"], seed=options["seed"] or 0))
    trained: list[Path] = []

    def train(training: Training) -> bool:
        trained.append(training.folder)
        return _train(training)

    folders = train_pair(entries, options["steps"], options["minutes"], train, device, show_progress)
    for folder in folders or ():
        if folder not in trained:
            advice = f"To train it again, delete checkpoints/{folder.name}."
            print_wrapped(make_console(), f"{folder.name} was trained in an earlier comparison. {advice}")
    return folders


def _train(training: Training) -> bool:
    console = make_console()
    print_wrapped(console, f"Training {training.name}.", style="bold")
    finished = train_to_end(training)
    if not finished:
        steps = f"{format_count(training.trainer.steps_done, 'step')} of {training.name}"
        print_wrapped(console, f"Stopped after {steps}, and saved. The same command goes on from there.")
    return finished


# ---- printing


def _compare(folders: tuple[Path, Path], prompts: list[str], picture: Path | None, device: str) -> int:
    from grader.console.output import show_progress
    from grader.course.status import short_path
    from grader.files import problem, write_whole
    from grader.models.comparison.comparison_report import draw
    from grader.models.comparison.measuring import compare

    comparison = compare(folders, prompts, device, show_progress)
    _print_comparison(comparison)
    console = make_console()
    if (drawn := draw(comparison)) is not None:
        names = "-and-".join(folder.name for folder in folders)[:MAX_PICTURE_NAME_CHARACTERS]
        path = picture or folders[0].parent / f"{names}.svg"
        try:
            write_whole(path, drawn)
        except OSError as error:
            print_error(problem(error, f"write the picture {short_path(path)}"))
            return FAILED
        print_wrapped(console, f"Both loss curves are in {short_path(path)}; open it in a browser.")
    console.print("To try one of them:")
    console.print(command_line(f"headway play {comparison.one.loaded.name}"))
    return DONE


def _print_comparison(comparison: Comparison) -> None:
    from grader.models.comparison.comparison_report import sample_lines, sentences, table_rows
    from rich.table import Table
    from rich.text import Text

    console = make_console()
    table = Table(box=None, pad_edge=False, show_header=True, header_style="bold")
    table.add_column("")
    for made in comparison.both:
        table.add_column(Text(made.name, overflow="fold"), justify="right", overflow="fold")
    for row in table_rows(comparison):
        table.add_row(row.name, *(Text(value, overflow="fold") for value in row.values))
    console.print(table)
    console.print()
    for sentence in sentences(comparison):
        print_wrapped(console, sentence)
    for sample in comparison.samples:
        console.print()
        for number, line in enumerate(sample_lines(sample, comparison, console.width)):
            console.print(Text(line, style="cyan" if number == 0 else ""), soft_wrap=True)
    console.print()
