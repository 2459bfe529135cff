"""Chapter 8, first part: windows of a text, batches of windows, and the loss. Steps are in test_ch08_training_steps.py."""

from typing import Any

import torch
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, shaped, sizes
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_check import check
from strategies import distinct, seeds, tensor, token_ids

texts_as_ids = st.builds(lambda n, seed: token_ids(seed, n, vocab=41).tolist(), st.integers(3, 14), seeds)
lengths = st.integers(1, 5)
cubes = distinct("B", "T", V=(8, 11))


def windows(value: Any) -> Any:
    """Windows with each pair as a tuple, if it is a list of two; anything else unchanged."""
    if not isinstance(value, list | tuple):
        return value
    return [tuple(pair) if isinstance(pair, list) and len(pair) == 2 else pair for pair in value]


def same_windows(got, expected, ids, seq_len):
    for pair in windows(got) if isinstance(got, list | tuple) else ():
        for part in pair if isinstance(pair, tuple) else ():
            holds(not isinstance(part, torch.Tensor), "inputs and targets should be plain lists of ids; they are tensors, which collate makes later")
    same(windows(got), expected, f"the list of windows of {ids} with seq_len = {seq_len}")


# ---- next_token_pairs


@exercise("next_token_pairs", weight=3)
@given(ids=texts_as_ids, seq_len=lengths)
def test_a_window_is_inputs_and_their_next_tokens(learner, reference, ids, seq_len):
    """A window is a pair of lists, inputs and targets: each target is the id right after its input. Windows follow one another."""
    sizes(ids=len(ids), seq_len=seq_len)
    got, expected = (learner.next_token_pairs(ids, seq_len), learner.next_token_pairs(tuple(ids), seq_len)), reference.next_token_pairs(ids, seq_len)
    same_windows(got[0], expected, ids, seq_len)
    same_windows(got[1], expected, tuple(ids), seq_len)


@exercise("next_token_pairs", weight=2)
def test_every_id_but_the_first_is_a_target_once(learner):
    """Every id but the first is a target in exactly one window, for any length of the text: the last window may be shorter."""
    ids = [31, 14, 25, 9, 26, 5, 35, 8, 97, 3]
    found = {(n, seq_len): windows(learner.next_token_pairs(ids[:n], seq_len)) for n in (5, 6, 7, 8, 9, 10) for seq_len in (3, 4)}
    for (n, seq_len), got in found.items():
        expected = [(ids[s : min(s + seq_len, n - 1)], ids[s + 1 : min(s + seq_len, n - 1) + 1]) for s in range(0, n - 1, seq_len)]
        same_windows(got, expected, ids[:n], seq_len)


@exercise("next_token_pairs")
def test_a_text_that_just_fits_is_one_window(learner):
    """seq_len + 1 ids make exactly one full window, and a shorter text makes one short window."""
    whole, short, two = learner.next_token_pairs([6, 2, 9, 4], 3), learner.next_token_pairs([6, 2, 9, 4], 50), learner.next_token_pairs([6, 2], 3)
    same_windows(whole, [([6, 2, 9], [2, 9, 4])], [6, 2, 9, 4], 3)
    same_windows(short, [([6, 2, 9], [2, 9, 4])], [6, 2, 9, 4], 50)
    same_windows(two, [([6], [2])], [6, 2], 3)


@exercise("next_token_pairs")
def test_windows_of_one_input(learner):
    """With seq_len = 1 every window is one id and the id that follows it, in a long text too."""
    short, long = learner.next_token_pairs([7, 7, 3, 8], 1), windows(learner.next_token_pairs(list(range(1500)), 1))
    same_windows(short, [([7], [7]), ([7], [3]), ([3], [8])], [7, 7, 3, 8], 1)
    holds(long == [([i], [i + 1]) for i in range(1499)], "the text of the ids 0 to 1499 with seq_len = 1 should give 1499 windows of one input")


@exercise("next_token_pairs")
def test_less_than_two_ids_give_no_window(learner):
    """A text of one id, or of none, has no target: no window, and no error."""
    one, none, two = learner.next_token_pairs([4], 3), learner.next_token_pairs([], 3), learner.next_token_pairs([4, 5], 3)
    same_windows(two, [([4], [5])], [4, 5], 3)
    same_windows(one, [], [4], 3)
    same_windows(none, [], [], 3)


