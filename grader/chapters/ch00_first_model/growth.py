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
from grader.console.output import ProgressReporter
from grader.course.status import read_route
from grader.course.syllabus import EXERCISES
from grader.files import write_whole
from grader.models.design import gpt_config, preset
from grader.models.file_values import ValueProblem, check, finite, list_of, number, string, table
from grader.models.own_parts import ATTENDING, BLOCK, SAMPLING, TRAINING, WORDS, OwnParts, explaining_crashes
from grader.models.training.corpora import StoryCorpus
from grader.models.training.recipes import RECIPES
from grader.models.training.trainer import Trainer, prepare_torch
from torch import Tensor, nn

KEPT_FILE = EXERCISES / ".headway" / "growth.json"
PROMPT = "One day"
COUNTED_STORIES = 4000
SMOOTHING = 0.01
DESIGN = preset("mini", n_layers=2)
STEPS_TO_MEASURE = 5
USUAL_MINUTES = 1.0
MAX_MISSING_NAMES = 3
NO_KNOWLEDGE = "The loss is measured on stories that no model trains on; without any knowledge it is 6.15."

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
        """The exercises that it needs and that are not the learner's own yet. On a path, those that are not on it are
        the reference's; only the stage's own part, the last one, has to be there."""
        learner, route = set(own.learner), {exercise.name for exercise in read_route().exercises}
        needed = [name for name in self.needs if name in route or name == self.needs[-1]]
        return [name for name in needed if name not in learner]


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


LINE = {"stage": string(), "loss": finite(), "text": string(100_000), "minutes": number(0, 1e9)}


def load_lines() -> dict[str, Line]:
    """The lines that were measured before, by stage; none if the file is missing or damaged."""
    try:
        data = json.loads(KEPT_FILE.read_text(encoding="utf-8"))
        check({"lines": data}, {"lines": list_of(table(LINE))}, KEPT_FILE.name)
    except (OSError, ValueError, RecursionError, ValueProblem):
        return {}
    return {entry["stage"]: Line(**{name: entry[name] for name in LINE}) for entry in data}


def keep_line(line: Line) -> None:
    lines = load_lines() | {line.stage: line}
    ordered = [asdict(lines[stage.name]) for stage in STAGES if stage.name in lines]
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


# ---- the page of `headway progress`


def renew_lines(own: OwnParts, minutes: float | None, report_progress: ProgressReporter) -> dict[str, Line]:
    """The kept lines, and that of the best model of the learner's parts: measured if it is new, or if `minutes` are
    given."""
    lines = load_lines()
    possible = [stage for stage in STAGES if not stage.missing(own)]
    if not possible or (minutes is None and possible[-1].name in lines):
        return lines
    stage, minutes = possible[-1], minutes or USUAL_MINUTES
    what = "counting the stories" if stage.is_counted else f"training {stage.title} for {minutes:g} min"
    with explaining_crashes(own.parts), report_progress(what, 100) as step:
        shown = 0

        def advance(share: float) -> None:
            nonlocal shown
            while shown < int(100 * share):
                shown += 1
                step()

        line = measure(stage, own.parts, minutes, advance=advance)
    keep_line(line)
    return lines | {stage.name: line}


def describe(lines: dict[str, Line], own: OwnParts) -> Iterator[tuple[str, str]]:
    """The page's paragraphs, each with its style."""
    yield f"What a model of your own parts writes after “{PROMPT}”", "bold"
    yield "", ""
    for stage in STAGES:
        heading, lacking = f"{stage.title}, chapter {stage.chapter}", stage.missing(own)
        if line := lines.get(stage.name):
            trained = "" if stage.is_counted else f", after {line.minutes:g} min"
            yield f"{heading}: loss {line.loss:.2f}{trained}", "bold"
            yield f"  {line.text}", ""
            if others := [name for name in stage.needs if name not in own.learner]:
                yield f"  With the reference's {', '.join(others)}.", "dim"
        elif lacking:
            more = f" and {len(lacking) - MAX_MISSING_NAMES} more" if len(lacking) > MAX_MISSING_NAMES else ""
            yield f"{heading}: needs {', '.join(lacking[:MAX_MISSING_NAMES])}{more}", "dim"
        else:
            yield f"{heading}: not measured, because a later model was possible", "dim"
        yield "", ""
    yield NO_KNOWLEDGE, ""
