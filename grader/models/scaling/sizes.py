"""The models of the experiment: GPTs that differ in their width only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grader.models.design import Design, gpt_config

WIDTHS = range(4, 257, 2)  # two heads divide each


@dataclass(frozen=True)
class Size:
    design: Design
    parameters: int
    flops: int  # of training on one token


def design_of(width: int) -> Design:
    return Design(d_model=width, n_heads=2, n_layers=2)


def make_sizes(parts: Any, vocab_size: int, length: int) -> list[Size]:
    """Every size, the smallest first, with what `training_flops` counts for rows of this length."""
    sizes = []
    for width in WIDTHS:
        exact, by_rule = parts.training_flops(gpt_config(parts, design_of(width), vocab_size), 1, length)
        sizes.append(Size(design_of(width), by_rule // 6, exact))
    return sizes


def nearest_size(sizes: Sequence[Size], parameters: float) -> Size:
    return min(sizes, key=lambda size: abs(math.log(size.parameters / parameters)))
