"""Chapter 22, the short convolution and the selective scan."""

from __future__ import annotations

import torch
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, shaped, sizes
from hypothesis import example, given, settings
from memory_layouts import of_views
from recurrent_forms import (
    EXACT,
    both_in_one,
    check_operations,
    compare_slopes,
    convolution_by_hand,
    count_operations,
    flat,
    in_pieces,
    same_pair,
    scan_by_hand,
    slopes_by_hand,
)
from strategies import at, distinct, seeds, tensor

few = settings(max_examples=3)


# ---- short_convolution

convolution_sizes = distinct(B=(1, 3), T=(5, 8), D=(2, 5), width=(2, 5))


def convolution_arguments(seed, B, T, D, width, dtype=torch.float64):
    x, weight = tensor(seed, B, T, D, dtype=dtype), tensor(seed + 1, D, width, dtype=dtype)
    return x, weight, tensor(seed + 2, B, width - 1, D, dtype=dtype)


@exercise("short_convolution", weight=3)
@few
@given(n=convolution_sizes, seed=seeds)
@example(n=at(B=1, T=1, D=2, width=3), seed=0)
def test_each_feature_mixes_its_last_values(learner, n, seed):
    """Output i at t is the sum of weight[i, j] times input i at t - (width - 1) + j; without a state, the inputs before the first are 0."""
    x, weight, _ = convolution_arguments(seed, n.B, n.T, n.D, n.width)
    got = learner.short_convolution(x, weight)
    same_pair(got, convolution_by_hand(x, weight))


@exercise("short_convolution", weight=3)
@few
@given(n=convolution_sizes, seed=seeds)
def test_a_convolution_goes_on_from_a_state(learner, n, seed):
    """From a state, and in pieces that each go on from the state of the piece before, a text has the outputs and the last state of the whole text."""
    x, weight, state = convolution_arguments(seed, n.B, n.T, n.D, n.width)
    whole, read = learner.short_convolution(x, weight, state), learner.bring(in_pieces)
    cuts = ([1] * n.T, [3, n.T - 4, 1])
    got = [read(learner.short_convolution, {"x": x}, lengths, 1, {"weight": weight}, state) for lengths in cuts]
    begun = read(learner.short_convolution, {"x": x}, cuts[1], 1, {"weight": weight}, None)
    same_pair(whole, convolution_by_hand(x, weight, state), " from a state")
    for pair, lengths in zip(got, cuts):
        same_pair(pair, convolution_by_hand(x, weight, state), f" in pieces of {lengths} positions")
    same_pair(begun, convolution_by_hand(x, weight), f" in pieces of {cuts[1]} positions, from no state")


@exercise("short_convolution", weight=2)
@few
@given(n=distinct(B=(1, 3), T=(1, 3), D=(2, 5), width=(5, 7)), seed=seeds)
def test_a_short_text_keeps_the_oldest_inputs_of_the_state(learner, n, seed):
    """If x is shorter than width - 1, the new state has the last inputs of the old one first; without a state, it begins with zeros."""
    x, weight, state = convolution_arguments(seed, n.B, n.T, n.D, n.width)
    got, new = learner.short_convolution(x, weight, state), learner.short_convolution(x, weight)
    same_pair(got, convolution_by_hand(x, weight, state), f" for {n.T} positions and width = {n.width}")
    same_pair(new, convolution_by_hand(x, weight), f" for {n.T} positions and width = {n.width}, without a state")


@exercise("short_convolution", weight=2)
@few
@given(n=distinct(B=(1, 3), T=(4, 7), D=(2, 5)), seed=seeds)
def test_with_width_1_the_state_is_empty(learner, n, seed):
    """With width 1, each input is multiplied by its feature's weight, and the state has shape (B, 0, D), with and without a state before."""
    x, weight, state = convolution_arguments(seed, n.B, n.T, n.D, 1)
    got, new = learner.short_convolution(x, weight, state), learner.short_convolution(x, weight)
    same_pair(got, convolution_by_hand(x, weight), " with width = 1")
    same_pair(new, convolution_by_hand(x, weight), " with width = 1, without a state")


