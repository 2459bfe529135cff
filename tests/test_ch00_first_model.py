"""Chapter 0: a first language model, from the counts of pairs.

Draws are tested by frequencies; see `distributions.py` for the chance that right code is refused.
"""

from __future__ import annotations

import math
from collections import Counter

import torch
from calls import as_list
from devices_and_dtypes import check_device_of_result
from distributions import check_frequencies
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same
from hypothesis import example, given, settings
from hypothesis import strategies as st
from memory_layouts import of_view
from pytest_check import check
from strategies import at, distinct, seeds, token_ids

text_sizes = distinct("V", "T", V=(3, 7), T=(3, 19))


def counted(ids, vocab):
    """The table that a Counter of the pairs gives."""
    table = torch.zeros(vocab, vocab, dtype=torch.int64)
    for (a, b), times in Counter(zip(ids, ids[1:])).items():
        table[a, b] = times
    return table


def random_rows(seed, vocab):
    """Probabilities (V, V) of two decimals, each row sums to 1 and no column does."""
    rows = torch.rand(vocab, vocab, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.05
    rows = (rows / rows.sum(dim=-1, keepdim=True)).round(decimals=2)
    rows[torch.arange(vocab), rows.argmax(dim=-1)] += 1 - rows.sum(dim=-1)  # what rounding has added or taken
    return rows.float()


# ---- count_bigrams


@exercise("count_bigrams", weight=3)
@given(n=text_sizes, seed=seeds)
def test_row_a_column_b_counts_how_often_b_follows_a(learner, n, seed):
    """Row a, column b has the number of places where b follows directly after a, for a list of ids and for a 1-D tensor."""
    ids = token_ids(seed, n.T, vocab=n.V)
    got = learner.count_bigrams(ids.tolist(), n.V), learner.count_bigrams(ids, n.V)
    same(got[0], counted(ids.tolist(), n.V), f"the table of counts of {ids.tolist()}")
    same(got[1], counted(ids.tolist(), n.V), f"the table of counts of tensor({ids.tolist()})")


@exercise("count_bigrams")
def test_overlapping_pairs_count_and_the_ends_are_not_joined(learner):
    """Each of the T - 1 steps counts once: three equal ids are two pairs, and the last id is not followed by the first."""
    got = learner.count_bigrams([2, 2, 2, 0], 4), learner.count_bigrams([1, 3], 4)
    same(got[0], torch.tensor([[0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 2, 0], [0, 0, 0, 0]]), "the table of counts of [2, 2, 2, 0]")
    same(got[1], torch.tensor([[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]]), "the table of counts of [1, 3]")


@exercise("count_bigrams")
def test_a_frequent_pair_is_counted_in_full(learner):
    """A pair that occurs 300 times has the count 300: counts do not end at 255, and are not rounded."""
    got = learner.count_bigrams([1] * 301 + [0], 2)
    same(got, torch.tensor([[0, 0], [1, 300]]), "the table of counts of 301 ids 1 and then a 0")


@exercise("count_bigrams")
def test_the_table_has_a_row_and_a_column_for_every_id(learner):
    """The table has vocab_size rows and columns, also for ids that do not occur; a second text is counted from zero again."""
    first, second = learner.count_bigrams([1, 0, 1, 0], 6), learner.count_bigrams(torch.tensor([0, 1, 1]), 3)
    same(first, counted([1, 0, 1, 0], 6), "the table of counts of [1, 0, 1, 0] with vocab_size = 6")
    same(second, torch.tensor([[0, 1, 0], [0, 1, 0], [0, 0, 0]]), "the table of counts of tensor([0, 1, 1]) with vocab_size = 3")


@exercise("count_bigrams")
def test_a_text_without_pairs_gives_zeros(learner):
    """A text of one id, or of none, has no pair: the counts are zeros, (V, V), and there is no error."""
    two, one, none = learner.count_bigrams([4, 3], 5), learner.count_bigrams([4], 5), learner.count_bigrams([], 5)
    as_tensors = learner.count_bigrams(torch.tensor([2]), 5), learner.count_bigrams(torch.empty(0, dtype=torch.int64), 5)
    same(two, counted([4, 3], 5), "the table of counts of [4, 3]")
    for got, text in ((one, "[4]"), (none, "[]"), (as_tensors[0], "tensor([2])"), (as_tensors[1], "an empty tensor")):
        same(got, torch.zeros(5, 5, dtype=torch.int64), f"the table of counts of {text}")


@exercise("count_bigrams", weight=2)
def test_an_id_outside_the_vocabulary_is_named(learner):
    """An id that is negative, or V or more, raises a ValueError that names it, wherever it is in the text."""
    same(learner.count_bigrams([6, 0, 6], 7), counted([6, 0, 6], 7), "the table of counts of [6, 0, 6]")
    outside = "an id below 0, or of vocab_size and more, is not in the vocabulary"
    texts = {7: [3, 7, 2], -2: [3, -2, 2], 9: [9, 3, 2], 12: [3, 2, 12], -1: [-1, 3], 8: [8]}
    for wrong, ids in texts.items():
        refuses(lambda ids=ids: learner.count_bigrams(ids, 7), naming={"id": wrong}, because=outside)
    refuses(lambda: learner.count_bigrams(torch.tensor([0, 1, 11, 2]), 7), naming={"id": 11}, because=outside)


# ---- bigram_probabilities


def some_counts(seed, vocab):
    """Counts (V, V) with zeros, a row of zeros, and different sums of rows and columns."""
    counts = torch.randint(0, 6, (vocab, vocab), generator=torch.Generator().manual_seed(seed)) * torch.arange(1, vocab + 1)
    counts[seed % vocab] = 0
    return counts


@exercise("bigram_probabilities", weight=3)
@given(vocab=st.integers(3, 7), smoothing=st.sampled_from([0.25, 2.0, 0.5]), seed=seeds)
def test_each_row_is_smoothed_and_divided_by_its_own_sum(learner, vocab, smoothing, seed):
    """Row a is (counts + smoothing) divided by the sum of that row, so it sums to 1; counts with smoothing 1 by default."""
    counts = some_counts(seed, vocab)
    got = learner.bigram_probabilities(counts, smoothing), learner.bigram_probabilities(counts)
    view = learner.bring(of_view)(learner.bigram_probabilities, counts, smoothing)
    for probabilities, added in zip(got, (smoothing, 1.0)):
        smoothed = counts.double() + added
        close(probabilities, (smoothed / smoothed.sum(1, keepdim=True)).float(), f"the table of probabilities with smoothing {added}")
    close(view, got[0], "the table of probabilities of counts that are a view, not contiguous in memory,")


@exercise("bigram_probabilities")
def test_the_probabilities_are_on_the_device_of_the_counts(learner):
    """The probabilities are float32 on the device of the counts."""
    counts = torch.tensor([[0, 3, 1], [2, 2, 0], [0, 0, 0]])
    expected = torch.tensor([[1 / 7, 4 / 7, 2 / 7], [3 / 7, 3 / 7, 1 / 7], [1 / 3, 1 / 3, 1 / 3]])
    close(learner.bigram_probabilities(counts), expected, "the table of probabilities")
    check_device_of_result(learner, expected, learner.bigram_probabilities, counts)


@exercise("bigram_probabilities", weight=2)
@given(vocab=st.integers(3, 6), seed=seeds)
def test_without_smoothing_an_empty_row_is_uniform(learner, vocab, seed):
    """With smoothing 0, a pair that never occurred has probability 0, and a row without counts is 1 / V everywhere, never NaN.
    A row with a single count has one probability of 1."""
    counts = some_counts(seed, vocab)
    counts[(seed + 1) % vocab] = torch.arange(vocab) == 1  # one count and no more
    got, empty = learner.bigram_probabilities(counts, 0.0), learner.bigram_probabilities(torch.zeros(vocab, vocab, dtype=torch.int64), smoothing=0)
    sums = counts.sum(1, keepdim=True).double()
    expected = torch.where(sums > 0, counts / sums.clamp(min=1), torch.full_like(sums, 1 / vocab))
    close(got, expected.float(), "the table of probabilities with smoothing 0")
    close(empty, torch.full((vocab, vocab), 1 / vocab), "the table of probabilities of no counts with smoothing 0")


@exercise("bigram_probabilities")
def test_little_smoothing_keeps_rows_that_sum_to_one(learner):
    """However small the smoothing is, every row sums to 1: a row of few counts, one without counts, and one of very many."""
    counts = torch.tensor([[0, 0, 0, 0], [0, 1, 0, 0], [3_000_000, 0, 1_000_000, 0], [2, 0, 0, 5]])
    got = learner.bigram_probabilities(counts, 0.01), learner.bigram_probabilities(counts, smoothing=1e-6)
    for probabilities, added in zip(got, (0.01, 1e-6)):
        smoothed = counts.double() + added
        close(probabilities, (smoothed / smoothed.sum(1, keepdim=True)).float(), f"the table of probabilities with smoothing {added}")


@exercise("bigram_probabilities")
def test_a_negative_smoothing_is_refused(learner):
    """A negative smoothing raises a ValueError that names it; 0 is fine."""
    counts = torch.tensor([[4, 4], [1, 3]])
    close(learner.bigram_probabilities(counts, 0), torch.tensor([[0.5, 0.5], [0.25, 0.75]]), "the table of probabilities with smoothing 0")
    for smoothing in (-0.5, -2.0):
        refuses(lambda s=smoothing: learner.bigram_probabilities(counts, s), naming={"smoothing": smoothing}, because="no count can be made smaller")


# ---- average_loss


def number(got, expected, what):
    """A Python float of this value."""
    holds(isinstance(got, float), f"{what} should be a Python float; it is a {type(got).__name__}")
    right = got == expected if math.isinf(expected) else abs(got - expected) <= 1e-5 * max(1.0, abs(expected))
    holds(right, f"{what} should be {expected:.5f}; it is {got:.5f}")


@exercise("average_loss", weight=3)
@given(n=text_sizes, seed=seeds)
def test_the_loss_is_the_mean_of_minus_log_p_over_the_steps(learner, n, seed):
    """The loss is the mean of -log p(next | this) over the T - 1 steps: the row is this id, the column the next one."""
    probabilities, ids = random_rows(seed, n.V), token_ids(seed, n.T, vocab=n.V)
    got = learner.average_loss(probabilities, ids.tolist()), learner.average_loss(probabilities, ids)
    view = learner.bring(of_view)(learner.average_loss, probabilities, ids)
    steps = [-math.log(probabilities[a, b]) for a, b in zip(ids.tolist(), ids.tolist()[1:])]
    number(got[0], sum(steps) / len(steps), f"the average loss of {ids.tolist()}")
    number(got[1], sum(steps) / len(steps), f"the average loss of tensor({ids.tolist()})")
    number(view, sum(steps) / len(steps), "the average loss with a table that is a view, not contiguous in memory,")


@exercise("average_loss")
def test_a_model_that_knows_nothing_has_loss_ln_v(learner):
    """With 1 / V everywhere the loss is ln V, in a text of any length; one step has the loss -log p; a sure and right model has loss 0."""
    table = torch.tensor([[0.2, 0.8], [0.375, 0.625]])
    uniform = {vocab: learner.average_loss(torch.full((vocab, vocab), 1 / vocab), [1, 0, 2, 1, 1]) for vocab in (3, 50)}
    single, sure = learner.average_loss(table, [1, 0]), learner.average_loss(torch.eye(3)[[1, 2, 0]], [0, 1, 2, 0, 1])
    for vocab, loss in uniform.items():
        number(loss, math.log(vocab), f"the average loss of a uniform model of {vocab} tokens")
    number(single, -math.log(0.375), "the average loss of one step of probability 0.375")
    number(sure, 0.0, "the average loss where every step has probability 1")


@exercise("average_loss", weight=2)
def test_an_impossible_step_has_an_infinite_loss(learner):
    """A step of probability 0 makes the loss inf, not NaN and not a large number; a very small probability makes it large."""
    table = torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [1e-30, 1.0, 0.0]])
    possible, small = learner.average_loss(table, [0, 1, 0]), learner.average_loss(table, [2, 0])
    found = {str(ids): learner.average_loss(table, ids) for ids in ([0, 0], [0, 1, 0, 2, 1], [0, 0, 0, 1])}
    number(possible, math.log(2) / 2, "the average loss of [0, 1, 0]")
    number(small, -math.log(1e-30), "the average loss of one step of probability 1e-30")
    for ids, loss in found.items():
        number(loss, math.inf, f"the average loss of {ids}, with a step of probability 0,")


