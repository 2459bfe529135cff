"""Chapter 18, third part: layers that several ranks compute together."""

from __future__ import annotations

import torch
from grader.execution.proxy import load, randomise
from grader.runner.marks import exercise
from grader.verdict.comparing import close, refuses, same
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_check import check
from simulated_groups import ranks_of
from strategies import distinct, seeds, tensor

few = settings(max_examples=3)
group_sizes = st.integers(1, 4)


def through_call(f, inputs, cotangents):
    """Result and gradient of each rank's input through f(x, group), and what was sent after the forward and after the backward pass."""
    from grader.execution.simulated_group import run_ranks

    def one_rank(group):
        x = inputs[group.rank].clone().requires_grad_()
        y = f(x, group)
        (y * cotangents[group.rank]).sum().backward()
        return y.detach().clone(), x.grad

    def forward_only(group):
        return f(inputs[group.rank], group)

    results, counts = run_ranks(one_rank, len(inputs))
    _, before = run_ranks(forward_only, len(inputs))
    return {"y": [y for y, _ in results], "x": [x for _, x in results], "calls": [list(c.calls) for c in counts], "forward": [list(c.calls) for c in before]}


# ---- copy_to_ranks


@exercise("copy_to_ranks", weight=2)
@few
@given(n=group_sizes, seed=seeds)
def test_the_gradients_of_all_ranks_are_added_up(learner, n, seed):
    """The result is x on every rank, and the gradient of x is the sum of the ranks' gradients."""
    x, cotangents = tensor(seed, 3, 4), [tensor(seed + 1 + rank, 3, 4) for rank in range(ranks_of(n))]
    got = learner.bring(through_call)(learner.copy_to_ranks, [x] * n, cotangents)
    for rank in range(n):
        close(got["y"][rank], x, f"the result on rank {rank} of {n}")
        close(got["x"][rank], sum(cotangents), f"the gradient of x on rank {rank} of {n}")


@exercise("copy_to_ranks")
def test_nothing_is_sent_forward_and_one_call_backward(learner):
    """The forward pass makes no call, and the backward pass one all_reduce."""
    x = tensor(1, 2, 3)
    got = learner.bring(through_call)(learner.copy_to_ranks, [x] * 3, [x] * 3)
    close(got["x"][0], 3 * x, "the gradient of x on rank 0")
    same(got["forward"], [[]] * 3, "the calls of the forward pass on each rank")
    same(got["calls"], [["all_reduce"]] * 3, "the calls of both passes on each rank")


# ---- sum_over_ranks


@exercise("sum_over_ranks", weight=2)
@few
@given(n=group_sizes, seed=seeds)
def test_the_sum_is_the_same_everywhere_and_its_gradient_stays(learner, n, seed):
    """The result is the sum of all ranks' x, and the gradient of each x is that of the sum, not n times as much."""
    inputs, cotangent = [tensor(seed + rank, 3, 4) for rank in range(ranks_of(n))], tensor(seed + 9, 3, 4)
    got = learner.bring(through_call)(learner.sum_over_ranks, inputs, [cotangent] * n)
    for rank in range(n):
        close(got["y"][rank], sum(inputs), f"the result on rank {rank} of {n}")
        close(got["x"][rank], cotangent, f"the gradient of x on rank {rank} of {n}")


@exercise("sum_over_ranks")
def test_one_call_forward_and_nothing_backward(learner):
    """The forward pass makes one all_reduce, and the backward pass no call."""
    x = tensor(1, 2, 3)
    got = learner.bring(through_call)(learner.sum_over_ranks, [x] * 3, [x] * 3)
    close(got["y"][0], 3 * x, "the result on rank 0")
    same(got["forward"], [["all_reduce"]] * 3, "the calls of the forward pass on each rank")
    same(got["calls"], [["all_reduce"]] * 3, "the calls of both passes on each rank")


# ---- ColumnParallelLinear and RowParallelLinear


