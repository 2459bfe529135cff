"""The probabilities of the next word."""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import make_bars
from grader.teaching.show.panels import Bars, Panel
from grader.verdict.comparing import shaped
from torch import Tensor

NEXT_WORDS = ("mat", "sofa", "floor", "chair", "roof", "moon", "dog", "of")
LOGITS = torch.tensor([2.2, 3.1, 2.6, 1.8, 1.2, 0.4, -0.5, -1.6])
TIED_LOGITS = torch.tensor([2.2, 3.1, 2.6, 1.8, 1.8, 0.4, -0.5, -1.6])
DRAWS = 4000


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