@exercise("average_loss")
def test_a_long_text_has_a_loss_too(learner):
    """The loss of a text of thousands of ids is as exact as that of a short one: the product of so many probabilities would be 0."""
    probabilities, ids = random_rows(3, 5), token_ids(8, 4000, vocab=5)
    loss = learner.average_loss(probabilities, ids)
    number(loss, float(-probabilities.double()[ids[:-1], ids[1:]].log().mean()), "the average loss of 4,000 ids")


@exercise("average_loss")
def test_a_float64_table_is_measured_in_float64(learner):
    """Probabilities in float64 keep their precision: 1e-60, which would be 0 in float32, has the loss 138.155."""
    table = torch.tensor([[0.5, 0.5], [1e-60, 1.0]], dtype=torch.float64)
    rare, usual = learner.average_loss(table, [0, 1, 0]), learner.average_loss(table, [0, 0, 1])
    number(usual, math.log(2), "the average loss of [0, 0, 1] with a float64 table")
    number(rare, (math.log(2) - math.log(1e-60)) / 2, "the average loss of [0, 1, 0], a step of 0.5 and one of 1e-60 in a float64 table,")


@exercise("average_loss")
def test_a_text_without_a_step_is_refused(learner):
    """A text of one id, or of none, has no step: a ValueError, for lists and tensors. Two ids are enough."""
    table = torch.tensor([[0.25, 0.75], [0.5, 0.5]])
    number(learner.average_loss(table, [0, 1]), -math.log(0.75), "the average loss of [0, 1]")
    for ids in ([1], [], torch.tensor([0]), torch.empty(0, dtype=torch.int64)):
        refuses(lambda ids=ids: learner.average_loss(table, ids), because="there is no step to average over")


