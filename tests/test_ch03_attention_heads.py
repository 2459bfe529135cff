"""Chapter 3, third part: features split into heads and merged again, and one head of attention. Several heads are in test_ch03_attention_multi.py."""

import math

import torch
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients, load, parameters, randomise, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, refuses, same
from hypothesis import example, given, settings
from memory_layouts import of_view
from mode_orders import compare_in_every_order, results_in_every_order
from module_pairs import compare_gradient
from pytest_check import check
from strategies import at, distinct, seeds, tensor

few = settings(max_examples=3)  # for tests that a mistake breaks at every example: more examples would only take time


# ---- split_heads and merge_heads


def numbered(*shape):
    """0, 1, 2, ... in this shape: where a number went can be read off."""
    return torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape)


head_shapes = distinct("B", "H", "T", "d_head", least=1)


@exercise("split_heads", weight=3)
@given(n=head_shapes)
def test_head_h_gets_its_own_block_of_features(learner, reference, n):
    """Head h has the d_head features from h * d_head on, at every position."""
    x = numbered(n.B, n.T, n.H * n.d_head)
    close(learner.split_heads(x, n.H), reference.split_heads(x, n.H), "the tensor of heads")


@exercise("split_heads")
@few
@given(n=distinct("B", "T", "D"), seed=seeds)
def test_one_head_and_heads_of_one_feature(learner, reference, n, seed):
    """A single head has all features; with as many heads as features each head has one."""
    x = tensor(seed, n.B, n.T, n.D)
    close(learner.split_heads(x, 1), x[:, None], "the single head")
    close(learner.split_heads(x, n.D), x.transpose(1, 2)[..., None], "the tensor of heads of one feature each")


@exercise("split_heads", weight=2)
@given(n=distinct("B", "T", "d_head", H=(2, 5)), seed=seeds)
def test_heads_that_do_not_divide_the_features_raise_an_error(learner, reference, n, seed):
    """If n_heads does not divide D, split_heads raises a ValueError that names both numbers."""
    good, D = tensor(seed, n.B, n.T, n.H * n.d_head), n.H * n.d_head + 1
    close(learner.split_heads(good, n.H), reference.split_heads(good, n.H), "the tensor of heads")
    because = f"{D} features cannot be split into {n.H} equal heads"
    refuses(lambda: learner.split_heads(tensor(seed, n.B, n.T, D), n.H), naming={"D": D, "n_heads": n.H}, because=because)


@exercise("split_heads")
@few
@given(n=distinct("B", "H", "T", "d_head"), seed=seeds)
def test_gradient_and_dtype_of_split_heads(learner, reference, n, seed):
    """Each number moves to one place, and its gradient comes back from that place; float64 stays float64. x may be a view (not contiguous)."""
    x = tensor(seed, n.B, n.T, n.H * n.d_head, dtype=torch.float64)
    got, expected = gradients(learner.split_heads, x, n.H), gradients(reference.split_heads, x, n.H)
    views = [learner.bring(f)(learner.split_heads, x, n.H) for f in (of_view, of_transposed)]
    close(got.output, expected.output, "the tensor of heads", tol=0.0)
    for view in views:
        close(view, expected.output, "the tensor of heads of a view, not contiguous in memory,", tol=0.0)
    compare_gradient(got.inputs[0], expected.inputs[0], "x")


@exercise("merge_heads", weight=3)
@given(n=head_shapes)
def test_heads_are_concatenated_at_each_position(learner, reference, n):
    """Position t gets the features of head 0 at t, then those of head 1 at t, and so on."""
    x = numbered(n.B, n.H, n.T, n.d_head)
    close(learner.merge_heads(x), reference.merge_heads(x), "the merged tensor")


@exercise("merge_heads")
@few
@given(n=distinct("B", "H", "T", "d_head"), seed=seeds)
def test_merging_undoes_splitting(learner, reference, n, seed):
    """merge_heads(split_heads(x)) is exactly x."""
    x = tensor(seed, n.B, n.T, n.H * n.d_head)
    close(learner.merge_heads(reference.split_heads(x, n.H)), x, "what was split and merged")


@exercise("merge_heads")
@few
@given(n=distinct("B", "H", "T", "d_head"), seed=seeds)
def test_gradient_and_dtype_of_merge_heads(learner, reference, n, seed):
    """Each number moves to one place, and its gradient comes back from that place; float64 stays float64. x may be a view (not contiguous)."""
    x = tensor(seed, n.B, n.H, n.T, n.d_head, dtype=torch.float64)
    got, expected = gradients(learner.merge_heads, x), gradients(reference.merge_heads, x)
    views = [learner.bring(f)(learner.merge_heads, x) for f in (of_view, of_transposed)]
    close(got.output, expected.output, "the merged tensor", tol=0.0)
    for view in views:
        close(view, expected.output, "the merged tensor of a view, not contiguous in memory,", tol=0.0)
    compare_gradient(got.inputs[0], expected.inputs[0], "x")


def of_transposed(f, x, *others):
    """`f` of the same numbers as a view, whose last two axes are exchanged in memory."""
    return f(x.transpose(-2, -1).contiguous().transpose(-2, -1), *others)


# ---- SelfAttentionHead