@exercise("next_token_pairs")
def test_seq_len_below_one_raises_an_error(learner):
    """seq_len below 1 raises a ValueError that names it, also a negative one; 1 is fine."""
    same_windows(learner.next_token_pairs([3, 5, 4], 1), [([3], [5]), ([5], [4])], [3, 5, 4], 1)
    for seq_len in (0, -2):
        refuses(lambda seq_len=seq_len: learner.next_token_pairs([3, 5, 4], seq_len), naming={"seq_len": seq_len}, because=f"no window can have {seq_len} inputs")


# ---- collate


def pairs_of(seed, *lengths_):
    """One window for each length, with ids from 0 to 30, some of them 0."""
    rows = [token_ids(seed + i, n + 1, vocab=31).tolist() for i, n in enumerate(lengths_)]
    for i, row in enumerate(rows):
        row[i % len(row)] = 0
    return [(row[:-1], row[1:]) for row in rows]


def same_batch(got, expected, when=""):
    holds(isinstance(got, tuple | list) and len(got) == 2, "collate should return two tensors: the inputs and the targets")
    with check:
        same(got[0], expected[0], f"the tensor of inputs{when}")
    with check:
        same(got[1], expected[1], f"the tensor of targets{when}")


@exercise("collate", weight=3)
@settings(max_examples=3)
@given(n=distinct("short", "middle", "long", most=6), pad_id=st.sampled_from([7, 32, 50]), seed=seeds)
def test_short_rows_are_filled_on_the_right(learner, reference, n, pad_id, seed):
    """Each row begins with its window; after it the inputs have pad_id and the targets -100. T is the longest window's length."""
    pairs = pairs_of(seed, n.middle, n.long, n.short, 1)
    same_batch(learner.collate(pairs, pad_id), reference.collate(pairs, pad_id), f" with pad_id = {pad_id}")
    same_batch(learner.collate(pairs), reference.collate(pairs), " with the default pad_id")


@exercise("collate", weight=2)
def test_real_words_stay_targets(learner):
    """A real word stays a target with any id, also pad_id, 0 and a very large one; only the padding gets -100."""
    pairs, large = [([4, 3, 8], [3, 8, 0]), ([8, 3], [3, 3]), ([0], [4])], [([50256, 2**24 + 1], [2**24 + 1, 2**24 + 3]), ([70000], [2])]
    zero, three, named = learner.collate(pairs), learner.collate(pairs, 3), learner.collate(pairs, pad_id=9)
    far = learner.collate(large, 50257)
    targets = torch.tensor([[3, 8, 0], [3, 3, -100], [4, -100, -100]])
    same_batch(zero, (torch.tensor([[4, 3, 8], [8, 3, 0], [0, 0, 0]]), targets))
    same_batch(three, (torch.tensor([[4, 3, 8], [8, 3, 3], [0, 3, 3]]), targets), " with pad_id = 3, which is a word's id too")
    same_batch(named, (torch.tensor([[4, 3, 8], [8, 3, 9], [0, 9, 9]]), targets), " with pad_id = 9")
    same_batch(far, (torch.tensor([[50256, 2**24 + 1], [70000, 50257]]), torch.tensor([[2**24 + 1, 2**24 + 3], [2, -100]])), " of ids up to 16,777,219")


@exercise("collate")
@settings(max_examples=3)
@given(n=distinct("B", "T"), seed=seeds)
def test_rows_of_equal_length_are_not_padded(learner, n, seed):
    """Windows of equal length become the rows, unchanged and in order; a single window is a batch of one."""
    pairs = pairs_of(seed, *[n.T] * n.B)
    whole, alone = learner.collate(pairs, pad_id=33), learner.collate(pairs[:1], pad_id=33)
    inputs, targets = torch.tensor([x for x, _ in pairs]), torch.tensor([y for _, y in pairs])
    same_batch(whole, (inputs, targets))
    same_batch(alone, (inputs[:1], targets[:1]), " of one window")


@exercise("collate")
@settings(max_examples=3)
@given(n=distinct("short", "long", least=3), seed=seeds)
def test_windows_may_be_tuples(learner, reference, n, seed):
    """The ids of a window may be in tuples, as in lists."""
    pairs = tuple((tuple(x), tuple(y)) for x, y in pairs_of(seed, n.short, n.long, n.short))
    same_batch(learner.collate(pairs, 40), reference.collate(pairs, 40), " of tuples")


