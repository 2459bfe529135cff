"""`headway reason`: trains a model that adds on a scratchpad, with right answers and with rewards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from grader.cli.arguments import option
from grader.cli.commands.train import Seed, check_use
from grader.cli.interruptible_run import run_and_conclude
from grader.console.output import make_console, print_wrapped

if TYPE_CHECKING:
    from grader.chapters.ch26_reasoning.reasoning.reason_run import Run


def reason(
    minutes: Annotated[
        float | None, option("How long, at most. Default: 8.", min=0.05, max=10_000, metavar="M")
    ] = None,
    name: Annotated[str | None, option("The models and the page are in checkpoints/NAME.", metavar="NAME")] = None,
    seed: Seed = None,
    resume: Annotated[bool, option("Go on with an interrupted run: NAME's, or the latest.", "--resume")] = False,
) -> int:
    """Train a model to reason, on your own code of chapter 26.

    A small Llama learns to add on a scratchpad, from right answers. As soon as some of its answers to the longest sums
    are right, rewards train it on these, twice: with the corrections of chapter 26, and as in chapter 17. The last
    sentences, and a page with curves, say whether rewards taught something new, or only made some of the model's
    answers likelier. Control-C saves, and --resume goes on from there."""
    check_use("reason", name, resume, {"minutes": minutes, "seed": seed})
    from grader.chapters.ch26_reasoning.reasoning import reason_run
    from grader.console.output import show_progress

    if resume:
        run = reason_run.resume(name, show_progress)
    else:
        run = reason_run.begin(name, seed or 0, minutes, show_progress)
    return run_and_conclude("reason", run, _introduce(run), reason_run.run_to_end, _conclude)


def _introduce(run: Run) -> Iterator[str]:
    """What is trained."""
    from grader.chapters.ch26_reasoning.reasoning.reason_run import START
    from grader.chapters.ch26_reasoning.reasoning.sums import NEW_DIGITS, Sum

    example = Sum(57, 68, 2)
    count = sum(parameter.numel() for parameter in run.models[START].adder.model.parameters())
    answers = f"{example.question} is answered by {example.answer(True)} or {example.answer(False)}"
    yield f"A Llama with {count:,} parameters learns sums of 1 to {NEW_DIGITS} digits: {answers}"
    yield f"Then rewards train it on sums of {NEW_DIGITS} digits, which it gets right sometimes."


def _conclude(run: Run) -> None:
    """Print the table of pass@k and the answer; write the page."""
    from grader.chapters.ch26_reasoning.reasoning.reason_report import (
        COLUMNS,
        PAGE_FILE,
        conclusions,
        draw_page,
        table_rows,
    )
    from grader.files import short_path, write_whole
    from grader.teaching.measurements import result_table

    console, page = make_console(), run.folder / PAGE_FILE
    console.print(result_table("Answers to held-out questions", COLUMNS, table_rows(run.progress)))
    for sentence in conclusions(run.progress):
        print_wrapped(console, sentence)
    write_whole(page, draw_page(run))
    console.print()
    print_wrapped(console, f"The page with the curves is {short_path(page)}; open it in a browser.")
