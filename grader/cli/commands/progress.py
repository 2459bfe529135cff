"""`headway progress`: what a model of the learner's own parts writes now, and how far it has come."""

from __future__ import annotations

from typing import Annotated

from grader.cli.arguments import option
from grader.cli.commands.train import DONE
from grader.console.output import make_console, print_wrapped, show_progress
from grader.models.packages import require_packages


def progress(
    minutes: Annotated[
        float | None,
        option("Train the best model of your parts, also if it was trained before.", min=0.05, max=1000, metavar="M"),
    ] = None,
) -> int:
    """See what a model of your own parts writes now.

    It builds the best language model that your passed exercises allow: bigrams, an embedding with a head, one attention
    layer, one block, or a GPT. It trains the model on little stories, and keeps its loss on other stories and a text
    that it writes. All models continue the same words, so you see how each chapter changes the text. Without --minutes
    it trains for one minute, and only a model that it has not trained yet.

    What trains the model is yours where it passes, and the reference's elsewhere.

    Exit status: 0, 1 if your code raises an error, 2 if a part is not in this handout, 130 after Control-C."""
    require_packages("progress")
    from contextlib import closing

    from grader.chapters.ch00_first_model.growth import STAGES, describe, exercises_of, renew_lines
    from grader.models.own_parts import find_own_parts

    console = make_console()
    with closing(find_own_parts(exercises_of(STAGES), show_progress)) as own:
        for paragraph, style in describe(renew_lines(own, minutes, show_progress), own):
            print_wrapped(console, paragraph, style)
    return DONE
