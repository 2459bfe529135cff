"""Chapter 20, second part: attention with a sink, with a gate, and with normalised queries and keys."""

from __future__ import annotations

import math

import torch
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients, load, parameters, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, sizes
from hypothesis import given, settings
from masks import key_padding, lower_triangle, random_mask
from memory_layouts import of_views
from module_pairs import compare_parameter_gradients
from pytest_check import check
from rotations import rotated
from strategies import at, distinct, seeds, tensor

few = settings(max_examples=3)
head_sizes = distinct("B", "H", "Tq", "Tk", "d", "d_v", B=(2, 3), H=(2, 4), Tq=(4, 5), Tk=(5, 7), d=(6, 8), d_v=(3, 9))


def heads(seed, n, dtype=torch.float32, scale=1.5):
    """Queries, keys and values, with scores of a healthy size."""
    q, k = tensor(seed, n.B, n.H, n.Tq, n.d, scale=scale, dtype=dtype), tensor(seed + 1, n.B, n.H, n.Tk, n.d, scale=scale, dtype=dtype)
    return q, k, tensor(seed + 2, n.B, n.H, n.Tk, n.d_v, dtype=dtype)


def some_masks(seed, n):
    """Masks of several shapes; in the last one, queries 1 and 2 of one head may look at no key."""
    lonely = random_mask(seed + 3, n.B, n.H, n.Tq, n.Tk)
    lonely[-1, 0, 1:3] = False
    return {"(Tq, Tk)": random_mask(seed, n.Tq, n.Tk), "(B, 1, 1, Tk)": key_padding(n.Tk, [(1, 0), (0, 2), (2, 1)][: n.B]), "(B, H, Tq, Tk)": lonely}


def by_hand(q, k, v, sink=None, mask=None):
    """Output and weights in float64, with one more score for each head if there is a sink; weights of 0 for a query without keys."""
    scores = q.double() @ k.double().mT / math.sqrt(q.size(-1))
    scores = scores if mask is None else scores.masked_fill(~mask, -math.inf)
    beside = torch.full((q.size(1),), -1e30, dtype=torch.float64) if sink is None else sink.double()
    top = torch.maximum(scores.detach().amax(-1, keepdim=True), beside.detach()[:, None, None])
    parts = (scores - top).exp()
    weights = parts / (parts.sum(-1, keepdim=True) + (beside[:, None, None] - top).exp())
    return weights @ v.double(), weights


def slopes_by_hand(f, inputs, cotangent):
    """The gradients of the inputs, in float64."""
    leaves = [x.double().requires_grad_() for x in inputs]
    return [slope.float() for slope in torch.autograd.grad((f(*leaves) * cotangent.double()).sum(), leaves)]


def compare_two(got, expected, dtype=torch.float32, when=""):
    holds(isinstance(got, tuple | list) and len(got) == 2, "the result should be two tensors: the output and the weights")
    for value, right, name in zip(got, expected, ("the output", "the weights")):
        with check:
            close(value, right.to(dtype), f"{name}{when}")


# ---- attention_with_sink


@exercise("attention_with_sink", weight=3)
@few
@given(n=head_sizes, seed=seeds)
def test_the_sink_is_one_more_score_without_a_value(learner, n, seed):
    """A weight is exp(score) / (exp(sink of its head) + the sum of exp over all scores of its query); the output averages the values with these weights."""
    (q, k, v), sink = heads(seed, n, torch.float64), tensor(seed + 3, n.H, scale=2.0, dtype=torch.float64)
    compare_two(learner.attention_with_sink(q, k, v, sink), by_hand(q, k, v, sink), torch.float64)