def parallel_linear(Layer, weight, bias, inputs, cotangents):
    """Outputs, gradients and parameters of a parallel linear layer on each rank."""
    from grader.execution.simulated_group import run_ranks

    def one_rank(group):
        linear = torch.nn.Linear(weight.size(1), weight.size(0), bias is not None)
        with torch.no_grad():
            linear.weight.copy_(weight)
            if bias is not None:
                linear.bias.copy_(bias)
        layer = Layer(linear, group)
        x = inputs[group.rank].clone().requires_grad_()
        y = layer(x)
        (y * cotangents[group.rank]).sum().backward()
        shapes = {name: list(p.shape) for name, p in layer.named_parameters()}
        slopes = {name: p.grad for name, p in layer.named_parameters()}
        with torch.no_grad():
            for p in layer.parameters():
                p.add_(1.0)
        return {"y": y.detach(), "x": x.grad, "shapes": shapes, "slopes": slopes, "given": linear.weight.detach().clone()}

    results, counts = run_ranks(one_rank, len(inputs))
    return {"ranks": results, "calls": [list(c.calls) for c in counts]}


def whole_linear(weight, bias, x, cotangent):
    leaves = [t.clone().requires_grad_() for t in (weight, torch.zeros(weight.size(0)) if bias is None else bias, x)]
    y = leaves[2] @ leaves[0].T + leaves[1]
    (y * cotangent).sum().backward()
    return y.detach(), *(leaf.grad for leaf in leaves)


layer_sizes = distinct("B", "T", "a", "b", B=(2, 3), T=(3, 5), a=(2, 4), b=(5, 6))


@exercise("ColumnParallelLinear", weight=3)
@few
@given(s=layer_sizes, n=group_sizes, seed=seeds)
def test_a_rank_computes_its_own_outputs(learner, s, n, seed):
    """Rank r gives the outputs r · out/n to (r + 1) · out/n of the whole layer, with and without a bias; joined they are its output."""
    out, x = ranks_of(n) * s.a, tensor(seed, s.B, s.T, s.b)
    weight, bias, cotangent = tensor(seed + 1, out, s.b), tensor(seed + 2, out), tensor(seed + 3, s.B, s.T, out)
    for own in (bias, None):
        got = learner.bring(parallel_linear)(learner.ColumnParallelLinear, weight, own, [x] * n, list(cotangent.chunk(n, dim=-1)))
        y = whole_linear(weight, own, x, cotangent)[0]
        for rank, found in enumerate(got["ranks"]):
            close(found["y"], y.chunk(n, dim=-1)[rank], f"the output on rank {rank} of {n}{'' if own is not None else ' without a bias'}", tol=1e-4)


@exercise("ColumnParallelLinear", weight=3)
@few
@given(s=layer_sizes, n=group_sizes, seed=seeds)
def test_gradients_of_rows_and_of_x_are_those_of_the_whole_layer(learner, s, n, seed):
    """`weight` and `bias` are this rank's rows and have their gradients; the gradient of x is complete on every rank, with one all_reduce."""
    out, x = ranks_of(n) * s.a, tensor(seed, s.B, s.T, s.b)
    weight, bias, cotangent = tensor(seed + 1, out, s.b), tensor(seed + 2, out), tensor(seed + 3, s.B, s.T, out)
    got = learner.bring(parallel_linear)(learner.ColumnParallelLinear, weight, bias, [x] * n, list(cotangent.chunk(n, dim=-1)))
    _, weights, biases, inputs = whole_linear(weight, bias, x, cotangent)
    for rank, found in enumerate(got["ranks"]):
        same(found["shapes"], {"weight": [s.a, s.b], "bias": [s.a]}, f"the parameters on rank {rank}")
        with check:
            close(found["slopes"]["weight"], weights.chunk(n)[rank], f"the gradient of the weight on rank {rank} of {n}", tol=1e-4)
        with check:
            close(found["slopes"]["bias"], biases.chunk(n)[rank], f"the gradient of the bias on rank {rank} of {n}", tol=1e-4)
        with check:
            close(found["x"], inputs, f"the gradient of x on rank {rank} of {n}", tol=1e-4)
        with check:
            same(got["calls"][rank], ["all_reduce"], f"the calls of rank {rank}")
        with check:
            close(found["given"], weight, "the weight of the given layer, after the rank's own weight was changed")


