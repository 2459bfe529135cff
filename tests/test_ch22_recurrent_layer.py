"""Chapter 22, the layer: a gated delta rule between projections, a short convolution, a norm and a gate."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients, load, parameters, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, sizes
from hypothesis import given, settings
from memory_layouts import of_views
from module_pairs import compare_parameter_gradients
from pytest_check import check
from recurrent_forms import check_operations, convolution_by_hand, count_operations, delta_by_hand, same_pair
from strategies import at, distinct, seeds, tensor

few = settings(max_examples=2)
PARTS = ("the rows for the convolution", "S")


def with_width(n):
    n.D = n.H * n.d_head
    sizes(d_model=n.D)
    return n


layer_sizes = distinct(B=(1, 2), H=(2, 3), T=(5, 8), d_head=(3, 5), width=(2, 6)).map(with_width)


def weights_of(n, seed):
    """Random numbers for all parts of a GatedDeltaNet; those of the norm are far from 1."""
    shapes = {"W_qkv": (3 * n.D, n.D), "W_beta": (n.H, n.D), "W_decay": (n.H, n.D), "W_gate": (n.D, n.D), "W_out": (n.D, n.D)}
    values = {f"{name}.weight": tensor(seed + i, *shape) * 1.5 / math.sqrt(n.D) for i, (name, shape) in enumerate(shapes.items())}
    values |= {"conv": tensor(seed + 5, 3 * n.D, n.width) * 1.5 / math.sqrt(n.width), "norm.weight": 1 + 0.7 * tensor(seed + 6, n.d_head)}
    return values | {"A_log": 0.6 * tensor(seed + 7, n.H), "dt_bias": tensor(seed + 8, n.H) - 0.5}


def layer(learner, n, values):
    mine = learner.GatedDeltaNet(n.D, n.H, n.width)
    load(mine, values)
    return mine


def by_hand(x, values, n, before=None, S=None):
    """Output and last state of the layer, in the dtype of x."""
    w = {name.removesuffix(".weight"): value.to(x.dtype) for name, value in values.items()}
    mixed, before = convolution_by_hand(x @ w["W_qkv"].T, w["conv"], before)
    q, k, v = (part.unflatten(-1, (n.H, n.d_head)).transpose(1, 2) for part in F.silu(mixed).split(n.D, dim=-1))
    q, k = (part / (part.square().sum(-1, keepdim=True) + 1e-6).sqrt() for part in (q, k))
    beta, steps = torch.sigmoid(x @ w["W_beta"].T), F.softplus(x @ w["W_decay"].T + w["dt_bias"])
    output, S = delta_by_hand(q, k, v, beta.mT, (-w["A_log"].exp() * steps).mT, S)
    output = output / (output.square().mean(-1, keepdim=True) + 1e-6).sqrt() * w["norm"]
    return (output.transpose(1, 2).flatten(2) * F.silu(x @ w["W_gate"].T)) @ w["W_out"].T, (before, S)


def stepped(mine, texts, lengths):
    """For `bring`: texts of one batch that are read alternately in pieces of these lengths, each with its own state: outputs and last states."""
    states, outputs = [mine.new_state(text.size(0)) for text in texts], [[] for _ in texts]
    for pieces in zip(*(text.split(lengths, dim=1) for text in texts)):
        for i, piece in enumerate(pieces):
            output, states[i] = mine.step(piece, states[i])
            outputs[i].append(output)
    return [(torch.cat(parts, dim=1), *last) for parts, last in zip(outputs, states)]


@exercise("GatedDeltaNet", weight=4)
@few
@given(n=layer_sizes, seed=seeds)
def test_forward_computes_the_five_steps(learner, n, seed):
    """forward gives the layer of the docstring: projections and convolution, unit queries and keys, beta and decay, the delta rule with a norm for each head, and the gate."""
    x, values = tensor(seed + 9, n.B, n.T, n.D, dtype=torch.float64), weights_of(n, seed)
    mine = layer(learner, n, values)
    usual, one = mine(x.float()), mine(x[:, :1].float())
    mine.double()
    exact, small = mine(x), mine(x * 1e-3)
    close(usual, by_hand(x, values, n)[0].float(), "the output of forward", tol=5e-5)
    close(one, by_hand(x[:, :1], values, n)[0].float(), "the output of forward for a text of one position", tol=5e-5)
    close(exact, by_hand(x, values, n)[0], "the output of forward in float64")
    close(small * 1e3, by_hand(x * 1e-3, values, n)[0] * 1e3, "1,000 times the output of forward for an x that is 1,000 times smaller")


@exercise("GatedDeltaNet", weight=4)
@few
@given(n=layer_sizes, seed=seeds)
def test_steps_give_the_outputs_of_forward(learner, n, seed):
    """Read at once, one position at a time, or in pieces of any lengths, a text has the outputs of forward over the whole text, and the same last state."""
    x, values = tensor(seed + 9, n.B, n.T, n.D, dtype=torch.float64), weights_of(n, seed)
    mine = layer(learner, n, values).double()
    cuts = ([n.T], [1] * n.T, [2, n.T - 3, 1], [n.T - 1, 1])
    got = [learner.bring(stepped)(mine, [x], lengths)[0] for lengths in cuts]
    whole = mine(x)
    output, last = by_hand(x, values, n)
    close(whole, output, "the output of forward")
    for (outputs, *states), lengths in zip(got, cuts):
        close(outputs, output, f"the output of step in pieces of {lengths} positions")
        same_pair(states, last, f" after pieces of {lengths} positions", tol=1e-9, what=PARTS)


@exercise("GatedDeltaNet", weight=3)
@few
@given(n=layer_sizes, seed=seeds)
def test_the_state_has_two_parts_of_fixed_size(learner, n, seed):
    """new_state gives zeros, (B, width - 1, 3D) and (B, H, d_head, d_head), in the dtype of the parameters; after any number of positions the parts have the same shapes, and the last rows of W_qkv x and S in them."""
    x, values = tensor(seed + 9, n.B, n.T, n.D), weights_of(n, seed)
    mine = layer(learner, n, values)
    begun = mine.new_state(n.B)
    one, all_of_them = mine.step(x[:, :1], begun), mine.step(x, begun)
    other_batch = mine.double().new_state(n.B + 3)
    shapes = [(n.B, n.width - 1, 3 * n.D), (n.B, n.H, n.d_head, n.d_head)]
    same_pair(begun, [torch.zeros(shape) for shape in shapes], " before the first position", what=PARTS)
    for got, text, where in ((one, x[:, :1], "one position"), (all_of_them, x, f"{n.T} positions")):
        output, last = by_hand(text.double(), values, n)
        holds(isinstance(got, tuple | list) and len(got) == 2, "step should return a pair: the output and the new state")
        same_pair(got[1], [part.float() for part in last], f" after {where}", tol=5e-5, what=PARTS)
        close(got[0], output.float(), f"the output of step for {where}", tol=5e-5)
    expected = [torch.zeros(n.B + 3, *shape[1:], dtype=torch.float64) for shape in shapes]
    same_pair(other_batch, expected, " before the first position, with parameters in float64", what=PARTS)


def build(make, seed, *arguments):
    """For `bring`: a module that begins with torch's random numbers from this seed on."""
    torch.manual_seed(seed)
    return make(*arguments)