@exercise("attention_with_sink", weight=3)
@few
@given(n=head_sizes, seed=seeds)
def test_masked_keys_get_no_weight_beside_a_sink(learner, n, seed):
    """Keys where the mask is False get the weight 0, in masks that broadcast too; a query without any key gets weights and an output of 0, also beside a sink of -1e4."""
    (q, k, v), sink = heads(seed, n), tensor(seed + 3, n.H, scale=2.0)
    masks, low = some_masks(seed, n), torch.full((n.H,), -1e4)
    got = {shape: (learner.attention_with_sink(q, k, v, sink, mask), learner.attention_with_sink(q, k, v, low, mask)) for shape, mask in masks.items()}
    for shape, (usual, lowest) in got.items():
        compare_two(usual, by_hand(q, k, v, sink, masks[shape]), when=f" with a mask of shape {shape}")
        compare_two(lowest, by_hand(q, k, v, low, masks[shape]), when=f" with a mask of shape {shape} and sinks of -1e4")


@exercise("attention_with_sink", weight=2)
@few
@given(n=head_sizes, seed=seeds)
def test_scores_and_sinks_of_any_size(learner, n, seed):
    """A sink of -1e4 leaves ordinary attention, and one of 1e4 takes all the weight; with scores of ten thousand, output, weights and gradients are finite too."""
    q, k, v = heads(seed, n)
    far_q, far_k, far_v = heads(seed, n, torch.float64)  # in float32, scores of 1e4 are rounded to thousandths
    cases = {
        "sinks of -1e4": (q, k, v, torch.full((n.H,), -1e4)),
        "sinks of 1e4": (q, k, v, torch.full((n.H,), 1e4)),
        "scores of about 1e4": (far_q * 1e4, far_k, far_v, torch.zeros(n.H, dtype=torch.float64)),
    }
    found = {what: gradients(learner.attention_with_sink, *case) for what, case in cases.items()}
    for what, case in cases.items():
        compare_two(found[what].output, by_hand(*case), case[0].dtype, when=f" with {what}")
        for name, slope in zip(("q", "k", "v", "sink"), found[what].inputs):
            holds(slope is None or bool(slope.isfinite().all()), f"the gradient of {name} is not finite with {what}")


@exercise("attention_with_sink", weight=3)
@few
@given(n=head_sizes, seed=seeds)
def test_each_head_learns_its_sink(learner, n, seed):
    """q, k, v and the sink get the gradients of the definition, with a mask too; all are finite where a query has no key."""
    (q, k, v), sink, cotangent = heads(seed, n), tensor(seed + 3, n.H), tensor(seed + 4, n.B, n.H, n.Tq, n.d_v)
    for mask in (None, some_masks(seed, n)["(B, H, Tq, Tk)"]):
        found = gradients(learner.attention_with_sink, q, k, v, sink, cotangent=cotangent, mask=mask)
        expected = slopes_by_hand(lambda *inputs, m=mask: by_hand(*inputs, m)[0], (q, k, v, sink), cotangent)
        for name, got, right in zip(("q", "k", "v", "sink"), found.inputs, expected):
            with check:
                close(got, right, f"the gradient of {name} {'without' if mask is None else 'with'} a mask", tol=5e-5)


def first_result(f, *inputs):
    return f(*inputs)[0]


@exercise("attention_with_sink")
@few
@given(n=head_sizes, seed=seeds)
def test_results_with_a_sink_have_dtype_and_device_of_q(learner, n, seed):
    """Output and weights are bfloat16 if q is, although the sink is float32; no tensor stays on another device."""
    (q, k, v), sink = (x.bfloat16() for x in heads(seed, n, scale=0.5)), tensor(seed + 3, n.H)
    mask = some_masks(seed, n)["(Tq, Tk)"]
    compare_two(learner.attention_with_sink(q, k, v, sink, mask), by_hand(q, k, v, sink, mask), torch.bfloat16)
    check_device_of_result(learner, q.new_empty(n.B, n.H, n.Tq, n.d_v), learner.bring(first_result), learner.attention_with_sink, q, k, v, sink.bfloat16(), mask)


def second_result(f, *inputs):
    return f(*inputs)[1]


