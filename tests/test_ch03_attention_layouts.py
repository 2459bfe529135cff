"""Chapter 3, last part: converting attention with separate linear layers to one fused layer, and back."""

import torch
from attention_modules import (
    attention_input,
    attention_pair,
    attention_sizes,
    compare_message_dropout,
    compare_output_and_weights,
    fused_pair,
    padding_by_row,
    with_identity_output,
)
from devices_and_dtypes import load_meta_device
from grader.execution.proxy import gradients, load, parameters, randomise, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, sizes
from hypothesis import given, settings
from masks import lower_triangle
from module_pairs import compare_exactly, module_pair
from pytest_check import check
from strategies import seeds, tensor

SEPARATE = ("W_q", "W_k", "W_v")
few = settings(max_examples=2)  # the smallest, and a random one: a mistake here shows at every size


def stacked(values, kind):
    """c_attn of three separate maps: their rows in the order q, k, v."""
    return torch.cat([values[f"{name}.{kind}"] for name in SEPARATE])


def fused_values(values):
    """The parameters of the fused layout with the same numbers."""
    found = {}
    for kind in ("weight", "bias"):
        if f"W_out.{kind}" in values:
            found[f"c_attn.{kind}"], found[f"c_proj.{kind}"] = stacked(values, kind), values[f"W_out.{kind}"]
    return found


def apart_values(values):
    """The parameters of the separate layout with the same numbers."""
    found = {}
    for kind in ("weight", "bias"):
        if f"c_proj.{kind}" in values:
            found |= {f"{name}.{kind}": part for name, part in zip(SEPARATE, values[f"c_attn.{kind}"].chunk(3))}
            found[f"W_out.{kind}"] = values[f"c_proj.{kind}"]
    return found


def untouched(got, expected, whose, by):
    """`whose` parameters have not changed."""
    for name, value in expected.items():
        holds(torch.equal(got[name], value), f"changing the parameters of the {by} attention changed {name} of the {whose} one too: they share memory")


def shared_modules(one, other):
    """Whether two modules have a part in common; for `bring`."""
    return bool(set(map(id, one.modules())) & set(map(id, other.modules())))


# ---- fuse_qkv


@exercise("fuse_qkv", weight=3)
@few
@given(n=attention_sizes, seed=seeds)
def test_rows_are_stacked_as_queries_keys_values(learner, reference, n, seed):
    """c_attn has the rows of W_q, then W_k, then W_v, and c_proj is W_out: the same numbers to the last bit."""
    attention, _, values = attention_pair(learner, reference, n, seed)
    compare_exactly(parameters(learner.fuse_qkv(attention, n.max_len)), fused_values(values), "the fused parameters")


@exercise("fuse_qkv")
@few
@given(n=attention_sizes, seed=seeds)
def test_no_bias_stays_no_bias(learner, reference, n, seed):
    """An attention without biases becomes a fused one without biases."""
    attention, model, values = attention_pair(learner, reference, n, seed, bias=False)
    fused = learner.fuse_qkv(attention, n.max_len)
    compare_exactly(parameters(fused), fused_values(values), "the fused parameters without biases")
    close(fused(attention_input(n, seed)), model(attention_input(n, seed), mask=lower_triangle(n.T)), "the fused output without biases")


@exercise("fuse_qkv", weight=3)
@few
@given(n=attention_sizes, seed=seeds)
def test_fused_gives_what_separate_gave_under_a_causal_mask(learner, reference, n, seed):
    """For up to max_len positions, fuse_qkv(attention, max_len)(x) equals attention(x, mask=causal_mask(T))."""
    attention, model, _ = attention_pair(learner, reference, n, seed)
    fused = learner.fuse_qkv(attention, n.max_len)
    for x in (attention_input(n, seed), attention_input(n, seed, "max_len")):
        mask = lower_triangle(x.size(1))
        close(fused(x), model(x, mask=mask), "the fused output")
        close(fused(x), attention(x, mask=mask), "the fused output, compared with the separate one")


