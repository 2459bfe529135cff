"""Chapter 14, second part: attention strip by strip, forward and backward, and the memory that it takes."""

import torch
from attention_groups import double_qkv, fixed_sizes, group_sizes, in_bfloat16, same_pair
from backward_laws import on_views
from calls import call_without_gradient
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, sizes
from grader.verdict.memory import watch_call
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_check import check
from strategies import distinct, seeds, tensor

few = settings(max_examples=3)
T, D, BLOCK = 64, 2, 4  # where memory is measured: small enough that code for one query at a time ends within the limit of a call
NAMES = ("grad_q", "grad_k", "grad_v")


def blocks(Tk):
    """One key at a time, strips with a shorter last one, two equal halves or nearly, all keys at once, and more than there are."""
    return (1, 2, Tk // 2, Tk - 1, Tk, Tk + 3)


def long_qkv(seed):
    """One head of T positions, in float32."""
    sizes(B=1, H=1, T=T, d=D, block=BLOCK)
    return tuple(tensor(seed + i, 1, 1, T, D) for i in range(3))


def whole_attention(attention, q, k, v, causal):
    """The output and lse over all keys at once."""
    Tq, Tk = q.size(-2), k.size(-2)
    return attention(q, k, v, torch.ones(Tq, Tk, dtype=torch.bool).tril(Tk - Tq) if causal else None)


# ---- tiled_attention


@exercise("tiled_attention", weight=3)
@given(n=group_sizes, lead=st.integers(0, 2), seed=seeds)
def test_every_block_size_gives_the_attention_over_all_keys(learner, reference, n, lead, seed):
    """Output and lse are those of attention over all keys at once, for each block size: one that divides Tk, one that does not, and one above Tk."""
    q, k, v = double_qkv(seed, n, lead=lead)
    got = {block: learner.tiled_attention(q, k, v, block) for block in blocks(n.Tk)}
    expected = reference.attention_with_lse(q, k, v)
    for block, pair in got.items():
        same_pair(pair, expected, "tiled_attention", f" with block = {block}")


@exercise("tiled_attention", weight=3)
@given(n=group_sizes, lead=st.integers(0, 2), seed=seeds)
def test_causal_queries_are_the_last_positions(learner, reference, n, lead, seed):
    """With causal=True, query i is at position Tk - Tq + i, and sees the keys up to there in every strip; keys of the future change nothing."""
    q, k, v = double_qkv(seed, n, lead=lead)
    got = {block: learner.tiled_attention(q, k, v, block, causal=True) for block in blocks(n.Tk)}
    expected = whole_attention(reference.attention_with_lse, q, k, v, causal=True)
    for block, pair in got.items():
        same_pair(pair, expected, "tiled_attention", f" with block = {block} and causal=True")


@exercise("tiled_attention", weight=2)
@few
@given(n=distinct("B", "H", "d", "d_v", T=(6, 9)), seed=seeds)
def test_causal_with_as_many_queries_as_keys(learner, reference, n, seed):
    """With as many queries as keys, the first query sees only the first key, and the last query sees all."""
    n.Tq = n.Tk = n.T
    q, k, v = double_qkv(seed, n)
    got = {block: learner.tiled_attention(q, k, v, block, causal=True) for block in blocks(n.Tk)}
    expected = whole_attention(reference.attention_with_lse, q, k, v, causal=True)
    for block, pair in got.items():
        same_pair(pair, expected, "tiled_attention", f" with block = {block} and causal=True")


@exercise("tiled_attention", weight=2)
@few
@given(n=group_sizes, rise=st.sampled_from([40.0, 3000.0]), seed=seeds)
def test_the_largest_score_may_come_in_any_strip(learner, reference, n, rise, seed):
    """Scores that rise or fall from strip to strip, all far above 0 or all far below it, give the same result: sums are scaled to the new largest score."""
    q, k, v = double_qkv(seed, n, scale=1.0)
    q[..., 0] = 1.0
    found = []
    for step in (rise, -rise):
        keys = k.clone()
        keys[..., 0] = torch.linspace(step, 2 * step, n.Tk, dtype=torch.float64)
        found.append((reference.attention_with_lse(q, keys, v), {block: learner.tiled_attention(q, keys, v, block) for block in (1, 2, 4)}))
    for expected, got in found:
        for block, pair in got.items():
            same_pair(pair, expected, "tiled_attention", f" with block = {block}", tol=1e-5)


@exercise("tiled_attention", weight=6)
def test_no_tensor_is_as_large_as_the_scores(learner, reference):
    """With 64 positions and block = 4, no tensor has a quarter of the 64 × 64 scores, and all tensors at one moment have less than three quarters together."""
    q, k, v = long_qkv(1)
    watched = watch_call(learner, learner.tiled_attention, q, k, v, BLOCK, largest=T * T / 4, alive=3 * T * T / 4)
    same_pair(watched.result, reference.attention_with_lse(q, k, v), "tiled_attention")
    watched.check()


@exercise("tiled_attention", weight=5)
def test_no_causal_mask_is_as_large_as_the_scores(learner, reference):
    """With causal=True, block = 8 and values of width 1, no tensor has a quarter of the 64 × 64 scores: neither the scores nor a mask."""
    q, k, v = long_qkv(2)
    v = v[..., :1]
    sizes(d_v=1, block=8)
    watched = watch_call(learner, learner.tiled_attention, q, k, v, 8, True, largest=T * T / 4)
    same_pair(watched.result, whole_attention(reference.attention_with_lse, q, k, v, causal=True), "tiled_attention")
    watched.check()


@exercise("tiled_attention", weight=3)
def test_few_queries_meet_many_keys_in_strips_too(learner, reference):
    """With 16 queries, 256 keys, block = 4 and causal=True, no tensor has a quarter of the 16 × 256 scores, and all at one moment less than three quarters."""
    Tq, Tk, d, d_v = 16, 256, 2, 3
    sizes(B=1, H=1, Tq=Tq, Tk=Tk, d=d, d_v=d_v, block=BLOCK)
    q, k, v = tensor(3, 1, 1, Tq, d), tensor(4, 1, 1, Tk, d), tensor(5, 1, 1, Tk, d_v)
    watched = watch_call(learner, learner.tiled_attention, q, k, v, BLOCK, True, largest=Tq * Tk / 4, alive=3 * Tq * Tk / 4)
    same_pair(watched.result, whole_attention(reference.attention_with_lse, q, k, v, causal=True), "tiled_attention")
    watched.check()


@exercise("tiled_attention")
def test_a_block_has_at_least_one_key(learner, reference):
    """block below 1 raises a ValueError that names it."""
    q, k, v = (x.float() for x in double_qkv(0, fixed_sizes()))
    same_pair(learner.tiled_attention(q, k, v, 2), reference.attention_with_lse(q, k, v), "tiled_attention")
    for block in (0, -3):
        refuses(lambda block=block: learner.tiled_attention(q, k, v, block), naming={"block": block}, because="a strip has at least one key")


@exercise("tiled_attention")
@few
@given(n=group_sizes, seed=seeds)
def test_without_keys_the_result_is_that_of_an_empty_group(learner, reference, n, seed):
    """Without any key, every query has output 0 and lse -inf; with one key, its output is the value of that key."""
    q, k, v = double_qkv(seed, n)
    one, none = (learner.tiled_attention(q, k[..., :count, :], v[..., :count, :], 2) for count in (1, 0))
    same_pair(one, reference.attention_with_lse(q, k[..., :1, :], v[..., :1, :]), "tiled_attention", " with one key")
    same_pair(none, reference.attention_with_lse(q, k[..., :0, :], v[..., :0, :]), "tiled_attention", " without any key")


@exercise("tiled_attention")
@few
@given(n=group_sizes, seed=seeds)
def test_tiles_keep_dtype_and_device(learner, reference, n, seed):
    """Output and lse have the dtype and the device of the queries: float32 gives float32, bfloat16 gives bfloat16."""
    q, k, v = (x.float() for x in double_qkv(seed, n, scale=1.0))
    got = learner.tiled_attention(q, k, v, 3), learner.tiled_attention(q, k, v, 3, True)
    rough = learner.tiled_attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), 3, True)
    for pair, causal in zip(got, (False, True)):
        same_pair(pair, whole_attention(reference.attention_with_lse, q, k, v, causal), "tiled_attention", f" with causal={causal}")
    expected = in_bfloat16(whole_attention(reference.attention_with_lse, q, k, v, True))
    same_pair(rough, expected, "tiled_attention", " in bfloat16", tol=8e-2)
    check_device_of_result(learner, got[0][0], learner.bring(first_tile), learner.tiled_attention, q, k, v)