@exercise("attention_with_sink")
@few
@given(n=head_sizes, seed=seeds)
def test_weights_beside_a_sink_carry_gradient(learner, n, seed):
    """A loss of the weights themselves has gradients for q, k and the sink too."""
    (q, k, v), sink, cotangent = heads(seed, n), tensor(seed + 3, n.H), tensor(seed + 4, n.B, n.H, n.Tq, n.Tk)
    found = gradients(learner.bring(second_result), learner.attention_with_sink, q, k, v, sink, cotangent=cotangent)
    expected = slopes_by_hand(lambda q, k, sink: by_hand(q, k, v, sink)[1], (q, k, sink), cotangent)
    for name, got, right in zip(("q", "k", "sink"), (*found.inputs[1:3], found.inputs[4]), expected):
        with check:
            close(got, right, f"the gradient of {name} for a loss of the weights", tol=5e-5)


@exercise("attention_with_sink")
@few
@given(n=head_sizes, seed=seeds)
def test_heads_with_a_sink_may_be_views(learner, n, seed):
    """Queries, keys, values and a mask that lie in another order in memory give the same; a batch of one text keeps its axis, also with one query."""
    (q, k, v), sink, mask = heads(seed, n), tensor(seed + 3, n.H), some_masks(seed, n)["(B, H, Tq, Tk)"]
    views = learner.bring(of_views)(learner.attention_with_sink, q, k, v, sink, mask)
    one = learner.attention_with_sink(q[:1, :, :1], k[:1], v[:1], sink, mask[:1, :, :1])
    compare_two(views, by_hand(q, k, v, sink, mask), when=" for views")
    compare_two(one, by_hand(q[:1, :, :1], k[:1], v[:1], sink, mask[:1, :, :1]), when=" for one query of one text")


# ---- gated_attention


def gated(q, k, v, gate, mask=None):
    return by_hand(q, k, v, mask=mask)[0] / (1 + (-gate.double()).exp())


@exercise("gated_attention", weight=3)
@few
@given(n=head_sizes, seed=seeds)
def test_each_feature_of_each_query_has_its_gate(learner, n, seed):
    """The output is that of attention times σ(gate), feature by feature."""
    (q, k, v), gate = heads(seed, n, torch.float64), tensor(seed + 3, n.B, n.H, n.Tq, n.d_v, scale=2.0, dtype=torch.float64)
    close(learner.gated_attention(q, k, v, gate), gated(q, k, v, gate), "the output")


@exercise("gated_attention", weight=2)
@few
@given(n=head_sizes, seed=seeds)
def test_one_gate_may_serve_a_whole_head(learner, n, seed):
    """With a gate of shape (B, H, Tq, 1), all features of a head are multiplied by the same number, for each query another one."""
    (q, k, v), gate = heads(seed, n), tensor(seed + 3, n.B, n.H, n.Tq, 1, scale=2.0)
    close(learner.gated_attention(q, k, v, gate), gated(q, k, v, gate).float(), "the output")


@exercise("gated_attention", weight=2)
@few
@given(n=head_sizes, seed=seeds)
def test_the_mask_removes_keys_before_the_gate(learner, n, seed):
    """Keys where the mask is False get no weight; a query without any key gets zeros."""
    (q, k, v), gate, masks = heads(seed, n), tensor(seed + 3, n.B, n.H, n.Tq, n.d_v), some_masks(seed, n)
    got = {shape: learner.gated_attention(q, k, v, gate, mask) for shape, mask in masks.items()}
    for shape, output in got.items():
        close(output, gated(q, k, v, gate, masks[shape]).float(), f"the output with a mask of shape {shape}")


@exercise("gated_attention", weight=2)
@few
@given(n=head_sizes, seed=seeds)
def test_a_gate_of_any_size_closes_or_opens(learner, n, seed):
    """A gate of -1e4 gives 0 and one of 1e4 the whole output; gradients stay finite."""
    (q, k, v), sign = heads(seed, n), tensor(seed + 3, n.B, n.H, n.Tq, n.d_v).sign()
    found, cotangent = [], torch.ones_like(sign)
    for size in (1e2, 1e4):
        found.append(gradients(learner.gated_attention, q, k, v, size * sign, cotangent=cotangent))
    for size, got in zip((1e2, 1e4), found):
        close(got.output, (by_hand(q, k, v)[0] * (sign > 0)).float(), f"the output with gates of ±{size:g}")
        for name, slope in zip(("q", "k", "v", "gate"), got.inputs):
            holds(slope is None or bool(slope.isfinite().all()), f"the gradient of {name} is not finite with gates of ±{size:g}")