@exercise("fuse_qkv")
@few
@given(n=attention_sizes, seed=seeds)
def test_fused_has_the_max_len_asked_for(learner, reference, n, seed):
    """The fused attention accepts max_len positions and rejects one more."""
    attention, model, _ = attention_pair(learner, reference, n, seed)
    fused, x = learner.fuse_qkv(attention, n.max_len), attention_input(n, seed, "max_len")
    close(fused(x), model(x, mask=lower_triangle(n.max_len)), "the fused output for max_len positions")
    because = f"{n.max_len + 1} positions do not fit into max_len = {n.max_len}"
    refuses(lambda: fused(tensor(seed, n.B, n.max_len + 1, n.H * n.d_head)), because=because)


@exercise("fuse_qkv", weight=2)
@few
@given(n=attention_sizes, seed=seeds)
def test_fused_gradients_are_the_separate_ones_stacked(learner, reference, n, seed):
    """The gradients of the fused attention are those of the separate one, stacked in the same order."""
    attention, model, _ = attention_pair(learner, reference, n, seed)
    x = attention_input(n, seed)
    got = gradients(learner.fuse_qkv(attention, n.max_len), x)
    expected = gradients(model, x, mask=lower_triangle(n.T))
    with check:
        holds(got.inputs[0] is not None, "no gradient reaches x through the fused attention")
        close(got.inputs[0], expected.inputs[0], "the gradient of x", tol=5e-5)
    for name, gradient in fused_values(expected.parameters).items():
        with check:
            holds(got.parameters.get(name) is not None, f"no gradient reaches {name}: after fusing it can no longer learn")
            close(got.parameters[name], gradient, f"the gradient of {name}", tol=5e-5)


@exercise("fuse_qkv", weight=2)
@few
@given(n=attention_sizes, seed=seeds)
def test_fusing_copies(learner, reference, n, seed):
    """Changing the fused attention afterwards does not change the separate one, nor the other way round."""
    attention, _, values = attention_pair(learner, reference, n, seed)
    fused = learner.fuse_qkv(attention, n.max_len)
    compare_exactly(parameters(fused), fused_values(values), "the fused parameters")
    new = {name: value + 1 for name, value in fused_values(values).items()}
    load(fused, new)
    untouched(parameters(attention), values, "separate", "fused")
    load(attention, {name: value - 1 for name, value in values.items()})
    untouched(parameters(fused), new, "fused", "separate")


@exercise("fuse_qkv")
@few
@given(n=attention_sizes, seed=seeds)
def test_fusing_keeps_the_mode(learner, reference, n, seed):
    """The fused attention is in the mode of the original, train or eval; the mode of the original does not change, and each has a dropout of its own."""
    attention, model, _ = attention_pair(learner, reference, n, seed, dropout=0.6)
    fused = learner.fuse_qkv(attention, n.max_len)
    holds(fused.training is True, "the attention was in train mode, but the fused one is not")
    holds(attention.training is True, "fusing changed the mode of the given attention")
    holds(not learner.bring(shared_modules)(fused, attention), "the two have a module in common, such as their dropout: eval() of one ends dropout in the other too")
    attention.eval()
    fused = learner.fuse_qkv(attention, n.max_len)
    close(fused(attention_input(n, seed)), model.eval()(attention_input(n, seed), mask=lower_triangle(n.T)), "the fused output in eval mode")
    holds(fused.training is False, "the attention was in eval mode, but the fused one is not")
    holds(attention.training is False, "fusing changed the mode of the given attention")


@exercise("fuse_qkv")
def test_fusing_keeps_the_dropout(learner, reference):
    """The fused attention drops weights as often as the separate one, also if it was made in eval mode and trained later."""
    n_heads, width, rate, x = 3, 12, 0.3, tensor(1, 500, 1, 12)
    sizes(B=500, H=3, T=1, d_head=4)
    attention, _, values = module_pair(learner, reference, "MultiHeadAttention", width, n_heads, dropout=rate, seed=5)
    load(attention, with_identity_output(values, "W_out", width))
    v = x @ values["W_v.weight"].T + values["W_v.bias"]
    later = learner.fuse_qkv(attention.eval(), 5).train()(x)
    compare_message_dropout(learner.fuse_qkv(attention.train(), 5)(x), v, n_heads, rate, "after fusing")
    compare_message_dropout(later, v, n_heads, rate, "after fusing in eval mode and train()")


