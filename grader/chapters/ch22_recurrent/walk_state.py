"""The state: a walk through a matrix that reads pairs of a word and its colour, and is asked for them."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import torch
from grader.console.output import ProgressReporter
from grader.teaching.terminal_drawing import Block, grid, table
from grader.teaching.walks.parts import MixedChapters
from torch import Tensor

REQUIRED_EXERCISES = (
    "split_heads",
    "merge_heads",
    "RMSNorm",
    "segment_sums",
    "decayed_attention",
    "decayed_attention_chunked",
    "delta_rule",
    "delta_rule_chunked",
    "short_convolution",
    "GatedDeltaNet",
)
COLOURS = ("grey", "green", "white", "red")
PAIRS = (("crane", "grey"), ("frog", "green"), ("crane", "white"), ("fish", "red"))
WORDS = ("crane", "frog", "fish")
WIDTH = 4  # of a key
OVERLAP = 0.25  # of the random part of a key; without it, keys would be at right angles
FACTOR = 0.5  # by which a state that fades is multiplied at each pair
MANY, CHUNKS = 23, (1, 4, 23)  # random pairs, and sizes of chunks
LAYER_WIDTH, LAYER_HEADS, TEXT = 64, 4, 40  # of the layer that reads a text


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    draw = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(WORDS), WIDTH, generator=draw, dtype=torch.float64)
    directions = torch.eye(len(WORDS), WIDTH).double() + OVERLAP * noise
    by_word = dict(zip(WORDS, torch.nn.functional.normalize(directions, dim=-1)))
    keys = torch.stack([by_word[word] for word, _ in PAIRS])[None, None]  # (1, 1, pairs, WIDTH)
    values = torch.eye(len(COLOURS), dtype=torch.float64)[[COLOURS.index(colour) for _, colour in PAIRS]][None, None]
    whole, nothing = torch.ones(1, 1, len(PAIRS)).double(), torch.zeros(1, 1, len(PAIRS)).double()
    fading = nothing + math.log(FACTOR)

    def read(count: int, rule: str) -> Tensor:
        """The state after so many pairs."""
        k, v, beta, log_decay = (each[:, :, :count] for each in (keys, values, whole, nothing))
        if rule == "sum":
            return parts.decayed_attention_chunked(k, k, v, log_decay, 2)[1]  # type: ignore[no-any-return]
        log_decay = fading[:, :, :count] if rule == "fading" else log_decay
        return parts.delta_rule(k, k, v, beta, log_decay)[1]  # type: ignore[no-any-return]

    def ask(state: Tensor, word: str) -> list[float]:
        return (by_word[word] @ state[0, 0]).tolist()  # type: ignore[no-any-return]

    rules = ("sum", "delta", "fading")
    with torch.no_grad():
        states = {(rule, count): read(count, rule) for rule in rules for count in range(1, len(PAIRS) + 1)}
        difference = _compare_forms(parts, draw)
        layer = _compare_layer(parts, seed)
    return SimpleNamespace(
        products=[[float(by_word[a] @ by_word[b]) for b in WORDS] for a in WORDS],
        states={key: state[0, 0].tolist() for key, state in states.items()},
        answers={key: {word: ask(state, word) for word in WORDS} for key, state in states.items()},
        difference=difference,
        **layer,
    )


def _compare_forms(parts: MixedChapters, draw: torch.Generator) -> dict[str, dict[int, float]]:
    """By layer and size of chunk: the largest difference of the outputs from those of the other form, in float64."""
    q, k, v = (torch.randn(1, 2, MANY, WIDTH, generator=draw, dtype=torch.float64) for _ in range(3))
    k = torch.nn.functional.normalize(k, dim=-1)
    beta, decay = (torch.rand(1, 2, MANY, generator=draw, dtype=torch.float64) for _ in range(2))
    whole, single = parts.decayed_attention(q, k, v, -decay), parts.delta_rule(q, k, v, beta, -decay)[0]
    found: dict[str, dict[int, float]] = {"decayed": {}, "delta": {}}
    for chunk in CHUNKS:
        decayed, _ = parts.decayed_attention_chunked(q, k, v, -decay, chunk)
        corrected, _ = parts.delta_rule_chunked(q, k, v, beta, chunk, -decay)
        found["decayed"][chunk] = (decayed - whole).abs().max().item()
        found["delta"][chunk] = (corrected - single).abs().max().item()
    return found


def _compare_layer(parts: MixedChapters, seed: int) -> dict[str, Any]:
    torch.manual_seed(seed)
    layer = parts.GatedDeltaNet(LAYER_WIDTH, LAYER_HEADS).eval()
    x = torch.randn(1, TEXT, LAYER_WIDTH)
    whole, state, outputs = layer(x), layer.new_state(1), []
    for t in range(TEXT):
        output, state = layer.step(x[:, t : t + 1], state)
        outputs.append(output)
    return {
        "layer_difference": (torch.cat(outputs, dim=1) - whole).abs().max().item(),
        "layer_largest": whole.abs().max().item(),
        "shapes": [tuple(each.shape) for each in state],
        "kept": sum(each.numel() for each in state),
    }


def describe(n: SimpleNamespace) -> dict[str, Any]:
    last = len(PAIRS)
    returned = n.answers["delta", 2]["crane"]
    wanted = [float(colour == "white") for colour in COLOURS]
    missing = [want - have for want, have in zip(wanted, returned)]
    correction = [
        ["returned before", *map(_rounded, returned)],
        ["the new value", *wanted],
        ["missing", *map(_rounded, missing)],
    ]
    forms = [
        ["decayed attention, from the parallel form", *n.difference["decayed"].values()],
        ["delta rule, from step by step", *n.difference["delta"].values()],
    ]
    return {
        "pairs": ", ".join(f"{word} {colour}" for word, colour in PAIRS),
        "product_grid": grid(n.products, WORDS, WORDS),
        "first_grid": _state(n.states["delta", 1]),
        "second_grid": _state(n.states["delta", 2]),
        "crane_table": table(correction, ["", *COLOURS], ".2f"),
        "third_grid": _state(n.states["delta", 3]),
        "after_table": _answers(n, ("delta", 3), ("sum", 3)),
        "end_table": _answers(n, ("delta", last), ("sum", last), ("fading", last)),
        "crane_white": n.answers["delta", 3]["crane"][COLOURS.index("white")],
        "frog_before": n.answers["delta", 2]["frog"][COLOURS.index("green")],
        "frog_after": n.answers["delta", 3]["frog"][COLOURS.index("green")],
        "form_table": table(forms, ["chunk", *map(str, CHUNKS)], ".0e"),
        "cached": 2 * LAYER_WIDTH,
        "equal": n.kept / (2 * LAYER_WIDTH),
    }


def _state(values: list[list[float]]) -> Block:
    return grid(values, [f"feature {i} of a key" for i in range(WIDTH)], COLOURS)


def _answers(n: SimpleNamespace, *which: tuple[str, int]) -> Block:
    names = {"sum": "sum", "delta": "delta rule", "fading": "delta rule, fading"}
    rows = [
        [word, names[rule], *map(_rounded, n.answers[rule, count][word])] for word in WORDS for rule, count in which
    ]
    return table(rows, ["asked", "rule", *COLOURS], ".2f", left=2)


def _rounded(value: float) -> float:
    """Without a sign before 0.00."""
    return round(value, 2) + 0.0
