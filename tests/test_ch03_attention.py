"""Chapter 3, first part: softmax and the masks. Attention itself is in test_ch03_attention_scaled.py, its heads in three further files."""

import math

import torch
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, same, sizes
from hypothesis import example, given, settings
from hypothesis import strategies as st
from masks import random_mask
from memory_layouts import after_overwriting, of_view
from module_pairs import compare_gradient
from pytest_check import check
from strategies import at, distinct, seeds, tensor, token_ids

few = settings(max_examples=3)  # for tests that a mistake breaks at every example: more examples would only take time


# ---- softmax


@exercise("softmax", weight=3)
@given(n=distinct("T", "V"), seed=seeds)
def test_weights_are_exponentials_over_their_sum(learner, reference, n, seed):
    """Each weight is e^x divided by the sum of e^x along the last axis, so that every row sums to 1."""
    x = tensor(seed, n.T, n.V, scale=2.0)
    close(learner.softmax(x), reference.softmax(x), "the tensor of weights")


@exercise("softmax", weight=2)
@example(n=at(B=1, T=2, V=3), dim=1, seed=0)
@given(n=distinct("B", "T", "V", least=1), dim=st.sampled_from([-1, 0, 1, 2, -2, -3]), seed=seeds)
def test_dim_chooses_the_axis_that_sums_to_one(learner, reference, n, dim, seed):
    """The slices that sum to 1 are along `dim`, whichever axis that is; by default along the last, for any number of axes. x may be a view (not contiguous)."""
    x = tensor(seed, n.B, n.T, n.V, scale=2.0)
    got = learner.softmax(x, dim=dim), learner.softmax(x)
    single, view = learner.softmax(x[0, 0]), learner.bring(of_view)(learner.softmax, x, dim)
    close(got[0], reference.softmax(x, dim=dim), f"the tensor of weights along dim={dim}")
    close(got[1], reference.softmax(x), "the tensor of weights where dim is not given")
    close(single, reference.softmax(x[0, 0]), "the tensor of weights of a single row, (V,)")
    close(view, reference.softmax(x, dim=dim), f"the tensor of weights along dim={dim} of a view, not contiguous in memory,")


@exercise("softmax", weight=3)
@given(n=distinct("T", "V"), seed=seeds)
def test_a_large_number_added_to_a_slice_changes_nothing(learner, reference, n, seed):
    """Rows around 10000 and rows around -10000, in one tensor, each get the weights that follow from their differences."""
    x = tensor(seed, n.T, n.V, scale=2.0) + 1e4 * torch.cos(math.pi * torch.arange(n.T))[:, None]
    close(learner.softmax(x), reference.softmax(x), "the tensor of weights")


@exercise("softmax", weight=2)
@given(n=distinct("T", "V"), seed=seeds)
def test_scores_far_apart_in_one_slice(learner, reference, n, seed):
    """In a row with scores of 10000 and of -10000 all weight goes to the largest, and nothing overflows."""
    x = tensor(seed, n.T, n.V, scale=1e4)
    close(learner.softmax(x), reference.softmax(x), "the tensor of weights")


@exercise("softmax", weight=2)
@given(n=distinct("T", "V"), seed=seeds)
def test_minus_infinity_gets_no_weight(learner, reference, n, seed):
    """An entry of -inf gets weight 0, and the other weights sum to 1."""
    x = tensor(seed, n.T, n.V, scale=2.0).masked_fill(~random_mask(seed, n.T, n.V), -math.inf)
    close(learner.softmax(x), reference.softmax(x), "the tensor of weights")


@exercise("softmax", weight=2)
@given(n=distinct("T", "V"), seed=seeds)
def test_a_slice_of_nothing_but_minus_infinity_gives_zeros(learner, reference, n, seed):
    """A row with only -inf gives zeros, not NaN, and does not change the other rows."""
    x = tensor(seed, n.T, n.V, scale=2.0)
    x[seed % n.T] = -math.inf
    close(learner.softmax(x), reference.softmax(x), "the tensor of weights")


@exercise("softmax", weight=2)
@few
@given(n=distinct("T", "V"), seed=seeds)
def test_gradient_of_softmax(learner, reference, n, seed):
    """The gradient is that of softmax, and it is finite even for a row with only -inf."""
    x = tensor(seed, n.T, n.V, scale=2.0).masked_fill(~random_mask(seed, n.T, n.V), -math.inf)
    x[seed % n.T] = -math.inf
    got, expected = gradients(learner.softmax, x), gradients(reference.softmax, x)
    with check:
        close(got.output, expected.output, "the tensor of weights")
    with check:
        compare_gradient(got.inputs[0], expected.inputs[0], "x", tol=1e-3)


@exercise("softmax")
@few
@given(n=distinct("T", "V"), seed=seeds)
def test_softmax_keeps_the_dtype(learner, reference, n, seed):
    """float64 in, float64 out, computed in float64: around 1000, scores differ by less than float32 can tell; bfloat16 in, bfloat16 out; on any device."""
    x = tensor(seed, n.T, n.V, dtype=torch.float64)
    expected = reference.softmax(x)
    close(learner.softmax(x), expected, "the tensor of weights", tol=1e-5)
    close(learner.softmax(x.bfloat16()), expected.bfloat16(), "the tensor of weights", tol=5e-2)
    check_device_of_result(learner, x, learner.softmax, x)
    far = 1000 + x / 1000
    close(learner.softmax(far), reference.softmax(far), "the tensor of weights of float64 scores around 1000", tol=1e-8)