def linear_layer(Layer, n_in, n_out, n):
    from grader.execution.simulated_group import run_ranks

    return run_ranks(lambda group: Layer(torch.nn.Linear(n_in, n_out), group) and None, n)[0]


@exercise("ColumnParallelLinear")
def test_outputs_that_cannot_be_divided_are_refused(learner):
    """If n does not divide out_features, a ValueError names both; in_features need not be divisible."""
    make, x = learner.bring(linear_layer), tensor(1, 4, 5)
    fine = learner.bring(parallel_linear)(learner.ColumnParallelLinear, torch.ones(6, 5), None, [x] * 3, [torch.ones(4, 2)] * 3)
    for out, n in ((7, 2), (6, 4)):
        refuses(lambda out=out, n=n: make(learner.ColumnParallelLinear, 5, out, n), naming={"out_features": out, "n": n}, because="each rank needs the same number of outputs")
    close(fine["ranks"][2]["y"], x.sum(-1, keepdim=True).expand(4, 2), "the output on rank 2 of 3", tol=1e-4)


@exercise("RowParallelLinear", weight=3)
@few
@given(s=layer_sizes, n=group_sizes, seed=seeds)
def test_the_ranks_add_up_to_the_whole_layer(learner, s, n, seed):
    """From its own part of the input features, every rank gives the whole layer's output; the bias is added once."""
    width = ranks_of(n) * s.a
    x, weight, bias, cotangent = tensor(seed, s.B, s.T, width), tensor(seed + 1, s.b, width), tensor(seed + 2, s.b), tensor(seed + 3, s.B, s.T, s.b)
    for own in (bias, None):
        got = learner.bring(parallel_linear)(learner.RowParallelLinear, weight, own, list(x.chunk(n, dim=-1)), [cotangent] * n)
        y = whole_linear(weight, own, x, cotangent)[0]
        for rank, found in enumerate(got["ranks"]):
            close(found["y"], y, f"the output on rank {rank} of {n}{'' if own is not None else ' without a bias'}", tol=1e-4)


@exercise("RowParallelLinear", weight=3)
@few
@given(s=layer_sizes, n=group_sizes, seed=seeds)
def test_gradients_of_columns_and_of_the_part_are_those_of_the_whole_layer(learner, s, n, seed):
    """`weight` has this rank's columns, `bias` is whole; they and the rank's part of x have the gradients of the whole layer. One all_reduce, forward."""
    width = ranks_of(n) * s.a
    x, weight, bias, cotangent = tensor(seed, s.B, s.T, width), tensor(seed + 1, s.b, width), tensor(seed + 2, s.b), tensor(seed + 3, s.B, s.T, s.b)
    got = learner.bring(parallel_linear)(learner.RowParallelLinear, weight, bias, list(x.chunk(n, dim=-1)), [cotangent] * n)
    _, weights, biases, inputs = whole_linear(weight, bias, x, cotangent)
    for rank, found in enumerate(got["ranks"]):
        same(found["shapes"], {"weight": [s.b, s.a], "bias": [s.b]}, f"the parameters on rank {rank}")
        with check:
            close(found["slopes"]["weight"], weights.chunk(n, dim=1)[rank], f"the gradient of the weight on rank {rank} of {n}", tol=1e-4)
        with check:
            close(found["slopes"]["bias"], biases, f"the gradient of the bias on rank {rank} of {n}", tol=1e-4)
        with check:
            close(found["x"], inputs.chunk(n, dim=-1)[rank], f"the gradient of the part of x on rank {rank} of {n}", tol=1e-4)
        with check:
            same(got["calls"][rank], ["all_reduce"], f"the calls of rank {rank}")
        with check:
            close(found["given"], weight, "the weight of the given layer, after the rank's own weight was changed")


@exercise("RowParallelLinear")
def test_inputs_that_cannot_be_divided_are_refused(learner):
    """If n does not divide in_features, a ValueError names both; out_features need not be divisible."""
    make, x = learner.bring(linear_layer), tensor(1, 4, 2)
    fine = learner.bring(parallel_linear)(learner.RowParallelLinear, torch.ones(5, 6), None, [x] * 3, [torch.ones(4, 5)] * 3)
    for width, n in ((7, 2), (6, 4)):
        refuses(lambda width=width, n=n: make(learner.RowParallelLinear, width, 5, n), naming={"in_features": width, "n": n}, because="each rank needs the same number of inputs")
    close(fine["ranks"][0]["y"], 3 * x.sum(-1, keepdim=True).expand(4, 5), "the output on rank 0 of 3", tol=1e-4)


