"""`headway tune`: fine-tunes a model with the learner's own parts of chapter 17."""

from __future__ import annotations

import time
from collections.abc import Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from grader.cli.arguments import option
from grader.cli.commands.train import INTERRUPTED, Seed, check_use
from grader.cli.interruptible_run import find_or_train_stories, run_and_conclude
from grader.console.output import command_line, make_console, print_wrapped

if TYPE_CHECKING:
    from grader.chapters.ch17_fine_tuning.tuning.base import Base
    from grader.chapters.ch17_fine_tuning.tuning.tuning_run import Tuning

SHOWN_ANSWER_CHARACTERS = 60

TaskName = StrEnum("TaskName", "sums format")


def tune(
    task: Annotated[
        TaskName | None, option("Sums, or answers of a fixed form. Default: sums, without SmolLM2 format.")
    ] = None,
    minutes: Annotated[
        float | None, option("How long, with all tests. Default: 9, for stories 3.", min=0.05, max=10_000, metavar="M")
    ] = None,
    steps: Annotated[
        int | None, option("How many steps of each phase, instead of minutes.", min=1, max=1_000_000, metavar="N")
    ] = None,
    base: Annotated[
        str | None,
        option("A checkpoint of `headway train` on stories, or a model as for `headway chat`.", metavar="NAME|FOLDER"),
    ] = None,
    name: Annotated[str | None, option("The adapters are in checkpoints/NAME.", metavar="NAME")] = None,
    seed: Seed = None,
    resume: Annotated[bool, option("Go on with an interrupted tuning: NAME's, or the latest.", "--resume")] = False,
) -> int:
    """Fine-tune a model on your own code of chapter 17.

    Adapters are trained, first on right answers, then on rewards. The model is SmolLM2, or, if its weights are not
    installed, a GPT that `headway train` made from stories. Before, between and after the phases it answers held-out
    questions. Control-C saves, and --resume goes on from there."""
    chosen = {"task": task, "minutes": minutes, "steps": steps, "base": base, "seed": seed}
    check_use("tune", name, resume, chosen)
    from grader.chapters.ch17_fine_tuning.tuning import tuning_run
    from grader.console.output import show_progress

    if resume:
        tuning = tuning_run.resume(name, show_progress)
    else:
        found = _open(base)
        if found is None:
            return INTERRUPTED
        opened, seconds = found
        wanted = task or ("sums" if opened.kind == "published" else "format")
        tuning = tuning_run.begin(opened, wanted, name, seed or 0, minutes, steps, seconds)
    return run_and_conclude("tune", tuning, _introduce(tuning), tuning_run.run, _conclude)


def _open(place: str | None) -> tuple[Base, float] | None:
    """The model to tune, and the seconds that opening it took; without weights and without a stories' model, one is
    trained. None after Control-C."""
    from grader.chapters.ch16_published_model.published.opening import installed_file
    from grader.chapters.ch16_published_model.published.source import PublishedProblem
    from grader.chapters.ch17_fine_tuning.tuning.base import open_base
    from grader.console.output import show_progress

    if place is None:
        try:
            installed_file()
        except PublishedProblem as problem:
            missing = f"{str(problem)[0].upper()}{str(problem)[1:]}. So a GPT on stories is tuned."
            print_wrapped(make_console(), missing)
            place = find_or_train_stories("First such a GPT", "tune")
            if place is None:
                return None
    began = time.monotonic()
    return open_base(place, show_progress), time.monotonic() - began


def _introduce(tuning: Tuning) -> Iterator[str]:
    """What is tuned, and on what."""
    trained = sum(parameter.numel() for parameter in tuning.adapters.values())
    every = sum(parameter.numel() for parameter in tuning.base.model.parameters())
    yield f"{tuning.base.name}, and adapters with {trained:,} numbers, {100 * trained / every:.1f} % of all."
    yield f"It is asked {tuning.task.title}."


def _conclude(tuning: Tuning) -> None:
    """Print what it has learned, or that it has not; some answers; and where the adapters are."""
    from grader.chapters.ch17_fine_tuning.tuning.adapters import FILE
    from grader.chapters.ch17_fine_tuning.tuning.evaluation import describe_difference, describe_shares
    from grader.chapters.ch17_fine_tuning.tuning.tuning_progress import command, describe_length, minutes_that_help
    from grader.course.status import short_path

    console = make_console()
    before, between, after = tuning.progress.evaluations
    print_wrapped(console, "Right answers to questions that were never trained on:")
    named = (("before", before), ("after right answers", between), ("after rewards", after))
    for line in describe_shares(named):
        console.print(f"  {line}", soft_wrap=True, highlight=False)
    print_wrapped(console, "In brackets: where the true share is in 95 of 100 such tests (Wilson's interval).")
    console.print()
    for sentence in (
        describe_difference("Right answers", before, between),
        describe_difference("Rewards", between, after),
    ):
        print_wrapped(console, sentence)
    for sentence in describe_length(tuning.progress, tuning.task):
        print_wrapped(console, sentence)
    if minutes := minutes_that_help(tuning.progress, tuning.task):
        print_wrapped(console, "For as many steps on this machine:")
        console.print(command_line(command(tuning.progress, minutes)))
    console.print()
    print_wrapped(console, "What the model answered before, and what it answers now:")
    for (prompt, old), (_, new) in zip(before.samples, after.samples):
        print_wrapped(console, f"- {prompt} → {_short(old)} → {_short(new)}")
    console.print()
    file = tuning.folder / FILE
    print_wrapped(console, f"The adapters are in {short_path(file)}, {file.stat().st_size / 1e6:.1f} MB.")
    if tuning.base.kind == "published":
        console.print(command_line(f"headway chat --adapter {tuning.name}"))


def _short(text: str) -> str:
    return repr(text if len(text) <= SHOWN_ANSWER_CHARACTERS else text[:SHOWN_ANSWER_CHARACTERS] + " ...")
