"""Training, sampling and gradients by hand: losses, rates, an optimizer's path, the next word, slopes."""

from __future__ import annotations

import math

import torch
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import (
    ALONG_X,
    POSITION_FEATURE,
    make_bars,
    make_chart,
    make_grid,
    random_tensor,
)
from grader.teaching.show.panels import Bars, Chart, Panel
from grader.verdict.comparing import Mismatch, shaped
from torch import Tensor

NEXT_WORDS = ("mat", "sofa", "floor", "chair", "roof", "moon", "dog", "of")
LOGITS = torch.tensor([2.2, 3.1, 2.6, 1.8, 1.2, 0.4, -0.5, -1.6])
TIED_LOGITS = torch.tensor([2.2, 3.1, 2.6, 1.8, 1.8, 0.4, -0.5, -1.6])
DRAWS = 4000


def cross_entropy(side: Implementation) -> list[Panel]:
    """One prediction between two words, by the probability of the right one; then a batch of six targets."""
    chances = [0.01, 0.02, *(i / 20 for i in range(1, 20)), 0.98, 0.99]
    two_words = [torch.tensor([[math.log(p), math.log(1 - p)]]) for p in chances]
    losses = [float(side.cross_entropy(logits, torch.tensor([0]))) for logits in two_words]
    logits, targets = 1.5 * random_tensor(2, 2, 3, 5), torch.tensor([[0, 4, 2], [1, 1, 3]])
    some = torch.tensor([[0, 4, -100], [1, -100, -100]])
    batch = [float(side.cross_entropy(logits, ids)) for ids in (targets, some, torch.full_like(targets, -100))]
    x_name = "probability of the right word"
    return [
        make_chart("the loss of one prediction", chances, {"loss": losses}, x_name, "loss"),
        make_bars("the loss of a batch of six", ["all count", "three count", "none counts"], batch, "loss"),
    ]


def warmup_cosine(side: Implementation) -> list[Panel]:
    steps, lines = range(111), {}
    for floor in (0.0, 0.2):
        lines[f"floor {floor:g}"] = [side.warmup_cosine(step, 10, 100, 1.0, floor) for step in steps]
    return [make_chart("warmup_cosine(step, 10, 100, 1)", steps, lines, "step", "learning rate")]


def adamw(side: Implementation) -> list[Panel]:
    """Down a valley that is steep across and flat along, from (-4, 2); once with strong decay."""
    path, lines = side.bring(optimizer_path), {}
    for name, decay in (("no decay", 0.0), ("decay 0.5", 0.5)):
        lines[name] = [(float(x), float(y)) for x, y in path(side.AdamW, decay, 40)]
    return [Chart("40 steps down a valley, lr=0.2", lines, "along", "across", square=True)]


def optimizer_path(optimizer, decay, steps):
    """The points of the path; this source is sent to the implementation's side."""
    place = torch.nn.Parameter(torch.tensor([-4.0, 2.0]))
    taken = optimizer([place], lr=0.2, weight_decay=decay)
    points = [place.tolist()]
    for _ in range(steps):
        taken.zero_grad()
        (0.5 * place[0] ** 2 + 5 * place[1] ** 2).backward()
        taken.step()
        points.append(place.tolist())
    return points


# ---- the next word, before and after each filter


def apply_temperature(side: Implementation) -> list[Panel]:
    filtered = [_filtered_bars(f"temperature {t:g}", side.apply_temperature(LOGITS, t)) for t in (0.5, 2.0)]
    return [_unfiltered_bars(), *filtered]


def top_k_filter(side: Implementation) -> list[Panel]:
    """With k = 4 two words share the fourth place."""
    filtered = [_filtered_bars(f"k = {k}", side.top_k_filter(TIED_LOGITS, k)) for k in (3, 4)]
    return [_unfiltered_bars(TIED_LOGITS), *filtered]


def top_p_filter(side: Implementation) -> list[Panel]:
    return [_unfiltered_bars(), *(_filtered_bars(f"p = {p:g}", side.top_p_filter(LOGITS, p)) for p in (0.6, 0.9))]


