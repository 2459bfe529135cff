"""Chapter 17, second part: what a model is fine-tuned on: targets of answers, and packed rows."""

from __future__ import annotations

import torch
from calls import as_list
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, shaped, sizes
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_check import check
from strategies import seeds, token_ids

few = settings(max_examples=4)


def chat_with_spans(lengths):
    """Spans of answers between questions: lengths of a question and an answer in turn."""
    spans, position = [], 0
    for i, length in enumerate(lengths):
        if i % 2:
            spans.append((position, position + length))
        position += length
    return spans, position


turns = st.lists(st.integers(1, 4), min_size=2, max_size=5)


# ---- answer_labels


@exercise("answer_labels", weight=3)
@few
@given(lengths=turns, seed=seeds)
def test_the_target_at_a_position_is_the_next_id_of_an_answer(learner, lengths, seed):
    """T ids give T - 1 targets: at position i the id i + 1 if that is in a span, and -100 if it is not."""
    spans, T = chat_with_spans(lengths)
    ids = [int(i) for i in token_ids(seed, T, vocab=50, least=1)]
    targets = as_list(learner.answer_labels(ids, spans))
    inside = [any(start <= i + 1 < stop for start, stop in spans) for i in range(T - 1)]
    same(targets, [ids[i + 1] if inside[i] else -100 for i in range(T - 1)], "the targets")


@exercise("answer_labels", weight=2)
def test_the_first_and_the_last_id_of_an_answer_are_targets(learner):
    """An answer's first id is the target of the last id before it, and the end token, the last id of the span, is a target too; the id behind is not."""
    ids = [7, 3, 9, 4, 4, 2, 8, 5]
    targets = as_list(learner.answer_labels(ids, [(3, 6)]))
    same(targets, [-100, -100, 4, 4, 2, -100, -100], "the targets of [7, 3, 9, 4, 4, 2, 8, 5] with the answer 4 4 2")


@exercise("answer_labels", weight=2)
def test_spans_at_the_edges(learner):
    """A span may begin at the first id, which nothing predicts, or end with the last one; without spans nothing counts, and one id has no target."""
    ids = [11, 12, 13, 14, 15]
    got = [as_list(learner.answer_labels(ids, spans)) for spans in ([(0, 5)], [(0, 2)], [(4, 5)], [(1, 2), (3, 5)], [(2, 2)], [])]
    single = as_list(learner.answer_labels([11], [(0, 1)]))
    same(got[0], ids[1:], "the targets with one span over everything")
    same(got[1], [12, -100, -100, -100], "the targets with the span (0, 2)")
    same(got[2], [-100, -100, -100, 15], "the targets with the span (4, 5)")
    same(got[3], [12, -100, 14, 15], "the targets with the spans (1, 2) and (3, 5)")
    same(got[4], [-100] * 4, "the targets with an empty span")
    same(got[5], [-100] * 4, "the targets without spans")
    same(single, [], "the targets of one id")


@exercise("answer_labels")
def test_ignored_targets_may_have_another_number(learner):
    """Targets that do not count are ignore_index, -100 unless given; the given ids do not change."""
    ids = [5, 6, 7, 8]
    other = as_list(learner.answer_labels(ids, [(2, 3)], ignore_index=-1))
    by_place = as_list(learner.answer_labels(ids, [(2, 3)], -7))
    changed = learner.bring(ids_afterwards)(learner.answer_labels, ids)
    same(other, [-1, 7, -1], "the targets with ignore_index = -1")
    same(by_place, [-7, 7, -7], "the targets with ignore_index = -7")
    same(changed, ids, "the ids after the call")


def ids_afterwards(answer_labels, ids):
    mine = list(ids)
    answer_labels(mine, [(1, 3)])
    return mine


# ---- pack


def texts_of(lengths):
    """Texts of these lengths, in which every id occurs once."""
    texts, following = [], 1
    for length in lengths:
        texts.append(list(range(following, following + length)))
        following += length
    return texts


def parts_of(texts, length):
    """The parts of all texts in their order, each with its targets."""
    found = []
    for text in texts:
        following = [*text[1:], -100]
        found += [(text[i : i + length], following[i : i + length]) for i in range(0, len(text), length)]
    return found


def first_fit(parts, length):
    """Which row each part goes into."""
    room, rows = [], []
    for part, _ in parts:
        row = next((r for r, left in enumerate(room) if left >= len(part)), len(room))
        if row == len(room):
            room.append(length)
        room[row] -= len(part)
        rows.append(row)
    return rows, len(room)


