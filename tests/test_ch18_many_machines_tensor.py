"""Chapter 18, third part: layers that several ranks compute together."""

from __future__ import annotations

import torch
from grader.execution.proxy import load, randomise
from grader.runner.marks import exercise
from grader.verdict.comparing import close, refuses, same
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest_check import check
from simulated_groups import check_sent, factors, ranks_of, run_on_ranks
from strategies import distinct, seeds, tensor

few = settings(max_examples=3)
group_sizes = st.integers(1, 4)


def through_call(f, inputs, cotangents, beside=None):
    """Ranks: the result, the gradient of the input and the input afterwards through f(x, group), or the result alone without cotangents.

    With `beside`, x is also used directly, and its gradient there is `beside`; with "residual", the result is added to x.
    x and the gradient of the result are views, whose axes are exchanged in memory."""
    from grader.execution.simulated_group import Ranks

    def exchanged(t):
        return t.t().clone(memory_format=torch.contiguous_format).t()

    def one_rank(group):
        x = exchanged(inputs[group.rank]).requires_grad_()
        y = f(x, group)
        if cotangents is None:
            return y.detach()
        if beside == "residual":
            ((x + y) * exchanged(cotangents[group.rank])).sum().backward()
        else:
            (y * exchanged(cotangents[group.rank]) + (0 if beside is None else x * beside)).sum().backward()
        return y.detach().clone(), x.grad, x.detach()

    return Ranks(one_rank, len(inputs))


def run_through(learner, f, inputs, cotangents, beside=None, change=None):
    """What `through_call` gives, once the ranks have ended."""
    run = run_on_ranks(learner.bring(through_call)(f, inputs, cotangents, beside), len(inputs), change)
    run.y, run.x, run.given = ([each[i] for each in run.results] for i in range(3))
    return run


def arrived(tensors, change):
    """On each rank the sum of what arrives: its own tensor, and those of the others, changed on their way."""
    return [sum(t if other == rank else change(other, 1, t) for other, t in enumerate(tensors)) for rank in range(len(tensors))]


# ---- copy_to_ranks


@exercise("copy_to_ranks", weight=2)
@few
@given(n=group_sizes, seed=seeds)
def test_the_gradients_of_all_ranks_are_added_up(learner, n, seed):
    """The result is x on every rank, and the gradient of x is the sum of the ranks' gradients."""
    x, cotangents = tensor(seed, 3, 4), [tensor(seed + 1 + rank, 3, 4) for rank in range(ranks_of(n))]
    got = run_through(learner, learner.copy_to_ranks, [x] * n, cotangents)
    for rank in range(n):
        close(got.y[rank], x, f"the result on rank {rank} of {n}")
        close(got.x[rank], sum(cotangents), f"the gradient of x on rank {rank} of {n}")
    check_sent(got, [[cotangent] for cotangent in cotangents])


@exercise("copy_to_ranks")
def test_nothing_is_sent_forward_and_one_call_backward(learner):
    """The forward pass makes no call, and the backward pass one all_reduce, in the dtype of x. A gradient that changes on its way changes the sum."""
    x, change = tensor(1, 2, 3, dtype=torch.float64), factors(5)
    cotangents = [tensor(2 + rank, 2, 3, dtype=torch.float64) for rank in range(3)]
    got = run_through(learner, learner.copy_to_ranks, [x] * 3, cotangents)
    forward = run_on_ranks(learner.bring(through_call)(learner.copy_to_ranks, [x] * 3, None), 3)
    close(got.x[0], sum(cotangents), "the gradient of x on rank 0")
    same(forward.calls, [[]] * 3, "the calls of the forward pass on each rank")
    same(got.calls, [["all_reduce"]] * 3, "the calls of both passes on each rank")
    check_sent(got, [[cotangent] for cotangent in cotangents])
    changed = run_through(learner, learner.copy_to_ranks, [x] * 3, cotangents, change=change)
    close(changed.x, arrived(cotangents, change), "the gradients of x on the ranks, if what the others send changes on its way,")