@exercise("gated_attention", weight=2)
@few
@given(n=head_sizes, seed=seeds)
def test_the_gate_learns_with_the_heads(learner, n, seed):
    """q, k, v and the gate get the gradients of the definition, for both shapes of the gate."""
    (q, k, v), cotangent = heads(seed, n), tensor(seed + 4, n.B, n.H, n.Tq, n.d_v)
    gates = tensor(seed + 3, n.B, n.H, n.Tq, n.d_v), tensor(seed + 3, n.B, n.H, n.Tq, 1)
    found = [gradients(learner.gated_attention, q, k, v, gate, cotangent=cotangent) for gate in gates]
    for gate, each in zip(gates, found):
        for name, got, right in zip(("q", "k", "v", "gate"), each.inputs, slopes_by_hand(gated, (q, k, v, gate), cotangent)):
            with check:
                close(got, right, f"the gradient of {name} for a gate of width {gate.size(-1)}", tol=5e-5)


@exercise("gated_attention")
@few
@given(n=head_sizes, seed=seeds)
def test_gated_results_keep_dtype_and_device(learner, n, seed):
    """bfloat16 heads and gates give a bfloat16 output, and no tensor stays on another device."""
    (q, k, v), gate = (x.bfloat16() for x in heads(seed, n, scale=0.5)), tensor(seed + 3, n.B, n.H, n.Tq, n.d_v).bfloat16()
    close(learner.gated_attention(q, k, v, gate), gated(q, k, v, gate).bfloat16(), "the output in bfloat16")
    check_device_of_result(learner, gate, learner.gated_attention, q, k, v, gate)


@exercise("gated_attention")
@few
@given(n=head_sizes, seed=seeds)
def test_gates_and_heads_may_be_views(learner, n, seed):
    """Heads and gates that lie in another order in memory give the same; a batch of one text keeps its axis, also with one query."""
    (q, k, v), gate = heads(seed, n), tensor(seed + 3, n.B, n.H, n.Tq, n.d_v)
    views, one = learner.bring(of_views)(learner.gated_attention, q, k, v, gate), learner.gated_attention(q[:1, :, :1], k[:1], v[:1], gate[:1, :, :1])
    close(views, gated(q, k, v, gate).float(), "the output for views")
    close(one, gated(q, k, v, gate)[:1, :, :1].float(), "the output for one query of one text")


# ---- QKNormAttention


KINDS = ("none", "rope", "alibi")


def with_width(n):
    n.d, n.D = 2 * n.pairs, 2 * n.pairs * n.H
    sizes(pairs=None, d_head=n.d, d_model=n.D)
    return n


layer_sizes = distinct(B=(1, 2), H=(2, 3), T=(5, 7), pairs=(2, 4)).map(with_width)


def weights_of(n, seed):
    """Random weights of a QKNormAttention; those of the norms are far from 1."""
    layers = {f"{name}.weight": tensor(seed + i, n.D, n.D) / n.D**0.5 for i, name in enumerate(("W_q", "W_k", "W_v", "W_out"))}
    return layers | {f"{name}.weight": 1 + 0.7 * tensor(seed + i, n.d) for i, name in enumerate(("q_norm", "k_norm"))}


def layer(learner, n, values, *positions):
    mine = learner.QKNormAttention(n.D, n.H, *positions)
    load(mine, values)
    return mine


def layer_by_hand(x, values, H, positions="none", bias=None):
    """Head by head, in float64. `bias` is that of ALiBi."""
    w, x, T, results = {name.removesuffix(".weight"): value.double() for name, value in values.items()}, x.double(), x.size(1), []
    for W_q, W_k, W_v, own in zip(w["W_q"].chunk(H), w["W_k"].chunk(H), w["W_v"].chunk(H), [None] * H if bias is None else bias.double()):
        q, k = (y / (y.square().mean(-1, keepdim=True) + 1e-6).sqrt() * w[norm] for y, norm in ((x @ W_q.T, "q_norm"), (x @ W_k.T, "k_norm")))
        q, k = (rotated(q), rotated(k)) if positions == "rope" else (q, k)
        scores = q @ k.mT / math.sqrt(q.size(-1)) + (0 if own is None else own)
        results.append(scores.masked_fill(~lower_triangle(T), -math.inf).softmax(-1) @ (x @ W_v.T))
    return torch.cat(results, dim=-1) @ w["W_out"].T


