"""Chapter 3, second part: scaled dot-product attention."""

import math

from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, sizes
from hypothesis import example, given, settings
from hypothesis import strategies as st
from masks import random_mask
from module_pairs import compare_gradient
from pytest_check import check
from strategies import at, distinct, seeds, tensor

few = settings(max_examples=3)  # for tests that a mistake breaks at every example: more examples would only take time


# ---- scaled_dot_product_attention


def qkv(seed, n, scale=1.6, lead=2):
    """Queries, keys and values with `lead` axes in front, scores sharp enough to matter."""
    front = (n.B, n.H)[:lead]
    sizes(**{axis: None for axis in ("B", "H")[lead:]})
    return (
        tensor(seed, *front, n.Tq, n.d, scale=scale),
        tensor(seed + 1, *front, n.Tk, n.d, scale=scale),
        tensor(seed + 2, *front, n.Tk, n.d_v),
    )


attention_sizes = distinct("B", "H", "Tq", "Tk", "d", "d_v", B=(1, 3), H=(1, 4), Tq=(3, 9))


def both(result):
    holds(
        isinstance(result, tuple | list) and len(result) == 2,
        "scaled_dot_product_attention should return two tensors: the output and the weights",
    )
    return result


def same_attention(got, expected, tol=None):
    output, weights = both(got)
    with check:
        close(weights, expected[1], "the tensor of weights", tol)
    with check:
        close(output, expected[0], "the output", tol)


def attention_of_views(attention, *tensors):
    """Attention of the same numbers, laid out in memory as split heads are: the positions before the heads."""
    return attention(*[x.transpose(-2, -3).contiguous().transpose(-2, -3) if x.dim() > 2 else x for x in tensors])


@exercise("scaled_dot_product_attention", weight=4)
@example(n=at(B=1, H=1, Tq=1, Tk=1, d=1, d_v=1), lead=2, seed=0)
@given(n=attention_sizes, lead=st.integers(0, 2), seed=seeds)
def test_each_query_averages_the_values_with_softmax_weights(learner, reference, n, lead, seed):
    """The weights are softmax(q k^T / sqrt(d)) over the keys, and the output is the average of the values with them; q, k and v may be views (not contiguous)."""
    q, k, v = qkv(seed, n, lead=lead)
    expected = reference.scaled_dot_product_attention(q, k, v)
    views = learner.bring(attention_of_views)(learner.scaled_dot_product_attention, q, k, v)
    same_attention(learner.scaled_dot_product_attention(q, k, v), expected)
    same_attention(views, expected)


@exercise("scaled_dot_product_attention", weight=1)
@few
@given(n=attention_sizes, seed=seeds)
def test_equal_values_come_back_unchanged(learner, reference, n, seed):
    """If all keys have the same value, every query gets exactly that value: a row of weights sums to 1."""
    q, k, _ = qkv(seed, n)
    v = tensor(seed, n.B, n.H, 1, n.d_v).expand(-1, -1, n.Tk, -1)
    mask = random_mask(seed, n.Tq, n.Tk)
    output, _ = both(learner.scaled_dot_product_attention(q, k, v, mask))
    close(output, v[:, :, :1].expand(-1, -1, n.Tq, -1), "the output")


@exercise("scaled_dot_product_attention", weight=1)
@few
@given(n=attention_sizes, seed=seeds)
def test_the_order_of_keys_does_not_matter(learner, reference, n, seed):
    """If keys and values are reordered in the same way, the output stays the same."""
    q, k, v = qkv(seed, n)
    order = tensor(seed, n.Tk).argsort()
    output, _ = both(learner.scaled_dot_product_attention(q, k[:, :, order], v[:, :, order]))
    close(output, reference.scaled_dot_product_attention(q, k, v)[0], "the output")