# ---- TensorParallelFeedForward and TensorParallelAttention


def parallel_part(Part, whole, n, x, cotangent, mask=None):
    """Output and gradients of a part that is made of a whole module, on each rank."""
    import copy

    from grader.execution.simulated_group import run_ranks

    def one_rank(group):
        part, own = Part(copy.deepcopy(whole), group), x.clone().requires_grad_()
        y = part(own) if mask is None else part(own, mask)
        forward = list(group.count.calls)
        (y * cotangent).sum().backward()
        shapes = {name: list(p.shape) for name, p in part.named_parameters()}
        return {"y": y.detach(), "x": own.grad, "slopes": {name: p.grad for name, p in part.named_parameters()}, "shapes": shapes, "forward": forward}

    results, counts = run_ranks(one_rank, n)
    return {"ranks": results, "calls": [list(c.calls) for c in counts]}


def whole_part(whole, x, cotangent, mask=None):
    """The same of the whole module."""
    own = x.clone().requires_grad_()
    y = whole(own) if mask is None else whole(own, mask=mask)
    (y * cotangent).sum().backward()
    return {"y": y.detach(), "x": own.grad, "slopes": {name: p.grad for name, p in whole.named_parameters()}}


def both_sides(learner, reference, make, part, n, x, cotangent, seed, mask=None):
    """The parallel part on each rank, and the whole module, with the same random parameters."""
    model = make(reference)
    mine = make(learner)
    load(mine, randomise(model, seed))
    got = learner.bring(parallel_part)(getattr(learner, part), mine, n, x, cotangent, mask)
    return got, reference.bring(whole_part)(model, x, cotangent, mask)


@exercise("TensorParallelFeedForward", weight=3)
@few
@given(n=group_sizes, hidden=st.integers(2, 3), seed=seeds)
def test_the_ranks_together_are_the_feed_forward(learner, reference, n, hidden, seed):
    """Every rank gives the whole layer's output and gradient of x, with each of the activations."""
    x, cotangent = tensor(seed + 1, 2, 3, 5), tensor(seed + 2, 2, 3, 5)
    for activation in ("gelu", "gelu_tanh", "relu"):
        got, whole = both_sides(learner, reference, lambda side, a=activation: side.FeedForward(5, ranks_of(n) * hidden, a), "TensorParallelFeedForward", n, x, cotangent, seed)
        for rank, found in enumerate(got["ranks"]):
            with check:
                close(found["y"], whole["y"], f"the output on rank {rank} of {n} with {activation}", tol=1e-4)
            with check:
                close(found["x"], whole["x"], f"the gradient of x on rank {rank} of {n} with {activation}", tol=1e-4)


@exercise("TensorParallelFeedForward", weight=3)
@few
@given(n=st.integers(2, 4), hidden=st.integers(2, 3), seed=seeds)
def test_one_call_each_way_in_a_feed_forward(learner, reference, n, hidden, seed):
    """One all_reduce forward and one backward; each rank has its own share of the hidden features, with their gradients."""
    x, cotangent = tensor(seed + 1, 2, 3, 5), tensor(seed + 2, 2, 3, 5)
    got, whole = both_sides(learner, reference, lambda side: side.FeedForward(5, ranks_of(n) * hidden), "TensorParallelFeedForward", n, x, cotangent, seed)
    slopes = whole["slopes"]
    for rank, found in enumerate(got["ranks"]):
        same(sorted(found["shapes"]), ["down.bias", "down.weight", "up.bias", "up.weight"], f"the names of the parameters on rank {rank}")
        same([found["forward"], got["calls"][rank]], [["all_reduce"], ["all_reduce"] * 2], f"the calls of rank {rank}: forward, and both passes")
        for name, axis in (("up.weight", 0), ("up.bias", 0), ("down.weight", 1)):
            with check:
                close(found["slopes"][name], slopes[name].chunk(n, dim=axis)[rank], f"the gradient of {name} on rank {rank} of {n}", tol=1e-4)
        with check:
            close(found["slopes"]["down.bias"], slopes["down.bias"], f"the gradient of down.bias on rank {rank} of {n}", tol=1e-4)


