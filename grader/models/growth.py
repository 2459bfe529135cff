"""The line that grows: what a model of the learner's own parts would write now, and how good it is.

Each stage is a language model of some chapters. All stages read the same stories, continue the same prompt, and are measured on the
same held-out stories; each is trained for the same time, but for the first, which only counts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from grader.course.syllabus import EXERCISES
from grader.files import write_whole
from grader.models.design import Design, gpt_config, preset
from grader.models.own_parts import ATTENDING, BLOCK, SAMPLING, TRAINING, WORDS, OwnParts
from grader.models.training.corpora import StoryCorpus
from grader.models.training.settings import RECIPES
from grader.models.training.trainer import Trainer, prepare_torch
from torch import Tensor, nn

KEPT_FILE = EXERCISES / ".headway" / "growth.json"
PROMPT = "One day"
COUNTED_STORIES = 4000
SMOOTHING = 0.01
DESIGN = preset("mini", n_layers=2)
STEPS_TO_MEASURE = 5

FIRST_MODEL = ("count_bigrams", "bigram_probabilities", "average_loss", "write")


class Bigrams(nn.Module):
    """Chapter 0's table as a model: ids (B, T) -> logits (B, T, V)."""

    def __init__(self, probabilities: Tensor) -> None:
        super().__init__()
        self.log_probabilities = nn.Parameter(probabilities.log())

    def forward(self, ids: Tensor) -> Tensor:
        return self.log_probabilities[ids]


class Stack(nn.Module):
    """Embeddings, perhaps positions and one layer, and a linear head: ids (B, T) -> logits (B, T, V)."""

    def __init__(self, embedding: nn.Module, positions: nn.Module | None, layer: nn.Module | None, norm: nn.Module | None, vocab_size: int) -> None:
        super().__init__()
        self.embedding, self.positions, self.layer, self.norm = embedding, positions, layer, norm
        self.head = nn.Linear(DESIGN.d_model, vocab_size)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        for part in (self.positions, self.layer, self.norm):
            x = x if part is None else part(x)
        return self.head(x)


class CausalResidual(nn.Module):
    """x + attention(x), where each position sees itself and earlier ones."""

    def __init__(self, attention: nn.Module, causal_mask: Callable[[int], Tensor]) -> None:
        super().__init__()
        self.attention, self.causal_mask = attention, causal_mask

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(x, mask=self.causal_mask(x.shape[1]).to(x.device))


def count_stories(parts: Any, corpus: StoryCorpus) -> nn.Module:
    """A bigram model, counted from the stories that a training would read."""
    tokenizer = corpus.tokenizer
    ids: list[int] = []
    for text in corpus.texts(range(COUNTED_STORIES)):
        ids += [*tokenizer.start_ids, *tokenizer.encode(text), *([] if tokenizer.end_id is None else [tokenizer.end_id])]
    counts = parts.count_bigrams(ids, tokenizer.vocab_size)
    return Bigrams(parts.bigram_probabilities(counts, SMOOTHING))


def _stack(parts: Any, vocab_size: int, *, positions: bool, layer: str) -> nn.Module:
    width, heads = DESIGN.d_model, DESIGN.n_heads
    layers = {"": lambda: None, "attention": lambda: CausalResidual(parts.MultiHeadAttention(width, heads), parts.causal_mask), "block": lambda: parts.PreNormBlock(width, heads)}
    table = parts.LearnedPositions(DESIGN.max_len, width) if positions else None
    return Stack(parts.TokenEmbedding(vocab_size, width), table, layers[layer](), parts.LayerNorm(width) if layer == "block" else None, vocab_size)


@dataclass(frozen=True)
class Stage:
    """A model, and the exercises that must pass to build it of one's own parts."""

    name: str
    title: str
    chapter: str
    needs: tuple[str, ...]
    build: Callable[[Any, StoryCorpus], nn.Module]
    is_counted: bool = False


ATTENTION = ("TokenEmbedding", "LearnedPositions", *ATTENDING, "MultiHeadAttention")
WHOLE_BLOCK = ("TokenEmbedding", "LearnedPositions", *ATTENDING, *BLOCK, "gelu", "CausalSelfAttention", "PreNormBlock")

STAGES = (
    Stage("bigrams", "bigrams, counted", "ch00", FIRST_MODEL, count_stories, is_counted=True),
    Stage("embedding", "embedding and head", "ch02", ("TokenEmbedding",), lambda p, c: _stack(p, c.tokenizer.vocab_size, positions=False, layer="")),
    Stage("attention", "one attention layer", "ch03", ATTENTION, lambda p, c: _stack(p, c.tokenizer.vocab_size, positions=True, layer="attention")),
    Stage("block", "one block", "ch06", WHOLE_BLOCK, lambda p, c: _stack(p, c.tokenizer.vocab_size, positions=True, layer="block")),
    Stage("gpt", "a GPT", "ch07", (*WHOLE_BLOCK, "GPT"), lambda p, c: p.GPT(gpt_config(p, DESIGN, c.tokenizer.vocab_size))),
)


def exercises_of(stages: tuple[Stage, ...]) -> set[str]:
    """Everything that runs when these stages are trained and write."""
    return {*WORDS, *TRAINING, *SAMPLING}.union(*(stage.needs for stage in stages))


def missing(stage: Stage, own: OwnParts) -> list[str]:
    """The exercises that this stage needs and that are not the learner's own yet."""
    learner = set(own.learner)
    return [name for name in stage.needs if name not in learner]


@dataclass(frozen=True)
class Line:
    """What is kept of one stage."""

    stage: str
    loss: float
    text: str
    minutes: float
    parameters: int


def load_lines() -> dict[str, Line]:
    """The lines that were measured before, by stage; none if the file is missing or damaged."""
    try:
        data = json.loads(KEPT_FILE.read_text(encoding="utf-8"))
        return {entry["stage"]: Line(**entry) for entry in data}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def keep_lines(lines: dict[str, Line]) -> None:
    ordered = [asdict(lines[stage.name]) for stage in STAGES if stage.name in lines]
    KEPT_FILE.parent.mkdir(exist_ok=True)
    write_whole(KEPT_FILE, json.dumps(ordered, indent=1).encode())


def measure(stage: Stage, parts: Any, minutes: float, seed: int = 0, advance: Callable[[float], None] = lambda share: None) -> Line:
    """Build the model of a stage, train it, and let it write. `advance` is called with the share of the time that has passed."""
    prepare_torch(seed)
    recipe = RECIPES["mini"]
    corpus = StoryCorpus(parts, "words", seed, recipe.rows, recipe.pieces, DESIGN.max_len)
    corpus.prompt = PROMPT
    torch.manual_seed(seed)
    model = stage.build(parts, corpus)
    trainer = Trainer(parts, DESIGN, model, corpus, recipe, "cpu")
    if not stage.is_counted:
        for share in _train(trainer, minutes * 60):
            advance(share)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Line(stage.name, trainer.validate(), trainer.write(seed), 0.0 if stage.is_counted else minutes, parameters)


def _train(trainer: Trainer, seconds: float) -> Iterator[float]:
    """Train for about this time; yields the share of it that has passed. The learning rate falls to the end, so the number of steps is estimated first."""
    began = time.monotonic()
    for _ in range(STEPS_TO_MEASURE):
        trainer.step(None)
    each = (time.monotonic() - began) / STEPS_TO_MEASURE
    total = max(trainer.recipe.warmup + 2, int(seconds / each))
    while trainer.steps_done < total:
        trainer.step(total)
        yield trainer.steps_done / total