@exercise("copy_to_ranks")
def test_other_uses_of_x_keep_their_gradient(learner):
    """Where x itself is used too, as in a residual connection, the gradient of that use is added once, not n times. In x + copy_to_ranks(x), both uses have the same gradient; the sum must not overwrite it."""
    x, beside, cotangents = tensor(1, 2, 3), tensor(2, 2, 3), [tensor(3 + rank, 2, 3) for rank in range(3)]
    got = run_through(learner, learner.copy_to_ranks, [x] * 3, cotangents, beside)
    residual = run_through(learner, learner.copy_to_ranks, [x] * 3, cotangents, "residual")
    for rank in range(3):
        close(residual.x[rank], sum(cotangents) + cotangents[rank], f"the gradient of x on rank {rank} in x + copy_to_ranks(x)")
        close(got.x[rank], sum(cotangents) + beside, f"the gradient of x on rank {rank}, which is also used directly")
    check_sent(got, [[cotangent] for cotangent in cotangents])


# ---- sum_over_ranks


@exercise("sum_over_ranks", weight=2)
@few
@given(n=group_sizes, seed=seeds)
def test_the_sum_is_the_same_everywhere_and_its_gradient_stays(learner, n, seed):
    """The result is the sum of all ranks' x, and the gradient of each x is that of the sum, not n times as much. x does not change."""
    inputs, cotangent = [tensor(seed + rank, 3, 4) for rank in range(ranks_of(n))], tensor(seed + 9, 3, 4)
    got = run_through(learner, learner.sum_over_ranks, inputs, [cotangent] * n)
    for rank in range(n):
        close(got.y[rank], sum(inputs), f"the result on rank {rank} of {n}")
        close(got.x[rank], cotangent, f"the gradient of x on rank {rank} of {n}")
        close(got.given[rank], inputs[rank], f"x on rank {rank} of {n} afterwards")
    check_sent(got, [[x] for x in inputs])


@exercise("sum_over_ranks")
def test_one_call_forward_and_nothing_backward(learner):
    """The forward pass makes one all_reduce, and the backward pass no call; float64 stays float64. A tensor that changes on its way changes the sum."""
    inputs, cotangent, change = [tensor(1 + rank, 2, 3, dtype=torch.float64) for rank in range(3)], tensor(4, 2, 3, dtype=torch.float64), factors(5)
    got = run_through(learner, learner.sum_over_ranks, inputs, [cotangent] * 3)
    forward = run_on_ranks(learner.bring(through_call)(learner.sum_over_ranks, inputs, None), 3)
    close(got.y[0], sum(inputs), "the result on rank 0")
    same(forward.calls, [["all_reduce"]] * 3, "the calls of the forward pass on each rank")
    same(got.calls, [["all_reduce"]] * 3, "the calls of both passes on each rank")
    check_sent(got, [[x] for x in inputs])
    changed = run_through(learner, learner.sum_over_ranks, inputs, [cotangent] * 3, change=change)
    close(changed.y, arrived(inputs, change), "the results on the ranks, if what the others send changes on its way,")


# ---- ColumnParallelLinear and RowParallelLinear


def parallel_linear(Layer, weight, bias, inputs, cotangents, scales=None):
    """Ranks: output, gradients and state of a parallel linear layer, whose x is a view; `scales` multiply each rank's parameters once they are its own."""
    from grader.execution.simulated_group import Ranks

    def one_rank(group):
        linear = torch.nn.Linear(weight.size(1), weight.size(0), bias is not None, dtype=weight.dtype)
        with torch.no_grad():
            linear.weight.copy_(weight)
            if bias is not None:
                linear.bias.copy_(bias)
        layer = Layer(linear, group)
        with torch.no_grad():
            for p in layer.parameters():
                p.mul_(1.0 if scales is None else scales[group.rank])
        x = inputs[group.rank].clone()
        x = x.permute(*range(x.dim())[::-1]).contiguous().permute(*range(x.dim())[::-1]).requires_grad_()
        y = layer(x)
        (y * cotangents[group.rank]).sum().backward()
        shapes = {name: list(t.shape) for name, t in layer.state_dict().items()}
        slopes = {name: p.grad for name, p in layer.named_parameters()}
        with torch.no_grad():
            for p in layer.parameters():
                p.add_(1.0)
        return {"y": y.detach(), "x": x.grad, "shapes": shapes, "slopes": slopes, "given": [p.detach().clone() for p in linear.parameters()]}

    return Ranks(one_rank, len(inputs))


