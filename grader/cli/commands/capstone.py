"""`headway capstone`: the whole line on the learner's own parts in one sitting, and a page about it."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from grader.cli.arguments import argument, option
from grader.cli.commands.train import DONE, FAILED, INTERRUPTED, Seed, check_use
from grader.console.output import command_line, make_console, print_error, print_wrapped, show_progress
from grader.files import UserProblem, short_path

if TYPE_CHECKING:
    from grader.chapters.ch17_fine_tuning.capstone.model_card import Finished
    from grader.chapters.ch17_fine_tuning.capstone.record import Record


def capstone(
    files: Annotated[
        list[Path] | None, argument("FILES", "With --compare: capstone.json files of others, or folders with them.")
    ] = None,
    minutes: Annotated[
        float | None, option("How long, with all stages and tests. Default: 40.", min=0.5, max=10_000, metavar="M")
    ] = None,
    steps: Annotated[
        int | None, option("How many steps of each training, instead of minutes.", min=1, max=1_000_000, metavar="N")
    ] = None,
    name: Annotated[str | None, option("The run is checkpoints/NAME.", metavar="NAME")] = None,
    seed: Seed = None,
    resume: Annotated[bool, option("Go on with an interrupted run: NAME's, or the latest.", "--resume")] = False,
    compare: Annotated[bool, option("Compare the finished runs of this folder, and FILES.", "--compare")] = False,
) -> int:
    """Make a model from its tokenizer to its rewards, in one sitting.

    Your BPETokenizer learns its merges from stories. A GPT of your parts is trained on stories, fine-tuned on right
    answers, then on rewards, and tested on what it has not seen. The reference replaces exercises that do not pass
    their tests yet. The end is a page, a model card with all numbers, and a model to play with. Control-C saves, and
    --resume goes on.

    Exit status: 0, 1 if a stage or a file failed, 2 if the command is wrong, 130 after Control-C."""
    began = time.monotonic()
    chosen = {"minutes": minutes, "steps": steps, "seed": seed}
    given = [f"--{option}" for option, value in ({"name": name} | chosen).items() if value is not None]
    given += ["--resume"] if resume else []
    if compare and given:
        raise UserProblem(f"--compare only reads finished runs; leave out {given[0]}")
    if files and not compare:
        raise UserProblem(f"{files[0]} is for --compare; leave it out, or add --compare")
    check_use("capstone", name, resume, chosen)
    if compare:
        return _compare(files or [])
    from grader.chapters.ch17_fine_tuning.capstone.model_card import PAGE
    from grader.chapters.ch17_fine_tuning.capstone.record import find
    from grader.chapters.ch17_fine_tuning.capstone.stages import MINUTES, begin

    record = find(name) if resume else begin(name, seed or 0, minutes or MINUTES, steps)
    console, page = make_console(), short_path(record.folder / PAGE)
    if record.right:
        print_wrapped(console, f"{record.name} is finished. Its model card is {page}.")
        return DONE
    finished = _run(record, began)
    if finished is None:
        print_wrapped(console, "Stopped, and saved. To go on:")
        console.print(command_line(f"headway capstone --resume --name {record.name}"))
        return INTERRUPTED
    _print_sections(finished)
    console.print()
    print_wrapped(console, f"The model card, with curves, is {page}; open it in a browser.")
    print_wrapped(console, "To talk to the tuned model, which answers a story's first sentence:")
    console.print(command_line(f"headway play {record.name}"))
    if sys.stdin.isatty() and sys.stdout.isatty():
        with contextlib.suppress(EOFError):
            if input("Now? [y/N] ").strip().lower() in ("y", "yes"):
                from grader.cli.commands.play import play

                return play(record.name)
    return DONE


def _run(record: Record, began: float) -> Finished | None:
    """All stages that are left; None after Control-C. CapstoneProblem, with what to do, if one fails."""
    from grader.chapters.ch17_fine_tuning.capstone.record import CapstoneProblem
    from grader.chapters.ch17_fine_tuning.capstone.stages import Sitting, find_parts, run
    from grader.models.own_parts import explaining_crashes
    from grader.models.training.live_page import control_c, make_page
    from grader.models.training.trainer import NotANumber

    console = make_console()
    with contextlib.closing(find_parts(record, show_progress)) as own:
        for sentence in own.sentences():
            print_wrapped(console, sentence)
        record.save()

        def announce(stage: str) -> None:
            console.print(f"\n{stage.capitalize()}", style="bold")

        try:
            with control_c() as interrupted, explaining_crashes(own.parts, NotANumber):
                return run(Sitting(record, own, show_progress, announce, make_page, interrupted, began))
        except (UserProblem, NotANumber) as problem:
            stays = f"What was saved stays: `headway capstone --resume --name {record.name}` goes on from there"
            again = f"To do a stage again, first delete its folder in {short_path(record.folder)}"
            raise CapstoneProblem(f"{str(problem).removesuffix('.')}. {stays}. {again}") from problem


def _print_sections(finished: Finished) -> None:
    from grader.chapters.ch17_fine_tuning.capstone.model_card import sections
    from grader.teaching.measurements import result_table

    console = make_console()
    for section in sections(finished):
        if section.printed:
            console.print(f"\n{section.title}", style="bold")
            for block in section.blocks:
                if isinstance(block, str):
                    print_wrapped(console, " ".join(block.split()))
                else:
                    console.print(result_table("", block.columns, block.rows))


def _compare(files: list[Path]) -> int:
    from grader.chapters.ch17_fine_tuning.capstone.record import PRETRAINED, TESTS, describe_rows, read_rows
    from grader.teaching.measurements import result_table

    console, (rows, left_out) = make_console(), read_rows(files)
    for sentence in left_out:
        print_error(f"left out: {sentence}")
    if not rows:
        print_error("there is no finished capstone to compare; `headway capstone` makes one")
        return FAILED
    lines = []
    for label, record in rows.items():
        bits = "{:.3f} ({:.3f} to {:.3f})".format(*record.bits(PRETRAINED))
        shares = ["{:.0%} ({:.0%} to {:.0%})".format(*record.share(test)) for test in TESTS]
        parts = f"{len(record.learner)} of {len(record.learner) + len(record.reference)}"
        lines.append((label, parts, f"{record.seconds / 60:.0f}", bits, *shares))
    columns = ("run", "own parts", "minutes", "bits a character", "right before", "after answers", "after rewards")
    console.print(result_table("", columns, lines))
    for sentence in describe_rows(rows) if len(rows) > 1 else ():
        print_wrapped(console, sentence)
    return FAILED if left_out else DONE