# ---- write


def seeded(write, probabilities, start, n, *seeds):
    """A text for each seed, from a generator of its own; torch's global seed differs each time. Brought to the far side."""
    found = []
    for call, seed in enumerate(seeds):
        torch.manual_seed(1000 + call)
        found.append(list(write(probabilities, start, n, torch.Generator().manual_seed(seed))))
    return found


def twice(write, probabilities, start, n, seed):
    """Two texts in a row with one generator, and two without any."""
    generator = torch.Generator().manual_seed(seed)
    return [list(write(probabilities, start, n, generator)) for _ in range(2)] + [list(write(probabilities, start, n)) for _ in range(2)]


@exercise("write", weight=3)
@settings(max_examples=4)
@example(n=at(V=4, T=0), seed=0)
@given(n=distinct("V", "T", V=(3, 6), T=(7, 12)), seed=seeds)
def test_each_id_comes_from_the_row_of_the_id_before_it(learner, n, seed):
    """The text is start and n more ids, as ints; where each row allows one id only, each id follows from the one before it."""
    order = torch.randperm(n.V, generator=torch.Generator().manual_seed(seed)).tolist()
    chain = torch.zeros(n.V, n.V)
    expected = [order[0]]
    for a, b in zip(order, [*order[1:], order[0]]):
        chain[a, b] = 1.0
    for _ in range(n.T):
        expected.append(int(chain[expected[-1]].argmax()))
    got, view = learner.write(chain, order[0], n.T), learner.bring(of_view)(learner.write, chain, order[0], n.T)
    same(as_list(got), expected, f"the text from {order[0]}")
    same(as_list(view), expected, f"the text from {order[0]} with a table that is a view, not contiguous in memory,")