@exercise("GatedDeltaNet", weight=2)
def test_parts_have_their_names_shapes_and_ranges(learner):
    """The parameters are those of the docstring, without biases; exp(A_log) begins between 1 and 16 and softplus(dt_bias) between 0.001 and 0.1, drawn for each head; the linear layers and the norm begin as usual."""
    n = with_width(at(B=2, T=4, H=32, d_head=2, width=3).make())
    values = {name: value.float() for name, value in weights_of(n, 1).items()}
    made = [learner.bring(build)(learner.GatedDeltaNet, seed, n.D, n.H, n.width) for seed in (1, 1, 2)]
    first, again, other = (parameters(one) for one in made)
    usual, saved = parameters(learner.GatedDeltaNet(n.D, n.H)), sorted(state(made[0]))
    x = tensor(3, n.B, n.T, n.D)
    load(made[0], values)
    output = made[0](x)
    close(output, by_hand(x.double(), values, n)[0].float(), "the output of forward", tol=5e-5)
    same({name: list(value.shape) for name, value in sorted(first.items())}, {name: list(value.shape) for name, value in sorted(values.items())}, "the shapes of the parameters")
    same(saved, sorted(values), "the names in the state dict")
    same(list(usual["conv"].shape), [3 * n.D, 4], "the shape of conv without a width")
    rates, steps = first["A_log"].double().exp(), F.softplus(first["dt_bias"].double())
    holds(rates.min() > 0.999 and rates.max() < 16.01, "exp(A_log) should begin between 1 and 16")
    holds(steps.min() > 0.000998 and steps.max() < 0.1002, "softplus(dt_bias) should begin between 0.001 and 0.1")
    close(first["norm.weight"], torch.ones(n.d_head), "norm.weight before training")
    for name in ("A_log", "dt_bias", "conv"):
        different = len(first[name].unique())
        holds(different > 0.9 * first[name].numel(), f"{name} should begin with a number of its own for each place")
        holds(torch.equal(first[name], again[name]), f"{name} should begin with torch's random numbers, which torch.manual_seed repeats")
        holds(not torch.equal(first[name], other[name]), f"{name} should begin with other random numbers for another seed")
    for name in ("W_qkv", "W_beta", "W_decay", "W_gate", "W_out"):
        largest = float(first[f"{name}.weight"].abs().max()) * math.sqrt(n.D)
        holds(0.95 < largest < 1.0001, f"{name} should begin as nn.Linear makes it")


