"""Recurrent layers: what is left of each word, what a state returns, and what a later word can still read."""

from __future__ import annotations

import math
from typing import Any

import torch
from grader.execution.proxy import Implementation, load
from grader.teaching.show.panel_makers import (
    QUERY_KEY,
    WORDS,
    expect_pair,
    fix_weights,
    influence_grid,
    make_chart,
    make_grid,
    random_tensor,
)
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import Mismatch
from torch import Tensor

T, D = len(WORDS), 4
FACTORS = (1.0, 0.9, 0.9, 0.2, 0.9, 0.9, 0.9)  # "saw" forgets
COLOURS = ("grey", "green", "white")
PAIRS = ("crane grey", "frog green", "crane white", "frog grey")
ASKED = "what is returned for crane"
POSITIONS = range(16)


def _log_decay() -> Tensor:
    return torch.tensor(FACTORS).log()[None, None]


def _one_hot_values() -> Tensor:
    """Values that show the weights: the output's feature s is the weight of position s."""
    return torch.eye(T)[None, None]


def _random_qk(seed: int) -> tuple[Tensor, Tensor]:
    return random_tensor(seed, 1, 1, T, D), random_tensor(seed + 1, 1, 1, T, D)


def _first(answer: Any, what: str) -> Any:
    """The output of a function that returns (output, state), without batch and heads."""
    output, _ = expect_pair(answer, f"{what} should return (output, state)")
    return _without_heads(output)


def _without_heads(output: Any) -> Any:
    if not isinstance(output, Tensor) or output.dim() != 4:
        raise Mismatch("the output should have four axes, (B, H, T, d_v)", output)
    return output[0, 0]


def linear_attention(side: Implementation) -> list[Panel]:
    weights = _without_heads(side.linear_attention(*_random_qk(1), _one_hot_values()))
    return [make_grid("the weight of each word", weights, WORDS, WORDS, QUERY_KEY)]


def linear_attention_step(side: Implementation) -> list[Panel]:
    """The weights again, and z, which is the sum of the keys so far."""
    (q, k), v = _random_qk(1), _one_hot_values()
    state, weights, sums = None, [], []
    for t in range(T):
        answer = side.linear_attention_step(q[:, :, t], k[:, :, t], v[:, :, t], state)
        output, state = expect_pair(answer, "linear_attention_step should return (output, state)")
        _, z = expect_pair(state, "the state should be a pair: S and z")
        weights.append(output[0, 0])
        sums.append(z[0, 0])
    features = [f"feature {i}" for i in range(D)]
    return [
        make_grid("the weight of each word, step by step", torch.stack(weights), WORDS, WORDS, QUERY_KEY),
        make_grid("z after each word", torch.stack(sums), WORDS, features),
    ]


def segment_sums(side: Implementation) -> list[Panel]:
    left = side.segment_sums(torch.tensor(FACTORS).log())
    if isinstance(left, Tensor):
        left = left.exp()
    return [make_grid("what is left: exp of the sums", left, WORDS, WORDS, ("read at", "what is left of"))]


def decayed_attention(side: Implementation) -> list[Panel]:
    """Queries and keys that all fit equally well, so that only the decay is seen; then random ones."""
    same = torch.full((1, 1, T, D), 0.5)
    panels: list[Panel] = []
    for title, (q, k) in {"all keys fit equally": (same, same), "random keys": _random_qk(1)}.items():
        weights = _without_heads(side.decayed_attention(q, k, _one_hot_values(), _log_decay()))
        panels.append(make_grid(title, weights, WORDS, WORDS, QUERY_KEY))
    return panels


def decayed_attention_chunked(side: Implementation) -> list[Panel]:
    panels: list[Panel] = []
    for chunk in (2, T):
        answer = side.decayed_attention_chunked(*_random_qk(1), _one_hot_values(), _log_decay(), chunk)
        weights = _first(answer, "decayed_attention_chunked")
        panels.append(make_grid(f"chunk = {chunk}", weights, WORDS, WORDS, QUERY_KEY))
    return panels


def _pairs() -> tuple[Tensor, Tensor]:
    """Keys of crane and frog, which overlap a little, and values with a 1 for the colour."""
    words = {"crane": (0.6, 0.8), "frog": (1.0, 0.0)}
    keys = torch.tensor([words[pair.split()[0]] for pair in PAIRS])
    colours = [COLOURS.index(pair.split()[1]) for pair in PAIRS]
    return keys[None, None], torch.eye(len(COLOURS))[colours][None, None]


