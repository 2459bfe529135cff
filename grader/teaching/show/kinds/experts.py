"""Mixture of experts: the experts of each token, the load of each expert, and the penalty for an uneven load."""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation, load
from grader.teaching.show.panel_makers import WORDS, fix_weights, make_bars, make_chart, make_grid, random_tensor
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import Mismatch, shaped

N, D = 5, 8
NAMES = [f"expert {i}" for i in range(N)]


def route(side: Implementation) -> list[Panel]:
    logits = 1.5 * random_tensor(3, 7, N)
    panels: list[Panel] = [make_grid("the router's logits", logits, WORDS, range(N), column_name="expert", given=True)]
    for k in (1, 2):
        weights, experts = side.route(logits, k)
        shaped(weights, (7, k), "the first result")
        shaped(experts, (7, k), "the second result")
        if not (0 <= int(experts.min()) and int(experts.max()) < N):
            raise Mismatch(f"the second result has numbers that are not experts: there are {N} experts, from 0 to {N - 1}")
        table = torch.zeros(7, N).scatter(1, experts.long(), weights.detach().float())
        panels.append(make_grid(f"the weights, top_k = {k}", table, WORDS, range(N), column_name="expert"))
    return panels


def load_balancing_loss(side: Implementation) -> list[Panel]:
    """The router prefers one expert more and more."""
    noise_of_tokens, pulls = random_tensor(5, 64, N), [i / 4 for i in range(25)]
    lines = {}
    for k in (1, 2):
        losses = []
        for pull in pulls:
            probs = torch.softmax(noise_of_tokens + pull * torch.eye(N)[0], dim=-1)
            losses.append(float(side.load_balancing_loss(probs, probs.topk(k, dim=-1).indices)))
        lines[f"top {k}"] = losses
    return [make_chart("the balance loss", pulls, lines, "pull towards expert 0", "loss")]


def moe_layer(side: Implementation) -> list[Panel]:
    """Raise one expert's output at a time by 1: the output of a token rises by the weight that it gives that expert."""
    layer = fix_weights(side.MoELayer(D, 16, n_experts=N, top_k=2), 4, scale=1.5)
    x = random_tensor(6, 1, 7, D)
    before = _first_output(layer(x))
    arrived = []
    for expert in range(N):
        load(layer, {f"experts.{expert}.down.bias": torch.ones(D)})
        arrived.append((_first_output(layer(x)) - before).mean(dim=-1))
        load(layer, {f"experts.{expert}.down.bias": torch.zeros(D)})
    weights = torch.stack(arrived, dim=1)
    loads = (weights.abs() > 1e-4).sum(dim=0)
    return [make_grid("the weight of each expert", weights, WORDS, range(N), column_name="expert"), make_bars("words that each expert processes", NAMES, loads, "words")]


def _first_output(answer: object) -> torch.Tensor:
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise Mismatch("MoELayer should return (output, aux_loss)", answer)
    return shaped(answer[0], (1, 7, D), "the output").detach()[0]
