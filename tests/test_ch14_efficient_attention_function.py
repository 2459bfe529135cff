"""Chapter 14, third part: attention whose backward pass autograd takes from the learner's functions."""

import torch
from attention_groups import double_qkv, fixed_sizes, group_sizes
from backward_laws import on_views
from calls import call_without_gradient, gradient_of_one
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, sizes
from grader.verdict.memory import watch_gradients
from hypothesis import given, settings
from hypothesis import strategies as st
from module_pairs import compare_gradient
from pytest_check import check
from strategies import seeds, tensor

few = settings(max_examples=3)
T, D, BLOCK = 64, 2, 8  # where memory is measured: small enough that code for one query at a time ends within the limit of a call


def causal_mask(q, k, causal):
    return torch.ones(q.size(-2), k.size(-2), dtype=torch.bool).tril(k.size(-2) - q.size(-2)) if causal else None


def compare_with_attention(got, reference, q, k, v, causal, which=""):
    """Output and gradients are those of chapter 3's attention."""
    expected = gradients(reference.bring(output_only), reference.scaled_dot_product_attention, q, k, v, causal_mask(q, k, causal))
    with check:
        close(got.output, expected.output, "the output" + which)
    for i, name in enumerate(("q", "k", "v")):
        with check:
            compare_gradient(got.inputs[i], expected.inputs[i + 1], name + which)


def output_only(attention, q, k, v, mask):
    return attention(q, k, v, mask)[0]


@exercise("efficient_attention", weight=3)
@given(n=group_sizes, lead=st.integers(0, 2), block=st.sampled_from([1, 2, 3, 20]), seed=seeds)
def test_output_and_gradients_are_those_of_attention(learner, reference, n, lead, block, seed):
    """The output, and the gradients of q, k and v, are those of attention over all keys at once, for each block size."""
    q, k, v = double_qkv(seed, n, lead=lead)
    got = gradients(learner.efficient_attention, q, k, v, block)
    compare_with_attention(got, reference, q, k, v, False, f" with block = {block}")


@exercise("efficient_attention", weight=3)
@given(n=group_sizes, block=st.sampled_from([1, 2, 3, 20]), seed=seeds)
def test_causal_reaches_the_backward_pass_too(learner, reference, n, block, seed):
    """With causal=True, no key of the future has a part in the output, and none gets a gradient."""
    q, k, v = double_qkv(seed, n)
    got = gradients(learner.efficient_attention, q, k, v, block=block, causal=True)
    compare_with_attention(got, reference, q, k, v, True, f" with block = {block} and causal=True")


@exercise("efficient_attention")
@few
@given(n=group_sizes, seed=seeds)
def test_block_and_causal_may_be_left_out(learner, reference, n, seed):
    """Called with q, k and v alone, it is attention over all keys."""
    q, k, v = double_qkv(seed, n)
    compare_with_attention(gradients(learner.efficient_attention, q, k, v), reference, q, k, v, False)


def long_attention(learner, reference, seed, causal, **limits):
    """One head of T positions, forward and backward within these limits."""
    sizes(B=1, H=1, T=T, d=D, block=BLOCK)
    q, k, v = (tensor(seed + i, 1, 1, T, D) for i in range(3))
    watched = watch_gradients(learner, learner.efficient_attention, q, k, v, BLOCK, causal, **limits)
    close(watched.result, reference.scaled_dot_product_attention(q, k, v, causal_mask(q, k, causal))[0], "the output")
    watched.check()


@exercise("efficient_attention", weight=16)
@settings(max_examples=2)
@given(causal=st.booleans(), seed=seeds)
def test_the_graph_keeps_only_what_grows_with_the_length(learner, reference, causal, seed):
    """With 64 positions of width 2, at most 4 · 64 · 2 entries wait for the backward pass, and no tensor of both passes has a quarter of 64 × 64."""
    long_attention(learner, reference, seed, causal, largest=T * T / 4, kept=4 * T * D)


@exercise("efficient_attention")
@settings(max_examples=1)
@given(causal=st.booleans(), seed=seeds)
def test_nothing_is_left_when_the_output_is_dropped(learner, reference, causal, seed):
    """When the output is dropped without a backward pass, what was kept for it is freed at once."""
    long_attention(learner, reference, seed, causal, left=0)


