"""Chapter 5, third part: FeedForward and SwiGLU. The rest is in test_ch05_layers.py and test_ch05_layers_norms.py."""

import torch
from devices_and_dtypes import check_device_of_result, check_dtype_and_accuracy, dtype_and_accuracy
from grader.execution.proxy import gradients, load, parameters, randomise, state
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, shaped
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_layouts import of_view
from module_pairs import compare_parameter_gradients
from pytest_check import check
from strategies import distinct, seeds, tensor

few = settings(max_examples=3)  # for tests that a mistake breaks at every example: more examples would only take time
shapes = distinct("B", "T", "D", d_ff=(8, 13))
bends = st.sampled_from(["gelu", "gelu_tanh", "relu"])


def pair(learner, reference, kind, *args, seed=0, **options):
    """The learner's module and the reference's with the same random parameters."""
    model = getattr(reference, kind)(*args, **options)
    values = randomise(model, seed)
    mine = getattr(learner, kind)(*args, **options)
    load(mine, values)
    return mine, model


def same_sizes(got, expected, what):
    same(sorted(got), sorted(expected), f"the list of names of {what}")
    for name, value in expected.items():
        shaped(got[name], tuple(value.shape), f"`{name}`")


def same_gradients(got, expected):
    with check:
        close(got.output, expected.output, "the output")
    with check:
        close(got.inputs[0], expected.inputs[0], "the gradient of x", tol=5e-5)
    compare_parameter_gradients(got.parameters, expected.parameters, tol=5e-5)


def alone(learner, mine, model, x, seed):
    """Each position is independent of its neighbours, for any number of leading axes."""
    changed = x.clone()
    changed[-1, -1] = 3.0 * tensor(seed + 3, x.size(-1))
    got = mine(x), mine(changed), mine(x[:1]), mine(x[0]), mine(x[0, 0]), mine(x[:, None]), learner.bring(of_view)(mine, x)
    expected = model(x)
    close(got[0], expected, "the output")
    close(got[1], model(changed), "the output after the last vector was changed")
    close(got[2], expected[:1], "the output for the first text alone")
    close(got[3], expected[0], "the output for x of shape (T, D)")
    close(got[4], expected[0, 0], "the output for x of shape (D,)")
    close(got[5], expected[:, None], "the output for x of shape (B, 1, T, D)")
    close(got[6], expected, "the output for a view, such as a transposed tensor,")


def keeps_dtype_and_device(mine, model, learner, x):
    ask, double, half = learner.bring(dtype_and_accuracy), x.double(), x.bfloat16()
    expected = model.double()(double), model.bfloat16()(half)
    got = ask(mine.double(), double, expected[0], 1e-9), ask(mine.bfloat16(), half, expected[1], 8e-2)
    check_dtype_and_accuracy(got[0], expected[0], "the output in float64")
    check_dtype_and_accuracy(got[1], expected[1], "the output in bfloat16")
    check_device_of_result(learner, x, mine.float(), x)  # last: what was on another device has no numbers any more


# ---- FeedForward


@exercise("FeedForward", weight=4)
@given(n=shapes, seed=seeds)
def test_the_output_is_down_of_gelu_of_up(learner, reference, n, seed):
    """The output is down(gelu(up(x))), gelu in its exact form."""
    mine, model = pair(learner, reference, "FeedForward", n.D, n.d_ff, seed=seed)
    x = tensor(seed, n.B, n.T, n.D) * 2
    close(mine(x), model(x), "the output")


@exercise("FeedForward", weight=3)
@given(n=shapes, seed=seeds)
def test_activation_chooses_the_nonlinear_function(learner, reference, n, seed):
    """`activation` is "gelu", "gelu_tanh" or "relu": it is applied between up and down, and nowhere else."""
    pairs = {name: pair(learner, reference, "FeedForward", n.D, n.d_ff, activation=name, seed=seed) for name in ("relu", "gelu", "gelu_tanh")}
    x = tensor(seed, n.B, n.T, n.D) * 2
    got = [mine(x) for mine, _ in pairs.values()]
    for result, (name, (_, model)) in zip(got, pairs.items()):
        close(result, model(x), f'the output with activation="{name}"', tol=3e-6)


@exercise("FeedForward", weight=2)
@few
@given(n=shapes, seed=seeds)
def test_an_unknown_activation_raises_an_error(learner, reference, n, seed):
    """Any other activation is a ValueError that names it."""
    pairs = [pair(learner, reference, "FeedForward", n.D, n.d_ff, name, seed=seed) for name in ("relu", "gelu")]
    x = tensor(seed, n.B, n.T, n.D)
    for mine, model in pairs:
        close(mine(x), model(x), "the output with an activation that is known")
    because = "`swish` is not one of the three activations"
    refuses(lambda: learner.FeedForward(n.D, n.d_ff, activation="swish")(x), naming={"activation": "swish"}, because=because)