@exercise("short_convolution", weight=2)
@few
@given(n=convolution_sizes, seed=seeds)
def test_later_inputs_and_other_features_change_nothing(learner, n, seed):
    """A change of one feature at one position changes outputs of this feature only, and only from this position on, for width positions at most."""
    x, weight, state = convolution_arguments(seed, n.B, n.T, n.D, n.width)
    t, i = seed % n.T, seed % n.D
    changed = x.clone()
    changed[:, t, i] += 1.5
    before, after = learner.short_convolution(x, weight, state), learner.short_convolution(changed, weight, state)
    same_pair(before, convolution_by_hand(x, weight, state))
    same_pair(after, convolution_by_hand(changed, weight, state), f" after a change of feature {i} at position {t}")
    effect = torch.zeros_like(x)
    for j, place in enumerate(range(t, min(t + n.width, n.T))):
        effect[:, place, i] = 1.5 * weight[i, n.width - 1 - j]
    outputs = [shaped(pair[0], (n.B, n.T, n.D), "the output") for pair in (after, before)]
    close(outputs[0] - outputs[1], effect, f"the effect of a change of feature {i} at position {t}", tol=EXACT)


@exercise("short_convolution", weight=2)
def test_no_loop_runs_over_the_positions(learner):
    """With 600 positions and width 3, fewer than 600 operations of torch run."""
    sizes(B=2, T=600, D=4, width=3)
    x, weight, state = convolution_arguments(3, 2, 600, 4, 3)
    found = count_operations(learner, learner.short_convolution, [x, weight, state], 600)
    check_operations(found, "short_convolution runs more than 600 operations of torch for 600 positions: it computes position by position")
    same_pair(found["result"], convolution_by_hand(x, weight, state), " for 600 positions")


@exercise("short_convolution", weight=2)
@few
@given(n=convolution_sizes, seed=seeds)
def test_gradients_reach_inputs_weight_and_state(learner, n, seed):
    """Output and state give gradients to x, weight and the state before."""
    arguments = convolution_arguments(seed, n.B, n.T, n.D, n.width)
    weights, slopes = slopes_by_hand(convolution_by_hand, arguments)
    found = gradients(learner.bring(both_in_one)(learner.short_convolution), *arguments, cotangent=weights)
    close(found.output, flat(convolution_by_hand(*arguments)), "the numbers of output and state", tol=EXACT)
    compare_slopes(found.inputs, slopes, ("x", "weight", "state"))


@exercise("short_convolution")
@settings(max_examples=2)
@given(n=convolution_sizes, seed=seeds)
def test_convolutions_have_the_dtype_and_device_of_x(learner, n, seed):
    """float32 gives float32, with and without a state; arguments may be views, and a new state is made on their device."""
    x, weight, state = convolution_arguments(seed, n.B, n.T, n.D, n.width)
    short = x.float(), weight.float(), state.float()
    got, new = learner.short_convolution(*short), learner.short_convolution(*short[:2])
    views = learner.bring(of_views)(learner.short_convolution, x, weight, state)
    same_pair(got, [part.float() for part in convolution_by_hand(x, weight, state)], " in float32", tol=1e-5)
    same_pair(new, [part.float() for part in convolution_by_hand(x, weight)], " in float32, without a state", tol=1e-5)
    same_pair(views, convolution_by_hand(x, weight, state), " of views")
    check_device_of_result(learner, flat(new), learner.bring(both_in_one)(learner.short_convolution), *short[:2])


# ---- selective_scan

SCANNED = ("x", "dt", "B", "C")  # what has an axis of positions
scan_sizes = distinct(batch=(1, 3), T=(5, 8), D=(2, 5), N=(2, 5))


def scan_arguments(seed, n, dtype=torch.float64):
    """Arguments of the scan, in the order of its signature: large and small steps, and a state that is not 0."""
    x, dt = tensor(seed, n.batch, n.T, n.D, dtype=dtype), tensor(seed + 1, n.batch, n.T, n.D, dtype=dtype)
    A = -torch.exp(0.6 * tensor(seed + 2, n.D, n.N, dtype=dtype))
    B, C = tensor(seed + 3, n.batch, n.T, n.N, dtype=dtype), tensor(seed + 4, n.batch, n.T, n.N, dtype=dtype)
    D, state = tensor(seed + 5, n.D, dtype=dtype), tensor(seed + 6, n.batch, n.D, n.N, dtype=dtype)
    return {"x": x, "dt": 0.6 * torch.exp(0.7 * dt), "A": A, "B": B, "C": C, "D": D, "state": state}


def without_state(arguments):
    return {name: value for name, value in arguments.items() if name != "state"}


