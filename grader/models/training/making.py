"""A training: a new one, or one that goes on from its checkpoint."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from grader.models import checkpoint
from grader.models.checkpoint import CheckpointProblem
from grader.models.design import Design, DesignProblem, build_model
from grader.models.own_parts import (
    SAMPLING,
    TRAINING,
    OwnParts,
    closing_after_failure,
    find_own_parts,
    model_exercises,
    tokenizer_exercises,
)
from grader.models.tokenizers import ModelTokenizer
from grader.models.training.corpora import PAIRS, STORIES, Corpus, PairCorpus, StoryCorpus, TextCorpus
from grader.models.training.optimizer_state import read_state
from grader.models.training.own_text import TextProblem
from grader.models.training.settings import Recipe, Settings
from grader.models.training.trainer import History, Trainer, prepare_torch
from grader.teaching.walks.parts import MixedChapters
from grader.teaching.walks.progress_line import ProgressReporter
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
) -> Training:
    """A new training. DesignProblem, TextProblem, NotInHandout or CheckpointProblem (the name is taken) if it cannot
    begin."""
    design = settings.design()
    if settings.kind == "translate" and settings.text is not None:
        raise TextProblem("a translator needs pairs of sentences, and --text has none; leave out --text")
    folder = checkpoint.CHECKPOINTS / (name or free_name(settings.default_name()))
    if name and folder.exists():
        raise CheckpointProblem(
            f"there is a checkpoint {name} already; go on with it by --resume, or choose another --name"
        )
    exercises = training_exercises(design, settings.recipe(), settings.token_kind())
    own = find_own_parts(exercises.union(more_exercises), report_progress)
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
    folder: Path, device: str, report_progress: ProgressReporter, more_exercises: Collection[str] = ()
) -> Training:
    """The training of this checkpoint, where it was interrupted. CheckpointProblem or TextProblem if it cannot go
    on."""
    data = checkpoint.read_record(folder)
    try:
        design = Design.from_data(data["design"])
        recipe = Recipe.from_data(data["record"]["recipe"])
        exercises = training_exercises(design, recipe, data["tokenizer"].get("kind", ""))
        own = find_own_parts(exercises.union(more_exercises), report_progress)
    except (DesignProblem, KeyError) as problem:
        raise CheckpointProblem(f"{folder.name} is damaged ({problem}); train the model again") from None
    return _go_on(folder, data, design, own, device)


def reopen(folder: Path, device: str) -> Training:
    """The training of a checkpoint that was saved a moment ago, with the parts that it names, which are not tested
    again."""
    data = checkpoint.read_record(folder)
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


def free_name(name: str) -> str:
    number, free = 1, name
    while (checkpoint.CHECKPOINTS / free).exists():
        number += 1
        free = f"{name}-{number}"
    return free
