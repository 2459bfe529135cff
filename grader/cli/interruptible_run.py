"""What the commands of long runs share: a model of stories to begin with, what is printed around a run, Control-C."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from grader.cli.commands.train import DONE, INTERRUPTED, train_to_end
from grader.console.output import command_line, make_console, print_wrapped

if TYPE_CHECKING:
    from grader.chapters.interruptible_run import Interrupted, Run
    from grader.models.training.live_page import Page

STORIES_MINUTES = 1.0  # to train a model of the stories first


def find_or_train_stories(announcement: str, purpose: str) -> str | None:
    """The name of the newest stories' model; if there is none, one is trained. None after Control-C."""
    from grader.chapters.ch17_fine_tuning.tuning.base import find_stories
    from grader.console.output import show_progress
    from grader.models.training import training_run
    from grader.models.training.recipes import Settings

    if found := find_stories():
        return found
    console = make_console()
    print_wrapped(console, f"{announcement} is trained, for {STORIES_MINUTES:g} minute.")
    console.print()
    settings = Settings(minutes=STORIES_MINUTES)
    with contextlib.closing(training_run.begin(settings, None, "cpu", show_progress)) as training:
        if train_to_end(training):
            return training.name
        print_wrapped(console, f"Stopped, and saved. To go on with this training, and then {purpose}:")
        console.print(command_line(f"headway train --resume --name {training.name}"))
    return None


def run_and_conclude(
    command: str, run: Run, introduction: Iterable[str], run_to_end: Callable[[Any, Page, Interrupted], bool],
    conclude: Callable[[Any], None],
) -> int:  # fmt: skip
    """Go on with the run to its end, unless it is finished, and print what came out; return the exit status."""
    from grader.models.checkpoint import CheckpointProblem
    from grader.models.training.live_page import control_c, make_page
    from grader.models.training.trainer import NotANumber

    console = make_console()
    with contextlib.closing(run):
        if not run.progress.is_finished:
            for sentence in (*introduction, *run.own.sentences()):
                print_wrapped(console, sentence)
            console.print()
            try:
                with control_c() as interrupted:
                    finished = run_to_end(run, make_page(), interrupted)
            except NotANumber as problem:
                stays = "the last checkpoint stays, and " if run.folder.exists() else ""
                raise CheckpointProblem(f"{problem}; {stays}another --seed may go better") from None
            console.print()
            if not finished:
                print_wrapped(console, "Stopped, and saved. To go on:")
                console.print(command_line(f"headway {command} --resume --name {run.name}"))
                return INTERRUPTED
        conclude(run)
    return DONE
