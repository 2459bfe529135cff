"""All of `headway features` in order: states, the autoencoder, its features, probes, steering; with checkpoints and
Control-C."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from grader.chapters.ch23_features.features import dictionary, probing
from grader.chapters.ch23_features.features.examining import (
    FEWEST_SHOWN,
    FEWEST_STORIES,
    MOST_STORIES,
    SHOWN_RANDOM,
    SHOWN_READ,
    SHOWN_UNREAD,
    Examiner,
)
from grader.chapters.ch23_features.features.features_progress import (
    DOING,
    EXAMINING,
    MINUTES,
    OPENING,
    PROBES,
    SENTENCES,
    STATES,
    STEERING,
    TRAINING,
    Progress,
    View,
)
from grader.chapters.ch23_features.features.opened import (
    FeaturesProblem,
    Models,
    held_out_stories,
    open_models,
    story_states,
    text_rows,
)
from grader.chapters.ch23_features.features.subjects import Subject, heroine, mood
from grader.chapters.interruptible_run import (
    MOMENTS,
    Interrupted,
    restore_optimizer,
    saving,
    take_steps,
    timed,
)
from grader.console.output import ProgressReporter
from grader.models import checkpoint
from grader.models.own_parts import OwnParts, closing_after_failure
from grader.models.training.live_page import Page
from grader.models.training.trainer import NotANumber, prepare_torch, read_state
from grader.models.training.training_run import new_folder
from grader.teaching.walks.parts import hidden_prints
from torch import Tensor

FEATURES_A_NUMBER = 4  # of the stream, by default
ACTIVE = 8  # features of a state, by default
MOST_STATES = 250_000  # that the autoencoder learns from
PLAIN_STORIES = 40  # that the cost of steering is measured on
FEWEST_BATCHES, FEWEST_STEPS = 2, 2


@dataclass
class Run:
    """Everything that runs."""

    folder: Path
    models: Models
    progress: Progress
    states: Tensor  # (N, D), that the autoencoder learns from; empty until they are collected
    autoencoder: Any = None
    optimizer: Any = None

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def own(self) -> OwnParts:
        return self.models.own

    @property
    def subject(self) -> Subject:
        return mood() if self.models.published else heroine(self.models.corpus.seed)

    def save(self) -> None:
        """Write the file; a finished run needs no state of the optimizer."""
        made = self.autoencoder is not None
        parameters = dict(self.autoencoder.named_parameters()) if made else {}
        state = read_state(self.optimizer) if made and self.progress.examined is None else {}
        dictionary.save(self.folder, dictionary.Saved(self.name, asdict(self.progress), parameters, state))

    def close(self) -> None:
        self.own.close()


def begin(
    base: str | None, layer: int | None, n_features: int | None, k: int | None, name: str | None, seed: int,
    minutes: float | None, report_progress: ProgressReporter,
) -> Run:  # fmt: skip
    """A new run. FeaturesProblem or CheckpointProblem if it cannot begin."""
    began = time.monotonic()
    models = open_models(base, report_progress)
    with closing_after_failure(models.own):
        folder = new_folder(name, f"features-{models.stories.name}")
        n_layers, width = models.stories.n_layers, models.stories.model.token_emb.weight.size(1)
        if layer is not None and layer >= n_layers:
            raise FeaturesProblem(
                f"{models.stories.name} has the layers 0 to {n_layers - 1}, so there is no layer {layer}"
            )
        n_features = n_features or FEATURES_A_NUMBER * width
        if k is not None and k > n_features:
            raise FeaturesProblem(f"k is {k}, but there are {n_features} features; choose a k from 1 to {n_features}")
        progress = Progress(
            models.stories.name, n_layers // 2 if layer is None else layer, n_features, k or min(ACTIVE, n_features),
            seed, minutes or MINUTES,
        )  # fmt: skip
        progress.seconds[OPENING] = time.monotonic() - began
        prepare_torch(seed)
        return Run(folder, models, progress, torch.empty(0, width))


def resume(name: str | None, report_progress: ProgressReporter) -> Run:
    """The run of this name, or the latest, where it was interrupted. FeaturesProblem if it cannot go on."""
    saved = dictionary.read(name)
    try:
        progress = Progress.from_data(saved.record)
    except (KeyError, TypeError):
        raise FeaturesProblem(f"the record of {saved.name} is damaged; {dictionary.AGAIN}") from None
    models = open_models(progress.base, report_progress)
    with closing_after_failure(models.own):
        width = models.stories.model.token_emb.weight.size(1)
        run = Run(checkpoint.CHECKPOINTS / saved.name, models, progress, torch.empty(0, width))
        prepare_torch(progress.seed)
        if progress.is_finished:
            return run
        if progress.examined is None and progress.story_batches:
            run.states = torch.cat(
                [story_states(models, progress.layer, step) for step in range(progress.story_batches)]
            )
        if saved.parameters:
            _make(run, run.states if len(run.states) else torch.zeros(1, width))
            dictionary.fill(run.autoencoder, saved)
            if progress.examined is None and not restore_optimizer(
                run.optimizer, run.autoencoder.parameters(), saved.optimizer
            ):
                raise FeaturesProblem(
                    f"the optimizer of {run.name} does not fit your AdamW any more; {dictionary.AGAIN}"
                )
        return run


def _make(run: Run, states: Tensor) -> None:
    progress, parts = run.progress, run.models.parts
    run.autoencoder = dictionary.make_autoencoder(
        parts, states, progress.scale, progress.n_features, progress.k, progress.seed
    )
    run.optimizer = dictionary.make_optimizer(parts, run.autoencoder)


# ---- running it


def run_to_end(run: Run, page: Page, interrupted: Interrupted = lambda: False) -> bool:
    """Go on to the end, or until `interrupted`; return whether the end was reached. Saves on the way and at the end.

    CodeProblem if the learner's code raises an exception; the last checkpoint stays.
    """
    view = View(run.name, run.progress)
    with saving(run, view, page), hidden_prints():
        for stage in (_read_stories, _train, _examine, _probe):
            if not stage(run, page, view, interrupted):
                return False
            run.save()
        return True


class _Part:
    """One stage on the page: it tells how much is done."""

    def __init__(self, page: Page, view: View, stage: str, total: int, unit: str) -> None:
        self.page, self.view = page, view
        view.doing, view.stage, view.done, view.total, view.unit = DOING[stage], stage, 0, total, unit
        page.moment(view)

    def note(self, done: int) -> None:
        before, self.view.done = self.view.done, done
        if MOMENTS * done // max(self.view.total, 1) > MOMENTS * before // max(self.view.total, 1):
            self.page.moment(self.view)
        self.page.update(self.view)


def _read_stories(run: Run, page: Page, view: View, interrupted: Interrupted) -> bool:
    """Collect the states that the autoencoder learns from."""
    progress = run.progress
    if progress.examined is not None or progress.story_batches:
        return True
    part, pieces = _Part(page, view, STATES, MOST_STATES, "tokens"), list[Tensor]()
    while sum(map(len, pieces)) < MOST_STATES and (len(pieces) < FEWEST_BATCHES or progress.has_time(STATES)):
        if interrupted():
            return False
        with timed(progress.seconds, STATES):
            pieces.append(story_states(run.models, progress.layer, len(pieces)))
        part.note(sum(map(len, pieces)))
    run.states = torch.cat(pieces)
    progress.story_batches, progress.scale = len(pieces), dictionary.find_scale(run.states)
    return True


def _train(run: Run, page: Page, view: View, interrupted: Interrupted) -> bool:
    """Train the rest of the autoencoder's steps."""
    progress = run.progress
    if progress.examined is not None:
        return True
    if run.autoencoder is None:
        _make(run, run.states)

    def step() -> None:
        number, done = len(progress.losses), progress.training_done
        loss = dictionary.train_step(
            run.autoencoder, run.optimizer, run.states, progress.scale, progress.seed, number, done
        )
        if not loss < float("inf"):
            raise NotANumber(f"the loss of step {number + 1} is {loss}")
        progress.losses.append(loss)

    def is_over() -> bool:
        return progress.training_done == 1 and len(progress.losses) >= FEWEST_STEPS

    view.doing, view.stage = DOING[TRAINING], TRAINING
    return take_steps(run, view, page, interrupted, step, TRAINING, is_over)