def numbers_of_step(mine):
    """For `bring`: the output and both new states of a step in one row of numbers, so gradients come from all three."""

    def joined(x, before, S):
        output, last = mine.step(x, (before, S))
        return torch.cat([part.flatten() for part in (output, *last)])

    return joined


@exercise("GatedDeltaNet", weight=3)
@few
@given(n=layer_sizes, seed=seeds)
def test_every_part_learns(learner, n, seed):
    """forward gives x and every parameter the gradients of the definition; a step gives gradients to both parts of the state before."""
    x, values, cotangent = tensor(seed + 9, n.B, n.T, n.D, dtype=torch.float64), weights_of(n, seed), tensor(seed + 10, n.B, n.T, n.D, dtype=torch.float64)
    names = sorted(values)
    before, S = tensor(seed + 11, n.B, n.width - 1, 3 * n.D, dtype=torch.float64), tensor(seed + 12, n.B, n.H, n.d_head, n.d_head, dtype=torch.float64)
    mine = layer(learner, n, values).double()
    found = gradients(mine, x, cotangent=cotangent)
    leaves = [x.clone().requires_grad_(), *(values[name].double().requires_grad_() for name in names)]
    slopes = torch.autograd.grad((by_hand(leaves[0], dict(zip(names, leaves[1:])), n)[0] * cotangent).sum(), leaves)
    inputs = [value.clone().requires_grad_() for value in (x, before, S)]
    output, last = by_hand(inputs[0], values, n, *inputs[1:])
    numbers = torch.cat([part.flatten() for part in (output, *last)])
    weights = torch.arange(numbers.numel(), dtype=torch.float64).mul(1.3).cos()
    wanted = torch.autograd.grad((numbers * weights).sum(), inputs)
    of_step = gradients(learner.bring(numbers_of_step)(mine), x, before, S, cotangent=weights)
    with check:
        close(found.inputs[0], slopes[0], "the gradient of x", tol=1e-8)
    compare_parameter_gradients(found.parameters, dict(zip(names, slopes[1:])), tol=1e-8)
    for name, gradient, right in zip(("x", *PARTS), of_step.inputs, wanted):
        with check:
            close(gradient, right, f"the gradient of {name} through a step", tol=1e-8)


