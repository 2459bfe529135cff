"""Attribution patching against real patching: where a straight line is a good estimate, and where it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from grader.chapters.ch12_interpretability.walk_patching import COUNTRY, HEADS, LAST, LAYERS, SENTENCES, STEPS, WIDTH
from grader.chapters.corpora import FACTS, RELATIONS
from grader.chapters.small_models import names_of, small_gpt, tokenizer_and_batch, train
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table
from torch import Tensor, nn

CHAPTERS = ("ch01_tokenizer", "ch07_models", "ch08_training", "ch12_interpretability", "ch23_features")
Metric = Callable[..., Tensor]  # the logits of a run (1, T, V) and the right answer -> a number
METRICS: dict[str, Metric] = {
    "logit": lambda logits, answer: logits[0, -1, answer],
    "log probability": lambda logits, answer: torch.log_softmax(logits[0, -1], -1)[answer],
    "probability": lambda logits, answer: torch.softmax(logits[0, -1], -1)[answer],
}


def report_features_estimate(chapters: ChapterPackage, seed: int, *, steps: int = STEPS) -> Iterator[Table | str]:
    """Lesson 23: attribution patching against real patching in a GPT that has learned 36 facts.

    The clean run reads `of france the capital is`, the corrupted one has the next country. Each number is a mean over
    12 countries: how much the metric of the clean answer changes if the state of the clean run is put in at this place.
    """
    parts = names_of(*map(chapters.module, CHAPTERS))
    model, pairs = learn_facts(parts, seed, steps)
    for name, metric in METRICS.items():
        estimated, real = measure(parts, model, pairs, metric)
        rows = [
            [f"block {block}, {place}", *(f"{table[block, at]:.2f}" for table in (real, estimated))]
            for place, at in (("country", COUNTRY), ("last word", LAST))
            for block in range(LAYERS)
        ]
        yield result_table(f"Effect on the {name} of the answer", ("patched", "real", "estimated"), rows)
        off = float((estimated - real).abs().sum() / real.abs().sum())
        correlation = float(torch.corrcoef(torch.stack([real.flatten(), estimated.flatten()]))[0, 1])
        yield f"Over all {real.numel()} places, the correlation is {correlation:.2f}."
        yield f"The estimates are off by {off:.0%} of the real effects."
    passes = 2 + LAYERS * pairs[0][0].size(1)
    yield f"Real patching takes {passes} passes for a pair, the estimate 2 forward and 1 backward."


def learn_facts(parts: Any, seed: int, steps: int) -> tuple[nn.Module, list[tuple[Tensor, Tensor, int]]]:
    """A GPT that has learned the facts; and for each country the question for its capital, the same with the next
    country, and the answer."""
    tokenizer, (inputs, targets) = tokenizer_and_batch(parts, SENTENCES)
    targets = targets.clone()
    targets[:, :-1] = -100  # only the answer can be learned
    model = small_gpt(parts, tokenizer.vocab_size, seed, d_model=WIDTH, n_heads=HEADS, n_layers=LAYERS)
    train(parts, model, (inputs, targets), steps, show_progress)
    capitals = inputs.view(len(FACTS), len(RELATIONS), -1)[:, 0]
    answers = targets[:, -1].view(len(FACTS), len(RELATIONS))[:, 0]
    others = capitals.roll(-1, 0)
    return model, [(a[None], b[None], int(answer)) for a, b, answer in zip(capitals, others, answers)]


def measure(
    parts: Any, model: nn.Module, pairs: list[tuple[Tensor, Tensor, int]], metric: Metric
) -> tuple[Tensor, Tensor]:
    """The mean estimated and the mean real effect, by block and place: (LAYERS, T) each."""
    estimated, real = [], []
    for clean, corrupted, answer in pairs:
        of_answer = partial(metric, answer=answer)
        estimated.append(parts.attribution_patching(model, clean, corrupted, of_answer)[1:])
        with torch.no_grad():
            before, places = of_answer(model(corrupted)[0]), range(clean.size(1))
            patched = [
                [of_answer(parts.patch_residual(model, clean, corrupted, block, place)) - before for place in places]
                for block in range(len(model.blocks))  # type: ignore[arg-type]
            ]
        real.append(torch.tensor(patched))
    return torch.stack(estimated).mean(0), torch.stack(real).mean(0)