def _examine(run: Run, page: Page, view: View, interrupted: Interrupted) -> bool:
    """Look at the features in held-out stories."""
    progress = run.progress
    if progress.examined is not None:
        return True
    part = _Part(page, view, EXAMINING, SHOWN_READ + SHOWN_UNREAD, "features")
    with timed(progress.seconds, EXAMINING):
        share = min(len(run.states) / MOST_STATES, 1.0)
        count = max(FEWEST_STORIES, round(MOST_STORIES * min(2 * share, 1.0)))
        texts = held_out_stories(run.models, count)
        examiner = Examiner(run.models, run.autoencoder, progress.scale, progress.layer, texts, progress.seed)
        found = examiner.summary() | {"readings": examiner.readings()}
        chosen = examiner.chosen()
    view.total, found["shown"] = len(chosen), []
    for number, feature in enumerate(chosen):
        if interrupted():
            return False
        if number >= FEWEST_SHOWN and not progress.has_time(EXAMINING):
            break
        with timed(progress.seconds, EXAMINING):
            found["shown"].append(examiner.describe(feature))
        part.note(number + 1)
    with timed(progress.seconds, EXAMINING):
        found["random"] = [examiner.describe_random(i) for i in range(min(SHOWN_RANDOM, len(examiner.control)))]
    progress.examined = found
    return True