@exercise("GatedDeltaNet", weight=3)
def test_long_texts_are_computed_in_chunks(learner, reference):
    """With 4,096 positions, fewer than 3 operations of torch a position run, and the output is as precise as for a short text; with 1,024 positions no tensor has a quarter of 1,024 × 1,024 entries."""
    n = with_width(at(B=1, T=4096, H=1, d_head=4, width=3).make())
    x, values = tensor(3, 1, n.T, n.D), weights_of(n, 2)
    mine, exact = layer(learner, n, values), layer(reference, n, values).double()
    found = count_operations(learner, mine, [x], 3 * n.T - 1)
    short = count_operations(learner, mine, [x[:, :1024]], 3 * n.T, largest=1024 * 1024 / 4)
    expected = exact(x.double()).float()
    check_operations(found, "forward runs 3 operations of torch a position or more, for 4,096 positions: it computes position by position")
    close(found["result"], expected, "the output of forward for 4,096 positions", tol=5e-5)
    check_operations(short, "forward runs more than 12,288 operations of torch for 1,024 positions: it computes position by position")
    close(short["result"], expected[:, :1024], "the output of forward for 1,024 positions", tol=5e-5)
    holds(not short["too large"], "for 1,024 positions, forward makes a tensor with a quarter of 1,024 × 1,024 entries or more")


@exercise("GatedDeltaNet", weight=2)
@few
@given(n=layer_sizes, seed=seeds)
def test_nothing_is_stored_between_calls(learner, n, seed):
    """Two texts that are read alternately, each with its own state, do not mix, and a state can be used twice: the past is in the state, not in the module."""
    texts, values, lengths = [tensor(seed + 9 + i, n.B, n.T, n.D) for i in (0, 1)], weights_of(n, seed), [3, 1, n.T - 4]
    mine = layer(learner, n, values)
    found = learner.bring(stepped)(mine, texts, lengths)
    begun = mine.step(texts[0][:, :3], mine.new_state(n.B))
    whole = mine(texts[1])
    holds(isinstance(begun, tuple | list) and len(begun) == 2, "step should return a pair: the output and the new state")
    twice = [mine.step(text[:, 3:], begun[1]) for text in (texts[1], texts[0])]
    saved = sorted(state(mine))
    for (outputs, *_), text, which in zip(found, texts, ("first", "second")):
        close(outputs, by_hand(text.double(), values, n)[0].float(), f"the output of step for the {which} of two texts", tol=5e-5)
    close(whole, by_hand(texts[1].double(), values, n)[0].float(), "the output of forward after steps", tol=5e-5)
    last = by_hand(texts[0][:, :3].double(), values, n)[1]
    for pair, text in zip(twice, (texts[1], texts[0])):
        expected = by_hand(text[:, 3:].double(), values, n, *last)[0].float()
        close(pair[0], expected, "the output of one of two steps from the same state", tol=5e-5)
    same(saved, sorted(values), "the names in the state dict after use")


@exercise("GatedDeltaNet")
@settings(max_examples=2)
@given(n=layer_sizes, seed=seeds)
def test_the_convolution_may_have_width_1(learner, n, seed):
    """With width 1, the first part of the state has no positions, and steps still give the outputs of forward; x may be a view, and nothing is made on another device."""
    n.width = 1
    sizes(width=1)
    x, values = tensor(seed + 9, n.B, n.T, n.D), weights_of(n, seed)
    mine = layer(learner, n, values)
    found, view = learner.bring(stepped)(mine, [x], [2, n.T - 2])[0], learner.bring(of_views)(mine, x)
    expected, last = by_hand(x.double(), values, n)
    close(found[0], expected.float(), "the output of step with width = 1", tol=5e-5)
    same_pair(found[1:], [part.float() for part in last], " with width = 1", tol=5e-5, what=PARTS)
    close(view, expected.float(), "the output of forward for a view", tol=5e-5)
    check_device_of_result(learner, view, mine, x)


@exercise("GatedDeltaNet")
def test_sizes_of_the_layer_that_do_not_fit_are_refused(learner):
    """If n_heads does not divide d_model, a ValueError names both; a width below 1 raises one that names it."""
    n = with_width(at(B=2, H=2, T=3, d_head=3, width=2).make())
    x, values = tensor(1, 2, 3, n.D), weights_of(n, 2)
    fine = layer(learner, n, values)(x)
    refuses(lambda: learner.GatedDeltaNet(10, 4), naming={"d_model": 10, "n_heads": 4}, because="the heads must be equally wide")
    for width in (0, -2):
        refuses(lambda width=width: learner.GatedDeltaNet(12, 2, width), naming={"width": width}, because="a convolution reads at least one position")
    close(fine, by_hand(x.double(), values, n)[0].float(), "the output of forward", tol=5e-5)
