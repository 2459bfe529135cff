"""Lesson 10: by how much the keys of the same tokens change when a token is added at the end, or the first one is removed.

A GPT of two layers has random weights, from N(0, 1/fan_in). With RoPE the keys are those before rotation. 0 means equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import ModuleType

import torch
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements._running import make_table, run_measurement
from rich.table import Table
from torch import Tensor, nn

VOCABULARY, D_MODEL, N_HEADS, LAYERS = 50, 64, 4, 2
BATCH, POSITIONS = 64, 8


def _make_model(models: ModuleType, positions: str, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    model = models.GPT(models.GPTConfig(VOCABULARY, POSITIONS + 1, D_MODEL, N_HEADS, LAYERS, positions=positions)).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.copy_(torch.randn(parameter.shape) / math.sqrt(parameter.size(1)))
    return model


def _remove_causal_mask(model: nn.Module, attention: ModuleType) -> None:
    """Replace the attention of every block by one with the same weights that hides nothing."""
    for block in model.blocks:
        unmasked = attention.MultiHeadAttention(D_MODEL, N_HEADS).eval().requires_grad_(False)
        unmasked.load_state_dict(block.attn.state_dict())
        block.attn = unmasked


def _record_keys(model: nn.Module, ids: Tensor) -> list[Tensor]:
    """Return the keys of each layer, (B, T, D), before heads and rotation."""
    keys: list[Tensor] = []
    hooks = [block.attn.W_k.register_forward_hook(lambda module, inputs, output: keys.append(output)) for block in model.blocks]
    model(ids)
    for hook in hooks:
        hook.remove()
    return keys


def _compare(before: list[Tensor], after: list[Tensor]) -> list[float]:
    """Return for each layer the root mean square of the difference, divided by the standard deviation of the keys."""
    return [((new - old).square().mean().sqrt() / old.std()).item() for old, new in zip(before, after)]


@torch.no_grad()
def measure(models: ModuleType, attention: ModuleType, seed: int = 0) -> dict[str, list[float]]:
    """Measure each change; the differences are those of layer 1 and of layer 2."""
    found = {}
    ids = torch.randint(VOCABULARY, (BATCH, POSITIONS + 1), generator=torch.Generator().manual_seed(seed))
    for name, causal in (("a token is added at the end, causal mask", True), ("a token is added at the end, no causal mask", False)):
        model = _make_model(models, "learned", seed)
        if not causal:
            _remove_causal_mask(model, attention)
        before, after = _record_keys(model, ids[:, :-1]), _record_keys(model, ids)
        found[name] = _compare(before, [keys[:, :-1] for keys in after])
    for name, positions in (("the first token is removed, learned positions", "learned"), ("the first token is removed, RoPE", "rope")):
        model = _make_model(models, positions, seed)
        before, after = _record_keys(model, ids), _record_keys(model, ids[:, 1:])
        found[name] = _compare([keys[:, 1:] for keys in before], after)
    return found


def report(chapters: ChapterPackage, seed: int) -> Iterator[Table | str]:
    found = measure(chapters.module("ch07_models"), chapters.module("ch03_attention"), seed)
    rows = [[name, *("0" if change < 1e-5 else f"{change:.2f}" for change in changes)] for name, changes in found.items()]
    yield make_table("change of the keys, divided by their standard deviation", ("change", *(f"layer {n + 1}" for n in range(LAYERS))), rows)


def main(arguments: list[str] | None = None) -> int:
    return run_measurement(__doc__, "ch07", report, arguments)


if __name__ == "__main__":
    raise SystemExit(main())
