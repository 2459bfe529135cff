"""The line that grows: what a model of the learner's own parts would write now, and how good it is.

Each stage is a language model of some chapters. All stages read the same stories, continue the same prompt, and are
measured on the same held-out stories. Each is trained for the same time, except the first, which only counts.
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
from grader.models.design import gpt_config, preset
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


class CausalResidual(nn.Module):
    """x + attention(x), where each position sees itself and earlier ones."""

    def __init__(self, attention: nn.Module, causal_mask: Callable[[int], Tensor]) -> None:
        super().__init__()
        self.attention, self.causal_mask = attention, causal_mask

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(x, mask=self.causal_mask(x.shape[1]).to(x.device))


def count_stories(parts: Any, corpus: StoryCorpus) -> nn.Module:
    """A bigram model, counted from the stories that a training would read."""
    tokenizer, ids = corpus.tokenizer, []
    for text in corpus.texts(range(COUNTED_STORIES)):
        ids += [*tokenizer.start_ids, *tokenizer.encode(text), tokenizer.end_id]
    counts = parts.count_bigrams(ids, tokenizer.vocab_size)
    return Bigrams(parts.bigram_probabilities(counts, SMOOTHING))


def attention_model(parts: Any, corpus: StoryCorpus) -> nn.Module:
    positions = parts.LearnedPositions(DESIGN.max_len, DESIGN.d_model)
    attention = CausalResidual(parts.MultiHeadAttention(DESIGN.d_model, DESIGN.n_heads), parts.causal_mask)
    return between_embedding_and_head(parts, corpus, positions, attention)


def block_model(parts: Any, corpus: StoryCorpus) -> nn.Module:
    positions = parts.LearnedPositions(DESIGN.max_len, DESIGN.d_model)
    block = parts.PreNormBlock(DESIGN.d_model, DESIGN.n_heads)
    return between_embedding_and_head(parts, corpus, positions, block, parts.LayerNorm(DESIGN.d_model))


def between_embedding_and_head(parts: Any, corpus: StoryCorpus, *layers: nn.Module) -> nn.Module:
    """An embedding, these layers, and a linear head: ids (B, T) -> logits (B, T, V)."""
    vocab_size = corpus.tokenizer.vocab_size
    embedding = parts.TokenEmbedding(vocab_size, DESIGN.d_model)
    return nn.Sequential(embedding, *layers, nn.Linear(DESIGN.d_model, vocab_size))


def whole_gpt(parts: Any, corpus: StoryCorpus) -> nn.Module:
    return parts.GPT(gpt_config(parts, DESIGN, corpus.tokenizer.vocab_size))


@dataclass(frozen=True)
class Stage:
    """A model, and the exercises that must pass to build it of one's own parts."""

    name: str
    title: str
    chapter: int
    needs: tuple[str, ...]
    build: Callable[[Any, StoryCorpus], nn.Module]
    is_counted: bool = False

    def missing(self, own: OwnParts) -> list[str]:
        """The exercises that it needs and that are not the learner's own yet."""
        learner = set(own.learner)
        return [name for name in self.needs if name not in learner]


ATTENTION = ("TokenEmbedding", "LearnedPositions", *ATTENDING, "MultiHeadAttention")
BLOCK_PARTS = (
    "TokenEmbedding", "LearnedPositions", *ATTENDING, *BLOCK, "gelu", "CausalSelfAttention", "PreNormBlock",
)  # fmt: skip
STAGES = (
    Stage("bigrams", "Counted bigrams", 0, FIRST_MODEL, count_stories, is_counted=True),
    Stage("embedding", "An embedding and a head", 2, ("TokenEmbedding",), between_embedding_and_head),
    Stage("attention", "One attention layer", 3, ATTENTION, attention_model),
    Stage("block", "One block", 6, BLOCK_PARTS, block_model),
    Stage("gpt", "A GPT", 7, (*BLOCK_PARTS, "GPT"), whole_gpt),
)


def exercises_of(stages: tuple[Stage, ...]) -> set[str]:
    """Everything that runs when these stages are trained and write."""
    return {*WORDS, *TRAINING, *SAMPLING}.union(*(stage.needs for stage in stages))


@dataclass(frozen=True)
class Line:
    """What is kept of one stage."""

    stage: str
    loss: float
    text: str
    minutes: float


def load_lines() -> dict[str, Line]:
    """The lines that were measured before, by stage; none if the file is missing or damaged."""
    try:
        data = json.loads(KEPT_FILE.read_text(encoding="utf-8"))
        return {entry["stage"]: Line(**entry) for entry in data}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def keep_line(line: Line) -> None:
    lines = load_lines() | {line.stage: line}
    ordered = [asdict(lines[stage.name]) for stage in STAGES if stage.name in lines]
    KEPT_FILE.parent.mkdir(exist_ok=True)
    write_whole(KEPT_FILE, json.dumps(ordered, indent=1).encode())


def measure(
    stage: Stage, parts: Any, minutes: float, seed: int = 0, advance: Callable[[float], None] = lambda share: None
) -> Line:
    """Build the model of a stage, train it, and let it write. `advance` gets the share of the time that has passed."""
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
    return Line(stage.name, trainer.validate(), trainer.write(seed), 0.0 if stage.is_counted else minutes)


def _train(trainer: Trainer, seconds: float) -> Iterator[float]:
    """Train for about this time; yield the share of it that has passed.

    The learning rate falls towards the end, so the first steps estimate how many there will be.
    """
    began = time.monotonic()
    for _ in range(STEPS_TO_MEASURE):
        trainer.step(None)
    total = max(trainer.recipe.warmup + 2, int(seconds * STEPS_TO_MEASURE / (time.monotonic() - began)))
    while trainer.steps_done < total:
        trainer.step(total)
        yield trainer.steps_done / total