def stored_activation(module):
    return getattr(module, "activation", "missing")


@exercise("FeedForward")
@few
@given(n=shapes, activation=bends, seed=seeds)
def test_activation_is_stored_under_its_name(learner, reference, n, activation, seed):
    """The attribute `activation` is the word that was given: a later chapter reads it."""
    mine, model = pair(learner, reference, "FeedForward", n.D, n.d_ff, activation, seed=seed)
    x = tensor(seed, n.B, n.T, n.D) * 2
    output, word = mine(x), learner.bring(stored_activation)(mine)
    close(output, model(x), "the output")
    same(word, activation, "the attribute `activation`")


@exercise("FeedForward", weight=2)
@few
@given(n=shapes, seed=seeds)
def test_d_ff_is_four_times_d_model_unless_given(learner, reference, n, seed):
    """up is D -> d_ff and down is d_ff -> D, each with a bias, and there is nothing else to train; d_ff is 4 * D unless given."""
    for args, what in (((n.D,), "without d_ff"), ((n.D, n.d_ff), f"with d_ff = {n.d_ff}")):
        mine, model = pair(learner, reference, "FeedForward", *args, seed=seed)
        x = tensor(seed, n.B, n.T, n.D) * 2
        got = parameters(mine), state(mine), mine(x)
        same_sizes(got[0], parameters(model), f"the parameters {what}")
        same(sorted(got[1]), sorted(parameters(model)), "the list of names in the state dict")
        close(got[2], model(x), f"the output {what}")


@exercise("FeedForward", weight=2)
@few
@given(n=shapes, seed=seeds)
def test_each_position_is_computed_by_itself(learner, reference, n, seed):
    """The output at a position depends only on the vector there, for any leading axes."""
    mine, model = pair(learner, reference, "FeedForward", n.D, n.d_ff, seed=seed)
    alone(learner, mine, model, tensor(seed, n.B, n.T, n.D) * 2, seed)


@exercise("FeedForward", weight=2)
@few
@given(n=shapes, activation=bends, seed=seeds)
def test_gradients_of_the_feed_forward(learner, reference, n, activation, seed):
    """x, both matrices and both biases get the gradient of the formula."""
    mine, model = pair(learner, reference, "FeedForward", n.D, n.d_ff, activation=activation, seed=seed)
    x = tensor(seed, n.B, n.T, n.D) * 2
    same_gradients(gradients(mine, x), gradients(model, x))


@exercise("FeedForward", weight=2)
@few
@given(n=shapes, seed=seeds)
def test_nothing_is_dropped_unless_asked_for(learner, reference, n, seed):
    """In eval mode nothing is dropped, and in training nothing either unless `dropout` is given."""
    x = tensor(seed, n.B, n.T, n.D) * 2
    pairs = [pair(learner, reference, "FeedForward", n.D, n.d_ff, seed=seed, **options) for options in ({}, {"dropout": 0.6})]
    got = pairs[0][0](x), pairs[1][0].eval()(x)
    close(got[0], pairs[0][1](x), "the output in training without dropout")
    close(got[1], pairs[1][1].eval()(x), "the output in eval mode with dropout=0.6")


def seen_in_training(module, x, plain):
    """What dropout did to the output, which would be `plain` without it, in facts that do not depend on the random numbers."""
    result = module(x)
    if not isinstance(result, torch.Tensor) or result.shape != plain.shape:
        return result
    clear = plain.abs() > 0.1
    stays = result[clear] != 0
    factors = (result / plain)[clear][stays]
    alike = len(factors) > 0 and float(factors.max() - factors.min()) < 1e-3 * float(factors.abs().max())
    return {
        "dropped": round(1 - float(stays.float().mean()), 1),
        "factor": round(float(factors.median()), 2) if alike else None,
        "own draws": len((result == 0).flatten(0, 1).unique(dim=0)) > len(result),
    }


@exercise("FeedForward", weight=3)
@few
@given(n=distinct(B=(20, 22), T=(11, 13), D=(14, 18), d_ff=(8, 10)), seed=seeds)
def test_dropout_acts_on_the_output_in_training(learner, reference, n, seed):
    """In training each number of the output is dropped with probability `dropout`, or divided by 1 - dropout; nothing before it is dropped."""
    mine, model = pair(learner, reference, "FeedForward", n.D, n.d_ff, "gelu", 0.3, seed=seed)
    x = tensor(seed, n.B, n.T, n.D) * 2
    plain = model.eval()(x)
    found = learner.bring(seen_in_training)(mine, x, plain)
    if not isinstance(found, dict):
        shaped(found, tuple(plain.shape), "the output in training")
    holds(found["dropped"] == 0.3, f"with dropout=0.3 about 30% of the output should be 0 in training; it was {found['dropped']:.0%}")
    holds(found["factor"] is not None, "the remaining output should be down's result times one factor; something was dropped before the last map")
    holds(found["factor"] == 1.43, f"the remaining output should be divided by 1 - 0.3; it was multiplied by {found['factor']:.2f}")
    holds(found["own draws"], "positions drop the same features; each number of the output should have its own random number")