@exercise("selective_scan", weight=3)
@few
@given(n=scan_sizes, seed=seeds)
@example(n=at(batch=1, T=1, D=2, N=3), seed=0)
def test_each_number_of_the_state_decays_and_gets_its_input(learner, n, seed):
    """From a state of zeros, h[i, n] is multiplied by exp(dt[i] A[i, n]), and gets dt[i] B[n] x[i]; y[i] is D[i] x[i] plus the sum of C[n] times the new h[i, n]."""
    arguments = without_state(scan_arguments(seed, n))
    got = learner.selective_scan(**arguments)
    same_pair(got, scan_by_hand(**arguments), what=("y", "the state"))


@exercise("selective_scan", weight=3)
@few
@given(n=scan_sizes, seed=seeds)
def test_a_scan_goes_on_from_a_state(learner, n, seed):
    """From a state, and in pieces that each go on from the state of the piece before, a text has the outputs and the last state of the whole text."""
    arguments = scan_arguments(seed, n)
    texts, others = {name: arguments[name] for name in SCANNED}, {name: arguments[name] for name in "AD"}
    whole, read = learner.selective_scan(**arguments), learner.bring(in_pieces)
    cuts = ([1] * n.T, [2, n.T - 3, 1])
    got = [read(learner.selective_scan, texts, lengths, 1, others, arguments["state"]) for lengths in cuts]
    begun = read(learner.selective_scan, texts, cuts[1], 1, others, None)
    same_pair(whole, scan_by_hand(**arguments), " from a state", what=("y", "the state"))
    for pair, lengths in zip(got, cuts):
        same_pair(pair, scan_by_hand(**arguments), f" in pieces of {lengths} positions", what=("y", "the state"))
    same_pair(begun, scan_by_hand(**without_state(arguments)), f" in pieces of {cuts[1]} positions, from no state", what=("y", "the state"))


@exercise("selective_scan", weight=3)
@few
@given(n=scan_sizes, seed=seeds)
def test_strong_decay_stays_finite(learner, n, seed):
    """With dt A = -1000 at every position for some numbers of the state, and weak decay for others, y, state and gradients are finite and right, also in float32."""
    arguments = scan_arguments(seed, n)
    arguments["dt"] = torch.full_like(arguments["dt"], 0.5)
    arguments["A"] = arguments["A"].clone()
    arguments["A"][:, 0], arguments["A"][:, -1] = -2000.0, -0.001
    got, rough = learner.selective_scan(**arguments), learner.selective_scan(**{name: value.float() for name, value in arguments.items()})
    weights, slopes = slopes_by_hand(scan_by_hand, list(arguments.values()))
    found = gradients(learner.bring(both_in_one)(learner.selective_scan), *arguments.values(), cotangent=weights)
    expected = scan_by_hand(**arguments)
    same_pair(got, expected, " with dt A = -1000", what=("y", "the state"))
    same_pair(rough, [part.float() for part in expected], " with dt A = -1000 in float32", tol=2e-5, what=("y", "the state"))
    compare_slopes(found.inputs, slopes, [f"{name} with dt A = -1000" for name in arguments])


@exercise("selective_scan", weight=2)
@few
@given(n=scan_sizes, seed=seeds)
def test_gradients_reach_all_parts_of_the_scan(learner, n, seed):
    """y and the state give gradients to x, dt, A, B, C, D and the state before."""
    arguments = scan_arguments(seed, n)
    weights, slopes = slopes_by_hand(scan_by_hand, list(arguments.values()))
    found = gradients(learner.bring(both_in_one)(learner.selective_scan), *arguments.values(), cotangent=weights)
    close(found.output, flat(scan_by_hand(**arguments)), "the numbers of y and state", tol=EXACT)
    compare_slopes(found.inputs, slopes, arguments)


@exercise("selective_scan")
@settings(max_examples=2)
@given(n=scan_sizes, seed=seeds)
def test_scans_have_the_dtype_and_device_of_the_arguments(learner, n, seed):
    """float32 gives float32, with and without a state; arguments may be views, and a new state is made on their device."""
    arguments = scan_arguments(seed, n)
    short = {name: value.float() for name, value in arguments.items()}
    got, new = learner.selective_scan(**short), learner.selective_scan(**without_state(short))
    views = learner.bring(of_views)(learner.selective_scan, *arguments.values())
    same_pair(got, [part.float() for part in scan_by_hand(**arguments)], " in float32", tol=2e-5, what=("y", "the state"))
    same_pair(new, [part.float() for part in scan_by_hand(**without_state(arguments))], " in float32, without a state", tol=2e-5, what=("y", "the state"))
    same_pair(views, scan_by_hand(**arguments), " of views", what=("y", "the state"))
    check_device_of_result(learner, flat(new), learner.bring(both_in_one)(learner.selective_scan), *without_state(short).values())