@exercise("scaled_dot_product_attention", weight=1)
@few
@given(n=attention_sizes, seed=seeds)
def test_large_scores_do_not_overflow(learner, reference, n, seed):
    """Scores in the hundreds give sharp weights, not NaN; a masked key changes nothing, however large its score is."""
    q, k, v = qkv(seed, n, scale=12.0)
    mask = random_mask(seed, n.Tq, n.Tk)
    same_attention(learner.scaled_dot_product_attention(q, k, v), reference.scaled_dot_product_attention(q, k, v), tol=1e-3)
    same_attention(learner.scaled_dot_product_attention(q, k, v, mask), reference.scaled_dot_product_attention(q, k, v, mask), tol=1e-3)


@exercise("scaled_dot_product_attention", weight=4)
@given(n=attention_sizes, shape=st.sampled_from(["Tq Tk", "B 1 1 Tk", "B 1 Tq Tk", "B H Tq Tk"]), seed=seeds)
def test_masked_keys_get_no_weight(learner, reference, n, shape, seed):
    """A key whose mask is False gets weight 0, and the other keys share all of the weight; any mask that broadcasts works."""
    q, k, v = qkv(seed, n)
    mask = random_mask(seed, *[1 if axis == "1" else getattr(n, axis) for axis in shape.split()])
    got = learner.scaled_dot_product_attention(q, k, v, mask=mask)
    same_attention(got, reference.scaled_dot_product_attention(q, k, v, mask=mask))


@exercise("scaled_dot_product_attention", weight=1)
@few
@given(n=distinct("B", "H", "d", "d_v", T=(3, 7)), seed=seeds)
def test_a_future_token_changes_no_earlier_output(learner, reference, n, seed):
    """With a causal mask, a different key and value at position t changes the outputs from t on, and no earlier one."""
    n.Tq = n.Tk = n.T
    q, k, v = qkv(seed, n)
    mask, t = reference.causal_mask(n.T), 1 + seed % (n.T - 1)
    before, _ = both(learner.scaled_dot_product_attention(q, k, v, mask))
    k[:, :, t], v[:, :, t] = v.new_tensor(2.0), v.new_tensor(3.0)
    after, _ = both(learner.scaled_dot_product_attention(q, k, v, mask))
    close(after, reference.scaled_dot_product_attention(q, k, v, mask)[0], "the output after the change")
    close(after[:, :, :t], before[:, :, :t], f"the output before position {t}, once that token has changed,")


def a_bias(seed, n, shape):
    return tensor(seed + 3, *[getattr(n, axis) for axis in shape.split()], scale=2.0)


bias_shapes = st.sampled_from(["Tq Tk", "H Tq Tk", "B H Tq Tk"])


@exercise("scaled_dot_product_attention", weight=1)
@given(n=attention_sizes, shape=bias_shapes, seed=seeds)
def test_bias_is_added_to_the_scaled_scores(learner, reference, n, shape, seed):
    """`bias` is added to the scores after they are scaled."""
    q, k, v = qkv(seed, n, scale=1.2)
    bias = a_bias(seed, n, shape)
    same_attention(learner.scaled_dot_product_attention(q, k, v, bias=bias), reference.scaled_dot_product_attention(q, k, v, bias=bias))


@exercise("scaled_dot_product_attention", weight=1)
@given(n=attention_sizes, shape=bias_shapes, seed=seeds)
def test_bias_and_mask_work_together(learner, reference, n, shape, seed):
    """With a bias and a mask, the bias is added to the scaled scores, and then masked keys are removed; there may be more axes in front."""
    q, k, v = qkv(seed, n, scale=1.2)
    bias, mask = a_bias(seed, n, shape), random_mask(seed, n.B, 1, n.Tq, n.Tk)
    got = learner.scaled_dot_product_attention(q, k, v, mask=mask, bias=bias)
    more = learner.scaled_dot_product_attention(q[None], k[None], v[None], mask=mask, bias=bias)
    expected = reference.scaled_dot_product_attention(q, k, v, mask=mask, bias=bias)
    same_attention(got, expected)
    same_attention(more, tuple(part[None] for part in expected))