def first_tile(f, q, k, v):
    return f(q, k, v, 2, True)[0]


@exercise("tiled_attention")
@few
@given(n=group_sizes, seed=seeds)
def test_tiles_of_views(learner, reference, n, seed):
    """Queries, keys and values may be views, whose numbers are not neighbours in memory."""
    q, k, v = double_qkv(seed, n)
    got = learner.bring(on_views)(learner.tiled_attention, q, k, v, 4, True)
    same_pair(got, whole_attention(reference.attention_with_lse, q, k, v, True), "tiled_attention", " of views")


@exercise("tiled_attention")
@few
@given(n=group_sizes, seed=seeds)
def test_causal_queries_before_the_first_key_see_nothing(learner, reference, n, seed):
    """With causal=True and more queries than keys, query i is still at position Tk - Tq + i: one below 0 sees no key, and has output 0 and lse -inf."""
    n.Tq, n.Tk = n.Tk, n.Tq
    q, k, v = double_qkv(seed, n)
    got = {block: learner.tiled_attention(q, k, v, block, causal=True) for block in (1, 2, n.Tk + 3)}
    expected = whole_attention(reference.attention_with_lse, q, k, v, causal=True)
    for block, pair in got.items():
        same_pair(pair, expected, "tiled_attention", f" of more queries than keys with block = {block} and causal=True")