def packed(lengths, length, pad_id=0):
    """The four tensors as they should be, from the parts' places."""
    parts = parts_of(texts_of(lengths), length)
    rows, count = first_fit(parts, length)
    ids, targets = torch.full((count, length), pad_id), torch.full((count, length), -100)
    positions, owner = torch.zeros(count, length, dtype=torch.int64), torch.full((count, length), -1)
    for number, ((text, following), row) in enumerate(zip(parts, rows)):
        start = int((owner[row] >= 0).sum())
        places = slice(start, start + len(text))
        ids[row, places], targets[row, places] = torch.tensor(text), torch.tensor(following)
        positions[row, places], owner[row, places] = torch.arange(len(text)), number
    together = (owner[:, :, None] == owner[:, None, :]) & (owner[:, :, None] >= 0)
    return ids, targets, positions, together & torch.ones(length, length, dtype=torch.bool).tril()


NAMES = ("ids", "targets", "positions", "mask")
text_lengths = st.lists(st.integers(1, 7), min_size=3, max_size=7)


def compare(got, expected, what=""):
    for name, mine, right in zip(NAMES, got, expected):
        with check:
            same(mine, right, f"`{name}`{what}")


@exercise("pack", weight=3)
@few
@given(lengths=text_lengths, length=st.integers(7, 9))
def test_each_text_goes_into_the_first_row_with_room(learner, lengths, length):
    """In their order, texts go behind what is in the first row that has room, or else into a new row; no token is lost or doubled, and pad_id fills the rest."""
    sizes(length=length)
    got = learner.pack(texts_of(lengths), length, 0)
    same(got[0], packed(lengths, length)[0], "`ids`")


@exercise("pack", weight=2)
def test_a_later_text_may_go_into_an_earlier_row(learner):
    """Texts of 4, 3, 2 and 1 ids and rows of 5: the third joins the second row, and the fourth the first row; the order is not changed to fit better."""
    got = learner.pack(texts_of([4, 3, 2, 1]), 5, 0)
    same(got[0], torch.tensor([[1, 2, 3, 4, 10], [5, 6, 7, 8, 9]]), "`ids` of texts with 4, 3, 2 and 1 ids")
    again = learner.pack(texts_of([2, 5, 3, 4]), 5, 9)
    choice = learner.pack(texts_of([3, 5, 4, 1]), 6, 0)
    same(again[0], torch.tensor([[1, 2, 8, 9, 10], [3, 4, 5, 6, 7], [11, 12, 13, 14, 9]]), "`ids` of texts with 2, 5, 3 and 4 ids")
    same(choice[0], torch.tensor([[1, 2, 3, 13, 0, 0], [4, 5, 6, 7, 8, 0], [9, 10, 11, 12, 0, 0]]), "`ids` of texts with 3, 5, 4 and 1 ids")


@exercise("pack", weight=3)
@few
@given(lengths=text_lengths, length=st.integers(7, 9))
def test_no_target_crosses_from_one_text_to_the_next(learner, lengths, length):
    """The target of each id is the next id of its own text; at a text's end and at padding it is -100."""
    sizes(length=length)
    got = learner.pack(texts_of(lengths), length, 0)
    same(got[1], packed(lengths, length)[1], "`targets`")


@exercise("pack", weight=2)
@few
@given(lengths=text_lengths, length=st.integers(7, 9))
def test_positions_begin_again_in_each_text(learner, lengths, length):
    """Positions count from 0 in each text, as if it had a row of its own, and are 0 at padding."""
    sizes(length=length)
    got = learner.pack(texts_of(lengths), length, 0)
    same(got[2], packed(lengths, length)[2], "`positions`")


@exercise("pack", weight=3)
@few
@given(lengths=text_lengths, length=st.integers(7, 9))
def test_a_query_may_attend_to_its_own_text_up_to_itself(learner, lengths, length):
    """The mask is True for keys of the same text that are not later; padding attends to nothing, and nothing attends to padding."""
    sizes(length=length)
    got = learner.pack(texts_of(lengths), length, 0)
    same(got[3], packed(lengths, length)[3], "`mask`")