@exercise("fuse_qkv")
@few
@given(n=attention_sizes, seed=seeds)
def test_fusing_keeps_dtype_and_device(learner, reference, n, seed):
    """Double precision stays double, with all its digits, and the result is on the device of the original."""
    attention, model, _ = attention_pair(learner, reference, n, seed)
    values = randomise(model.double(), seed)
    load(attention.double(), values)
    fused = learner.fuse_qkv(attention, n.max_len)
    compare_exactly(parameters(fused), fused_values(values), "the fused parameters in float64")
    x = attention_input(n, seed).double()
    close(fused(x), model(x, mask=lower_triangle(n.T)), "the fused output in float64", tol=1e-5)
    load_meta_device()
    elsewhere = {name: value.to("meta") for name, value in fused_values(values).items()}
    compare_exactly(parameters(learner.fuse_qkv(attention.to("meta"), n.max_len)), elsewhere, "the fused parameters on the device `meta`")


# ---- split_qkv


@exercise("split_qkv", weight=3)
@few
@given(n=attention_sizes, seed=seeds)
def test_rows_are_cut_into_queries_keys_values(learner, reference, n, seed):
    """W_q, W_k and W_v are the first, second and last third of c_attn's rows, and W_out is c_proj: the same numbers to the last bit."""
    fused, _, values = fused_pair(learner, reference, n, seed)
    compare_exactly(parameters(learner.split_qkv(fused)), apart_values(values), "the separate parameters")


@exercise("split_qkv")
@few
@given(n=attention_sizes, seed=seeds)
def test_no_bias_stays_no_bias_when_cut(learner, reference, n, seed):
    """A fused attention without biases becomes a separate one without biases."""
    fused, model, values = fused_pair(learner, reference, n, seed, bias=False)
    attention = learner.split_qkv(fused)
    compare_exactly(parameters(attention), apart_values(values), "the separate parameters without biases")
    close(attention(attention_input(n, seed), mask=lower_triangle(n.T)), model(attention_input(n, seed)), "the separate output without biases")


@exercise("split_qkv", weight=3)
@few
@given(n=attention_sizes, seed=seeds)
def test_separate_gives_what_fused_gave(learner, reference, n, seed):
    """With a causal mask the separate attention gives the output of the fused one; it also accepts a context, and any other mask."""
    fused, model, values = fused_pair(learner, reference, n, seed)
    attention, x = learner.split_qkv(fused), attention_input(n, seed)
    close(attention(x, mask=lower_triangle(n.T)), model(x), "the separate output under a causal mask")
    close(attention(x, mask=lower_triangle(n.T)), fused(x), "the separate output, compared with the fused one")
    apart = reference.MultiHeadAttention(n.H * n.d_head, n.H)
    load(apart, apart_values(values))
    context, mask = tensor(seed + 1, n.B, n.max_len, n.H * n.d_head), padding_by_row(n.B, n.max_len)
    compare_output_and_weights(attention(x, context, mask, True), apart(x, context, mask, True), " of the separate attention with a context")


@exercise("split_qkv", weight=2)
@few
@given(n=attention_sizes, seed=seeds)
def test_fusing_and_splitting_again_gives_the_same_module(learner, reference, n, seed):
    """split_qkv(fuse_qkv(a, max_len)) equals a, tensor for tensor, and so does its output."""
    attention, model, values = attention_pair(learner, reference, n, seed)
    again = learner.split_qkv(learner.fuse_qkv(attention, n.max_len))
    compare_exactly(state(again), values, "the state dict")
    close(again(attention_input(n, seed)), model(attention_input(n, seed)), "the output")