@exercise("FeedForward")
@few
@given(n=shapes, activation=bends, seed=seeds)
def test_feed_forward_follows_dtype_and_device(learner, reference, n, activation, seed):
    """In float64 the output is float64, in bfloat16 bfloat16, and on another device nothing stays behind."""
    mine, model = pair(learner, reference, "FeedForward", n.D, n.d_ff, activation=activation, seed=seed)
    keeps_dtype_and_device(mine, model, learner, tensor(seed, n.B, n.T, n.D) * 2)


# ---- SwiGLU


@exercise("SwiGLU", weight=4)
@given(n=shapes, seed=seeds)
def test_the_gate_goes_through_silu_and_multiplies(learner, reference, n, seed):
    """The output is down(silu(gate(x)) * up(x)), with silu(z) = z * sigmoid(z)."""
    mine, model = pair(learner, reference, "SwiGLU", n.D, n.d_ff, seed=seed)
    x = tensor(seed, n.B, n.T, n.D) * 2
    close(mine(x), model(x), "the output")


@exercise("SwiGLU", weight=2)
@few
@given(n=shapes, seed=seeds)
def test_up_is_linear_and_the_gate_is_not(learner, reference, n, seed):
    """Twice the weights of `up` give twice the output; twice the weights of `gate` do not; a gate of zeros lets nothing pass."""
    mine, model = pair(learner, reference, "SwiGLU", n.D, n.d_ff, seed=seed)
    x, values = tensor(seed, n.B, n.T, n.D) * 2, parameters(model)
    cases = {
        "with up.weight doubled": {"up.weight": values["up.weight"] * 2},
        "with gate.weight doubled": {"gate.weight": values["gate.weight"] * 2},
        "with gate.weight all zeros": {"gate.weight": values["gate.weight"] * 0},
    }
    got, expected = [mine(x)], [model(x)]
    for change in cases.values():
        for module, results in ((mine, got), (model, expected)):
            load(module, values | change)
            results.append(module(x))
    for result, right, when in zip(got, expected, ("at first", *cases)):
        close(result, right, f"the output {when}")


@exercise("SwiGLU", weight=2)
@few
@given(n=shapes, seed=seeds)
def test_three_matrices_and_no_biases(learner, reference, n, seed):
    """The parameters are gate and up, D -> d_ff, and down, d_ff -> D, each without a bias, and d_ff is the argument."""
    mine, model = pair(learner, reference, "SwiGLU", d_model=n.D, d_ff=n.d_ff, seed=seed)
    x = tensor(seed, n.B, n.T, n.D) * 2
    got = parameters(mine), state(mine), mine(x)
    same_sizes(got[0], parameters(model), "the parameters")
    same(sorted(got[1]), sorted(parameters(model)), "the list of names in the state dict")
    close(got[2], model(x), "the output")


@exercise("SwiGLU", weight=2)
@few
@given(n=shapes, seed=seeds)
def test_each_position_is_gated_by_itself(learner, reference, n, seed):
    """The output at a position depends only on the vector there, for any leading axes."""
    mine, model = pair(learner, reference, "SwiGLU", n.D, n.d_ff, seed=seed)
    alone(learner, mine, model, tensor(seed, n.B, n.T, n.D) * 2, seed)


@exercise("SwiGLU", weight=2)
@few
@given(n=shapes, seed=seeds)
def test_gradients_of_swiglu(learner, reference, n, seed):
    """x and all three matrices get the gradient of the formula."""
    mine, model = pair(learner, reference, "SwiGLU", n.D, n.d_ff, seed=seed)
    x = tensor(seed, n.B, n.T, n.D) * 2
    same_gradients(gradients(mine, x), gradients(model, x))


@exercise("SwiGLU")
@few
@given(n=shapes, seed=seeds)
def test_large_gates_do_not_overflow(learner, reference, n, seed):
    """A gate far below zero gives 0, a gate far above zero gives the full value, and there is no NaN."""
    mine, model = pair(learner, reference, "SwiGLU", n.D, n.d_ff, seed=seed)
    x = tensor(seed, n.B, n.T, n.D) * 300
    got = mine(x), mine.eval()(x)
    close(got[0], model(x), "the output for large numbers")
    close(got[1], model(x), "the output for large numbers in eval mode")


@exercise("SwiGLU")
@few
@given(n=shapes, seed=seeds)
def test_swiglu_follows_dtype_and_device(learner, reference, n, seed):
    """In float64 the output is float64, in bfloat16 bfloat16, and on another device nothing stays behind."""
    mine, model = pair(learner, reference, "SwiGLU", n.D, n.d_ff, seed=seed)
    keeps_dtype_and_device(mine, model, learner, tensor(seed, n.B, n.T, n.D) * 2)