@exercise("QKNormAttention", weight=4)
@few
@given(n=layer_sizes, seed=seeds)
def test_queries_and_keys_are_normalised_in_each_head(learner, reference, n, seed):
    """Queries and keys of each head go through their own norm over d_head features, then they are rotated; values are not normalised. With none, rope and alibi; "none" is the default."""
    x, values, bias = tensor(seed + 9, n.B, n.T, n.D), weights_of(n, seed), reference.alibi_bias(n.H, n.T, n.T)
    got = {kind: layer(learner, n, values, kind)(x) for kind in KINDS}
    default, alone = layer(learner, n, values)(x), layer(learner, n, values, "rope")(x[:, :1])
    for kind, output in got.items():
        with check:
            close(output, layer_by_hand(x, values, n.H, kind, bias if kind == "alibi" else None).float(), f"the output with positions={kind!r}")
    with check:
        close(default, layer_by_hand(x, values, n.H).float(), "the output without a choice of positions")
    with check:
        close(alone, layer_by_hand(x[:, :1], values, n.H).float(), "the output for a text of one position")


@exercise("QKNormAttention", weight=2)
@few
@given(n=layer_sizes, seed=seeds)
def test_lengths_of_queries_and_keys_do_not_matter(learner, n, seed):
    """W_q and W_k may be a thousand times as large: the output is the same. For very small x, eps = 1e-6 beside the mean square counts."""
    x, values = tensor(seed + 9, n.B, n.T, n.D), weights_of(n, seed)
    large = values | {name: 1000 * values[name] for name in ("W_q.weight", "W_k.weight")}
    got, small = layer(learner, n, large, "rope")(x), layer(learner, n, values)(x / 1000)
    close(got, layer_by_hand(x, large, n.H, "rope").float(), "the output with W_q and W_k a thousand times as large")
    close(small * 1000, 1000 * layer_by_hand(x / 1000, values, n.H).float(), "a thousand times the output for x of about 0.001")


@exercise("QKNormAttention", weight=2)
@few
@given(n=layer_sizes, seed=seeds)
def test_no_position_sees_a_later_one(learner, n, seed):
    """A change at the last position changes no earlier output, and one row of the batch changes no other."""
    x, values = tensor(seed + 9, 2, n.T, n.D), weights_of(n, seed)
    changed = x.clone()
    changed[0, -1] += 1.0
    outputs = {kind: (layer(learner, n, values, kind)(x), layer(learner, n, values, kind)(changed)) for kind in KINDS}
    close(outputs["none"][0], layer_by_hand(x, values, n.H).float(), "the output")
    for kind, (before, after) in outputs.items():
        close(after[:, :-1], before[:, :-1], f"with positions={kind!r}, the output before the changed position")
        close(after[1], before[1], f"with positions={kind!r}, the output of the row that did not change")
        holds(float((after - before)[0, -1].abs().max()) > 1e-5, f"with positions={kind!r}, a change of the last position does not show there")