def two_heads(learner, reference, n, seed):
    """The learner's head and the reference's with the same random weights, large enough for sharp attention."""
    mine, ours = learner.SelfAttentionHead(n.d_model, n.d_head), reference.SelfAttentionHead(n.d_model, n.d_head)
    load(mine, randomise(ours, seed, scale=2.0))
    return mine, ours


head_sizes = distinct("B", "T", "d_model", "d_head", B=(1, 3))
one_position = at(B=1, T=1, d_model=3, d_head=2)


@exercise("SelfAttentionHead", weight=3)
@example(n=one_position, seed=0)
@given(n=head_sizes, seed=seeds)
def test_one_head_attends_to_the_whole_sequence(learner, reference, n, seed):
    """Every position attends to every position, earlier and later; the output is that of the formula. x may be a view (not contiguous)."""
    mine, ours = two_heads(learner, reference, n, seed)
    x = tensor(seed, n.B, n.T, n.d_model)
    views = [learner.bring(f)(mine, x) for f in (of_view, of_transposed)]
    close(mine(x), ours(x), "the output")
    for view in views:
        close(view, ours(x), "the output for an x that is a view, not contiguous in memory,")


@exercise("SelfAttentionHead", weight=1)
@few
@given(n=head_sizes, seed=seeds)
def test_one_projection_without_bias(learner, reference, n, seed):
    """The head has one parameter, qkv.weight (3 * d_head, d_model); if all of it is random, the sequences of a batch still do not affect each other."""
    mine, ours = learner.SelfAttentionHead(n.d_model, n.d_head), reference.SelfAttentionHead(n.d_model, n.d_head)
    shapes = {name: tuple(value.shape) for name, value in parameters(mine).items()}
    same(shapes, {"qkv.weight": (3 * n.d_head, n.d_model)}, "the dict of parameters and their shapes")
    same(sorted(state(mine)), ["qkv.weight"], "the list of names in the state dict")
    load(ours, randomise(mine, seed, scale=2.0))
    x = tensor(seed, n.B, n.T, n.d_model)
    close(mine(x[:1]), ours(x)[:1], "the output for the first sequence alone")


@exercise("SelfAttentionHead", weight=2)
@given(n=head_sizes, seed=seeds)
def test_rows_of_qkv_are_queries_then_keys_then_values(learner, reference, n, seed):
    """If the rows for queries and keys are zero, all scores are equal: each position gets the mean of the values, which the last rows compute."""
    mine = learner.SelfAttentionHead(n.d_model, n.d_head)
    W_v = tensor(seed + 1, n.d_head, n.d_model)
    load(mine, {"qkv.weight": torch.cat([torch.zeros(2 * n.d_head, n.d_model), W_v])})
    x = tensor(seed, n.B, n.T, n.d_model)
    close(mine(x), (x @ W_v.T).mean(1, keepdim=True).expand(-1, n.T, -1), "the output")


@exercise("SelfAttentionHead", weight=1)
@few
@given(n=head_sizes, seed=seeds)
def test_moving_positions_moves_the_outputs_with_them(learner, reference, n, seed):
    """If you reorder the positions, the outputs are reordered in the same way: a head on its own does not depend on the order."""
    mine, ours = two_heads(learner, reference, n, seed)
    x, order = tensor(seed, n.B, n.T, n.d_model), tensor(seed, n.T).argsort()
    close(mine(x[:, order]), ours(x)[:, order], "the output for the moved positions")


@exercise("SelfAttentionHead", weight=1)
@few
@given(n=head_sizes, seed=seeds)
def test_gradients_and_dtype_of_a_head(learner, reference, n, seed):
    """The input and qkv.weight get the correct gradient; with float64 input and weights the output is float64, with its digits. A head works on any device."""
    mine, ours = two_heads(learner, reference, n, seed)
    x = tensor(seed, n.B, n.T, n.d_model)
    got, expected = gradients(mine, x), gradients(ours, x)
    with check:
        close(got.output, expected.output, "the output")
    with check:
        compare_gradient(got.inputs[0], expected.inputs[0], "x")
    with check:
        compare_gradient(got.parameters["qkv.weight"], expected.parameters["qkv.weight"], "qkv.weight")
    close(mine.double()(x.double()), ours.double()(x.double()), "the output in float64", tol=1e-5)
    mine, ours = learner.SelfAttentionHead(n.d_model, 4).double(), reference.SelfAttentionHead(n.d_model, 4).double()  # its root is exact in every dtype
    load(mine, randomise(ours, seed))
    close(mine(x.double()), ours(x.double()), "the output in float64 with d_head=4", tol=2e-9)
    check_device_of_result(learner, ours(x.double()), mine, x.double())


@exercise("SelfAttentionHead", weight=1)
@settings(max_examples=1)
@given(n=head_sizes, seed=seeds)
def test_use_and_training_of_a_head_may_follow_one_another(learner, reference, n, seed):
    """Under torch.inference_mode and torch.no_grad the output is the same; you can train the head in between, and it always uses its present weights."""
    mine, ours = learner.SelfAttentionHead(n.d_model, n.d_head), reference.SelfAttentionHead(n.d_model, n.d_head)
    rounds = [(randomise(ours, seed + i), [tensor(seed + i, n.B, n.T + i, n.d_model)]) for i in range(2)]
    found = results_in_every_order(learner, mine, rounds)
    compare_in_every_order(found, ours, rounds, ["x"])
