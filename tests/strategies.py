"""What graded tests draw from: sizes that never coincide, tensors at a healthy scale, token ids, texts.

Hypothesis draws sizes and one seed; the numbers themselves come from torch, so an example is cheap and shrinks by its sizes.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import torch
from grader.verdict.comparing import sizes
from grader.verdict.examples import Pinned
from hypothesis import strategies as st
from torch import Tensor

seeds = st.integers(0, 9999)
ROUND_SEEDS = 10  # a test draws its other tensors with seed + 1, seed + 2, ...


def distinct(*names: str, least: int = 2, most: int = 7, **ranges: tuple[int, int]) -> st.SearchStrategy[SimpleNamespace]:
    """A different size for each name, within least..most (or its own range): `distinct("B", "T", V=(9, 13))`.

    One number decides them all, and 0 makes them smallest: an example that fails shrinks in a step or two. Ranges that can leave a
    name without a size raise a ValueError.
    """
    free = [name for name in names if name not in ranges]
    most = max(most, least + len(free) + len(ranges))
    spans = {name: range(low, high + 1) for name, (low, high) in {**ranges, **dict.fromkeys(free, (least, most))}.items()}
    _check_choices(spans)
    return _different_sizes(names, spans)


def _check_choices(spans: dict[str, range]) -> None:
    taken = {frozenset[int]()}  # each set of sizes that the names so far can have
    for name, span in spans.items():
        if any(sizes.issuperset(span) for sizes in taken):
            raise ValueError(f"the other names can take every size of {name}, {span[0]} to {span[-1]}; widen its range")
        taken = {sizes | {size} for sizes in taken for size in span if size not in sizes}


@st.composite
def _different_sizes(draw, names: tuple[str, ...], spans: dict[str, range]) -> SimpleNamespace:
    left = draw(st.integers(0, math.prod(map(len, spans.values())) - 1))
    chosen: dict[str, int] = {}
    for name, span in spans.items():
        possible = [size for size in span if size not in chosen.values()]
        left, which = divmod(left, len(possible))
        chosen[name] = possible[which]
    sizes(**{name: chosen[name] for name in dict.fromkeys([*names, *spans])})
    return SimpleNamespace(**chosen)


def at(**named: int) -> Pinned:
    """Sizes for an `@example`, which every run uses at every seed: `@example(n=at(B=2, T=1), seed=0)`."""

    def make() -> SimpleNamespace:
        sizes(**named)
        return SimpleNamespace(**named)

    return Pinned(make)


def width_is_unique(n: SimpleNamespace) -> bool:
    """Whether the width, H * d_head, equals no other size, so that a division by the root of another size would show."""
    return n.H * n.d_head not in vars(n).values()


def tensor(seed: int, *shape: int, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
    """Normal numbers of standard deviation `scale`; the same seed and shape always give the same.

    Those of the first seeds are rounded: a failing example shrinks to seed 0, and a learner can then follow it by hand.
    """
    generator = torch.Generator().manual_seed(seed * 7919 + sum((i + 1) * n for i, n in enumerate(shape)))
    values = torch.randn(*shape, generator=generator, dtype=torch.float64) * scale
    return (_rounded(values) if seed < ROUND_SEEDS else values).to(dtype)


def _rounded(values: Tensor) -> Tensor:
    """With so few decimals that the numbers stay different from each other and from 0, if three are enough."""
    for decimals in (1, 2, 3):
        rounded = values.round(decimals=decimals)
        if rounded.unique().numel() == values.numel() and bool((rounded != 0).all()):
            return rounded
    return values


def token_ids(seed: int, *shape: int, vocab: int, least: int = 0) -> Tensor:
    """Token ids in least..vocab-1."""
    generator = torch.Generator().manual_seed(seed * 7907 + sum((i + 1) * n for i, n in enumerate(shape)))
    return torch.randint(least, vocab, shape, generator=generator)


texts = st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=12)
