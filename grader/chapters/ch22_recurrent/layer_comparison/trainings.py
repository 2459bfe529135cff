"""Trains each kind of model on text and on recall, with every seed. What is trained is kept in a file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from grader.chapters.ch22_recurrent.layer_comparison import costs
from grader.chapters.ch22_recurrent.layer_comparison.models import LAYERS, Size, new_model
from grader.chapters.ch22_recurrent.layer_comparison.recall import (
    PAIRS,
    draw_pairs,
    draw_texts,
    new_recaller,
    share_right,
)
from grader.console.output import ProgressReporter
from grader.files import problem, short_path, write_whole
from grader.models import checkpoint
from grader.models.checkpoint import CheckpointProblem
from grader.models.design import Design
from grader.models.file_values import list_of, number, table, whole
from grader.models.own_parts import TRAINING, explaining_crashes, find_own_parts, model_exercises, tokenizer_exercises
from grader.models.training.corpora import StoryCorpus, TextCorpus
from grader.models.training.recipes import Recipe, Settings
from grader.models.training.trainer import ClippingOptimizer, NotANumber, Trainer, prepare_torch
from grader.teaching.walks.parts import hidden_prints
from grader.version import __version__
from torch import nn

SEEDS, STEPS = 3, 200
RECALL_STEPS = 3  # for each step on text
SIZE = Size(d_model=64, n_heads=2, n_layers=4)
DESIGN = Design(d_model=SIZE.d_model, n_heads=SIZE.n_heads, n_layers=SIZE.n_layers, max_len=128, positions="rope")
RECIPE = Recipe(rows=32, pieces=2, peak=6e-3)
RECALL_ROWS, RECALL_RATE, RECALL_WARMUP, FLOOR_SHARE = 32, 1e-2, 20, 0.05
FILE = Path("compare-layers") / "results.json"


@dataclass(frozen=True)
class Result:
    """What one kind of model reached with one seed."""

    parameters: int
    loss: float  # held-out
    recaller: int  # parameters of the model that was trained on recall
    recall: list[float]  # the share of right answers for each number of PAIRS

    def __post_init__(self) -> None:
        if len(self.recall) != len(PAIRS):
            raise ValueError("a share for each number of pairs")


RESULTS = list_of(
    table(
        {
            "parameters": whole(1, 10**9), "loss": number(0, 1e6), "recaller": whole(1, 10**9),
            "recall": list_of(number(0, 1)),
        }
    )
)  # fmt: skip


@dataclass(frozen=True)
class Found:
    """Everything that was measured."""

    steps: int
    results: dict[str, list[Result]]  # of each kind, by seed
    costs: dict[str, costs.Costs]
    said: list[str]  # whose parts these were


def train_all(
    kinds: Sequence[str], steps: int, text: Path | None, first_seed: int, report_progress: ProgressReporter
) -> Found:
    """Train what is not trained yet, and measure. CodeProblem or CheckpointProblem if a training fails."""
    words = Settings(text=text).token_kind()
    names = {*tokenizer_exercises(words), *model_exercises(DESIGN), *TRAINING, *LAYERS}
    with closing(find_own_parts(names, report_progress)) as own, explaining_crashes(own.parts, NotANumber):
        seeds = range(first_seed, first_seed + SEEDS)
        corpora = {seed: partial(_corpus, own.parts, text, words, seed) for seed in seeds}
        store = Store.open(own.learner)
        results: dict[str, list[Result]] = {kind: [] for kind in kinds}
        for seed in seeds:
            corpus = corpora[seed]()
            for kind in kinds:
                key = f"{kind}, seed {seed}, {steps} steps, {getattr(corpus, 'fingerprint', 'stories')}"
                if key not in store.results:
                    with _explaining_infinity(f"{kind} with seed {seed}"), hidden_prints():
                        store.add(key, _train(own.parts, kind, corpus, seed, steps, report_progress))
                results[kind].append(store.results[key])
        with report_progress("measuring memory and speed", len(kinds)) as advance, hidden_prints():
            measured = costs.measure(own.parts, kinds, SIZE, corpus.tokenizer.vocab_size, advance)
        return Found(steps, results, measured, own.sentences())


def _corpus(parts: Any, text: Path | None, words: str, seed: int) -> StoryCorpus | TextCorpus:
    sizes = (seed, RECIPE.rows, RECIPE.pieces, DESIGN.max_len)
    with hidden_prints():
        return TextCorpus(parts, text, words, *sizes) if text else StoryCorpus(parts, words, *sizes)


def _train(parts: Any, kind: str, corpus: Any, seed: int, steps: int, report_progress: ProgressReporter) -> Result:
    prepare_torch(seed)
    with report_progress(f"{kind}, seed {seed}: training on text", steps) as advance:
        model, loss = train_on_text(parts, kind, corpus, seed, steps, advance)
    with report_progress(f"{kind}, seed {seed}: training on recall", RECALL_STEPS * steps) as advance:
        recaller = train_on_recall(parts, kind, seed, RECALL_STEPS * steps, advance)
    counts = [int(parts.count_parameters(each)) for each in (model, recaller)]
    return Result(counts[0], loss, counts[1], [share_right(recaller, pairs) for pairs in PAIRS])


def train_on_text(
    parts: Any, kind: str, corpus: Any, seed: int, steps: int, advance: Callable[[], None]
) -> tuple[nn.Module, float]:
    """A model after so many steps, and its loss on held-out text."""
    torch.manual_seed(seed)
    model = new_model(parts, kind, corpus.tokenizer.vocab_size, SIZE)
    trainer = Trainer(parts, DESIGN, model, corpus, RECIPE, "cpu")
    for _ in range(steps):
        trainer.step(steps)
        advance()
    return model, trainer.validate()


def train_on_recall(parts: Any, kind: str, seed: int, steps: int, advance: Callable[[], None]) -> nn.Module:
    """A model that has seen so many batches of texts; all texts of a batch have the same number of pairs."""
    model, generator = new_recaller(parts, kind, seed), torch.Generator().manual_seed(seed)
    parameters = list(model.parameters())
    adamw = parts.AdamW(parameters, lr=RECALL_RATE, betas=RECIPE.betas, weight_decay=RECIPE.weight_decay)
    optimizer = ClippingOptimizer(adamw, parameters, parts.clip_gradients, RECIPE.max_norm)
    for step in range(steps):
        pairs = draw_pairs(step / steps, generator)
        warmup, floor = min(RECALL_WARMUP, steps - 1), FLOOR_SHARE * RECALL_RATE
        for group in optimizer.param_groups:
            group["lr"] = float(parts.warmup_cosine(step + 1, warmup, steps, RECALL_RATE, floor))
        loss = float(parts.accumulated_step(model, optimizer, [draw_texts(pairs, RECALL_ROWS, generator)]))
        if not math.isfinite(loss):
            raise NotANumber(f"the loss of step {step + 1} on recall is {loss}")
        advance()
    return model


@contextmanager
def _explaining_infinity(what: str) -> Iterator[None]:
    try:
        yield
    except NotANumber as trouble:
        raise CheckpointProblem(f"{what} cannot be compared: {trouble}") from None


# ---- the file


@dataclass
class Store:
    """The finished results, in a file that is replaced after each one. They count for the same parts only."""

    path: Path
    made_by: list[str]  # this version of Headway, and the learner's parts
    results: dict[str, Result]

    @classmethod
    def open(cls, learner: list[str]) -> Store:
        """What an earlier run has found; nothing if there is no file, or if it is damaged."""
        store = cls(checkpoint.CHECKPOINTS / FILE, [__version__, *learner], {})
        with suppress(OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
            data = json.loads(store.path.read_text(encoding="utf-8"))
            if data["made_by"] == store.made_by and RESULTS.accepts(list(data["results"].values())):
                store.results = {key: Result(**value) for key, value in data["results"].items()}
        return store

    def add(self, key: str, result: Result) -> None:
        """Keep a result. CheckpointProblem if the file cannot be written."""
        self.results[key] = result
        data = {"made_by": self.made_by, "results": {name: asdict(each) for name, each in self.results.items()}}
        try:
            write_whole(self.path, json.dumps(data) + "\n")
        except OSError as error:
            raise CheckpointProblem(problem(error, f"write {short_path(self.path)}")) from None
