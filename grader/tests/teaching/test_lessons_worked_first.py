"""The numbers that the lesson of chapter 0 works out by hand are what the reference computes."""

from __future__ import annotations

import math

import pytest
from lesson_tables import says, table_in

TEXT = "the cat sat . the cat ran . the dog sat .".split()


@pytest.fixture(scope="module")
def first(solutions):
    return solutions("ch00_first_model")


@pytest.fixture(scope="module")
def ids():
    vocab = sorted(set(TEXT))
    return [vocab.index(word) for word in TEXT]


def test_the_ids_and_the_counts(first, ids):
    assert says("ch00_first", "So the ids are `[{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}]`", *ids)
    rows = table_in("ch00_first", "A worked example", 1)
    assert [[int(cell) for cell in row[1:]] for row in rows] == first.count_bigrams(ids, 6).tolist()


def test_the_losses_with_smoothing_and_without(first, ids):
    counts = first.count_bigrams(ids, 6)
    plain, smooth = first.bigram_probabilities(counts, 0.0), first.bigram_probabilities(counts, 1.0)
    vocab = sorted(set(TEXT))
    new = [vocab.index(word) for word in "the dog ran .".split()]
    steps = [-math.log(smooth[a, b]) for a, b in zip(new, new[1:])]
    mean = first.average_loss(smooth, new)
    assert says("ch00_first", "The three losses are {}, {} and {}, and their mean is {}.", *steps, mean)
    assert says("ch00_first", "below ln 6 = {}, the loss of a model that knows nothing", math.log(6))
    assert first.average_loss(plain, new) == math.inf
    assert says("ch00_first", "without smoothing has the loss {}, and", first.average_loss(plain, ids))
    assert says("ch00_first", "with smoothing 1 it has {}.", first.average_loss(smooth, ids))