# ---- tiled_attention_backward


def backward_case(reference, q, k, v, seed, causal):
    """The arguments after q, k and v, without block and causal, and the gradients that chapter 3's attention gets from autograd."""
    output, lse = whole_attention(reference.attention_with_lse, q, k, v, causal)
    grad_out = tensor(seed + 3, *output.shape, dtype=q.dtype)
    Tq, Tk = q.size(-2), k.size(-2)
    mask = torch.ones(Tq, Tk, dtype=torch.bool).tril(Tk - Tq) if causal else None
    expected = gradients(reference.scaled_dot_product_attention, q, k, v, mask, cotangent=grad_out)
    return (output, lse, grad_out), expected.inputs[:3]


def same_gradients(got, expected, which="", tol=None):
    holds(isinstance(got, tuple | list) and len(got) == 3, "tiled_attention_backward should return three tensors: grad_q, grad_k and grad_v")
    for name, gradient, wanted in zip(reversed(NAMES), reversed(got), reversed(expected)):
        with check:
            close(gradient, wanted, name + which, tol)


@exercise("tiled_attention_backward", weight=3)
@given(n=group_sizes, lead=st.integers(0, 2), seed=seeds)
def test_gradients_are_those_of_attention_for_every_block_size(learner, reference, n, lead, seed):
    """grad_q, grad_k and grad_v are the gradients of attention over all keys at once, for each block size."""
    q, k, v = double_qkv(seed, n, lead=lead)
    rest, expected = backward_case(reference, q, k, v, seed, causal=False)
    got = {block: learner.tiled_attention_backward(q, k, v, *rest, block) for block in blocks(n.Tk)}
    for block, found in got.items():
        same_gradients(found, expected, f" with block = {block}")