@exercise("collate")
@settings(max_examples=3)
@given(n=distinct("short", "long", least=3), seed=seeds)
def test_a_batch_is_two_tensors_of_ids(learner, reference, n, seed):
    """Inputs and targets are two (B, T) tensors of int64, as an embedding and the loss expect them."""
    pairs = pairs_of(seed, n.short, n.long, n.short)
    got, expected = learner.collate(pairs, 40), reference.collate(pairs, 40)
    holds(isinstance(got, tuple | list) and len(got) == 2, "collate should return two tensors: the inputs and the targets")
    for tensor_, what in zip(got, ("the tensor of inputs", "the tensor of targets")):
        shaped(tensor_, (3, max(n.short, n.long)), what, torch.int64)
    same_batch(got, expected)


# ---- cross_entropy


def places(seed, *shape, vocab, ignored=-100):
    """Targets of which about a third is ignored, with different numbers in each row; the very first is not ignored, the second is."""
    targets = token_ids(seed, *shape, vocab=vocab)
    hidden = tensor(seed + 3, *shape) > 0.5
    hidden.view(-1)[0], hidden.view(-1)[1] = False, True
    return targets.masked_fill(hidden, ignored)


@exercise("cross_entropy", weight=3)
@given(n=cubes, seed=seeds)
def test_the_loss_is_the_mean_negative_log_probability(learner, reference, n, seed):
    """Without anything ignored, the loss is the mean over all positions of -log p(target), p being the softmax over the vocabulary."""
    logits, targets = tensor(seed, n.B, n.T, n.V, scale=3.0), token_ids(seed, n.B, n.T, vocab=n.V)
    close(learner.cross_entropy(logits, targets), reference.cross_entropy(logits, targets), "the loss")


@exercise("cross_entropy", weight=3)
@given(n=cubes, seed=seeds)
def test_ignored_places_do_not_count(learner, reference, n, seed):
    """Positions whose target is -100 count neither in the sum nor in the divisor, whatever their logits are."""
    logits, targets = tensor(seed, n.B, n.T, n.V, scale=3.0), places(seed, n.B, n.T, vocab=n.V)
    changed = torch.where((targets == -100)[..., None], tensor(seed + 9, n.B, n.T, n.V, scale=5.0), logits)
    first, second = learner.cross_entropy(logits, targets), learner.cross_entropy(changed, targets)
    close(first, reference.cross_entropy(logits, targets), "the loss")
    close(second, reference.cross_entropy(logits, targets), "the loss after only the logits of ignored positions were changed")


@exercise("cross_entropy", weight=2)
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_ignore_index_may_be_any_number(learner, reference, n, seed):
    """Only targets equal to ignore_index are ignored: word 0 counts like any other, and with ignore_index = 0 only word 0 does not count."""
    logits, full = tensor(seed, n.B, n.T, n.V, scale=3.0), token_ids(seed, n.B, n.T, vocab=n.V)
    full.view(-1)[:3] = torch.tensor([0, 2, 1])
    targets = {0: full, 2: full, -1: places(seed, n.B, n.T, vocab=n.V, ignored=-1), 500: places(seed, n.B, n.T, vocab=n.V, ignored=500)}
    plain = learner.cross_entropy(logits, full)
    got = {index: learner.cross_entropy(logits, targets[index], ignore_index=index) for index in targets}
    close(plain, reference.cross_entropy(logits, full), "the loss with the default ignore_index")
    for index, loss in got.items():
        close(loss, reference.cross_entropy(logits, targets[index], ignore_index=index), f"the loss with ignore_index = {index}")


@exercise("cross_entropy", weight=2)
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_any_number_of_axes(learner, reference, n, seed):
    """Logits (..., V) and targets (...) may have any leading axes: one position, a row, a batch of rows, and more."""
    for shape in ((), (n.T,), (n.B, n.T), (2, n.B, n.T)):
        logits = tensor(seed, *shape, n.V, scale=3.0)
        targets = logits.argmin(-1) if shape in ((), (n.T,)) else places(seed, *shape, vocab=n.V)
        close(learner.cross_entropy(logits, targets), reference.cross_entropy(logits, targets), f"the loss of logits {tuple(logits.shape)}")


def of_slices(cross_entropy, logits, targets):
    """Logits and targets as slices of longer tensors, so that their numbers are not contiguous; for `bring`."""
    return cross_entropy(logits[:, :-1], targets[:, 1:]).detach()


