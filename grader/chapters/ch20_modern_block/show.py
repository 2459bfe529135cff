"""The modern block: limits, sinks, stretched positions, equal singular values, and a schedule."""

from __future__ import annotations

import torch
from grader.counts import format_count
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import (
    ALONG_X,
    WORDS,
    expect_pair,
    make_bars,
    make_chart,
    make_grid,
    random_tensor,
)
from grader.teaching.show.panels import Panel

D_HEAD, TRAINED_LENGTH, TOTAL = 32, 1024, 100


def soft_cap(side: Implementation) -> list[Panel]:
    logits = 3 * ALONG_X
    lines = {f"cap {cap:g}": side.soft_cap(logits, cap) for cap in (2.0, 5.0, 50.0)}
    return [make_chart("logits with a limit", logits.tolist(), lines, "logit", "capped")]


def attention_with_sink(side: Implementation) -> list[Panel]:
    """One head, the same queries and keys with three sinks, under the causal mask."""
    T = len(WORDS)
    q, k, v = (random_tensor(seed, 1, 1, T, 4) for seed in (1, 2, 3))
    mask = torch.ones(T, T, dtype=torch.bool).tril()
    panels: list[Panel] = []
    for sink in (-5.0, 0.0, 3.0):
        answer = side.attention_with_sink(q, k, v, torch.tensor([sink]), mask)
        _, weights = expect_pair(answer, "attention_with_sink should return (output, weights)")
        panels.append(make_grid(f"weights with the sink {sink:g}", weights[0, 0], WORDS, WORDS, ("query", "key")))
    return panels


def yarn_angles(side: Implementation) -> list[Panel]:
    pairs, lines = list(range(D_HEAD // 2)), {}
    for factor in (1.0, 2.0, 8.0):
        answer = side.yarn_angles(torch.tensor([1]), D_HEAD, factor, TRAINED_LENGTH)
        angles, _ = expect_pair(answer, "yarn_angles should return (angles, scale)")
        lines[f"factor {factor:g}"] = angles[0] * 10_000 ** (2 * torch.arange(D_HEAD // 2) / D_HEAD)
    return [make_chart("speed of each pair, compared with RoPE", pairs, lines, "pair", "share")]


def newton_schulz(side: Implementation) -> list[Panel]:
    """A matrix with known singular values; its rows have another basis than its columns."""
    values = torch.tensor([1.0, 0.5, 0.2, 0.1, 0.05, 0.02])
    left, right = (torch.linalg.qr(random_tensor(seed, 6, 6)).Q for seed in (1, 2))
    matrix = left @ values.diag() @ right
    panels: list[Panel] = [make_bars("singular values of a matrix", 6, values, "value")]
    for steps in (1, 5):
        found = torch.linalg.svdvals(side.newton_schulz(matrix, steps))
        panels.append(make_bars(f"after {format_count(steps, 'step')}", 6, found, "value"))
    return panels


def schedule_wsd(side: Implementation) -> list[Panel]:
    steps, lines = list(range(TOTAL + 11)), {}
    for decay in (10, 30, 70):
        lines[f"decay {decay}"] = [side.schedule_wsd(step, 10, decay, TOTAL, 1.0, 0.1) for step in steps]
    return [make_chart("the learning rate", steps, lines, "step", "learning rate")]