def run_linear(side, name, weight, bias, inputs, cotangents, scales=None, change=None):
    """What `parallel_linear` gives, once the ranks have ended."""
    return run_on_ranks(side.bring(parallel_linear)(getattr(side, name), weight, bias, inputs, cotangents, scales), len(inputs), change)


def check_changed(run, learner, reference, n, seed):
    """Output and gradients are right too if each rank's own parameters change after the layer is made, by a factor of the rank, and what the ranks send changes on its way."""
    what = "if its parameters are multiplied by a number and what the ranks send changes on its way,"
    scales = [1.0 + rank / 2 for rank in range(n)]
    changed, right = (run(side, scales, factors(seed)) for side in (learner, reference))
    for rank, (found, expected) in enumerate(zip(changed.results, right.results)):
        close(found["y"], expected["y"], f"the output on rank {rank} of {n}, {what}", tol=1e-4)
        close(found["x"], expected["x"], f"the gradient of x on rank {rank} of {n}, {what}", tol=1e-4)
        for name, slope in expected["slopes"].items():
            if not name.endswith("W_k.bias"):  # softmax ignores it: its gradient is rounding
                close(found["slopes"][name], slope, f"the gradient of {name} on rank {rank} of {n}, {what}", tol=1e-4)


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
        got = run_linear(learner, "ColumnParallelLinear", weight, own, [x] * n, list(cotangent.chunk(n, dim=-1)))
        y = whole_linear(weight, own, x, cotangent)[0]
        for rank, found in enumerate(got.results):
            close(found["y"], y.chunk(n, dim=-1)[rank], f"the output on rank {rank} of {n}{'' if own is not None else ' without a bias'}", tol=1e-4)
        check_sent(got, own_gradients(weight, cotangent, n))


def own_gradients(weight, cotangent, n):
    """What each rank's rows add to the gradient of x."""
    return [[slope @ rows] for rows, slope in zip(weight.chunk(n), cotangent.chunk(n, dim=-1))]


@exercise("ColumnParallelLinear", weight=3)
@few
@given(s=layer_sizes, n=group_sizes, seed=seeds)
def test_gradients_of_rows_and_of_x_are_those_of_the_whole_layer(learner, reference, s, n, seed):
    """`weight` and `bias` are this rank's rows and have their gradients; the gradient of x is complete on every rank, with one all_reduce."""
    out, x = ranks_of(n) * s.a, tensor(seed, s.B, s.T, s.b)
    weight, bias, cotangent = tensor(seed + 1, out, s.b), tensor(seed + 2, out), tensor(seed + 3, s.B, s.T, out)
    problem = weight, bias, [x] * n, list(cotangent.chunk(n, dim=-1))
    got = run_linear(learner, "ColumnParallelLinear", *problem)
    _, weights, biases, inputs = whole_linear(weight, bias, x, cotangent)
    for rank, found in enumerate(got.results):
        same(found["shapes"], {"weight": [s.a, s.b], "bias": [s.a]}, f"the state dict on rank {rank}")
        with check:
            close(found["slopes"]["weight"], weights.chunk(n)[rank], f"the gradient of the weight on rank {rank} of {n}", tol=1e-4)
        with check:
            close(found["slopes"]["bias"], biases.chunk(n)[rank], f"the gradient of the bias on rank {rank} of {n}", tol=1e-4)
        with check:
            close(found["x"], inputs, f"the gradient of x on rank {rank} of {n}", tol=1e-4)
        with check:
            same(got.calls[rank], ["all_reduce"], f"the calls of rank {rank}")
        with check:
            close(found["given"], [weight, bias], "weight and bias of the given layer, after the rank's own were changed")
    check_sent(got, own_gradients(weight, cotangent, n))
    check_changed(lambda side, *changes: run_linear(side, "ColumnParallelLinear", *problem, *changes), learner, reference, n, seed)


