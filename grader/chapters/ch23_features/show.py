"""Features: attribution, estimates, probes, directions and dictionaries."""

from __future__ import annotations

from typing import Any

import torch
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import expect_pair, fix_weights, make_bars, make_chart, make_grid, random_tensor
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import Mismatch, shaped
from torch import Tensor

VOCAB, LENGTH, LAYERS, HEADS, TARGET = 11, 5, 2, 2, 4
IDS = torch.tensor([[3, 1, 4, 1, 5]])
CHANGED = 2  # the position at which the corrupted text differs
ALONG = [i / 10 for i in range(-30, 41)]
PENALTIES = (1.0, 0.1, 0.01)


def small_gpt(side: Implementation) -> Any:
    """A GPT with fixed weights that are large enough to matter."""
    model = side.GPT(side.GPTConfig(VOCAB, LENGTH, d_model=8, n_heads=HEADS, n_layers=LAYERS))
    return fix_weights(model, 1, 0.4)


def logit_attribution(side: Implementation) -> list[Panel]:
    parts = side.logit_attribution(small_gpt(side), IDS, TARGET)
    names = ["embedding"]
    for layer in range(LAYERS):
        names += [*(f"head {layer}.{head}" for head in range(HEADS)), f"ffn {layer}"]
    names.append("bias")
    if not isinstance(parts, dict) or set(parts) != set(names):
        raise Mismatch(f"logit_attribution should return a dict with the keys {', '.join(names)}", parts)
    values = [float(parts[name]) for name in names]
    return [make_bars(f"added to the logit of token {TARGET}", [*names, "together"], [*values, sum(values)], "logit")]


def attribution_patching(side: Implementation) -> list[Panel]:
    corrupted = IDS.clone()
    corrupted[0, CHANGED] = 9
    effects = side.attribution_patching(small_gpt(side), IDS, corrupted, side.bring(last_logit))
    rows = ["embeddings", *(f"after block {layer}" for layer in range(LAYERS))]
    return [make_grid(f"estimated change of the logit of token {TARGET}", effects, rows, LENGTH, ("", "position"))]


def last_logit(logits: Tensor) -> Tensor:
    """The metric; this source is sent to the implementation's side."""
    return logits[0, -1, 4]


def fit_probe(side: Implementation) -> list[Panel]:
    """States on a line: four of label 0 and four of label 1, which are separable."""
    states = torch.tensor([[-2.0], [-1.5], [-1.0], [0.2], [0.8], [1.0], [2.0], [3.0]])
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1])
    lines = {}
    for l2 in PENALTIES:
        weight, bias = expect_pair(side.fit_probe(states, labels, l2), "a weight and a bias")
        weight, bias = shaped(weight, (1,), "the weight"), shaped(bias, (), "the bias")
        lines[f"l2 = {l2:g}"] = torch.sigmoid(torch.tensor(ALONG) * weight + bias)
    return [make_chart("the probability of label 1", ALONG, lines, "state", "probability")]


def remove_direction(side: Implementation) -> list[Panel]:
    states = random_tensor(1, 6, 2)
    left = side.remove_direction(states, torch.tensor([3.0, 4.0]))
    axes = ("state", "")
    return [
        make_grid("the states", states, 6, 2, axes),
        make_grid("without the direction (3, 4)", left, 6, 2, axes),
    ]


def sparse_autoencoder(side: Implementation) -> list[Panel]:
    dictionary = fix_weights(side.SparseAutoencoder(6, 10, 2), 2, 0.5)
    features = dictionary.encode(random_tensor(3, 8, 6))
    return [make_grid("features", features, 8, 10, ("state", "feature"))]


def explained_variance(side: Implementation) -> list[Panel]:
    states = random_tensor(4, 20, 3)
    mean, shares = states.mean(dim=0), [i / 10 for i in range(-5, 26)]
    values = [side.explained_variance(states, mean + share * (states - mean)) for share in shares]
    x_name = "how far from the mean to the states"
    return [make_chart("explained variance", shares, {"": values}, x_name, "explained variance")]