# ---- causal_mask


@exercise("causal_mask", weight=2)
@given(T=st.integers(2, 7))
def test_a_query_may_attend_to_itself_and_earlier_keys(learner, reference, T):
    """With as many keys as queries, query i may attend to the keys 0 to i, and to none after it."""
    sizes(T=T)
    same(learner.causal_mask(T), reference.causal_mask(T), "the mask")


@exercise("causal_mask", weight=3)
@given(q_len=st.integers(2, 4), earlier=st.integers(1, 4))
def test_with_more_keys_the_queries_are_the_last_positions(learner, reference, q_len, earlier):
    """With k_len keys the queries are the last positions: the last one attends to every key, and each to all earlier keys."""
    sizes(q_len=q_len, k_len=q_len + earlier)
    same(learner.causal_mask(q_len, q_len + earlier), reference.causal_mask(q_len, q_len + earlier), "the mask")


@exercise("causal_mask")
@few
@given(n=distinct("q_len", "k_len", k_len=(8, 11)))
def test_a_mask_is_the_last_rows_of_a_longer_one(learner, reference, n):
    """causal_mask(q_len, k_len) has the last q_len rows of causal_mask(k_len), however many keys there are."""
    whole = learner.causal_mask(n.k_len, k_len=n.k_len)
    same(whole, reference.causal_mask(n.k_len), f"the mask for {n.k_len} queries and k_len={n.k_len}")
    same(learner.causal_mask(q_len=n.q_len, k_len=n.k_len), whole[-n.q_len :], "the mask of the last positions")
    same(learner.causal_mask(1, n.k_len), whole[-1:], "the mask of the last position alone")
    same(learner.causal_mask(1), torch.ones(1, 1, dtype=torch.bool), "the mask of a single position")
    far = torch.ones(2, 1500, dtype=torch.bool)
    far[0, -1] = False
    same(learner.causal_mask(2, 1500), far, "the mask of two queries and 1500 keys")


@exercise("causal_mask")
@few
@given(q_len=st.integers(2, 4), earlier=st.integers(1, 4))
def test_each_call_makes_a_mask_of_its_own(learner, reference, q_len, earlier):
    """The caller may write into the mask: a second call with the same sizes gives the same mask as the first."""
    sizes(q_len=q_len, k_len=q_len + earlier)
    again = learner.bring(after_overwriting)(learner.causal_mask, q_len, q_len + earlier)
    same(again, reference.causal_mask(q_len, q_len + earlier), "the second mask, after the first was overwritten,")


# ---- padding_mask


def padded(seed, B, T, pad_id):
    """Ids with filling on the right of the first row, on the left of the second, and nothing else in the third."""
    ids = token_ids(seed, B, T, vocab=9)
    ids = torch.where(ids == pad_id, 9, ids)
    cut = 1 + seed % (T - 1)
    ids[0, cut:] = pad_id
    ids[1, :cut] = pad_id
    if B > 2:
        ids[2] = pad_id
    return ids


@exercise("padding_mask", weight=2)
@given(n=distinct("B", "T"), seed=seeds)
def test_real_tokens_are_true_and_padding_is_false(learner, reference, n, seed):
    """The mask (B, 1, 1, T) is True at real tokens and False at padding, on either side, also for a single id; ids may be a view (not contiguous)."""
    ids = padded(seed, n.B, n.T, 0)
    view, single = learner.bring(of_view)(learner.padding_mask, ids, 0), learner.padding_mask(ids[:1, :1], 0)
    same(learner.padding_mask(ids, 0), reference.padding_mask(ids, 0), "the mask")
    same(view, reference.padding_mask(ids, 0), "the mask of ids that are a view, not contiguous in memory,")
    same(single, reference.padding_mask(ids[:1, :1], 0), "the mask (1, 1, 1, 1) of a single id")


@exercise("padding_mask", weight=2)
@given(n=distinct("B", "T"), pad_id=st.integers(1, 8), seed=seeds)
def test_padding_is_the_id_that_was_given(learner, reference, n, pad_id, seed):
    """Padding is `pad_id`, whichever id that is; smaller ids, 0 too, are real tokens."""
    ids = padded(seed, n.B, n.T, pad_id)
    same(learner.padding_mask(ids, pad_id), reference.padding_mask(ids, pad_id), "the mask")
    same(learner.padding_mask(ids, pad_id=9), reference.padding_mask(ids, 9), "the mask for another pad_id")


@exercise("padding_mask")
@given(n=distinct("B", "H", "T"), seed=seeds)
def test_the_mask_fits_every_head_and_every_query(learner, reference, n, seed):
    """Broadcast over scores (B, H, T, T), the mask removes the same keys for every head and every query of a text. It is on the device of ids."""
    ids, scores = padded(seed, n.B, n.T, 3), torch.zeros(n.B, n.H, n.T, n.T)
    mask, other = learner.padding_mask(ids, 3), learner.padding_mask(ids.flip(1), 3)
    same(mask, reference.padding_mask(ids, 3), "the mask")
    same(other, reference.padding_mask(ids.flip(1), 3), "the mask of ids with the same shape as in the call before it")
    check_device_of_result(learner, mask, learner.padding_mask, ids, 3)
    same(torch.where(mask, scores, 1.0), (ids == 3).float()[:, None, None, :].expand_as(scores), "the masked keys")