@exercise("QKNormAttention", weight=3)
@few
@given(n=layer_sizes, seed=seeds)
def test_all_parts_learn(learner, n, seed):
    """x, the four layers and the two norms get the gradients of the definition; these are all parameters, the state dict has nothing else, and the norms begin with ones."""
    x, values, cotangent = tensor(seed + 9, n.B, n.T, n.D), weights_of(n, seed), tensor(seed + 10, n.B, n.T, n.D)
    names = sorted(values)
    begun = {name: value for name, value in parameters(learner.QKNormAttention(n.D, n.H, "rope")).items() if "norm" in name}
    mine = layer(learner, n, values, "rope")
    held, saved, found = parameters(mine), sorted(state(mine)), gradients(mine, x, cotangent=cotangent)
    leaves = [x.double().requires_grad_(), *(values[name].double().requires_grad_() for name in names)]
    slopes = torch.autograd.grad((layer_by_hand(leaves[0], dict(zip(names, leaves[1:])), n.H, "rope") * cotangent.double()).sum(), leaves)
    same(sorted(held), names, "the names of the parameters")
    same(saved, names, "the names in the state dict")
    for name, value in begun.items():
        close(value, torch.ones(n.d), f"{name} before training")
    with check:
        close(found.inputs[0], slopes[0].float(), "the gradient of x", tol=1e-4)
    compare_parameter_gradients(found.parameters, {name: slope.float() for name, slope in zip(names, slopes[1:])}, tol=1e-4)


@exercise("QKNormAttention")
@few
@given(n=layer_sizes, seed=seeds)
def test_one_layer_reads_texts_of_any_length(learner, reference, n, seed):
    """The same layer reads short texts, longer ones and short ones again, with each kind of positions; x may be a view."""
    x, values = tensor(seed + 9, n.B, n.T + 3, n.D), weights_of(n, seed)
    got = {}
    for kind in KINDS:
        mine = layer(learner, n, values, kind)
        got[kind] = {T: mine(x[:, :T]) for T in (n.T, n.T + 3, 2)}
    view = learner.bring(of_views)(layer(learner, n, values), x)
    for kind, outputs in got.items():
        for T, output in outputs.items():
            bias = reference.alibi_bias(n.H, T, T) if kind == "alibi" else None
            close(output, layer_by_hand(x[:, :T], values, n.H, kind, bias).float(), f"the output with positions={kind!r} for {T} positions")
    close(view, layer_by_hand(x, values, n.H).float(), "the output for a view")


@exercise("QKNormAttention")
def test_a_text_may_have_more_than_a_thousand_positions(learner):
    """Nothing limits the length: a text of 1,100 positions is read too."""
    n = with_width(at(B=1, H=1, T=1100, pairs=1).make())
    x, values = tensor(7, 1, 1100, n.D), weights_of(n, 3)
    close(layer(learner, n, values)(x), layer_by_hand(x, values, n.H).float(), "the output for 1,100 positions")


@exercise("QKNormAttention")
def test_wrong_sizes_and_positions_are_refused(learner):
    """If n_heads does not divide d_model, a ValueError names both; other positions than none, rope and alibi raise one that names them."""
    n = with_width(at(B=2, H=3, T=3, pairs=2).make())
    x, values = tensor(1, 2, 3, n.D), weights_of(n, 2)
    fine = layer(learner, n, values, "none")(x)
    refuses(lambda: learner.QKNormAttention(10, 4), naming={"d_model": 10, "n_heads": 4}, because="the heads must be equally wide")
    for positions in ("learned", "RoPE"):
        refuses(lambda p=positions: learner.QKNormAttention(12, 2, p), naming={"positions": positions}, because="there are only none, rope and alibi")
    close(fine, layer_by_hand(x, values, n.H).float(), "the output")


@exercise("QKNormAttention")
@few
@given(n=layer_sizes, seed=seeds)
def test_normalised_attention_follows_dtype_and_device(learner, n, seed):
    """float64 is computed in float64, bfloat16 stays bfloat16, and mask and bias are on the device of x."""
    x, values = tensor(seed + 9, n.B, n.T, n.D, dtype=torch.float64), weights_of(n, seed)
    exact, half = layer(learner, n, values).double()(x), layer(learner, n, values, "alibi").bfloat16()(x.bfloat16())
    moved = {kind: layer(learner, n, values, kind) for kind in KINDS}
    close(exact, layer_by_hand(x, values, n.H), "the output in float64")
    same([list(half.shape), str(half.dtype)], [[n.B, n.T, n.D], "torch.bfloat16"], "shape and dtype of the output for bfloat16")
    for mine in moved.values():
        check_device_of_result(learner, x.float(), mine, x.float())
