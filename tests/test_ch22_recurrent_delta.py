"""Chapter 22, the delta rule: position by position, and in chunks."""

from __future__ import annotations

import math

import torch
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, refuses, shaped, sizes
from grader.verdict.memory import watch_call
from hypothesis import example, given, settings
from memory_layouts import of_views
from recurrent_forms import (
    both_in_one,
    check_operations,
    compare_slopes,
    count_operations,
    delta_by_hand,
    flat,
    in_pieces,
    same_pair,
    slopes_by_hand,
)
from strategies import at, distinct, seeds, tensor

few = settings(max_examples=3)
NAMES = ("q", "k", "v", "beta", "log_decay", "state")
delta_sizes = distinct(B=(1, 3), H=(1, 3), T=(5, 9), d=(2, 5), d_v=(2, 6))
smallest = at(B=1, H=1, T=1, d=2, d_v=3)


def delta_arguments(seed, n, dtype=torch.float64):
    """Arguments of the delta rule: keys of different lengths, some beta above 1, and a state that is not 0."""
    q, v = tensor(seed, n.B, n.H, n.T, n.d, dtype=dtype), tensor(seed + 1, n.B, n.H, n.T, n.d_v, dtype=dtype)
    k = tensor(seed + 2, n.B, n.H, n.T, n.d, dtype=dtype) * 1.1 / math.sqrt(n.d)
    beta = 0.95 + 0.85 * torch.tanh(2 * tensor(seed + 3, n.B, n.H, n.T, dtype=dtype))
    log_decay = -0.6 * tensor(seed + 4, n.B, n.H, n.T, dtype=dtype).abs()
    return {"q": q, "k": k, "v": v, "beta": beta, "log_decay": log_decay, "state": tensor(seed + 5, n.B, n.H, n.d, n.d_v, dtype=dtype)}


def sequences(arguments):
    """The arguments that have an axis of positions."""
    return {name: value for name, value in arguments.items() if name != "state"}