def linear_layer(Layer, n_in, n_out, n, features):
    """Ranks that make the layer and call it with so many features; an error may come from either."""
    from grader.execution.simulated_group import Ranks

    return Ranks(lambda group: Layer(torch.nn.Linear(n_in, n_out), group)(torch.ones(2, features)).detach(), n)


@exercise("ColumnParallelLinear")
def test_outputs_that_cannot_be_divided_are_refused(learner):
    """If n does not divide out_features, a ValueError names both; in_features need not be divisible. float64 stays float64, and a single vector works too."""
    make, x = learner.bring(linear_layer), tensor(1, 5, dtype=torch.float64)
    fine = run_linear(learner, "ColumnParallelLinear", torch.ones(6, 5).double(), None, [x] * 3, [torch.ones(2)] * 3)
    for out, n in ((7, 2), (6, 4)):
        refuses(lambda out=out, n=n: run_on_ranks(make(learner.ColumnParallelLinear, 5, out, n, 5), n), naming={"out_features": out, "n": n}, because="each rank needs the same number of outputs")
    check_sent(fine, [[torch.ones(5).double() * 2]] * 3, tol=1e-10)
    close(fine.results[2]["y"], x.sum().expand(2), "the output on rank 2 of 3, in float64", tol=1e-10)


@exercise("RowParallelLinear", weight=3)
@few
@given(s=layer_sizes, n=group_sizes, seed=seeds)
def test_the_ranks_add_up_to_the_whole_layer(learner, s, n, seed):
    """From its own part of the input features, every rank gives the whole layer's output; the bias is added once."""
    width = ranks_of(n) * s.a
    x, weight, bias, cotangent = tensor(seed, s.B, s.T, width), tensor(seed + 1, s.b, width), tensor(seed + 2, s.b), tensor(seed + 3, s.B, s.T, s.b)
    for own in (bias, None):
        got = run_linear(learner, "RowParallelLinear", weight, own, list(x.chunk(n, dim=-1)), [cotangent] * n)
        y = whole_linear(weight, own, x, cotangent)[0]
        for rank, found in enumerate(got.results):
            close(found["y"], y, f"the output on rank {rank} of {n}{'' if own is not None else ' without a bias'}", tol=1e-4)
        check_sent(got, own_outputs(weight, x, n))


def own_outputs(weight, x, n):
    """What each rank's columns add to the output, without the bias."""
    return [[part @ columns.T] for columns, part in zip(weight.chunk(n, dim=1), x.chunk(n, dim=-1))]


