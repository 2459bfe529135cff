"""Chapter 14: attention over a group of keys, and two groups merged."""

import math

import torch
from attention_groups import double_qkv, group_sizes, in_bfloat16, pair_of, same_pair
from backward_laws import on_views
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds
from hypothesis import given, settings
from hypothesis import strategies as st
from masks import random_mask
from module_pairs import compare_gradient
from pytest_check import check
from strategies import distinct, seeds, tensor

INF = math.inf
few = settings(max_examples=3)


# ---- attention_with_lse


@exercise("attention_with_lse", weight=3)
@given(n=group_sizes, lead=st.integers(0, 2), seed=seeds)
def test_output_and_lse_describe_the_attention(learner, reference, n, lead, seed):
    """The output is chapter 3's attention, and lse the natural logarithm of the sum of e^score over the keys, with the scores divided by sqrt(d)."""
    q, k, v = double_qkv(seed, n, lead=lead)
    got = learner.attention_with_lse(q, k, v)
    scores = q @ k.transpose(-2, -1) / n.d**0.5
    same_pair(got, (reference.scaled_dot_product_attention(q, k, v)[0], scores.exp().sum(-1).log()), "attention_with_lse")


@exercise("attention_with_lse", weight=2)
@given(n=group_sizes, shape=st.sampled_from(["Tq Tk", "B 1 1 Tk", "B 1 Tq Tk"]), seed=seeds)
def test_masked_keys_count_neither_in_the_output_nor_in_lse(learner, reference, n, shape, seed):
    """A key whose mask is False has no part in the output and no part in lse; any mask that broadcasts works."""
    q, k, v = double_qkv(seed, n)
    mask = random_mask(seed, *[1 if axis == "1" else getattr(n, axis) for axis in shape.split()])
    got = learner.attention_with_lse(q, k, v, mask)
    scores = (q @ k.transpose(-2, -1) / n.d**0.5).masked_fill(~mask, -INF)
    same_pair(got, (reference.scaled_dot_product_attention(q, k, v, mask)[0], scores.exp().sum(-1).log()), "attention_with_lse")


@exercise("attention_with_lse", weight=2)
@few
@given(n=group_sizes, seed=seeds)
def test_a_query_that_sees_nothing_has_output_zero_and_lse_minus_infinity(learner, reference, n, seed):
    """If all keys of a query are masked, or there are no keys at all, its output is 0 and its lse is -inf; the other queries do not change."""
    q, k, v = double_qkv(seed, n)
    mask = random_mask(seed, n.B, 1, n.Tq, n.Tk)
    mask[seed % n.B, :, seed % n.Tq] = False
    masked, without = learner.attention_with_lse(q, k, v, mask), learner.attention_with_lse(q, k[..., :0, :], v[..., :0, :])
    same_pair(masked, reference.attention_with_lse(q, k, v, mask), "attention_with_lse")
    same_pair(without, (q.new_zeros(n.B, n.H, n.Tq, n.d_v), q.new_full((n.B, n.H, n.Tq), -INF)), "attention_with_lse", " without any key")


@exercise("attention_with_lse", weight=2)
@few
@given(n=group_sizes, shift=st.sampled_from([1e4, -1e4]), seed=seeds)
def test_very_large_and_very_small_scores_are_safe(learner, reference, n, shift, seed):
    """A number added to all scores of a query changes no output, and is added to lse: 10000 for one query, -10000 for the next. A masked key may have such a score."""
    q, k, v = double_qkv(seed, n)
    signs = (-1.0) ** torch.arange(n.Tq, dtype=torch.float64)
    q[..., 0], more = signs, k.clone()
    more[..., 0] += shift * n.d**0.5
    far, t = k.clone(), seed % n.Tk
    far[..., t, 0] += 1e4 * n.d**0.5
    mask = (torch.arange(n.Tk) != t).expand(n.Tq, n.Tk)
    got, hidden = learner.attention_with_lse(q, more, v), learner.attention_with_lse(q, far, v, mask)
    output, lse = reference.attention_with_lse(q, k, v)
    same_pair(hidden, reference.attention_with_lse(q, k, v, mask), "attention_with_lse", " where a masked key has a score near 10000 or -10000")
    same_pair(got, (output, lse + shift * signs), "attention_with_lse", f" with {shift:+g} added to the scores of every second query, and {-shift:+g} to the others")


def output_only(attention, q, k, v, mask):
    return attention(q, k, v, mask)[0]