def _probe(run: Run, page: Page, view: View, interrupted: Interrupted) -> bool:
    """Fit probes after every block, and steer."""
    progress, models, subject = run.progress, run.models, run.subject
    if progress.probed is not None:
        return True
    opened = models.probed
    part = _Part(page, view, SENTENCES, len(subject.sentences), "sentences")
    states, trouble = probing.known_states(opened, subject)
    known, stopped = len(states), False
    while len(states) < len(subject.sentences):
        if len(states) >= probing.FEWEST_SENTENCES and not progress.has_time(SENTENCES):
            break
        if stopped := interrupted():
            break
        with timed(progress.seconds, SENTENCES):
            states = probing.more_states(models.parts, opened, subject, states)
        part.note(len(states))
    unsaved = probing.keep_states(opened, subject, states) if len(states) > known else None
    progress.notes = [note for note in (trouble, unsaved) if note]
    if stopped:
        return False
    labels = torch.tensor([label for _, label in subject.sentences[: len(states)]])
    layers = probing.probed_layers(opened.n_layers)
    scores: dict[int, tuple[float, float]] = {}
    part = _Part(page, view, PROBES, len(layers), "layers")
    for layer in layers:
        if interrupted():
            return False
        if len(scores) >= probing.FEWEST_LAYERS and not progress.has_time(PROBES):
            break
        with timed(progress.seconds, PROBES):
            scores[layer] = probing.probe(models.parts, states[:, layer], labels, progress.seed)
        part.note(len(scores))
    block = opened.n_layers // 2
    part = _Part(page, view, STEERING, len(subject.strengths), "strengths")
    with timed(progress.seconds, STEERING):
        plain = text_rows(opened, subject.plain) if subject.plain else held_out_stories(models, PLAIN_STORIES)
        steering = probing.Steering(models.parts, opened, subject, block, states, labels, plain)
    steered: list[dict[str, Any]] = []
    for strength in subject.strengths:
        if interrupted():
            return False
        if len(steered) >= probing.FEWEST_STRENGTHS and not progress.has_time(STEERING):
            break
        with timed(progress.seconds, STEERING):
            steered.append(steering.measure(strength))
        part.note(len(steered))
    progress.probed = {
        "model": opened.name,
        "kind": opened.kind,
        "question": subject.question,
        "classes": list(subject.classes),
        "sentences": len(states),
        "examples": [list(pair) for pair in subject.sentences[:2]],
        "layers": [[layer, *scores[layer]] for layer in sorted(scores)],
        "block": block,
        "distance": steering.distance,
        "size": steering.size,
        "prompts": list(subject.prompts),
        "steered": sorted(steered, key=lambda one: one["strength"]),
    }
    return True