def is_gradient_of_the_output(attention, q, k, v, block, causal):
    """What torch's gradcheck says: it moves the numbers along a random direction, and measures how the output changes."""
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    return torch.autograd.gradcheck(lambda *x: attention(*x, block, causal), leaves, raise_exception=False, fast_mode=True)


@exercise("efficient_attention", weight=2)
@settings(max_examples=2)
@given(n=group_sizes, causal=st.booleans(), seed=seeds)
def test_gradients_agree_with_measured_slopes(learner, reference, n, causal, seed):
    """The gradients are the slopes that torch.autograd.gradcheck measures by moving q, k and v a little."""
    q, k, v = (x[:1, :1] for x in double_qkv(seed, n, scale=1.0))
    output = learner.efficient_attention(q, k, v, 2, causal)
    right = learner.bring(is_gradient_of_the_output)(learner.efficient_attention, q, k, v, 2, causal)
    close(output, reference.efficient_attention(q, k, v, 2, causal), "the output")
    holds(right, "the gradients are not the slopes of the output: torch.autograd.gradcheck measures other numbers")


@exercise("efficient_attention")
@few
@given(n=group_sizes, seed=seeds)
def test_one_of_the_three_may_need_a_gradient_alone(learner, reference, n, seed):
    """If only q needs a gradient, or only k, or only v, that one gets it."""
    qkv = double_qkv(seed, n)
    pairs = [[side.bring(gradient_of_one)(side.efficient_attention, i, qkv, 2) for side in (learner, reference)] for i in range(3)]
    for name, (got, expected) in zip("qkv", pairs):
        compare_gradient(got, expected, name)


def two_layers(attention, q, k, v):
    """Attention whose queries and keys come from another call, with other arguments. The gradient that arrives is not contiguous, as in a multi-head layer."""
    first = attention(q, k, v, 2, True)
    second = attention(k, k, v, 3)
    return (attention(first, second, second, 4) + first).transpose(-2, -1)


@exercise("efficient_attention")
@few
@given(n=group_sizes, seed=seeds)
def test_each_call_has_its_own_backward_pass(learner, reference, n, seed):
    """In a model with several attentions, with other block sizes and some of them causal, each keeps its own tensors and options; a gradient may be a view."""
    n.d_v = n.d
    q, k, v = double_qkv(seed, n)
    got, expected = (gradients(side.bring(two_layers), side.efficient_attention, q, k, v) for side in (learner, reference))
    with check:
        close(got.output, expected.output, "the output of three attentions")
    for i, name in enumerate("qkv"):
        with check:
            compare_gradient(got.inputs[i + 1], expected.inputs[i + 1], name)


@exercise("efficient_attention")
@few
@given(n=group_sizes, seed=seeds)
def test_it_also_runs_without_gradient(learner, reference, n, seed):
    """In torch.no_grad() and in torch.inference_mode() the output is the same."""
    q, k, v = double_qkv(seed, n)
    expected = reference.scaled_dot_product_attention(q, k, v)[0]
    for mode, got in call_without_gradient(learner, learner.efficient_attention, q, k, v, 3).items():
        close(got, expected, f"the output in {mode}")


@exercise("efficient_attention")
def test_an_efficient_block_has_at_least_one_key(learner, reference):
    """block below 1 raises a ValueError that names it."""
    q, k, v = (x.float() for x in double_qkv(0, fixed_sizes()))
    close(learner.efficient_attention(q, k, v, 2), reference.scaled_dot_product_attention(q, k, v)[0], "the output")
    for block in (0, -3):
        refuses(lambda block=block: learner.efficient_attention(q, k, v, block), naming={"block": block}, because="a strip has at least one key")


@exercise("efficient_attention")
@few
@given(n=group_sizes, seed=seeds)
def test_efficient_attention_keeps_the_dtype(learner, reference, n, seed):
    """Output and gradients are float32 for float32, and float64 for float64; the output is bfloat16 for bfloat16. q, k and v may be views."""
    q, k, v = (x.float() for x in double_qkv(seed, n, scale=1.0))
    got = gradients(learner.efficient_attention, q, k, v, 3, True)
    rough = learner.efficient_attention(q.bfloat16(), k.bfloat16(), v.bfloat16(), 3)
    views = learner.bring(on_views)(learner.efficient_attention, q, k, v, 3)
    compare_with_attention(got, reference, q, k, v, True)
    close(rough, reference.efficient_attention(q, k, v).bfloat16(), "the output in bfloat16", tol=8e-2)
    close(views, reference.efficient_attention(q, k, v), "the output of views")