@exercise("RowParallelLinear", weight=3)
@few
@given(s=layer_sizes, n=group_sizes, seed=seeds)
def test_gradients_of_columns_and_of_the_part_are_those_of_the_whole_layer(learner, reference, s, n, seed):
    """`weight` has this rank's columns, `bias` is whole; they and the rank's part of x have the gradients of the whole layer. One all_reduce, forward."""
    width = ranks_of(n) * s.a
    x, weight, bias, cotangent = tensor(seed, s.B, s.T, width), tensor(seed + 1, s.b, width), tensor(seed + 2, s.b), tensor(seed + 3, s.B, s.T, s.b)
    problem = weight, bias, list(x.chunk(n, dim=-1)), [cotangent] * n
    got = run_linear(learner, "RowParallelLinear", *problem)
    _, weights, biases, inputs = whole_linear(weight, bias, x, cotangent)
    for rank, found in enumerate(got.results):
        same(found["shapes"], {"weight": [s.b, s.a], "bias": [s.b]}, f"the state dict on rank {rank}")
        with check:
            close(found["slopes"]["weight"], weights.chunk(n, dim=1)[rank], f"the gradient of the weight on rank {rank} of {n}", tol=1e-4)
        with check:
            close(found["slopes"]["bias"], biases, f"the gradient of the bias on rank {rank} of {n}", tol=1e-4)
        with check:
            close(found["x"], inputs.chunk(n, dim=-1)[rank], f"the gradient of the part of x on rank {rank} of {n}", tol=1e-4)
        with check:
            same(got.calls[rank], ["all_reduce"], f"the calls of rank {rank}")
        with check:
            close(found["given"], [weight, bias], "weight and bias of the given layer, after the rank's own were changed")
    check_sent(got, own_outputs(weight, x, n))
    check_changed(lambda side, *changes: run_linear(side, "RowParallelLinear", *problem, *changes), learner, reference, n, seed)