@exercise("tiled_attention_backward", weight=3)
@given(n=group_sizes, lead=st.integers(0, 2), seed=seeds)
def test_gradients_of_causal_attention(learner, reference, n, lead, seed):
    """With causal=True, keys of the future get no gradient and send none; query i is at position Tk - Tq + i."""
    q, k, v = double_qkv(seed, n, lead=lead)
    rest, expected = backward_case(reference, q, k, v, seed, causal=True)
    got = {block: learner.tiled_attention_backward(q, k, v, *rest, block, causal=True) for block in blocks(n.Tk)}
    for block, found in got.items():
        same_gradients(found, expected, f" with block = {block} and causal=True")


@exercise("tiled_attention_backward")
@few
@given(n=distinct("B", "H", "d", "d_v", T=(6, 9)), seed=seeds)
def test_gradients_with_as_many_queries_as_keys(learner, reference, n, seed):
    """With as many queries as keys, the last key gets a gradient from the last query only, also if grad_out is not contiguous."""
    n.Tq = n.Tk = n.T
    q, k, v = double_qkv(seed, n)
    rest, expected = backward_case(reference, q, k, v, seed, causal=True)
    got = learner.tiled_attention_backward(q, k, v, *rest, 4, True)
    spread = learner.bring(call_with_transposed_gradient)(learner.tiled_attention_backward, q, k, v, *rest, 4, True)
    same_gradients(got, expected, " with block = 4 and causal=True")
    same_gradients(spread, expected, " where grad_out is not contiguous")


def call_with_transposed_gradient(f, q, k, v, output, lse, grad_out, *options):
    """The gradients from a grad_out whose features are not neighbours in memory, as behind a merging of heads."""
    return f(q, k, v, output, lse, grad_out.transpose(-2, -1).contiguous().transpose(-2, -1), *options)


@exercise("tiled_attention_backward", weight=2)
@few
@given(n=group_sizes, shift=st.sampled_from([3000.0, -3000.0]), seed=seeds)
def test_gradients_of_very_large_and_very_small_scores(learner, reference, n, shift, seed):
    """A number in the thousands added to all scores changes no gradient of the values, and makes none NaN: lse contains it too."""
    q, k, v = double_qkv(seed, n, scale=1.0)
    q[..., 0] = 1.0
    k[..., 0] += shift
    rest, expected = backward_case(reference, q, k, v, seed, causal=False)
    found = learner.tiled_attention_backward(q, k, v, *rest, 2)
    holds(isinstance(found, tuple | list) and len(found) == 3, "tiled_attention_backward should return three tensors: grad_q, grad_k and grad_v")
    for name, got, wanted in zip(NAMES, found, expected):
        with check:
            close(got, wanted, name, tol=1e-6)


@exercise("tiled_attention_backward", weight=6)
@settings(max_examples=2)
@given(causal=st.booleans(), seed=seeds)
def test_the_backward_pass_has_no_tensor_as_large_as_the_scores(learner, reference, causal, seed):
    """With 64 positions and block = 4, no tensor of the backward pass has a quarter of the 64 × 64 entries, causal or not."""
    q, k, v = long_qkv(seed)
    rest, expected = backward_case(reference, q, k, v, seed, causal)
    watched = watch_call(learner, learner.tiled_attention_backward, q, k, v, *rest, BLOCK, causal, largest=T * T / 4)
    same_gradients(watched.result, expected)
    watched.check()


@exercise("tiled_attention_backward", weight=5)
def test_the_strips_of_the_backward_pass_are_not_collected(learner, reference):
    """With 64 positions and block = 4, all tensors that exist at one moment have less than three quarters of 64 × 64 entries together."""
    q, k, v = long_qkv(5)
    rest, expected = backward_case(reference, q, k, v, 5, False)
    watched = watch_call(learner, learner.tiled_attention_backward, q, k, v, *rest, BLOCK, largest=T * T / 4, alive=3 * T * T / 4)
    same_gradients(watched.result, expected)
    watched.check()