def min_p_filter(side: Implementation) -> list[Panel]:
    return [_unfiltered_bars(), *(_filtered_bars(f"min_p = {m:g}", side.min_p_filter(LOGITS, m)) for m in (0.1, 0.5))]


def sample_next_token(side: Implementation) -> list[Panel]:
    """How often each word is drawn. There is more than one correct way to draw, so the shares may differ a little."""
    panels: list[Panel] = [_unfiltered_bars()]
    for title, options in (("no filter", {}), ("temperature 0.7, k = 4", {"temperature": 0.7, "top_k": 4})):
        ids = shaped(side.sample_next_token(LOGITS.repeat(DRAWS, 1), **options), (DRAWS,), "the result")
        shares = torch.bincount(ids.long(), minlength=len(NEXT_WORDS))[: len(NEXT_WORDS)] / DRAWS
        panels.append(make_bars(f"{DRAWS} draws, {title}", NEXT_WORDS, shares, "share", near=0.1))
    return panels


def _unfiltered_bars(logits: Tensor = LOGITS) -> Bars:
    probabilities = torch.softmax(logits, dim=-1)
    return make_bars('after "the cat sat on the"', NEXT_WORDS, probabilities, "probability", given=True)


def _filtered_bars(title: str, logits: object) -> Bars:
    kept: Tensor = shaped(logits, (len(NEXT_WORDS),), "the result")
    return make_bars(title, NEXT_WORDS, torch.softmax(kept.detach().double(), dim=-1), "probability")


def numeric_gradient(side: Implementation) -> list[Panel]:
    f, x, lines = side.bring(sum_of_cubes), torch.arange(-10, 11, dtype=torch.float64) / 10, {}
    for eps in (1e-5, 0.5):  # rounded, because 1e-10 at x = 0 is 0
        lines[f"eps = {eps:g}"] = side.numeric_gradient(f, x, eps).round(decimals=6)
    return [make_chart("the measured slope of x^3", x.tolist(), lines, "x", "slope")]


def sum_of_cubes(x):
    return (x**3).sum()


def gelu_backward(side: Implementation) -> list[Panel]:
    """In one chart the two curves would hide each other, so the second one shows their difference."""
    ones = torch.ones_like(ALONG_X)
    exact, approximate = side.gelu_backward(ALONG_X, ones), side.gelu_backward(ALONG_X, ones, approximate=True)
    title = "the approximate slope minus the exact one"
    return [
        make_chart("the slope of gelu", ALONG_X.tolist(), {"exact": exact}, "x", "slope"),
        make_chart(title, ALONG_X.tolist(), {"difference": approximate - exact}, "x", "difference"),
    ]


def softmax_backward(side: Implementation) -> list[Panel]:
    weights = torch.tensor([0.4, 0.3, 0.15, 0.1, 0.05]).expand(5, -1).contiguous()
    slopes = side.softmax_backward(weights, torch.eye(5))
    return [
        make_bars("the weights", 5, weights[0], "weight", given=True),
        make_grid("how each weight grows with each score", slopes, 5, 5, ("weight", "score")),
    ]


def attention_backward(side: Implementation) -> list[Panel]:
    """One query's output matters, and a causal mask hides later keys from it."""
    q, k, v, grad_out = random_tensor(3, 6, 4), random_tensor(4, 6, 4), random_tensor(5, 6, 4), torch.zeros(6, 4)
    grad_out[3] = 1.0
    found = side.attention_backward(q, k, v, grad_out, torch.ones(6, 6, dtype=torch.bool).tril())
    if not isinstance(found, tuple | list) or len(found) != 3:
        raise Mismatch("attention_backward should return (grad_q, grad_k, grad_v)", found)
    named = zip(("grad_q", "grad_k", "grad_v"), found)
    return [make_grid(name, part, 6, 4, POSITION_FEATURE, name) for name, part in named]