@exercise("split_qkv", weight=2)
@few
@given(n=attention_sizes, seed=seeds)
def test_separate_gradients_are_the_fused_ones_cut(learner, reference, n, seed):
    """The gradients of the separate attention are those of the fused one, split in the same order."""
    fused, model, _ = fused_pair(learner, reference, n, seed)
    x = attention_input(n, seed)
    got = gradients(learner.split_qkv(fused), x, mask=lower_triangle(n.T))
    expected = gradients(model, x)
    with check:
        holds(got.inputs[0] is not None, "no gradient reaches x through the separate attention")
        close(got.inputs[0], expected.inputs[0], "the gradient of x", tol=5e-5)
    for name, gradient in apart_values(expected.parameters).items():
        if name == "W_k.bias":
            continue
        with check:
            holds(got.parameters.get(name) is not None, f"no gradient reaches {name}: after splitting it can no longer learn")
            close(got.parameters[name], gradient, f"the gradient of {name}", tol=5e-5)


@exercise("split_qkv", weight=2)
@few
@given(n=attention_sizes, seed=seeds)
def test_cutting_copies(learner, reference, n, seed):
    """Changing the separate attention afterwards does not change the fused one, nor the other way round."""
    fused, _, values = fused_pair(learner, reference, n, seed)
    attention = learner.split_qkv(fused)
    compare_exactly(parameters(attention), apart_values(values), "the separate parameters")
    new = {name: value + 1 for name, value in apart_values(values).items()}
    load(attention, new)
    untouched(parameters(fused), values, "fused", "separate")
    load(fused, {name: value - 1 for name, value in values.items()})
    untouched(parameters(attention), new, "separate", "fused")


@exercise("split_qkv")
@few
@given(n=attention_sizes, seed=seeds)
def test_cutting_keeps_the_mode(learner, reference, n, seed):
    """The separate attention is in the mode of the fused one, train or eval; the mode of the fused one does not change, and each has a dropout of its own."""
    fused, model, _ = fused_pair(learner, reference, n, seed, dropout=0.6)
    attention = learner.split_qkv(fused)
    holds(attention.training is True, "the fused attention was in train mode, but the separate one is not")
    holds(fused.training is True, "splitting changed the mode of the given attention")
    holds(not learner.bring(shared_modules)(attention, fused), "the two have a module in common, such as their dropout: eval() of one ends dropout in the other too")
    fused.eval()
    attention = learner.split_qkv(fused)
    close(attention(attention_input(n, seed), mask=lower_triangle(n.T)), model.eval()(attention_input(n, seed)), "the separate output in eval mode")
    holds(attention.training is False, "the fused attention was in eval mode, but the separate one is not")
    holds(fused.training is False, "splitting changed the mode of the given attention")


@exercise("split_qkv")
def test_cutting_keeps_the_dropout(learner, reference):
    """The separate attention drops weights as often as the fused one, also if it was made in eval mode and trained later."""
    n_heads, width, rate, x = 3, 12, 0.3, tensor(1, 500, 1, 12)
    sizes(B=500, H=3, T=1, d_head=4)
    fused, _, values = module_pair(learner, reference, "FusedSelfAttention", width, n_heads, 5, dropout=rate, seed=5)
    load(fused, with_identity_output(values, "c_proj", width))
    v = x @ values["c_attn.weight"][2 * width :].T + values["c_attn.bias"][2 * width :]
    later = learner.split_qkv(fused.eval()).train()(x)
    compare_message_dropout(learner.split_qkv(fused.train())(x), v, n_heads, rate, "after cutting")
    compare_message_dropout(later, v, n_heads, rate, "after cutting in eval mode and train()")


@exercise("split_qkv")
@few
@given(n=attention_sizes, seed=seeds)
def test_cutting_keeps_dtype_and_device(learner, reference, n, seed):
    """Double precision stays double, with all its digits, and the result is on the device of the original."""
    fused, model, _ = fused_pair(learner, reference, n, seed)
    values = randomise(model.double(), seed)
    load(fused.double(), values)
    attention = learner.split_qkv(fused)
    compare_exactly(parameters(attention), apart_values(values), "the separate parameters in float64")
    x = attention_input(n, seed).double()
    close(attention(x, mask=lower_triangle(n.T)), model(x), "the separate output in float64", tol=1e-5)
    elsewhere = {name: value.to("meta") for name, value in apart_values(values).items()}
    compare_exactly(parameters(learner.split_qkv(fused.to("meta"))), elsewhere, "the separate parameters on the device `meta`")