def attention(side, heads, width, bias=True):
    return side.MultiHeadAttention(heads * width, heads, bias=bias)


@exercise("TensorParallelAttention", weight=3)
@few
@given(n=group_sizes, s=distinct("B", "T", "heads", "d", B=(2, 3), T=(4, 5), heads=(1, 2), d=(2, 5)), seed=seeds)
def test_the_ranks_together_are_the_attention(learner, reference, n, s, seed):
    """Every rank gives the whole attention's output and gradient of x, with a mask and without one, with biases and without."""
    H = ranks_of(n) * s.heads
    x, cotangent = tensor(seed + 1, s.B, s.T, H * s.d), tensor(seed + 2, s.B, s.T, H * s.d)
    causal = torch.ones(s.T, s.T, dtype=torch.bool).tril()
    for mask, bias in ((causal, True), (None, False)):
        got, whole = both_sides(learner, reference, lambda side, b=bias: attention(side, H, s.d, b), "TensorParallelAttention", n, x, cotangent, seed, mask)
        what = "with a causal mask" if bias else "without a mask and without biases"
        for rank, found in enumerate(got["ranks"]):
            with check:
                close(found["y"], whole["y"], f"the output on rank {rank} of {n} {what}", tol=1e-4)
            with check:
                close(found["x"], whole["x"], f"the gradient of x on rank {rank} of {n} {what}", tol=1e-4)


@exercise("TensorParallelAttention", weight=3)
@few
@given(n=st.integers(2, 4), seed=seeds)
def test_one_call_each_way_in_an_attention(learner, reference, n, seed):
    """One all_reduce forward and one backward; each rank has the rows and columns of its own heads, with their gradients."""
    H, d = 2 * ranks_of(n), 2
    x, cotangent, mask = tensor(seed + 1, 2, 3, H * d), tensor(seed + 2, 2, 3, H * d), torch.ones(3, 3, dtype=torch.bool).tril()
    got, whole = both_sides(learner, reference, lambda side: attention(side, H, d), "TensorParallelAttention", n, x, cotangent, seed, mask)
    slopes, names = whole["slopes"], sorted(f"{layer}.{part}" for layer in ("W_q", "W_k", "W_v", "W_out") for part in ("weight", "bias"))
    for rank, found in enumerate(got["ranks"]):
        same(sorted(found["shapes"]), names, f"the names of the parameters on rank {rank}")
        same([found["forward"], got["calls"][rank]], [["all_reduce"], ["all_reduce"] * 2], f"the calls of rank {rank}: forward, and both passes")
        for name in names:
            expected = slopes[name] if name == "W_out.bias" else slopes[name].chunk(n, dim=1 if name == "W_out.weight" else 0)[rank]
            with check:
                close(found["slopes"][name], expected, f"the gradient of {name} on rank {rank} of {n}", tol=1e-4)


@exercise("TensorParallelAttention")
def test_heads_that_cannot_be_divided_are_refused(learner, reference):
    """If n does not divide n_heads, a ValueError names both, also where n divides the width."""
    x = tensor(1, 1, 3, 8)
    got, whole = both_sides(learner, reference, lambda side: attention(side, 4, 2), "TensorParallelAttention", 2, x, x, 3)
    for heads, width, n in ((3, 3, 2), (3, 4, 2), (4, 3, 3)):
        mine, x = attention(learner, heads, width), tensor(1, 1, 3, heads * width)
        call = learner.bring(parallel_part)
        refuses(lambda mine=mine, n=n, x=x: call(learner.TensorParallelAttention, mine, n, x, x),
                naming={"n_heads": heads, "n": n}, because="each rank needs the same number of heads")  # fmt: skip
    close(got["ranks"][1]["y"], whole["y"], "the output on rank 1 of 2", tol=1e-4)