@exercise("cross_entropy")
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_inputs_may_be_slices(learner, reference, n, seed):
    """Logits and targets may be slices of longer tensors, such as logits[:, :-1] and ids[:, 1:]."""
    logits, targets = tensor(seed, n.B, n.T + 1, n.V, scale=3.0), places(seed, n.B, n.T + 1, vocab=n.V)
    expected = reference.cross_entropy(logits[:, :-1].contiguous(), targets[:, 1:].contiguous())
    close(learner.bring(of_slices)(learner.cross_entropy, logits, targets), expected, "the loss of slices")


@exercise("cross_entropy", weight=2)
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_the_gradient_is_softmax_minus_one_hot(learner, reference, n, seed):
    """The gradient of the logits is (softmax - one-hot) / number of targets that are not ignored, and exactly zero at ignored positions."""
    logits, targets = tensor(seed, n.B, n.T, n.V, scale=2.0), places(seed, n.B, n.T, vocab=n.V)
    got, expected = gradients(learner.cross_entropy, logits, targets), gradients(reference.cross_entropy, logits, targets)
    with check:
        close(got.output, expected.output, "the loss")
    with check:
        close(got.inputs[0], expected.inputs[0], "the gradient of the logits")


def value_of(cross_entropy, logits, targets):
    """The loss itself, with or without gradient; for `bring`."""
    loss = cross_entropy(logits, targets)
    return loss.detach() if isinstance(loss, torch.Tensor) else loss


@exercise("cross_entropy", weight=2)
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_a_batch_without_targets_has_a_loss_of_zero(learner, reference, n, seed):
    """When every target is ignored the loss is 0, and not 0 / 0."""
    logits, targets = tensor(seed, n.B, n.T, n.V, scale=3.0), places(seed, n.B, n.T, vocab=n.V)
    value = learner.bring(value_of)
    nothing, one_kept = torch.full_like(targets, -100), torch.full_like(targets, -100)
    one_kept[1, 0] = logits[1, 0].argmin()
    some, one, none = (value(learner.cross_entropy, logits, y) for y in (targets, one_kept, nothing))
    close(some, reference.cross_entropy(logits, targets), "the loss")
    close(one, reference.cross_entropy(logits, one_kept), "the loss with only one target that is not ignored")
    close(none, torch.tensor(0.0), "the loss with every target ignored")


@exercise("cross_entropy", weight=2)
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_logits_of_any_size_are_safe(learner, reference, n, seed):
    """Logits of ten thousand, and targets of probability almost 0, give a finite loss and a finite gradient."""
    targets, x = places(seed, n.B, n.T, vocab=n.V), tensor(seed, n.B, n.T, n.V)
    far = [x * 12, x * 1e4, x * 2 + 1e4, x * 50 - 3e3]
    found = [gradients(learner.cross_entropy, logits, targets) for logits in far]
    for logits, got in zip(far, found):
        expected, largest = gradients(reference.cross_entropy, logits, targets), f"with logits up to {float(logits.abs().max()):.0f}"
        close(got.output, expected.output, f"the loss {largest}", tol=1e-4)
        close(got.inputs[0], expected.inputs[0], f"the gradient of the logits, {largest}", tol=1e-3)


@exercise("cross_entropy")
@settings(max_examples=3)
@given(n=cubes, seed=seeds)
def test_the_loss_is_one_number_in_the_dtype_of_the_logits(learner, reference, n, seed):
    """The loss is a tensor without axes, in the dtype and on the device of the logits: float64 stays exact. For bfloat16 logits it may be wider, and right to their digits."""
    logits, targets = tensor(seed, n.B, n.T, n.V, scale=3.0, dtype=torch.float64), places(seed, n.B, n.T, vocab=n.V)
    single, double, half = (learner.cross_entropy(logits.to(kind), targets) for kind in (torch.float32, torch.float64, torch.bfloat16))
    close(single, reference.cross_entropy(logits.float(), targets), "the loss of logits in float32")
    close(double, reference.cross_entropy(logits, targets), "the loss of logits in float64", tol=1e-9)
    right = reference.cross_entropy(logits.bfloat16().double(), targets)
    close(shaped(half, (), "the loss of logits in bfloat16").double(), right, "the loss of logits in bfloat16", tol=4e-2)
    check_device_of_result(learner, torch.zeros(()), learner.cross_entropy, logits.float(), targets)
