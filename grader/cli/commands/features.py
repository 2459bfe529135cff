"""`headway features`: looks into a model with the learner's own parts of chapter 23."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated

from grader.cli.arguments import option
from grader.cli.commands.train import DONE, FAILED, INTERRUPTED, UNUSABLE, Seed, train_to_end, wrong_use
from grader.console.output import command_line, make_console, print_error, print_wrapped
from grader.models.packages import require_packages

if TYPE_CHECKING:
    from grader.chapters.ch23_features.features.features_run import Run

STORIES_MINUTES = 1.0  # to train a model of the stories first


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
    if sentence := wrong_use(name, resume, {"steps": None} | chosen) or _too_many_active(features, k):
        print_error(sentence)
        return UNUSABLE
    require_packages("features", exit_status=FAILED)
    from grader.chapters.ch23_features.features import features_run
    from grader.console.output import show_progress

    if resume:
        run = features_run.resume(name, show_progress)
    else:
        if not (base or _find_or_train_stories()):
            return INTERRUPTED
        run = features_run.begin(base, layer, features, k, name, seed or 0, minutes, show_progress)
    with contextlib.closing(run):
        return _look(run)


def _too_many_active(features: int | None, k: int | None) -> str | None:
    if features is None or k is None or k <= features:
        return None
    return f"--k is {k}, but there are {features} features; choose a k from 1 to {features}"


def _find_or_train_stories() -> bool:
    """Without a stories' model, train one; False after Control-C."""
    from grader.chapters.ch17_fine_tuning.tuning.base import find_stories
    from grader.console.output import show_progress
    from grader.models.training import training_run
    from grader.models.training.recipes import Settings

    if find_stories():
        return True
    console = make_console()
    print_wrapped(console, f"There is no GPT of stories yet. First one is trained, for {STORIES_MINUTES:g} minute.")
    console.print()
    settings = Settings(minutes=STORIES_MINUTES)
    with contextlib.closing(training_run.begin(settings, None, "cpu", show_progress)) as training:
        if train_to_end(training):
            return True
        print_wrapped(console, "Stopped, and saved. To go on with this training, and then look into the model:")
        console.print(command_line(f"headway train --resume --name {training.name}"))
    return False


def _look(run: Run) -> int:
    from grader.chapters.ch23_features.features.features_run import run_to_end
    from grader.chapters.ch23_features.features.opened import FeaturesProblem
    from grader.models.training.live_page import control_c, make_page
    from grader.models.training.trainer import NotANumber

    console = make_console()
    if not run.progress.is_finished:
        _introduce(run)
        try:
            with control_c() as interrupted:
                finished = run_to_end(run, make_page(), interrupted)
        except NotANumber as problem:
            raise FeaturesProblem(f"{problem}; another --seed may go better") from None
        console.print()
        if not finished:
            print_wrapped(console, "Stopped, and saved. To go on:")
            console.print(command_line(f"headway features --resume --name {run.name}"))
            return INTERRUPTED
    _conclude(run)
    return DONE


def _introduce(run: Run) -> None:
    """Print what is looked into, and whose parts run."""
    console, models, progress = make_console(), run.models, run.progress
    print_wrapped(
        console,
        f"An autoencoder with {progress.n_features} features reads {models.stories.name} after block {progress.layer}.",
    )
    if models.missing:
        print_wrapped(
            console,
            f"{models.missing[0].upper()}{models.missing[1:]}. So probes and steering look into {models.stories.name}.",
        )
    for sentence in models.own.sentences():
        print_wrapped(console, sentence)
    console.print()


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