@exercise("attention_with_lse")
@few
@given(n=group_sizes, seed=seeds)
def test_the_output_has_the_gradients_of_attention(learner, reference, n, seed):
    """Through the output, q, k and v get the gradients of chapter 3's attention; they are finite even if a query sees nothing, or a masked key has a very large score."""
    q, k, v = double_qkv(seed, n)
    mask = random_mask(seed, n.B, 1, n.Tq, n.Tk)
    mask[seed % n.B, :, seed % n.Tq] = False
    far, seen = k.clone(), torch.arange(n.Tk).expand(n.Tq, n.Tk) != seed % n.Tk
    q[..., 0], far[..., seed % n.Tk, 0] = 1.0, 1e4 * n.d**0.5
    cases = ((k, mask, ""), (far, seen, " where a masked key has a score near 10000"))
    got = [gradients(learner.bring(output_only), learner.attention_with_lse, q, keys, v, mask) for keys, mask, _ in cases]
    expected = [gradients(reference.bring(output_only), reference.scaled_dot_product_attention, q, keys, v, mask) for keys, mask, _ in cases]
    for found, wanted, (_, _, which) in zip(got, expected, cases):
        with check:
            close(found.output, wanted.output, "the output" + which)
        for i, name in ((1, "q"), (2, "k"), (3, "v")):
            with check:
                compare_gradient(found.inputs[i], wanted.inputs[i], name + which)


@exercise("attention_with_lse")
@few
@given(n=group_sizes, seed=seeds)
def test_attention_with_lse_keeps_dtype_and_device(learner, reference, n, seed):
    """Output and lse have the dtype and the device of the queries: float32 gives float32, with a mask too, and bfloat16 gives bfloat16."""
    q, k, v = (x.float() for x in double_qkv(seed, n, scale=1.0))
    mask = random_mask(seed, n.Tq, n.Tk)
    got, plain = learner.attention_with_lse(q, k, v, mask), learner.attention_with_lse(q, k, v)
    rough = learner.attention_with_lse(q.bfloat16(), k.bfloat16(), v.bfloat16(), mask)
    same_pair(got, reference.attention_with_lse(q, k, v, mask), "attention_with_lse")
    same_pair(plain, reference.attention_with_lse(q, k, v), "attention_with_lse")
    same_pair(rough, in_bfloat16(reference.attention_with_lse(q, k, v, mask)), "attention_with_lse", " in bfloat16", tol=8e-2)
    check_device_of_result(learner, plain[0], learner.bring(first_of), learner.attention_with_lse, q, k, v)


def first_of(f, *args):
    return f(*args)[0]


@exercise("attention_with_lse")
@few
@given(n=group_sizes, seed=seeds)
def test_queries_keys_and_values_need_not_be_contiguous(learner, reference, n, seed):
    """Queries, keys, values and the mask may be views, whose numbers are not neighbours in memory."""
    q, k, v = double_qkv(seed, n)
    mask = random_mask(seed, n.B, 1, n.Tq, n.Tk)
    got, plain = (learner.bring(on_views)(learner.attention_with_lse, q, k, v, *rest) for rest in ((mask,), ()))
    same_pair(got, reference.attention_with_lse(q, k, v, mask), "attention_with_lse", " of views")
    same_pair(plain, reference.attention_with_lse(q, k, v), "attention_with_lse", " of views")


# ---- merge_attention


def groups(reference, q, k, v, *ends):
    """The output and lse of each group of neighbouring keys; `ends` are the places where the keys are cut."""
    cuts = [0, *ends, k.size(-2)]
    return [tuple(reference.attention_with_lse(q, k[..., a:b, :], v[..., a:b, :])) for a, b in zip(cuts, cuts[1:])]


@exercise("merge_attention", weight=3)
@given(n=group_sizes, cut=st.integers(1, 5), lead=st.integers(0, 2), seed=seeds)
def test_two_groups_merge_to_the_attention_over_all_keys(learner, reference, n, cut, lead, seed):
    """Wherever the keys are cut in two, output and lse of the parts merge to output and lse of all keys."""
    q, k, v = double_qkv(seed, n, lead=lead)
    first, second = groups(reference, q, k, v, cut)
    same_pair(learner.merge_attention(*first, *second), reference.attention_with_lse(q, k, v), "merge_attention")


@exercise("merge_attention", weight=2)
@few
@given(n=group_sizes, seed=seeds)
def test_the_order_of_merging_does_not_matter(learner, reference, n, seed):
    """Three groups give the same result in each order: (a b) c, a (b c) and c (b a)."""
    q, k, v = double_qkv(seed, n)
    a, b, c = groups(reference, q, k, v, 1, 3)
    left, right, back = (pair_of(learner.merge_attention(*x, *y), "merge_attention") for x, y in ((a, b), (b, c), (b, a)))
    merged = learner.merge_attention(*left, *c), learner.merge_attention(*a, *right), learner.merge_attention(*c, *back)
    for got, how in zip(merged, ("(a b) c", "a (b c)", "c (b a)")):
        same_pair(got, reference.attention_with_lse(q, k, v), "merge_attention", f" of {how}")


