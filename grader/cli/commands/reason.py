"""`headway reason`: trains a model that adds on a scratchpad, with right answers and with rewards."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated

from grader.cli.arguments import option
from grader.cli.commands.train import DONE, FAILED, INTERRUPTED, UNUSABLE, Seed, wrong_use
from grader.console.output import command_line, make_console, print_error, print_wrapped
from grader.models.packages import require_packages

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
    if sentence := wrong_use(name, resume, {"steps": None, "minutes": minutes, "seed": seed}):
        print_error(sentence)
        return UNUSABLE
    require_packages("reason", exit_status=FAILED)
    from grader.chapters.ch26_reasoning.reasoning import reason_run
    from grader.console.output import show_progress

    if resume:
        run = reason_run.resume(name, show_progress)
    else:
        run = reason_run.begin(name, seed or 0, minutes, show_progress)
    with contextlib.closing(run):
        return _reason(run)


def _reason(run: Run) -> int:
    from grader.chapters.ch26_reasoning.reasoning.reason_file import ReasonProblem
    from grader.chapters.ch26_reasoning.reasoning.reason_run import run_to_end
    from grader.models.training.live_page import control_c, make_page
    from grader.models.training.trainer import NotANumber

    console = make_console()
    if not run.progress.is_finished:
        _introduce(run)
        try:
            with control_c() as interrupted:
                finished = run_to_end(run, make_page(), interrupted)
        except NotANumber as problem:
            raise ReasonProblem(f"{problem}; the last checkpoint stays, and another --seed may go better") from None
        console.print()
        if not finished:
            print_wrapped(console, "Stopped, and saved. To go on:")
            console.print(command_line(f"headway reason --resume --name {run.name}"))
            return INTERRUPTED
    _conclude(run)
    return DONE


def _introduce(run: Run) -> None:
    """Print what is trained, and whose parts run."""
    from grader.chapters.ch26_reasoning.reasoning.reason_run import START
    from grader.chapters.ch26_reasoning.reasoning.sums import NEW_DIGITS, Sum

    console, example = make_console(), Sum(57, 68, 2)
    count = sum(parameter.numel() for parameter in run.models[START].adder.model.parameters())
    answers = f"{example.question} is answered by {example.answer(True)} or {example.answer(False)}"
    print_wrapped(console, f"A Llama with {count:,} parameters learns sums of 1 to {NEW_DIGITS} digits: {answers}")
    print_wrapped(console, f"Then rewards train it on sums of {NEW_DIGITS} digits, which it gets right sometimes.")
    for sentence in run.own.sentences():
        print_wrapped(console, sentence)
    console.print()


def _conclude(run: Run) -> None:
    """Print the table of pass@k and the answer; write the page."""
    from grader.chapters.ch26_reasoning.reasoning.reason_file import write
    from grader.chapters.ch26_reasoning.reasoning.reason_report import (
        COLUMNS,
        PAGE_FILE,
        conclusions,
        draw_page,
        table_rows,
    )
    from grader.course.status import short_path
    from grader.teaching.measurements import result_table

    console, page = make_console(), run.folder / PAGE_FILE
    console.print(result_table("Answers to held-out questions", COLUMNS, table_rows(run.progress)))
    for sentence in conclusions(run.progress):
        print_wrapped(console, sentence)
    write(page, draw_page(run))
    console.print()
    print_wrapped(console, f"The page with the curves is {short_path(page)}; open it in a browser.")