@exercise("pack", weight=2)
@few
@given(seed=seeds)
def test_a_change_in_one_text_reaches_no_other(learner, reference, seed):
    """With attention under the mask, another text in a row changes no output outside of itself: each text is computed as if it were alone."""
    lengths, length, D = [3, 4, 2, 5], 8, 6
    ids, _, _, mask = learner.pack(texts_of(lengths), length, 0)
    expected = packed(lengths, length)
    shaped(mask, tuple(expected[3].shape), "`mask`", torch.bool)
    table = torch.randn(20, D, generator=torch.Generator().manual_seed(seed))
    shaped(ids, tuple(expected[0].shape), "`ids`", torch.int64)
    for text in texts_of(lengths):
        other = table.clone()
        other[text] += 1.0
        attend = reference.scaled_dot_product_attention
        outputs = [attend(x, x, x, mask)[0] for x in (table[expected[0]], other[expected[0]])]
        outside = ~torch.isin(expected[0], torch.tensor(text)) & (expected[0] > 0)
        changed = (outputs[0] - outputs[1]).abs().amax(-1) > 1e-6
        holds(not bool((changed & outside).any()), f"a change in the text {text} changes the output of another text in its row")
        holds(bool((changed & ~outside & (expected[0] > 0)).any()), f"a change in the text {text} has no effect on its own outputs")


@exercise("pack", weight=3)
@few
@given(lengths=st.lists(st.integers(1, 14), min_size=2, max_size=5), length=st.integers(2, 4))
def test_a_long_text_is_cut_and_nothing_is_lost(learner, lengths, length):
    """A text longer than a row is cut into parts. Each part is like a text, but its last target is the first id of the next part, so every pair of neighbours is trained on."""
    sizes(length=length)
    got = learner.pack(texts_of([9, *lengths]), length, 0)
    compare(got, packed([9, *lengths], length), " with a text of 9 ids among them")


@exercise("pack", weight=2)
def test_empty_texts_one_token_and_no_text(learner):
    """Empty texts are left out; a text of one id has a place and no target; a text may fill a row exactly; without texts there are no rows."""
    texts = [[], [4], [], [5, 6, 7], [8]]
    got, exact, none = learner.pack(texts, 4, 1), learner.pack([[5, 6, 7, 8], [9]], 4, 1), [learner.pack(texts, 4, 1) for texts in ([], [[], []])]
    same(got[0], torch.tensor([[4, 5, 6, 7], [8, 1, 1, 1]]), "`ids` of one id, three ids and one id")
    same(got[1], torch.tensor([[-100, 6, 7, -100], [-100] * 4]), "`targets` of one id, three ids and one id")
    same(exact[0], torch.tensor([[5, 6, 7, 8], [9, 1, 1, 1]]), "`ids` of four ids and one id")
    same(exact[1], torch.tensor([[6, 7, 8, -100], [-100] * 4]), "`targets` of four ids and one id")
    for found, what in zip(none, ("without texts", "of two empty texts")):
        for name, mine, shape in zip(NAMES, found, [(0, 4)] * 3 + [(0, 4, 4)]):
            shaped(mine, shape, f"`{name}` {what}", torch.bool if name == "mask" else torch.int64)


@exercise("pack")
def test_the_pad_id_may_be_a_real_id(learner):
    """Padding is known by its place, not by its id: a text may contain pad_id, which is trained on and attended to like any other."""
    texts, expected = [[3, 3, 5], [3, 3]], packed([3, 2], 6, 3)
    got = learner.pack(texts, 6, 3)
    close(got[0].double(), torch.tensor([[3, 3, 5, 3, 3, 3]]).double(), "`ids` with pad_id = 3")
    same(got[1], torch.tensor([[3, 5, -100, 3, -100, -100]]), "`targets` with pad_id = 3")
    same(got[2], expected[2], "`positions` with pad_id = 3")
    same(got[3], expected[3], "`mask` with pad_id = 3")


@exercise("pack")
def test_a_length_below_1_is_refused(learner):
    """A length of 0 raises a ValueError that names length; with a length of 1, each id has a row of its own, and its target is the next id."""
    one = learner.pack([[4, 5], [6]], 1, 0)
    for length in (0, -3):
        refuses(lambda length=length: learner.pack([[4, 5]], length, 0), naming={"length": length}, because="a row needs room for at least one token")
    same(one[0], torch.tensor([[4], [5], [6]]), "`ids` with length = 1")
    same(one[1], torch.tensor([[5], [-100], [-100]]), "`targets` with length = 1")