def with_strong_decay(arguments):
    """Positions in the middle forget nearly all or all that was before them, and the first one all of the state."""
    log_decay = arguments["log_decay"].clone()
    T = log_decay.size(-1)
    log_decay[..., 0], log_decay[..., T // 3] = -math.inf, -1000.0
    log_decay[..., T // 2] = -math.inf
    return arguments | {"log_decay": log_decay}


# ---- delta_rule


@exercise("delta_rule", weight=3)
@few
@given(n=delta_sizes, seed=seeds)
@example(n=smallest, seed=0)
@example(n=at(B=1, H=2, T=5, d=3, d_v=3), seed=1)
def test_each_position_decays_corrects_and_reads(learner, n, seed):
    """From a state of zeros, each position decays the state, then corrects it, and then reads its output from it; keys have any length, and beta may be above 1."""
    arguments = sequences(delta_arguments(seed, n))
    got = learner.delta_rule(**arguments)
    same_pair(got, delta_by_hand(**arguments))


@exercise("delta_rule", weight=2)
@few
@given(n=delta_sizes, seed=seeds)
def test_without_log_decay_nothing_decays(learner, n, seed):
    """Without log_decay, the output and the state are those for a log_decay of 0 at every position, with and without a state."""
    arguments = delta_arguments(seed, n)
    four = [arguments[name] for name in NAMES[:4]]
    got = learner.delta_rule(*four), learner.delta_rule(*four, torch.zeros_like(arguments["beta"])), learner.delta_rule(*four, state=arguments["state"])
    same_pair(got[0], delta_by_hand(*four), " without log_decay")
    same_pair(got[1], delta_by_hand(*four), " for a log_decay of 0 everywhere")
    same_pair(got[2], delta_by_hand(*four, state=arguments["state"]), " without log_decay, from a state")


@exercise("delta_rule", weight=3)
@few
@given(n=delta_sizes, seed=seeds)
def test_a_text_goes_on_from_a_state(learner, n, seed):
    """From a state, and in pieces that each go on from the state of the piece before, a text has the outputs and the last state of the whole text. The first position's decay applies to the given state, too."""
    arguments = delta_arguments(seed, n)
    whole, read = learner.delta_rule(**arguments), learner.bring(in_pieces)
    cuts = ([1] * n.T, [2, n.T - 3, 1])
    got = [read(learner.delta_rule, sequences(arguments), lengths, 2, {}, arguments["state"]) for lengths in cuts]
    begun = read(learner.delta_rule, sequences(arguments), cuts[1], 2, {}, None)
    same_pair(whole, delta_by_hand(**arguments), " from a state")
    for pair, lengths in zip(got, cuts):
        same_pair(pair, delta_by_hand(**arguments), f" in pieces of {lengths} positions")
    same_pair(begun, delta_by_hand(**sequences(arguments)), f" in pieces of {cuts[1]} positions, from no state")


@exercise("delta_rule", weight=2)
@few
@given(n=delta_sizes, seed=seeds)
def test_a_key_of_length_1_returns_its_value(learner, n, seed):
    """With a key of length 1 and beta = 1, the new state returns the value for the key, and what the decayed state returned for keys at right angles to it."""
    n.T = 1
    sizes(T=1)
    arguments = delta_arguments(seed, n) | {"beta": torch.ones(n.B, n.H, 1, dtype=torch.float64)}
    key = arguments["k"] / arguments["k"].norm(dim=-1, keepdim=True)
    other = tensor(seed + 6, n.B, n.H, 1, n.d, dtype=torch.float64)
    other = other - (other * key).sum(-1, keepdim=True) * key
    got = learner.delta_rule(**arguments | {"k": key, "q": other})
    same_pair(got, delta_by_hand(**arguments | {"k": key, "q": other}))
    decayed = arguments["log_decay"].exp()[..., None] * arguments["state"]
    state = shaped(got[1], (n.B, n.H, n.d, n.d_v), "the state")
    close(key @ state, arguments["v"], "what the state returns for the key", tol=1e-9)
    close(got[0], other @ decayed, "what the state returns for a key at a right angle", tol=1e-9)


@exercise("delta_rule", weight=2)
@few
@given(n=delta_sizes, seed=seeds)
def test_strong_decay_forgets_all_before(learner, n, seed):
    """A log_decay of -1000 or -inf forgets what was before, and the state: outputs, state and gradients are finite."""
    arguments = with_strong_decay(delta_arguments(seed, n))
    got = learner.delta_rule(**arguments)
    weights, slopes = slopes_by_hand(delta_by_hand, list(arguments.values()))
    found = gradients(learner.bring(both_in_one)(learner.delta_rule), *arguments.values(), cotangent=weights)
    same_pair(got, delta_by_hand(**arguments), " with a log_decay of -1000 and of -inf")
    compare_slopes(found.inputs, slopes, [f"{name} with a log_decay of -1000 and of -inf" for name in NAMES])


@exercise("delta_rule", weight=2)
@few
@given(n=delta_sizes, seed=seeds)
def test_gradients_reach_every_argument(learner, n, seed):
    """Output and state give gradients to the queries, keys, values, beta, log_decay and the state before."""
    arguments = list(delta_arguments(seed, n).values())
    weights, slopes = slopes_by_hand(delta_by_hand, arguments)
    found = gradients(learner.bring(both_in_one)(learner.delta_rule), *arguments, cotangent=weights)
    close(found.output, flat(delta_by_hand(*arguments)), "the numbers of output and state", tol=1e-9)
    compare_slopes(found.inputs, slopes, NAMES)


@exercise("delta_rule")
@settings(max_examples=2)
@given(n=delta_sizes, seed=seeds)
def test_results_have_the_dtype_and_device_of_the_arguments(learner, n, seed):
    """float32 gives float32, with and without a state; arguments may be views, and a new state is made on their device."""
    arguments = delta_arguments(seed, n)
    short = {name: value.float() for name, value in arguments.items()}
    got, new = learner.delta_rule(**short), learner.delta_rule(**sequences(short))
    views = learner.bring(of_views)(learner.delta_rule, *arguments.values())
    same_pair(got, [part.float() for part in delta_by_hand(**arguments)], " in float32", tol=2e-5)
    same_pair(new, [part.float() for part in delta_by_hand(**sequences(arguments))], " in float32, without a state", tol=2e-5)
    same_pair(views, delta_by_hand(**arguments), " of views")
    check_device_of_result(learner, flat(new), learner.bring(both_in_one)(learner.delta_rule), *sequences(short).values())


# ---- delta_rule_chunked


def chunks(T):
    """One position, chunks with a shorter last one, two halves or nearly, the whole text, and more than it has."""
    return (1, 2, 3, T - 1, T, T + 4)


def chunk_arguments(seed, T, d, d_v, dtype=torch.float32):
    """A long text of one head: keys of length 1, and decays of many sizes, which add up to more than 1,000."""
    sizes(B=1, H=1, T=T, d=d, d_v=d_v)
    q, v = tensor(seed, 1, 1, T, d, dtype=dtype), tensor(seed + 1, 1, 1, T, d_v, dtype=dtype)
    k = torch.nn.functional.normalize(tensor(seed + 2, 1, 1, T, d, dtype=dtype), dim=-1)
    beta = torch.sigmoid(tensor(seed + 3, 1, 1, T, dtype=dtype))
    return q, k, v, beta, -torch.exp(tensor(seed + 4, 1, 1, T, dtype=dtype) - 0.5)


@exercise("delta_rule_chunked", weight=4)
@few
@given(n=delta_sizes, seed=seeds)
@example(n=at(B=1, H=2, T=5, d=3, d_v=4), seed=0)
def test_every_chunk_gives_the_delta_rule(learner, n, seed):
    """Output and state are those of delta_rule for each chunk: one that divides T, one that does not, and one above T."""
    arguments = sequences(delta_arguments(seed, n))
    got = {chunk: learner.delta_rule_chunked(**arguments, chunk=chunk) for chunk in chunks(n.T)}
    for chunk, pair in got.items():
        same_pair(pair, delta_by_hand(**arguments), f" with chunk = {chunk}")


@exercise("delta_rule_chunked", weight=2)
@few
@given(n=delta_sizes, seed=seeds)
def test_without_log_decay_no_chunk_decays(learner, n, seed):
    """Without log_decay, the output and the state are those of delta_rule without decay, with and without a state."""
    arguments = delta_arguments(seed, n)
    four = [arguments[name] for name in NAMES[:4]]
    got = learner.delta_rule_chunked(*four, 3), learner.delta_rule_chunked(*four, 3, state=arguments["state"])
    same_pair(got[0], delta_by_hand(*four), " without log_decay")
    same_pair(got[1], delta_by_hand(*four, state=arguments["state"]), " without log_decay, from a state")


@exercise("delta_rule_chunked", weight=3)
@few
@given(n=delta_sizes, seed=seeds)
def test_chunks_go_on_from_a_state(learner, n, seed):
    """From a state, and in pieces that each go on from the state of the piece before, a text has the outputs and the last state of the whole text."""
    arguments = delta_arguments(seed, n)
    whole = {chunk: learner.delta_rule_chunked(**arguments, chunk=chunk) for chunk in (1, 2, n.T)}
    cuts = ([1] * n.T, [3, n.T - 4, 1])
    got = [learner.bring(in_pieces)(learner.delta_rule_chunked, sequences(arguments), lengths, 2, {"chunk": 2}, arguments["state"]) for lengths in cuts]
    for chunk, pair in whole.items():
        same_pair(pair, delta_by_hand(**arguments), f" from a state, with chunk = {chunk}")
    for pair, lengths in zip(got, cuts):
        same_pair(pair, delta_by_hand(**arguments), f" in pieces of {lengths} positions, with chunk = 2")


@exercise("delta_rule_chunked", weight=3)
@few
@given(n=delta_sizes, seed=seeds)
def test_no_chunk_overflows(learner, n, seed):
    """A log_decay of -1000 or -inf, also at the beginning or the end of a chunk, gives the output, state and gradients of delta_rule, which are finite."""
    arguments = with_strong_decay(delta_arguments(seed, n))
    got = {chunk: learner.delta_rule_chunked(**arguments, chunk=chunk) for chunk in (1, 2, 4, n.T)}
    weights, slopes = slopes_by_hand(delta_by_hand, list(arguments.values()))
    values = list(arguments.values())
    found = {chunk: gradients(learner.bring(both_in_one)(learner.delta_rule_chunked), *values[:4], chunk, *values[4:], cotangent=weights) for chunk in (2, n.T)}
    for chunk, pair in got.items():
        same_pair(pair, delta_by_hand(**arguments), f" with a log_decay of -1000 and of -inf and chunk = {chunk}")
    for chunk, slope in found.items():
        names = [f"{name} with a log_decay of -1000 and of -inf and chunk = {chunk}" for name in NAMES]
        compare_slopes([*slope.inputs[:4], *slope.inputs[5:]], slopes, names)


@exercise("delta_rule_chunked", weight=2)
@few
@given(n=delta_sizes, seed=seeds)
def test_gradients_flow_through_all_chunks(learner, n, seed):
    """Output and state give gradients to the queries, keys, values, beta, log_decay and the state before, in all chunks."""
    arguments = list(delta_arguments(seed, n).values())
    weights, slopes = slopes_by_hand(delta_by_hand, arguments)
    found = {chunk: gradients(learner.bring(both_in_one)(learner.delta_rule_chunked), *arguments[:4], chunk, *arguments[4:], cotangent=weights) for chunk in (2, n.T)}
    for chunk, slope in found.items():
        close(slope.output, flat(delta_by_hand(*arguments)), f"the numbers of output and state with chunk = {chunk}", tol=1e-9)
        compare_slopes([*slope.inputs[:4], *slope.inputs[5:]], slopes, [f"{name} with chunk = {chunk}" for name in NAMES])


@exercise("delta_rule_chunked", weight=4)
def test_nothing_is_as_large_as_a_square_of_the_text(learner):
    """With 512 positions and chunk = 8, no tensor has a quarter of 512 × 512 entries, and all tensors at one moment have less than a half together."""
    T, chunk = 512, 8
    arguments = chunk_arguments(1, T, 2, 3)
    watched = watch_call(learner, learner.delta_rule_chunked, *arguments[:4], chunk, arguments[4], largest=T * T / 4, alive=T * T / 2)
    expected = delta_by_hand(*(value.double() for value in arguments))
    same_pair(watched.result, [part.float() for part in expected], f" with chunk = {chunk}", tol=3e-5)
    watched.check()


@exercise("delta_rule_chunked", weight=4)
def test_positions_of_a_chunk_are_computed_together(learner, reference):
    """With 2,048 positions and chunk = 128, fewer than 2 operations of torch run for each position; in float32 the output and the state are as precise as for a short text."""
    T, chunk = 2048, 128
    arguments = chunk_arguments(2, T, 3, 4)
    found = count_operations(learner, learner.delta_rule_chunked, [*arguments[:4], chunk, arguments[4]], 2 * T)
    exact = [value.double() for value in arguments]
    expected = reference.delta_rule_chunked(*exact[:4], 32, exact[4])
    check_operations(found, "delta_rule_chunked runs more than 4,096 operations of torch for 2,048 positions in chunks of 128: it computes position by position")
    same_pair(found["result"], [part.float() for part in expected], f" with chunk = {chunk}", tol=3e-5)


@exercise("delta_rule_chunked")
def test_a_chunk_has_at_least_one_position(learner):
    """chunk below 1 raises a ValueError that names it."""
    arguments = list(delta_arguments(0, at(B=1, H=2, T=3, d=4, d_v=5).make()).values())
    four, rest = arguments[:4], arguments[4:]
    fine = learner.delta_rule_chunked(*four, 1, *rest)
    for chunk in (0, -3):
        refuses(lambda chunk=chunk: learner.delta_rule_chunked(*four, chunk, *rest), naming={"chunk": chunk}, because="a chunk has at least one position")
    same_pair(fine, delta_by_hand(*arguments), " with chunk = 1")


@exercise("delta_rule_chunked")
@settings(max_examples=2)
@given(n=delta_sizes, seed=seeds)
def test_chunked_results_have_the_dtype_and_device_of_the_arguments(learner, n, seed):
    """float32 gives float32, with and without a state and log_decay; arguments may be views, and new tensors are made on their device."""
    arguments = delta_arguments(seed, n)
    short = {name: value.float() for name, value in arguments.items()}
    four = [short[name] for name in NAMES[:4]]
    got, new = learner.delta_rule_chunked(**short, chunk=2), learner.delta_rule_chunked(*four, 2)
    values = list(arguments.values())
    views = learner.bring(of_views)(learner.delta_rule_chunked, *values[:4], 2, *values[4:])
    same_pair(got, [part.float() for part in delta_by_hand(**arguments)], " in float32", tol=2e-5)
    same_pair(new, [part.float() for part in delta_by_hand(*values[:4])], " in float32, without log_decay and state", tol=2e-5)
    same_pair(views, delta_by_hand(**arguments), " of views")
    check_device_of_result(learner, flat(new), learner.bring(both_in_one)(learner.delta_rule_chunked), *four, 2)
