"""`headway features`: looks into a model with the learner's own parts of chapter 23."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from grader.cli.arguments import option
from grader.cli.commands.train import INTERRUPTED, Seed, check_use
from grader.cli.interruptible_run import find_or_train_stories, run_and_conclude
from grader.console.output import command_line, make_console, print_wrapped
from grader.files import UserProblem

if TYPE_CHECKING:
    from grader.chapters.ch23_features.features.features_run import Run


def features(
    minutes: Annotated[
        float | None, option("How long, at most. Default: 6.", min=0.05, max=10_000, metavar="M")
    ] = None,
    layer: Annotated[
        int | None, option("After which block. Default: the middle one.", min=0, max=1023, metavar="N")
    ] = None,
    features: Annotated[
        int | None,
        option("Features of the autoencoder. Default: 4 for each number.", min=1, max=65_536, metavar="N"),
    ] = None,
    k: Annotated[
        int | None, option("How many may be active at a time. Default: 8.", min=1, max=65_536, metavar="N")
    ] = None,
    base: Annotated[
        str | None, option("A checkpoint of `headway train` on stories. Default: the newest.", metavar="NAME")
    ] = None,
    name: Annotated[str | None, option("The report is in checkpoints/NAME.", metavar="NAME")] = None,
    seed: Seed = None,
    resume: Annotated[bool, option("Go on with an interrupted run: NAME's, or the latest.", "--resume")] = False,
) -> int:
    """Find features in a model with your own code of chapter 23.

    A sparse autoencoder learns from the states of a GPT that `headway train` made from stories. You get a page with its
    features, the texts that switch them on, and those that mean nothing. Then probes and steering look into SmolLM2,
    or, if its weights are not installed, into the same GPT. Control-C saves, and --resume goes on from there."""
    chosen = {"minutes": minutes, "layer": layer, "features": features, "k": k, "base": base, "seed": seed}
    check_use("features", name, resume, chosen)
    if features is not None and k is not None and k > features:
        raise UserProblem(f"--k is {k}, but there are {features} features; choose a k from 1 to {features}")
    from grader.chapters.ch23_features.features import features_run
    from grader.console.output import show_progress

    if resume:
        run = features_run.resume(name, show_progress)
    else:
        if not (base or find_or_train_stories("There is no GPT of stories yet. First one", "look into the model")):
            return INTERRUPTED
        run = features_run.begin(base, layer, features, k, name, seed or 0, minutes, show_progress)
    return run_and_conclude("features", run, _introduce(run), features_run.run_to_end, _conclude)


def _introduce(run: Run) -> Iterator[str]:
    """What is looked into."""
    models, progress = run.models, run.progress
    name = models.stories.name
    yield f"An autoencoder with {progress.n_features} features reads {name} after block {progress.layer}."
    if models.missing:
        yield f"{models.missing[0].upper()}{models.missing[1:]}. So probes and steering look into {name}."


def _conclude(run: Run) -> None:
    """Print what was found, and where the page is."""
    from grader.chapters.ch23_features.features import summary
    from grader.chapters.ch23_features.features.dictionary import PAGE
    from grader.chapters.ch23_features.features.report_page import draw
    from grader.course.status import short_path
    from grader.files import write_whole

    console, progress = make_console(), run.progress
    probed = progress.probed or {}
    for sentences in (
        summary.sentences_about_dictionary(progress),
        summary.sentences_about_probes(probed),
        summary.sentences_about_steering(probed),
    ):
        for sentence in sentences:
            print_wrapped(console, sentence)
        console.print()
    for sentence in (*progress.notes, *summary.sentences_about_length(progress)):
        print_wrapped(console, sentence)
    if minutes := summary.minutes_that_help(progress):
        print_wrapped(console, "For more time on this machine:")
        console.print(command_line(progress.command(minutes)))
    page = run.folder / PAGE
    write_whole(page, draw(progress))
    print_wrapped(console, f"The features with their texts, and samples of steering, are in {short_path(page)}.")