@exercise("tiled_attention_backward", weight=3)
def test_gradients_of_few_queries_and_many_keys_take_strips_too(learner, reference):
    """With 16 queries, 256 keys, block = 4 and causal=True, no tensor of the backward pass has a quarter of the 16 × 256 entries."""
    Tq, Tk, d, d_v = 16, 256, 2, 3
    sizes(B=1, H=1, Tq=Tq, Tk=Tk, d=d, d_v=d_v, block=BLOCK)
    q, k, v = tensor(3, 1, 1, Tq, d), tensor(4, 1, 1, Tk, d), tensor(5, 1, 1, Tk, d_v)
    rest, expected = backward_case(reference, q, k, v, 6, True)
    watched = watch_call(learner, learner.tiled_attention_backward, q, k, v, *rest, BLOCK, True, largest=Tq * Tk / 4)
    same_gradients(watched.result, expected)
    watched.check()


@exercise("tiled_attention_backward", weight=2)
@few
@given(n=group_sizes, seed=seeds)
def test_the_gradients_are_computed_without_autograd(learner, reference, n, seed):
    """It works in torch.no_grad() and in torch.inference_mode(), where autograd records nothing."""
    q, k, v = double_qkv(seed, n)
    rest, expected = backward_case(reference, q, k, v, seed, causal=True)
    for mode, found in call_without_gradient(learner, learner.tiled_attention_backward, q, k, v, *rest, 2, True).items():
        same_gradients(found, expected, f" in {mode}")


@exercise("tiled_attention_backward")
def test_a_block_of_the_backward_pass_has_at_least_one_key(learner, reference):
    """block below 1 raises a ValueError that names it."""
    q, k, v = (x.float() for x in double_qkv(0, fixed_sizes()))
    rest, expected = backward_case(reference, q, k, v, 0, causal=False)
    same_gradients(learner.tiled_attention_backward(q, k, v, *rest, 2), expected)
    for block in (0, -3):
        refuses(lambda block=block: learner.tiled_attention_backward(q, k, v, *rest, block), naming={"block": block}, because="a strip has at least one key")


@exercise("tiled_attention_backward")
@few
@given(n=group_sizes, seed=seeds)
def test_gradients_keep_dtype_and_device(learner, reference, n, seed):
    """Each gradient has the shape, dtype and device of what it is the gradient of: float32 gives float32, bfloat16 gives bfloat16."""
    q, k, v = (x.float() for x in double_qkv(seed, n, scale=1.0))
    rest, expected = backward_case(reference, q, k, v, seed, causal=True)
    got = learner.tiled_attention_backward(q, k, v, *rest, 3, True)
    rough = learner.tiled_attention_backward(*in_bfloat16((q, k, v, *rest)), 3, True)
    same_gradients(got, expected)
    same_gradients(rough, in_bfloat16(expected), " in bfloat16", tol=0.2)
    check_device_of_result(learner, q, learner.bring(first_gradient), learner.tiled_attention_backward, q, k, v, *rest)


@exercise("tiled_attention_backward")
@few
@given(n=group_sizes, seed=seeds)
def test_gradients_of_views(learner, reference, n, seed):
    """All tensors may be views, whose numbers are not neighbours in memory."""
    q, k, v = double_qkv(seed, n)
    rest, expected = backward_case(reference, q, k, v, seed, causal=True)
    same_gradients(learner.bring(on_views)(learner.tiled_attention_backward, q, k, v, *rest, 4, True), expected, " of views")


@exercise("tiled_attention_backward", weight=2)
@few
@given(n=group_sizes, seed=seeds)
def test_a_query_without_keys_gets_and_gives_no_gradient(learner, reference, n, seed):
    """With causal=True and more queries than keys, a query below position 0 sees no key: its gradient is 0, never NaN, and it adds nothing to grad_k and grad_v."""
    n.Tq, n.Tk = n.Tk, n.Tq
    q, k, v = double_qkv(seed, n)
    rest, expected = backward_case(reference, q, k, v, seed, causal=True)
    got = {block: learner.tiled_attention_backward(q, k, v, *rest, block, True) for block in (1, n.Tk + 3)}
    for block, found in got.items():
        same_gradients(found, expected, f" of more queries than keys with block = {block} and causal=True")


def first_gradient(f, q, k, v, *rest):
    return f(q, k, v, *rest, 2, True)[0]
