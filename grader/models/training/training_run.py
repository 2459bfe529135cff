"""A training: a new one, or one that goes on from its checkpoint; and its loop, from the first step to the last.

The loop has the schedule, the page, checkpoints and Control-C, and says what happens when something fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from grader.console.output import ProgressReporter
from grader.execution.simulated_group import GroupProblem
from grader.models import checkpoint
from grader.models.checkpoint import RESUMED, CheckpointProblem
from grader.models.design import Design, build_model
from grader.models.own_parts import (
    SAMPLING,
    TRAINING,
    OwnParts,
    closing_after_failure,
    explaining_crashes,
    find_own_parts,
    model_exercises,
    tokenizer_exercises,
)
from grader.models.tokenizers import ModelTokenizer
from grader.models.training.corpora import PAIRS, STORIES, Corpus, PairCorpus, StoryCorpus, TextCorpus, TextProblem
from grader.models.training.live_page import Page, View
from grader.models.training.recipes import Recipe, Settings
from grader.models.training.trainer import History, NotANumber, Trainer, prepare_torch, read_state
from grader.teaching.walks.parts import MixedChapters
from grader.version import __version__

EVALUATIONS = 16  # of a whole training, besides the one before the first step


@dataclass
class Training:
    """Everything that runs, and the plan of it."""

    folder: Path
    own: OwnParts
    trainer: Trainer
    seed: int
    total: int | None  # steps; None while it is not estimated yet
    minutes: float | None
    notes: list[str]
    keeps_minutes: bool = False  # on a machine that becomes slower: with fewer steps than planned at first

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def is_finished(self) -> bool:
        return self.total is not None and self.trainer.steps_done >= self.total

    @property
    def every(self) -> int:
        """Steps between two evaluations."""
        return max((self.total or 0) // EVALUATIONS, 1)

    def record(self) -> dict[str, Any]:
        history = self.trainer.history
        return {
            "name": self.name,
            "corpus": self.trainer.corpus.describe(),
            "title": self.trainer.corpus.title,
            "prompt": self.trainer.corpus.prompt,
            "seed": self.seed,
            "steps": self.total,
            "minutes": self.minutes,
            "steps_done": self.trainer.steps_done,
            "finished": self.is_finished,
            "recipe": self.trainer.recipe.to_data(),
            "device": self.trainer.device.type,
            "parameters": sum(parameter.numel() for parameter in self.trainer.parameters),
            "history": history.to_data(),
            "judgement": self.judgement(),
            "parts": self.own.to_data(),
            "headway": __version__,
            "torch": torch.__version__,
        }

    def judgement(self) -> str | None:
        """What the learner's `judge_fit` says about the curves; the training curve at the evaluations is the mean since
        the last one."""
        history = self.trainer.history
        places = [step for step, _ in history.validation if step > 0]
        if len(places) < 2:
            return None
        starts = [0, *places[:-1]]
        training = [sum(history.losses[start:end]) / max(end - start, 1) for start, end in zip(starts, places)]
        return str(self.own.parts.judge_fit(training, [loss for step, loss in history.validation if step > 0]))

    def save(self) -> None:
        checkpoint.save(
            self.folder,
            self.trainer.model,
            self.trainer.corpus.tokenizer,
            self.trainer.design,
            self.record(),
            read_state(self.trainer.optimizer),
        )

    def close(self) -> None:
        self.own.close()


def begin(
    settings: Settings,
    name: str | None,
    device: str,
    report_progress: ProgressReporter,
    more_exercises: Collection[str] = (),
    own: OwnParts | None = None,
) -> Training:
    """A new training, with these parts, or with those that pass their tests now. DesignProblem, TextProblem,
    NotInHandout or CheckpointProblem (the name is taken) if it cannot begin."""
    design = settings.design()
    if settings.kind == "translate" and settings.text is not None:
        raise TextProblem("a translator needs pairs of sentences, and --text has none; leave out --text")
    folder = new_folder(name, settings.default_name())
    exercises = training_exercises(design, settings.recipe(), settings.token_kind())
    own = own or find_own_parts(exercises.union(more_exercises), report_progress)
    with closing_after_failure(own):
        prepare_torch(settings.seed)
        described = {"kind": settings.corpus_kind, "seed": settings.seed, "path": settings.text}
        with report_progress("reading the text", 1):
            corpus = _make_corpus(own.parts, described, settings.token_kind(), settings.recipe(), design)
        torch.manual_seed(settings.seed)
        model = build_model(own.parts, design, corpus.tokenizer.vocab_size)
        trainer = Trainer(own.parts, design, model, corpus, settings.recipe(), device)
        return Training(
            folder, own, trainer, settings.seed, settings.steps, settings.minutes, list(getattr(corpus, "notes", []))
        )


def resume(
    folder: Path,
    device: str,
    report_progress: ProgressReporter,
    more_exercises: Collection[str] = (),
    own: OwnParts | None = None,
) -> Training:
    """The training of this checkpoint, where it was interrupted, with these parts, or with those that pass their tests
    now. CheckpointProblem or TextProblem if it cannot go on."""
    data = checkpoint.read_record(folder, RESUMED)
    design, recipe = Design.from_data(data["design"]), Recipe.from_data(data["record"]["recipe"])
    exercises = training_exercises(design, recipe, data["tokenizer"]["kind"])
    own = own or find_own_parts(exercises.union(more_exercises), report_progress)
    return _go_on(folder, data, design, own, device)


def reopen(folder: Path, device: str) -> Training:
    """The training of a checkpoint that was saved a moment ago, with the parts that it names, which are not tested
    again."""
    data = checkpoint.read_record(folder, RESUMED)
    learner, reference = (data["record"]["parts"][author] for author in ("learner", "reference"))
    own = OwnParts(MixedChapters([*learner, *reference], learner))
    return _go_on(folder, data, Design.from_data(data["design"]), own, device)


def _go_on(folder: Path, data: dict[str, Any], design: Design, own: OwnParts, device: str) -> Training:
    record = data["record"]
    with closing_after_failure(own):
        prepare_torch(record["seed"])
        loaded = checkpoint.load(folder, own.parts)
        recipe = Recipe.from_data(record["recipe"])
        corpus = _make_corpus(own.parts, record["corpus"], loaded.tokenizer.kind, recipe, design, loaded.tokenizer)
        trainer = Trainer(own.parts, design, loaded.model, corpus, recipe, device)
        notes = list(getattr(corpus, "notes", []))
        if not trainer.go_on_from(History.from_data(record["history"]), checkpoint.read_optimizer(folder)):
            notes.append(f"{checkpoint.OPTIMIZER} is missing or does not fit, so AdamW begins with new averages.")
        return Training(folder, own, trainer, record["seed"], record["steps"], record["minutes"], notes)


def training_exercises(design: Design, recipe: Recipe, tokens: str) -> set[str]:
    """Every exercise whose code runs in a training."""
    sampling = ("translate",) if design.kind == "translate" else SAMPLING
    modern = {"multi_token_loss"} if design.predict_tokens > 1 else set()
    modern |= {"newton_schulz", "Muon"} if recipe.optimizer == "muon" else set()
    modern |= {"schedule_wsd"} if recipe.schedule == "wsd" else set()
    return {*tokenizer_exercises(tokens), *model_exercises(design), *TRAINING, *sampling, *modern}


def _make_corpus(
    parts: Any,
    described: dict[str, Any],
    tokens: str,
    recipe: Recipe,
    design: Design,
    tokenizer: ModelTokenizer | None = None,
) -> Corpus:
    """The corpus of this description; without a tokenizer, it makes one of the kind `tokens`."""
    sizes = (described["seed"], recipe.rows, recipe.pieces)
    if described["kind"] == PAIRS:
        return PairCorpus(parts, *sizes, tokenizer)
    if described["kind"] == STORIES:
        return StoryCorpus(parts, tokens, *sizes, design.max_len, tokenizer)
    corpus = TextCorpus(parts, Path(described["path"]), tokens, *sizes, design.max_len, tokenizer)
    if corpus.fingerprint != described.get("fingerprint", corpus.fingerprint):
        raise TextProblem(
            f"{described['path']} has changed since this training began, so it cannot go on; train "
            "again with another --name"
        )
    return corpus


def new_folder(name: str | None, default: str) -> Path:
    """Where a new checkpoint is going to be. CheckpointProblem if the name is taken."""
    if name and (checkpoint.CHECKPOINTS / name).exists():
        raise CheckpointProblem(
            f"there is a checkpoint {name} already; go on with it by --resume, or choose another --name"
        )
    return checkpoint.CHECKPOINTS / (name or free_name(default))


def free_name(name: str) -> str:
    number, free = 1, name
    while (checkpoint.CHECKPOINTS / free).exists():
        number += 1
        free = f"{name}-{number}"
    return free


SAMPLED_EVALUATIONS = (1, 2, 4, 8, 12, 16)  # a sample is written after these
SAVE_SECONDS = 20.0  # between two checkpoints, at least
ESTIMATE_SHARE = 0.2  # of the time: by then the number of steps is estimated, also if the warmup is not over
LEAST_STEPS = 3  # before an estimate


def run(training: Training, page: Page, interrupted: Callable[[], bool] = lambda: False) -> bool:
    """Train to the end, or until `interrupted`; return whether the end was reached. Saves on the way and at the end.

    CodeProblem if the learner's code raises an exception; the last checkpoint stays. GroupProblem if another process of
    a team has ended.
    """
    with explaining_crashes(training.own.parts, NotANumber, GroupProblem):
        return _run(training, page, interrupted)


def _run(training: Training, page: Page, interrupted: Callable[[], bool]) -> bool:
    trainer = training.trainer
    view = View(training.name, trainer.history, training.total, notice="Control-C saves and stops.")
    clock = _Clock(training, view)
    saved = time.monotonic()
    try:
        if trainer.steps_done == 0 and not trainer.history.validation:
            trainer.validate()
            trainer.sample()
        clock.note_evaluation()
        page.moment(view)
        while not training.is_finished:
            if interrupted():
                view.notice = "Stopping: the model is being saved."
                page.moment(view)
                training.save()
                return False
            before = trainer.history.tokens, trainer.history.seconds
            if trainer.team:
                trainer.team.announce_plan(training.total)
            trainer.step(training.total)
            view.note_step(trainer.history.seconds - before[1], trainer.history.tokens - before[0])
            if training.total is None:
                training.total = view.total = clock.estimate()
            if training.total is not None and (trainer.steps_done % training.every == 0 or training.is_finished):
                number = trainer.steps_done // training.every
                trainer.validate()
                if number in SAMPLED_EVALUATIONS or training.is_finished:
                    trainer.sample()
                if training.is_finished:
                    break
                if training.keeps_minutes and (fitting := clock.estimate()):
                    training.total = view.total = min(training.total, max(fitting, trainer.steps_done + 1))
                if time.monotonic() - saved > SAVE_SECONDS:
                    training.save()
                    saved = time.monotonic()
                view.seconds_left = clock.seconds_left()
                page.moment(view)
            view.seconds_left = clock.seconds_left()
            page.update(view)
        view.seconds_left, view.notice = 0.0, ""
        training.save()
        page.moment(view)
        return True
    finally:
        view.notice = ""
        page.close(view)


class _Clock:
    """How many steps fit into the time, and how much time is left."""

    def __init__(self, training: Training, view: View) -> None:
        self.training, self.view = training, view
        self.began = time.monotonic()
        self.evaluation_seconds = 0.0

    def note_evaluation(self) -> None:
        self.evaluation_seconds = time.monotonic() - self.began

    def estimate(self) -> int | None:
        """The number of steps of the whole training; None while too few have been measured. Until then the learning
        rate rises, whatever the number is."""
        trainer = self.training.trainer
        whole = (self.training.minutes or 1.0) * 60
        elapsed = time.monotonic() - self.began
        if trainer.steps_done < LEAST_STEPS or (
            trainer.steps_done < trainer.recipe.warmup and elapsed < ESTIMATE_SHARE * whole
        ):
            return None
        share_left = 1 - trainer.steps_done / self.training.total if self.training.total else 1
        left = whole - elapsed - self.evaluation_seconds * EVALUATIONS / 2 * share_left
        recent = sorted(self.view.recent_seconds)
        return max(trainer.steps_done + int(left / max(recent[len(recent) // 2], 1e-6)), trainer.recipe.warmup + 2)

    def seconds_left(self) -> float | None:
        if self.training.total is None or not self.view.recent_seconds:
            return None
        steps = self.training.total - self.training.trainer.steps_done
        evaluations = steps / self.training.every / 2
        return (
            steps * sum(self.view.recent_seconds) / len(self.view.recent_seconds)
            + evaluations * self.evaluation_seconds
        )
