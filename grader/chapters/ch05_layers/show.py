"""Layers: activation curves, norms, dropout."""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation, load
from grader.teaching.show.panel_makers import ALONG_X, WORDS, make_chart, make_grid, random_tensor
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import shaped
from torch import Tensor


def gelu(side: Implementation) -> list[Panel]:
    lines = {"exact": side.gelu(ALONG_X), "approximate": side.gelu(ALONG_X, approximate=True)}
    return [make_chart("gelu(x)", ALONG_X.tolist(), lines, "x", "gelu(x)")]


def dropout(side: Implementation) -> list[Panel]:
    chances = [i / 10 for i in range(10)]
    kept, zeros, still = [], [], []
    for p in chances:
        left = shaped(side.dropout(torch.ones(4000), p), (4000,), "the result")
        alive = left[left != 0]
        kept.append(float(alive.mean()) if len(alive) else 0.0)
        zeros.append(float((left == 0).double().mean()))
        still.append(float(shaped(side.dropout(torch.ones(50), p, training=False), (50,), "the result").mean()))
    values = {"training": kept, "not training": still}
    return [
        make_chart("what a kept 1 becomes", chances, values, "p", "value"),
        make_chart("how many are zeroed", chances, {"training": zeros}, "p", "share", near=0.05),
    ]


def layer_norm(side: Implementation) -> list[Panel]:
    return _norm_words(side.LayerNorm(10), "LayerNorm(10)", 3.0)


def rms_norm(side: Implementation) -> list[Panel]:
    return _norm_words(side.RMSNorm(10), "RMSNorm(10)", 0.5)


def _norm_words(norm, title: str, shift: float) -> list[Panel]:
    """Words whose vectors differ in size and mean; after the norm the size is the same for all."""
    sizes, shifts = torch.tensor([0.3, 1, 3, 0.5, 2, 1, 4]), torch.tensor([0, 1, 0, -1, 2, 0, 1])
    x = random_tensor(4, 1, 7, 10) * sizes[:, None] + shift * shifts[:, None]
    axes = ("word", "feature")
    panels: list[Panel] = [make_grid("x", x[0], WORDS, 10, axes, given=True)]
    for how, start in ((title, 1.0), ("with weights from 0 to 2", 0.0)):
        load(norm, {"weight": torch.linspace(start, 2 - start, 10)})
        panels.append(make_grid(how, shaped(norm(x), (1, 7, 10), "the result")[0], WORDS, 10, axes))
    return panels


def feed_forward(side: Implementation) -> list[Panel]:
    """One feature in and out, three hidden units: each bends the line once."""
    weights = {
        "up.weight": torch.tensor([[1.0], [1.0], [-1.0]]),
        "up.bias": torch.tensor([2.0, -1.0, -1.5]),
        "down.weight": torch.tensor([[0.5, -1.2, 0.8]]),
        "down.bias": torch.tensor([0.25]),
    }
    lines = {}
    for activation in ("relu", "gelu"):
        layer = side.FeedForward(1, 3, activation=activation)
        load(layer, weights)
        lines[activation] = _apply_along_x(layer)
    return [make_chart("FeedForward(1, 3), three bends", ALONG_X.tolist(), lines, "x", "output")]


def swiglu(side: Implementation) -> list[Panel]:
    """One feature, one gate: the sharper the gate, the more it closes on the left."""
    layer = side.SwiGLU(1, 1)
    lines = {}
    for gate in (0.5, 1.0, 4.0):
        weights = {"gate": gate, "up": 1.0 / gate, "down": 1.0}
        load(layer, {f"{name}.weight": torch.tensor([[weight]]) for name, weight in weights.items()})
        lines[f"gate {gate:g}, up {1 / gate:g}"] = _apply_along_x(layer)
    return [make_chart("SwiGLU(1, 1)", ALONG_X.tolist(), lines, "x", "output")]


def _apply_along_x(layer) -> Tensor:
    return shaped(layer(ALONG_X.view(1, -1, 1)), (1, len(ALONG_X), 1), "the result")[0, :, 0]