def delta_rule(side: Implementation) -> list[Panel]:
    """What the state returns for crane after each pair, with two values of beta."""
    keys, values = _pairs()
    crane = keys[:, :, :1].expand_as(keys)
    panels: list[Panel] = []
    for beta in (1.0, 0.5):
        answer = side.delta_rule(crane, keys, values, torch.full((1, 1, len(PAIRS)), beta))
        returned = _first(answer, "delta_rule")
        panels.append(make_grid(f"{ASKED}, beta = {beta:g}", returned, PAIRS, COLOURS, ("after", "colour")))
    return panels


def delta_rule_chunked(side: Implementation) -> list[Panel]:
    keys, values = _pairs()
    crane = keys[:, :, :1].expand_as(keys)
    beta, log_decay = torch.ones(1, 1, len(PAIRS)), torch.full((1, 1, len(PAIRS)), math.log(0.5))
    panels: list[Panel] = []
    for title, more in {"in chunks of 3": (), "in chunks of 3, factor 0.5": (log_decay,)}.items():
        returned = _first(side.delta_rule_chunked(crane, keys, values, beta, 3, *more), "delta_rule_chunked")
        panels.append(make_grid(f"{ASKED}, {title}", returned, PAIRS, COLOURS, ("after", "colour")))
    return panels


def doubling_scan(side: Implementation) -> list[Panel]:
    """The answer to a single input of 1, with four factors."""
    factors = (0.9, 0.5, -0.8, 1.0)
    a = torch.tensor(factors).repeat(len(POSITIONS), 1)
    b = torch.zeros_like(a)
    b[2] = 1.0
    x = side.doubling_scan(a, b)
    if not isinstance(x, Tensor) or x.shape != a.shape:
        raise Mismatch(f"doubling_scan should return a tensor of the shape {tuple(a.shape)}", x)
    lines = {f"a = {factor:g}": x[:, place] for place, factor in enumerate(factors)}
    return [make_chart("x, where b is 1 at position 2", list(POSITIONS), lines, "position", "x")]


def short_convolution(side: Implementation) -> list[Panel]:
    """Feature i has a 1 at position i: column i shows where an input goes."""
    weight = torch.tensor([0.1, 0.2, 0.3, 1.0]).repeat(T, 1)
    answer = side.short_convolution(torch.eye(T)[None], weight)
    output, state = expect_pair(answer, "short_convolution should return (output, state)")
    if not isinstance(output, Tensor) or output.dim() != 3:
        raise Mismatch("the output should have three axes, (B, T, D)", output)
    kept = state[0] if isinstance(state, Tensor) and state.dim() == 3 else state
    return [
        make_grid("the weight of each word in each output", output[0], WORDS, WORDS, ("output at", "input at")),
        make_grid("what is kept for the next word", kept, WORDS[-3:], WORDS, ("", "input at"), "the state"),
    ]


def selective_scan(side: Implementation) -> list[Panel]:
    """One number of state, with an input at position 2 and another one at position 9."""
    x = torch.zeros(1, len(POSITIONS), 1)
    x[0, [2, 9]] = 1.0
    one, lines = torch.ones(1, len(POSITIONS), 1), {}
    for name, dt in {"dt = 1": 1.0, "dt = 0.3": 0.3, "0.3, but 3 at position 9": 0.3}.items():
        steps = dt * one
        if "9" in name:
            steps[0, 9] = 3.0
        answer = side.selective_scan(x, steps, torch.tensor([[-0.5]]), one, one, torch.zeros(1))
        y, _ = expect_pair(answer, "selective_scan should return (y, state)")
        if not isinstance(y, Tensor) or y.shape != x.shape:
            raise Mismatch(f"y should have the shape {tuple(x.shape)}", y)
        lines[name] = y[0, :, 0]
    return [make_chart("inputs of 1 at positions 2 and 9", list(POSITIONS), lines, "position", "y")]


def gated_delta_net(side: Implementation) -> list[Panel]:
    layer = fix_weights(side.GatedDeltaNet(16, 2))
    load(layer, {name: torch.full((2,), -2.0) for name in ("A_log", "dt_bias")})  # it forgets slowly
    return [influence_grid("which words an output depends on", layer, random_tensor(3, T, 16))]