@exercise("RowParallelLinear")
def test_inputs_that_cannot_be_divided_are_refused(learner):
    """If n does not divide in_features, a ValueError names both; out_features need not be divisible. float64 stays float64, and a single vector works too."""
    make, x = learner.bring(linear_layer), tensor(1, 2, dtype=torch.float64)
    fine = run_linear(learner, "RowParallelLinear", torch.ones(5, 6).double(), None, [x] * 3, [torch.ones(5)] * 3)
    for width, n in ((7, 2), (6, 4)):
        refuses(lambda width=width, n=n: run_on_ranks(make(learner.RowParallelLinear, width, 5, n, width // n), n), naming={"in_features": width, "n": n}, because="each rank needs the same number of inputs")
    check_sent(fine, own_outputs(torch.ones(5, 6).double(), torch.cat([x] * 3, dim=-1), 3), tol=1e-10)
    close(fine.results[0]["y"], 3 * x.sum().expand(5), "the output on rank 0 of 3, in float64", tol=1e-10)


# ---- TensorParallelFeedForward and TensorParallelAttention


def parallel_part(Part, whole, n, x, cotangent, mask=None, scales=None):
    """Ranks: output and gradients of a part that is made of a whole module, and that module afterwards; x is a view. `scales` multiply each rank's parameters once they are its own."""
    import copy

    from grader.execution.simulated_group import Ranks

    def one_rank(group):
        given = copy.deepcopy(whole).to(x.dtype)
        part, own = Part(given, group), x.clone()
        own = own.permute(*range(x.dim())[::-1]).contiguous().permute(*range(x.dim())[::-1]).requires_grad_()
        with torch.no_grad():
            for p in part.parameters():
                p.mul_(1.0 if scales is None else scales[group.rank])
        y = part(own) if mask is None else part(own, mask)
        (y * cotangent).sum().backward()
        shapes, slopes = {name: list(t.shape) for name, t in part.state_dict().items()}, {name: p.grad for name, p in part.named_parameters()}
        with torch.no_grad():
            for p in part.parameters():
                p.add_(1.0)
        return {"y": y.detach(), "x": own.grad, "slopes": slopes, "shapes": shapes, "given": {name: p.detach() for name, p in given.named_parameters()}}

    return Ranks(one_rank, n)


def whole_part(whole, x, cotangent, mask=None):
    """The same of the whole module."""
    whole, own = whole.to(x.dtype), x.clone().requires_grad_()
    y = whole(own) if mask is None else whole(own, mask=mask)
    (y * cotangent).sum().backward()
    parameters = {name: p.detach() for name, p in whole.named_parameters()}
    return {"y": y.detach(), "x": own.grad, "slopes": {name: p.grad for name, p in whole.named_parameters()}, "parameters": parameters}


class BothSides:
    """The parallel part on each rank (`got`), and the whole module (`whole`), with the same random parameters."""

    def __init__(self, learner, reference, make, part, n, x, cotangent, seed, mask=None):
        self.part, self.n, self.seed, self.problem = part, n, seed, (x, cotangent, mask)
        self.models = {learner: make(learner), reference: make(reference)}
        load(self.models[learner], randomise(self.models[reference], seed))
        self.learner, self.reference = learner, reference
        self.got = self.run(learner)
        self.whole = reference.bring(whole_part)(self.models[reference], x, cotangent, mask)

    def run(self, side, scales=None, change=None):
        """What `parallel_part` gives, once the ranks have ended."""
        return run_on_ranks(side.bring(parallel_part)(getattr(side, self.part), self.models[side], self.n, *self.problem, scales), self.n, change)

    def check_given(self):
        """The given module is as it was, after the rank's own parameters were changed."""
        for rank, found in enumerate(self.got.results):
            close(found["given"], self.whole["parameters"], f"the given layer's parameters, after the own ones of rank {rank} were changed")

    def check_sent(self):
        """What the ranks give to their calls is what those of the reference give: forward their share of the output, backward their share of the gradient of x."""
        check_sent(self.got, self.run(self.reference).sent)

    def check_changed(self):
        check_changed(self.run, self.learner, self.reference, self.n, self.seed)


@exercise("TensorParallelFeedForward", weight=3)
@few
@given(n=group_sizes, hidden=st.integers(2, 3), seed=seeds)
def test_the_ranks_together_are_the_feed_forward(learner, reference, n, hidden, seed):
    """Every rank gives the whole layer's output and gradient of x, with each of the activations."""
    x, cotangent = tensor(seed + 1, 2, 3, 5), tensor(seed + 2, 2, 3, 5)
    for activation in ("gelu", "gelu_tanh", "relu"):
        both = BothSides(learner, reference, lambda side, a=activation: side.FeedForward(5, ranks_of(n) * hidden, a), "TensorParallelFeedForward", n, x, cotangent, seed)
        for rank, found in enumerate(both.got.results):
            with check:
                close(found["y"], both.whole["y"], f"the output on rank {rank} of {n} with {activation}", tol=1e-4)
            with check:
                close(found["x"], both.whole["x"], f"the gradient of x on rank {rank} of {n} with {activation}", tol=1e-4)
        with check:
            both.check_sent()
    x, cotangent = (tensor(seed + i, 5, dtype=torch.float64) for i in (3, 4))
    both = BothSides(learner, reference, lambda side: side.FeedForward(5, n * hidden), "TensorParallelFeedForward", n, x, cotangent, seed)
    for rank, found in enumerate(both.got.results):
        close(found["y"], both.whole["y"], f"the output for a single float64 vector on rank {rank} of {n}")
        close(found["x"], both.whole["x"], f"the gradient of a single float64 vector on rank {rank} of {n}")


@exercise("TensorParallelFeedForward", weight=3)
@few
@given(n=st.integers(2, 4), hidden=st.integers(2, 3), seed=seeds)
def test_one_call_each_way_in_a_feed_forward(learner, reference, n, hidden, seed):
    """One all_reduce forward and one backward; each rank has its own share of the hidden features, with their gradients. The given layer does not change."""
    x, cotangent = tensor(seed + 1, 2, 3, 5), tensor(seed + 2, 2, 3, 5)
    both = BothSides(learner, reference, lambda side: side.FeedForward(5, ranks_of(n) * hidden), "TensorParallelFeedForward", n, x, cotangent, seed)
    slopes = both.whole["slopes"]
    for rank, found in enumerate(both.got.results):
        same(sorted(found["shapes"]), ["down.bias", "down.weight", "up.bias", "up.weight"], f"the names in the state dict on rank {rank}")
        same(both.got.calls[rank], ["all_reduce"] * 2, f"the calls of rank {rank} in both passes")
        for name, axis in (("up.weight", 0), ("up.bias", 0), ("down.weight", 1)):
            with check:
                close(found["slopes"][name], slopes[name].chunk(n, dim=axis)[rank], f"the gradient of {name} on rank {rank} of {n}", tol=1e-4)
        with check:
            close(found["slopes"]["down.bias"], slopes["down.bias"], f"the gradient of down.bias on rank {rank} of {n}", tol=1e-4)
    both.check_given()
    both.check_sent()
    both.check_changed()


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
    padding = torch.arange(s.T) < torch.arange(s.T - s.B + 1, s.T + 1).view(-1, 1, 1, 1)  # the last text has none
    for mask, bias in ((causal, True), (None, False), (padding, True)):
        both = BothSides(learner, reference, lambda side, b=bias: attention(side, H, s.d, b), "TensorParallelAttention", n, x, cotangent, seed, mask)
        what = "without a mask and without biases" if mask is None else f"with a mask of shape {tuple(mask.shape)}"
        for rank, found in enumerate(both.got.results):
            with check:
                close(found["y"], both.whole["y"], f"the output on rank {rank} of {n} {what}", tol=1e-4)
            with check:
                close(found["x"], both.whole["x"], f"the gradient of x on rank {rank} of {n} {what}", tol=1e-4)
        with check:
            both.check_sent()


@exercise("TensorParallelAttention", weight=3)
@few
@given(n=st.integers(2, 4), seed=seeds)
def test_one_call_each_way_in_an_attention(learner, reference, n, seed):
    """One all_reduce forward and one backward; each rank has the rows and columns of its own heads, with their gradients. The given layer does not change."""
    H, d = 2 * ranks_of(n), 2
    x, cotangent, mask = tensor(seed + 1, 2, 3, H * d), tensor(seed + 2, 2, 3, H * d), torch.ones(3, 3, dtype=torch.bool).tril()
    both = BothSides(learner, reference, lambda side: attention(side, H, d), "TensorParallelAttention", n, x, cotangent, seed, mask)
    slopes, names = both.whole["slopes"], sorted(f"{layer}.{part}" for layer in ("W_q", "W_k", "W_v", "W_out") for part in ("weight", "bias"))
    for rank, found in enumerate(both.got.results):
        same(sorted(found["shapes"]), names, f"the names in the state dict on rank {rank}")
        same(both.got.calls[rank], ["all_reduce"] * 2, f"the calls of rank {rank} in both passes")
        for name in names:
            if name == "W_k.bias":  # softmax ignores it: its gradient is rounding
                continue
            expected = slopes[name] if name == "W_out.bias" else slopes[name].chunk(n, dim=1 if name == "W_out.weight" else 0)[rank]
            with check:
                close(found["slopes"][name], expected, f"the gradient of {name} on rank {rank} of {n}", tol=1e-4)
    both.check_given()
    both.check_sent()
    both.check_changed()


@exercise("TensorParallelAttention")
def test_heads_that_cannot_be_divided_are_refused(learner, reference):
    """If n does not divide n_heads, a ValueError names both, also where n divides the width. float64 is computed in float64."""
    x = tensor(1, 1, 3, 8, dtype=torch.float64)
    both = BothSides(learner, reference, lambda side: attention(side, 4, 2), "TensorParallelAttention", 2, x, x, 3)
    for heads, width, n in ((3, 3, 2), (3, 4, 2), (4, 3, 3)):
        mine, x = attention(learner, heads, width), tensor(1, 1, 3, heads * width)
        call = learner.bring(parallel_part)
        refuses(lambda mine=mine, n=n, x=x: run_on_ranks(call(learner.TensorParallelAttention, mine, n, x, x), n),
                naming={"n_heads": heads, "n": n}, because="each rank needs the same number of heads")  # fmt: skip
    close(both.got.results[1]["y"], both.whole["y"], "the output on rank 1 of 2, in float64", tol=1e-10)
    both.check_sent()