@exercise("scaled_dot_product_attention", weight=2)
@given(n=attention_sizes, seed=seeds)
def test_a_query_whose_keys_are_all_masked_gets_zeros(learner, reference, n, seed):
    """A query that may attend to nothing has weights and output of zero, and the other queries do not change."""
    q, k, v = qkv(seed, n)
    mask = random_mask(seed, n.B, 1, n.Tq, n.Tk)
    mask[seed % n.B, :, seed % n.Tq] = False
    same_attention(learner.scaled_dot_product_attention(q, k, v, mask), reference.scaled_dot_product_attention(q, k, v, mask))


def dead_rows(seed, n):
    """A mask and a bias: one query has all its keys biased to -inf, the next one all those that its mask allows."""
    mask, bias = random_mask(seed, n.B, 1, n.Tq, n.Tk), tensor(seed + 3, n.H, n.Tq, n.Tk)
    row = seed % n.Tq
    mask[:, :, row] = True
    bias[:, row] = -math.inf
    following = (row + 1) % n.Tq
    mask[:, :, following] = random_mask(seed, n.Tk)
    bias[:, following] = bias[:, following].masked_fill(random_mask(seed, n.Tk), -math.inf)
    return mask, bias


@exercise("scaled_dot_product_attention", weight=2)
@given(n=attention_sizes, seed=seeds)
def test_a_query_biased_away_from_every_key_gets_zeros(learner, reference, n, seed):
    """If all keys of a query, or all that its mask allows, are biased to -inf, its weights and output are zero, never NaN."""
    q, k, v = qkv(seed, n)
    mask, bias = dead_rows(seed, n)
    got = learner.scaled_dot_product_attention(q, k, v, mask=mask, bias=bias)
    same_attention(got, reference.scaled_dot_product_attention(q, k, v, mask=mask, bias=bias))


def the_output(attention, q, k, v):
    return attention(q, k, v)[0]


def the_weights(attention, q, k, v, mask, bias):
    return attention(q, k, v, mask, bias)[1]


@exercise("scaled_dot_product_attention", weight=2)
@few
@given(n=attention_sizes, seed=seeds)
def test_gradients_of_attention(learner, reference, n, seed):
    """Queries, keys, values and bias get the correct gradient, through the output and through the weights; it is finite even if a query may attend to nothing."""
    q, k, v = qkv(seed, n, scale=1.2)
    mask, bias = dead_rows(seed, n)
    mask[0, :, (seed + 2) % n.Tq] = False
    got = gradients(learner.scaled_dot_product_attention, q, k, v, mask, bias)
    expected = gradients(reference.scaled_dot_product_attention, q, k, v, mask, bias)
    same_attention(got.output, expected.output)
    for i, name in ((0, "q"), (1, "k"), (2, "v"), (4, "bias")):
        with check:
            compare_gradient(got.inputs[i], expected.inputs[i], name, tol=1e-3)
    got, expected = (gradients(side.bring(the_weights), side.scaled_dot_product_attention, q, k, v, mask, bias) for side in (learner, reference))
    for i, name in ((1, "q"), (2, "k"), (5, "bias")):
        with check:
            compare_gradient(got.inputs[i], expected.inputs[i], f"{name} through the weights", tol=1e-3)


@exercise("scaled_dot_product_attention", weight=1)
@few
@given(n=attention_sizes, seed=seeds)
def test_attention_keeps_the_dtype(learner, reference, n, seed):
    """float64 in, float64 out, computed in float64, also for keys so long that float32 would lose what distinguishes them; bfloat16 in, bfloat16 out; with a mask too; on any device."""
    q, k, v = (x.double() for x in qkv(seed, n, scale=1.0))
    mask = random_mask(seed, n.Tq, n.Tk)
    expected = reference.scaled_dot_product_attention(q, k, v, mask)
    same_attention(learner.scaled_dot_product_attention(q, k, v, mask), expected, tol=1e-5)
    long = k + 1000.0  # adds the same to all scores of a query, which changes no weight
    same_attention(learner.scaled_dot_product_attention(q, long, v, mask), expected, tol=1e-6)
    check_device_of_result(learner, expected[0], learner.bring(the_output), learner.scaled_dot_product_attention, q, k, v)
    got = learner.scaled_dot_product_attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), mask)
    same_attention(got, tuple(x.bfloat16() for x in expected), tol=8e-2)