@exercise("write", weight=3)
def test_ids_are_drawn_with_the_probabilities_of_the_row(learner):
    """The next id is drawn with the probabilities of the row: likely ids come often, unlikely ones seldom, impossible ones never."""
    table = torch.tensor([[0.1, 0.6, 0.3], [0.45, 0.0, 0.55], [0.7, 0.25, 0.05]])
    texts = learner.bring(seeded)(learner.write, table, 2, 2000, 4, 5)
    for text in texts:
        holds(len(text) == 2001 and text[0] == 2, f"the text should be 2 and 2,000 more ids; it has {len(text)} ids and begins with {text[0]}")
        strange = next((place for place, i in enumerate(text) if not isinstance(i, int)), 0)
        holds(isinstance(text[strange], int), f"each id in the list should be an int, and item {strange} is a {type(text[strange]).__name__}")
    steps = Counter(step for text in texts for step in zip(text, text[1:]))
    for row in range(3):
        with check:
            seen = {b: times for (a, b), times in steps.items() if a == row}
            check_frequencies(seen, dict(enumerate(table[row].tolist())), f"after id {row}")


def of_torch_seed(write, probabilities, start, n, seed):
    """Two texts without a generator, each after the same torch.manual_seed."""
    found = []
    for _ in range(2):
        torch.manual_seed(seed)
        found.append(list(write(probabilities, start, n)))
    return found


@exercise("write")
@settings(max_examples=2)
@given(seed=seeds)
def test_without_a_generator_the_seed_of_torch_decides(learner, seed):
    """Without a generator, torch's own generator decides: after the same torch.manual_seed the text is the same."""
    one, again = learner.bring(of_torch_seed)(learner.write, torch.full((6, 6), 1 / 6), 3, 30, seed)
    holds(len(one) == 31, f"the text should be 3 and 30 more ids; it has {len(one)} ids")
    holds(len(set(one[1:])) > 1, f"6 ids that are equally likely should all be drawn in a long text; the 30 that were drawn are all {one[1]}")
    holds(one == again, "two texts without a generator, each after the same torch.manual_seed, should be equal; they differ")


@exercise("write", weight=2)
@settings(max_examples=2)
@given(seed=seeds)
def test_the_generator_decides_every_draw(learner, seed):
    """Two generators with the same seed give the same text, another seed gives another one, whatever torch's own generator does."""
    one, again, other = learner.bring(seeded)(learner.write, torch.full((6, 6), 1 / 6), 3, 30, seed, seed, seed + 1)
    first, second, free, freely = learner.bring(twice)(learner.write, torch.full((6, 6), 1 / 6), 3, 30, seed)
    same(again, one, "the text of a second generator with the same seed")
    same(first, one, "the text of a third generator with the same seed")
    holds(other != one, "two generators with different seeds gave the same text: the seed has no effect")
    holds(second != first, "a second call with the same generator gave the same text: the generator should go on")
    holds(free != freely, "two calls without a generator gave the same text, as if a fixed seed was set")