@exercise("merge_attention", weight=3)
@few
@given(n=group_sizes, seed=seeds)
def test_a_group_without_keys_changes_nothing(learner, reference, n, seed):
    """A group without keys, output 0 and lse -inf, changes nothing, whether it comes first or last; two of them give such a group again, never NaN."""
    q, k, v = double_qkv(seed, n)
    full, empty = reference.attention_with_lse(q, k, v), reference.attention_with_lse(q, k[..., :0, :], v[..., :0, :])
    some = (full[0].clone(), full[1].clone())  # its first query sees nothing
    some[0][..., 0, :], some[1][..., 0] = 0.0, -INF
    first, last, both = learner.merge_attention(*empty, *full), learner.merge_attention(*full, *empty), learner.merge_attention(*empty, *empty)
    mixed, pair = learner.merge_attention(*some, *empty), learner.merge_attention(*some, *some)
    same_pair(last, full, "merge_attention", " merged with a group without keys")
    same_pair(first, full, "merge_attention", " of a group without keys merged with another")
    same_pair(both, empty, "merge_attention", " of two groups without keys")
    same_pair(mixed, some, "merge_attention", " where only the first query sees nothing")
    same_pair(pair, reference.merge_attention(*some, *some), "merge_attention", " where the first query sees nothing in both groups")


@exercise("merge_attention", weight=2)
@few
@given(n=group_sizes, shift=st.sampled_from([1e4, -1e4]), seed=seeds)
def test_only_the_difference_of_the_two_lse_decides(learner, reference, n, shift, seed):
    """The same number added to both lse of a query changes no output, and is added to the result's lse, even 10000 for one query and -10000 for the next."""
    q, k, v = double_qkv(seed, n)
    (output_a, lse_a), (output_b, lse_b) = groups(reference, q, k, v, 2)
    output, lse = reference.merge_attention(output_a, lse_a, output_b, lse_b)
    shifts = shift * (-1.0) ** torch.arange(n.Tq, dtype=torch.float64)
    got = learner.merge_attention(output_a, lse_a + shifts, output_b, lse_b + shifts)
    same_pair(got, (output, lse + shifts), "merge_attention", f" with {shift:+g} added to both lse of every second query, and {-shift:+g} to the others")


@exercise("merge_attention")
@few
@given(n=group_sizes, seed=seeds)
def test_a_group_with_a_far_larger_sum_decides_alone(learner, reference, n, seed):
    """If one lse is 2000 above the other, the result is that group's output and lse, whichever of the two it is."""
    q, k, v = double_qkv(seed, n)
    (output_a, lse_a), (output_b, lse_b) = groups(reference, q, k, v, 2)
    first, second = learner.merge_attention(output_a, lse_a + 2000, output_b, lse_b), learner.merge_attention(output_a, lse_a, output_b, lse_b + 2000)
    same_pair(first, (output_a, lse_a + 2000), "merge_attention", " where the first lse is far above the second")
    same_pair(second, (output_b, lse_b + 2000), "merge_attention", " where the second lse is far above the first")


@exercise("merge_attention")
def test_the_groups_of_the_lesson_merge(learner):
    """Output 20/3 with sum 3 and output 4/3 with sum 9 merge to output 32/12 with sum 12."""
    double = torch.float64
    a, b = (torch.tensor([[x]], dtype=double) for x in (20 / 3, 4 / 3))
    lse_a, lse_b = (torch.tensor([x], dtype=double).log() for x in (3.0, 9.0))
    got = learner.merge_attention(a, lse_a, b, lse_b)
    same_pair(got, (torch.tensor([[32 / 12]], dtype=double), torch.tensor([12.0], dtype=double).log()), "merge_attention")


@exercise("merge_attention")
@few
@given(n=distinct("B", "H", "Tq", "d_v"), seed=seeds)
def test_merging_keeps_dtype_and_device(learner, reference, n, seed):
    """Output and lse have the dtype and the device of the groups: float32 gives float32, float64 float64, and bfloat16 bfloat16; the groups may be views."""
    state = [tensor(seed + i, *shape) for i, shape in enumerate([(n.B, n.H, n.Tq, n.d_v), (n.B, n.H, n.Tq)] * 2)]
    single, double = learner.merge_attention(*state), learner.merge_attention(*(x.double() for x in state))
    rough, views = learner.merge_attention(*(x.bfloat16() for x in state)), learner.bring(on_views)(learner.merge_attention, *state)
    same_pair(double, reference.merge_attention(*(x.double() for x in state)), "merge_attention", " in float64")
    same_pair(single, reference.merge_attention(*state), "merge_attention", " in float32")
    same_pair(rough, in_bfloat16(reference.merge_attention(*state)), "merge_attention", " in bfloat16", tol=8e-2)
    same_pair(views, reference.merge_attention(*state), "merge_attention", " of views")
    holds(pair_of(single, "merge_attention")[1].dtype == torch.float32, "lse should be float32, as that of both groups is")
    check_device_of_result(learner, single[0], learner.bring(first_of), learner.merge_attention, *state)
