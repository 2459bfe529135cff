"""The test of draws that chapter 15's suites use: right draws hardly ever pass its limit, and wrong ones do."""

from __future__ import annotations

import importlib.util
import math
from collections import Counter

import pytest
import torch
from grader.course.syllabus import ROOT
from grader.verdict.comparing import Mismatch
from torch import Tensor


@pytest.fixture(scope="module")
def distributions():
    spec = importlib.util.spec_from_file_location("distributions_of_the_suites", ROOT / "tests" / "distributions.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def counts_of(chances: Tensor, n: int, repeats: int) -> Tensor:
    """Counts of n draws, (repeats, cells)."""
    generator = torch.Generator().manual_seed(5)
    draws = torch.multinomial(chances.expand(repeats, -1), n, replacement=True, generator=generator)
    return torch.zeros(repeats, len(chances)).scatter_add_(1, draws, torch.ones(repeats, n))


def divergences(counts: Tensor, chances: Tensor) -> Tensor:
    """n KL(observed || expected) of each row of counts."""
    n = counts.sum(1, keepdim=True)
    terms = counts * (counts / (n * chances)).log()
    return terms.where(counts > 0, torch.zeros(())).sum(1)


@pytest.mark.parametrize("chances", [[0.5, 0.3, 0.2], [0.9, 0.06, 0.03, 0.01], [1 / 12] * 12], ids=len)
@pytest.mark.parametrize("n", [40, 400])
def test_right_draws_pass_the_limit_no_more_often_than_it_says(distributions, chances, n):
    """A limit for 1 in 20 is passed by fewer than 1 in 20, and so on: it is a bound, so it errs on this side."""
    chances = torch.tensor(chances, dtype=torch.float64)
    found = divergences(counts_of(chances, n, 20_000), chances)
    for chance in (0.05, 0.01, 0.001):
        assert (found > distributions.divergence_limit(len(chances), chance)).double().mean() <= chance


def test_the_limit_is_where_the_bound_is_the_chance(distributions):
    for cells in (2, 3, 9, 40):
        d, t = cells - 1, distributions.divergence_limit(cells)
        assert t > d and d * (1 + math.log(t / d)) - t == pytest.approx(math.log(distributions.CHANCE))
    documented = [round(distributions.divergence_limit(cells), 1) for cells in (3, 9)]
    assert documented == [28.0, 42.0]
    assert distributions.CHANCE == 1e-9


def test_wrong_draws_are_refused_and_right_ones_are_not(distributions):
    right = {"a": 0.5, "b": 0.3, "c": 0.2}
    exact = Counter(a=500, b=300, c=200)
    distributions.check_frequencies(exact, right, "the letter")
    sentence = r"the letter: [abc] should have probability 0\.\d+; it occurred \d+ times in 1000 draws"
    with pytest.raises(Mismatch, match=sentence):
        distributions.check_frequencies(Counter(a=380, b=380, c=240), right, "the letter")
    with pytest.raises(Mismatch, match="the letter: d is impossible, and it occurred 1 times in 1001 draws"):
        distributions.check_frequencies(exact + Counter(d=1), right, "the letter")
    with pytest.raises(Mismatch):
        distributions.check_frequencies(Counter(a=1000), right, "the letter")


def test_rare_cells_are_one_cell(distributions):
    """Twenty cells that expect one draw each: which of them it is does not count, but how many there are does."""
    chances = {"often": 0.8} | {f"rare {i}": 0.01 for i in range(20)}
    distributions.check_frequencies(Counter({"often": 80, "rare 3": 20}), chances, "the cell")
    with pytest.raises(Mismatch, match="any of the rare ones should have probability 0.200"):
        distributions.check_frequencies(Counter({"often": 30, "rare 3": 70}), chances, "the cell")
