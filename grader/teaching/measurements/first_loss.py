"""Lesson 7: the loss of untrained GPTs, with matrices from N(0, 0.02) and with a tied embedding from N(0, 1); and models of twelve layers.

All models have tied weights and learned positions, and get random tokens. The second part has GPTs of twelve layers, whose matrices are
drawn with a standard deviation of 1/√columns. It measures how the residual stream grows, and what two mistakes with GPT-2's weights change.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

import torch
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements._running import make_table, run_measurement
from rich.table import Table
from torch import Tensor, nn

MODELS = ((1_000, 64), (5_000, 256))  # V and D
LAYERS, HEADS, BATCH, POSITIONS = 4, 4, 8, 32
DEEP, DEEP_WIDTH, DEEP_VOCABULARY = 12, 64, 1_000


@dataclass(frozen=True)
class FirstLoss:
    """The losses of one size of model, and the mean logit of each position's own input token, with N(0, 0.02) and with N(0, 1)."""

    V: int
    D: int
    loss: float
    loss_wide: float
    own: float
    own_wide: float
    others_wide: float  # the standard deviation of the other logits


def measure(models: ModuleType, seed: int = 0) -> list[FirstLoss]:
    """Measure every size of MODELS."""
    return [_measure_size(models, V, D, seed) for V, D in MODELS]


@torch.no_grad()
def _measure_size(models: ModuleType, V: int, D: int, seed: int) -> FirstLoss:
    torch.manual_seed(seed)
    model = models.GPT(models.GPTConfig(V, POSITIONS, D, HEADS, LAYERS))
    tokens = torch.randint(V, (BATCH, POSITIONS + 1))
    ids, targets = tokens[:, :-1], tokens[:, 1:]
    own = torch.nn.functional.one_hot(ids, V).bool()
    logits, loss = model(ids, targets)
    nn.init.normal_(model.token_emb.weight)
    logits_wide, loss_wide = model(ids, targets)
    return FirstLoss(V, D, loss.item(), loss_wide.item(), logits[own].mean().item(), logits_wide[own].mean().item(), logits_wide[~own].std().item())


@dataclass(frozen=True)
class Deep:
    """A random GPT of twelve layers: the standard deviation of the stream at both ends, and what two mistakes change."""

    begin: float
    end: float
    changed: float  # the share of positions with another likeliest token when W_out is not transposed
    gelu: float  # the largest difference of a logit between the two forms of gelu
    deviation: float  # of the logits


@torch.no_grad()
def measure_deep(models: ModuleType, seed: int = 0) -> Deep:
    torch.manual_seed(seed)
    model = models.GPT(models.GPTConfig(DEEP_VOCABULARY, POSITIONS, DEEP_WIDTH, HEADS, DEEP, activation="gelu_tanh")).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.copy_(torch.randn(parameter.shape) / math.sqrt(parameter.size(1)))
    ids = torch.randint(DEEP_VOCABULARY, (BATCH, POSITIONS))
    ends: list[Tensor] = []
    hooks = [
        model.blocks[0].register_forward_pre_hook(lambda module, inputs: ends.append(inputs[0])),
        model.blocks[-1].register_forward_hook(lambda module, inputs, output: ends.append(output)),
    ]
    logits, _ = model(ids)
    for hook in hooks:
        hook.remove()
    exact = models.GPT(models.GPTConfig(DEEP_VOCABULARY, POSITIONS, DEEP_WIDTH, HEADS, DEEP, activation="gelu")).eval()
    exact.load_state_dict(model.state_dict())
    wrong = copy.deepcopy(model)
    for block in wrong.blocks:
        block.attn.W_out.weight.copy_(block.attn.W_out.weight.T.clone())
    changed = (wrong(ids)[0].argmax(-1) != logits.argmax(-1)).float().mean()
    begin, end = ends
    return Deep(begin.std().item(), end.std().item(), changed.item(), (exact(ids)[0] - logits).abs().max().item(), logits.std().item())


def report(chapters: ChapterPackage, seed: int) -> Iterator[Table | str]:
    models = chapters.module("ch07_models")
    found = measure(models, seed)
    rows = [[f"{size.V:,}", f"{size.D}", f"{math.log(size.V):.3f}", f"{size.loss:.3f}", f"{size.loss_wide:.1f}"] for size in found]
    yield make_table(f"{LAYERS} layers, tied weights", ("V", "D", "ln V", "first loss", "first loss, embedding N(0, 1)"), rows)
    size = found[0]
    yield f"V = {size.V:,}, N(0, 1): the input token's own logit is {size.own_wide:.1f} on average, the other logits have a standard deviation of {size.others_wide:.1f}."
    yield f"V = {size.V:,}, N(0, 0.02): the input token's own logit is {size.own:.2f} on average."
    deep = measure_deep(models, seed)
    yield f"{DEEP} layers: the standard deviation of the stream grows from {deep.begin:.2f} to {deep.end:.1f}."
    yield f"{DEEP} layers, {DEEP} square matrices transposed: another likeliest token at {100 * deep.changed:.0f} % of the positions."
    yield f"{DEEP} layers, exact gelu: logits change by up to {deep.gelu:.4f}; their standard deviation is {deep.deviation:.1f}."


def main(arguments: list[str] | None = None) -> int:
    return run_measurement(__doc__, "ch07", report, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
