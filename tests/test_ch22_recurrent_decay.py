"""Chapter 22, second part: sums of decays, and attention that forgets, at once and in chunks."""

from __future__ import annotations

import math

import torch
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, sizes
from grader.verdict.memory import watch_call, watch_growth
from hypothesis import example, given, settings
from hypothesis import strategies as st
from memory_layouts import of_views
from module_pairs import compare_gradient
from pytest_check import check
from strategies import at, distinct, seeds, tensor

few = settings(max_examples=3)
double = torch.float64
EXACT = 1e-10  # relative, for float64: another order of the same sums is off by less
text_sizes = distinct("B", "H", "T", "d", "d_v", B=(2, 3), H=(2, 4), T=(6, 9), d=(3, 5), d_v=(4, 7))


def decays(seed, *shape, dtype=double):
    """Logarithms of factors between about 0.1 and 1."""
    return -tensor(seed, *shape, scale=0.8, dtype=dtype).abs()


def strong_decays(seed, *shape, dtype=double):
    """0, -1000 and -inf among others, each of them in every row, and at any place."""
    special = torch.tensor([0.0, -1000.0, -math.inf, -1e5], dtype=dtype)
    order = tensor(seed + 1, *shape).argsort(dim=-1)  # of each row
    values = decays(seed, *shape, dtype=dtype)
    for i, number in enumerate(special):
        values = torch.where(order == i, number, values)
    return values


def first_much_then_little(T, seed, dtype=torch.float32):
    """The first half of a text forgets almost everything at each step, the second half almost nothing."""
    u = tensor(seed, T, dtype=double).abs() + 0.1
    return -torch.where(torch.arange(T) < T // 2, 10 * u, 0.01 * u).to(dtype)


# ---- segment_sums


def sums_by_hand(log_decay):
    """Each entry as a sum of its own terms, in float64."""
    T = log_decay.size(-1)
    result = log_decay.new_full((*log_decay.shape, T), -math.inf, dtype=double)
    for t in range(T):
        for s in range(t + 1):
            result[..., t, s] = log_decay[..., s + 1 : t + 1].double().sum(-1)
    return result


sum_sizes = distinct("A", "B", "T", A=(2, 3), B=(2, 4), T=(5, 7))


@exercise("segment_sums", weight=3)
@few
@given(n=sum_sizes, axes=st.integers(0, 2), seed=seeds)
@example(n=at(A=2, B=3, T=5), axes=1, seed=7)
def test_segments_are_sums_between_two_positions(learner, n, axes, seed):
    """Entry (t, s) is the sum of log_decay over s+1, ..., t: 0 on the diagonal and -inf above it, for any number of other axes."""
    log_decay = decays(seed, *(n.A, n.B)[2 - axes :], n.T)
    close(learner.segment_sums(log_decay), sums_by_hand(log_decay), "the sums", tol=EXACT)


@exercise("segment_sums", weight=2)
@few
@given(n=sum_sizes, seed=seeds)
def test_an_infinite_decay_is_in_its_own_segments_only(learner, n, seed):
    """Where log_decay is -inf, the entries whose sums contain it are -inf, and all others are as without it."""
    log_decay = strong_decays(seed, n.A, n.B, n.T)
    once = decays(seed, n.T)
    once[1] = -math.inf
    found, one = learner.segment_sums(log_decay), learner.segment_sums(once)
    close(found, sums_by_hand(log_decay), "the sums with 0, -1000, -inf and others", tol=EXACT)
    close(one, sums_by_hand(once), "the sums with log_decay = -inf at position 1", tol=EXACT)


def near_the_diagonal(segment_sums, log_decay, width):
    """For `bring`: the sums of one to `width` terms at the last positions, a row for each number of terms."""
    sums = segment_sums(log_decay)
    return torch.stack([sums.diagonal(-terms)[-100:] for terms in range(1, width + 1)])


@exercise("segment_sums", weight=3)
def test_late_segments_are_precise(learner):
    """In float32, sums of a few small terms are precise late in a text of 2048 positions, whose first half adds up to about -9,000."""
    log_decay = first_much_then_little(2048, 1)
    got = learner.bring(near_the_diagonal)(learner.segment_sums, log_decay, 4)
    right = torch.stack([log_decay.double().unfold(0, terms, 1).sum(-1)[-100:] for terms in range(1, 5)])
    close(got, right.float(), "the sums of one to four terms at the last hundred positions", tol=2e-5)


@exercise("segment_sums", weight=2)
@few
@given(n=sum_sizes, seed=seeds)
def test_each_decay_gets_gradients_from_its_segments(learner, n, seed):
    """The gradient of log_decay at a position is the sum over all entries whose sums contain it; it is finite where another log_decay is -inf."""
    log_decay, cotangent = decays(seed, n.A, n.T), tensor(seed + 1, n.A, n.T, n.T, dtype=double).tril()
    strong = strong_decays(seed, n.A, n.T)
    finite = torch.where(sums_by_hand(strong).isfinite(), cotangent, 0.0)
    usual, mixed = gradients(learner.segment_sums, log_decay, cotangent=cotangent), gradients(learner.segment_sums, strong, cotangent=finite)
    for found, given_, where in ((usual, cotangent, ""), (mixed, finite, " with -inf at some positions")):
        right = torch.stack([given_[:, u:, :u].sum((1, 2)) for u in range(n.T)], dim=-1)
        with check:
            compare_gradient(found.inputs[0], right, f"log_decay{where}")


@exercise("segment_sums", weight=2)
def test_segment_sums_have_no_loop_over_positions(learner):
    """48 positions take about as many torch operations as 4."""
    small, large = decays(2, 4), decays(3, 48)
    watched = watch_growth(learner, learner.segment_sums, (small,), (large,), operations=4)
    close(watched.result, sums_by_hand(large), "the sums of 48 positions")
    watched.check()


@exercise("segment_sums")
@few
@given(n=sum_sizes, seed=seeds)
def test_segment_sums_keep_dtype_device_and_layout(learner, n, seed):
    """float32 stays float32, a view gives the same, one position gives one 0, and no tensor stays on another device."""
    log_decay = decays(seed, n.A, n.B, n.T, dtype=torch.float32)
    plain, views = learner.segment_sums(log_decay), learner.bring(of_views)(learner.segment_sums, log_decay)
    one = learner.segment_sums(log_decay[..., :1])
    close(plain, sums_by_hand(log_decay).float(), "the sums in float32")
    close(views, sums_by_hand(log_decay).float(), "the sums for a view")
    close(one, torch.zeros(n.A, n.B, 1, 1), "the sums of one position")
    check_device_of_result(learner, plain, learner.segment_sums, log_decay)


# ---- decayed_attention


def text(seed, n, dtype=double, T=None):
    """Queries, keys, values and logarithms of factors."""
    T = T or n.T
    q, k = (tensor(seed + i, n.B, n.H, T, n.d, dtype=dtype) for i in range(2))
    return q, k, tensor(seed + 2, n.B, n.H, T, n.d_v, dtype=dtype), decays(seed + 3, n.B, n.H, T, dtype=dtype)


def some_state(seed, n, dtype=double):
    return tensor(seed + 9, n.B, n.H, n.d, n.d_v, dtype=dtype)


def recurrence(q, k, v, log_decay, state=None):
    """Output and last state, position by position, in float64."""
    q, k, v, factors = q.double(), k.double(), v.double(), log_decay.double().exp()
    S = q.new_zeros(*q.shape[:2], q.size(-1), v.size(-1)) if state is None else state.double()
    outputs = []
    for t in range(q.size(2)):
        S = factors[:, :, t, None, None] * S + k[:, :, t, :, None] * v[:, :, t, None]
        outputs.append((q[:, :, t, :, None] * S).sum(-2))
    return torch.stack(outputs, dim=2), S


NAMES = ("q", "k", "v", "log_decay", "state")


def compare_slopes(found, inputs, place, cotangent, what):
    """The gradients of these inputs by the output (place 0) or the last state (1) are those of the recurrence."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    right = torch.autograd.grad((recurrence(*leaves)[place] * cotangent).sum(), leaves, allow_unused=True)
    for name, got, value in zip(NAMES, found, right):
        if value is not None:
            with check:
                compare_gradient(got, value, f"{name}{what}", tol=1e-9)


@exercise("decayed_attention", weight=4)
@few
@given(n=text_sizes, seed=seeds)
def test_decayed_attention_is_its_recurrence(learner, n, seed):
    """The output at t is Sᵀ q_t with S <- exp(log_decay_t) S + k_t v_tᵀ from 0 on; in float64, to ten digits."""
    inputs = text(seed, n)
    close(learner.decayed_attention(*inputs), recurrence(*inputs)[0], "the output", tol=EXACT)


@exercise("decayed_attention", weight=2)
@few
@given(n=text_sizes, seed=seeds)
def test_a_pair_does_not_decay_by_its_own_factor(learner, n, seed):
    """The first position's factor changes no output, since nothing comes before it; where every log_decay is -inf, the output at t is (q_t·k_t) v_t."""
    q, k, v, log_decay = text(seed, n)
    other = log_decay.clone()
    other[:, :, 0] = -3.0
    before, after = learner.decayed_attention(q, k, v, log_decay), learner.decayed_attention(q, k, v, other)
    alone = learner.decayed_attention(q, k, v, torch.full_like(log_decay, -math.inf))
    close(before, recurrence(q, k, v, log_decay)[0], "the output", tol=EXACT)
    close(after, before, "the output once log_decay at position 0 has changed", tol=EXACT)
    close(alone, (q * k).sum(-1, keepdim=True) * v, "the output where every log_decay is -inf", tol=EXACT)


@exercise("decayed_attention", weight=3)
@few
@given(n=text_sizes, seed=seeds)
def test_decayed_attention_survives_strong_decay(learner, n, seed):
    """With log_decay of 0, -1000, -1e5 and -inf at some positions, outputs and gradients are finite, and those of the recurrence."""
    q, k, v, _ = text(seed, n)
    inputs = q, k, v, strong_decays(seed, n.B, n.H, n.T)
    cotangent = tensor(seed + 4, n.B, n.H, n.T, n.d_v, dtype=double)
    found = gradients(learner.decayed_attention, *inputs, cotangent=cotangent)
    single = learner.decayed_attention(*(x.float() for x in inputs))
    close(found.output, recurrence(*inputs)[0], "the output", tol=EXACT)
    compare_slopes(found.inputs, inputs, 0, cotangent, "")
    close(single, recurrence(*(x.float() for x in inputs))[0].float(), "the output in float32")


@exercise("decayed_attention", weight=3)
@few
@given(n=text_sizes, seed=seeds)
def test_decays_learn_with_queries_keys_and_values(learner, n, seed):
    """q, k, v and log_decay get the gradients of the recurrence."""
    inputs, cotangent = text(seed, n), tensor(seed + 4, n.B, n.H, n.T, n.d_v, dtype=double)
    found = gradients(learner.decayed_attention, *inputs, cotangent=cotangent)
    compare_slopes(found.inputs, inputs, 0, cotangent, "")


@exercise("decayed_attention", weight=3)
def test_decayed_attention_has_no_loop_over_positions(learner):
    """200 positions take about as many torch operations as 6."""
    small, large = (text(3, at(B=1, H=2, T=T, d=4, d_v=3).make()) for T in (6, 200))
    watched = watch_growth(learner, learner.decayed_attention, small, large, operations=4)
    close(watched.result, recurrence(*large)[0], "the output for 200 positions")
    watched.check()


@exercise("decayed_attention", weight=2)
def test_decayed_attention_is_precise_in_a_long_text(learner):
    """In float32, the output is precise in a text of 1024 positions, whose first half forgets much and whose second half forgets little."""
    q, k, v, _ = text(5, at(B=1, H=1, T=1024, d=3, d_v=2).make(), torch.float32)
    log_decay = first_much_then_little(1024, 5)[None, None]
    close(learner.decayed_attention(q, k, v, log_decay), recurrence(q, k, v, log_decay)[0].float(), "the output for 1024 positions", tol=2e-5)


@exercise("decayed_attention")
@few
@given(n=text_sizes, seed=seeds)
def test_decayed_attention_keeps_dtype_device_and_layout(learner, n, seed):
    """float32 stays float32, views and a single position of one text are read as well, and no tensor stays on another device."""
    inputs = text(seed, n, torch.float32)
    plain, views = learner.decayed_attention(*inputs), learner.bring(of_views)(learner.decayed_attention, *inputs)
    one = learner.decayed_attention(*(x[:1, :, :1] for x in inputs))
    right = recurrence(*inputs)[0].float()
    close(plain, right, "the output in float32")
    close(views, right, "the output for views")
    close(one, right[:1, :, :1], "the output for one position of one text")
    check_device_of_result(learner, right, learner.decayed_attention, *inputs)


# ---- decayed_attention_chunked


def compare_both(result, right, when, dtype=double, tol=EXACT):
    holds(isinstance(result, tuple | list) and len(result) == 2, "the result should be a pair: the output and the state")
    for name, got, value in zip(("the output", "the state"), result, right):
        with check:
            close(got, value.to(dtype), f"{name} {when}", tol=tol)


@exercise("decayed_attention_chunked", weight=4)
@few
@given(n=text_sizes, seed=seeds)
@example(n=at(B=2, H=3, T=7, d=4, d_v=5), seed=1)
def test_chunks_give_the_recurrence(learner, n, seed):
    """Output and state are those of the recurrence for every chunk: 1, a length that does not divide T, one that leaves one position over, T, and more."""
    inputs = text(seed, n)
    chunks = {chunk: learner.decayed_attention_chunked(*inputs, chunk) for chunk in (1, 2, 3, n.T - 1, n.T, n.T + 4)}
    for chunk, result in chunks.items():
        compare_both(result, recurrence(*inputs), f"with chunk = {chunk}")


@exercise("decayed_attention_chunked", weight=3)
@few
@given(n=text_sizes, seed=seeds)
def test_chunks_go_on_from_a_state(learner, n, seed):
    """Both are those of the recurrence from `state` on, to which the first position's factor applies too; a text in two calls gives what one call gives."""
    inputs, state, cut = text(seed, n), some_state(seed, n), 1 + seed % (n.T - 1)
    results = {chunk: learner.decayed_attention_chunked(*inputs, chunk, state) for chunk in (2, n.T + 1)}
    begin = learner.decayed_attention_chunked(*(x[:, :, :cut] for x in inputs), 3)
    compare_both(begin, recurrence(*(x[:, :, :cut] for x in inputs)), f"for the first {cut} positions")
    rest = learner.decayed_attention_chunked(*(x[:, :, cut:] for x in inputs), 3, state=begin[1])
    for chunk, result in results.items():
        compare_both(result, recurrence(*inputs, state), f"from a state with chunk = {chunk}")
    whole = recurrence(*inputs)
    compare_both(rest, (whole[0][:, :, cut:], whole[1]), f"for the positions from {cut} on, from the state of those before,")


def chunked_result(chunked, place, chunk, q, k, v, log_decay, state):
    """For `bring`: the output, or the state."""
    return chunked(q, k, v, log_decay, chunk, state)[place]


def chunked_gradients(learner, inputs, cotangents, chunk=3):
    """The gradients of a loss of the output, and of one of the state."""
    result = learner.bring(chunked_result)
    return [gradients(result, learner.decayed_attention_chunked, place, chunk, *inputs, cotangent=each) for place, each in enumerate(cotangents)]


def both_cotangents(seed, n):
    return tensor(seed + 4, n.B, n.H, n.T, n.d_v, dtype=double), tensor(seed + 5, n.B, n.H, n.d, n.d_v, dtype=double)


@exercise("decayed_attention_chunked", weight=3)
@few
@given(n=text_sizes, seed=seeds)
def test_gradients_flow_from_chunk_to_chunk(learner, n, seed):
    """q, k, v, log_decay and the state get the gradients of the recurrence, for a loss of the output and for one of the new state."""
    inputs, cotangents = (*text(seed, n), some_state(seed, n)), both_cotangents(seed, n)
    for place, found in enumerate(chunked_gradients(learner, inputs, cotangents)):
        compare_slopes(found.inputs[3:], inputs, place, cotangents[place], f" for a loss of the {('output', 'state')[place]}")


@exercise("decayed_attention_chunked", weight=3)
@few
@given(n=text_sizes, seed=seeds)
def test_chunks_survive_strong_decay(learner, n, seed):
    """With log_decay of 0, -1000, -1e5 and -inf at some positions, outputs, state and gradients are finite, and those of the recurrence."""
    q, k, v, _ = text(seed, n)
    inputs = q, k, v, strong_decays(seed, n.B, n.H, n.T), some_state(seed, n)
    cotangents = both_cotangents(seed, n)
    results = {chunk: learner.decayed_attention_chunked(*inputs[:4], chunk, inputs[4]) for chunk in (1, 3, n.T)}
    found = chunked_gradients(learner, inputs, cotangents, chunk=n.T - 1)
    for chunk, result in results.items():
        compare_both(result, recurrence(*inputs), f"with chunk = {chunk}")
    for place, each in enumerate(found):
        compare_slopes(each.inputs[3:], inputs, place, cotangents[place], f" for a loss of the {('output', 'state')[place]}")


LONG = 256


@exercise("decayed_attention_chunked", weight=4)
def test_no_chunk_makes_a_square_of_all_positions(learner):
    """With 256 positions in chunks of 8, no tensor has an eighth of 256 × 256 numbers, and all that exist at one moment have less than half of it."""
    inputs = text(6, at(B=1, H=1, T=LONG, d=3, d_v=2).make())
    sizes(chunk=8)
    watched = watch_call(learner, learner.decayed_attention_chunked, *inputs, 8, largest=LONG * LONG / 8, alive=LONG * LONG / 2)
    compare_both(watched.result, recurrence(*inputs), "for 256 positions", tol=1e-9)
    watched.check()


@exercise("decayed_attention_chunked", weight=4)
def test_operations_grow_with_the_number_of_chunks(learner):
    """Three chunks take about as many torch operations if each has 128 positions as if each has 4, and 32 chunks take about 8 times as many as 4."""
    n, f = at(B=1, H=2, d=3, d_v=2).make(), learner.decayed_attention_chunked
    texts = {T: text(7, n, T=T) for T in (12, 384, 16, 128)}
    longer = watch_growth(learner, f, (*texts[12], 4), (*texts[384], 128), operations=6)
    more = watch_growth(learner, f, (*texts[16], 4), (*texts[128], 4), operations=16)
    compare_both(longer.result, recurrence(*texts[384]), "for 384 positions in chunks of 128", tol=1e-9)
    compare_both(more.result, recurrence(*texts[128]), "for 128 positions in chunks of 4", tol=1e-9)
    longer.check()
    more.check()


@exercise("decayed_attention_chunked", weight=2)
def test_chunks_are_precise_in_a_long_text(learner):
    """In float32, output and state are precise in a text of 2048 positions, whose first half forgets much and whose second half forgets little."""
    q, k, v, _ = text(5, at(B=1, H=1, T=2048, d=3, d_v=2).make(), torch.float32)
    log_decay = first_much_then_little(2048, 5)[None, None]
    result = learner.decayed_attention_chunked(q, k, v, log_decay, 64)
    compare_both(result, recurrence(q, k, v, log_decay), "for 2048 positions", torch.float32, tol=3e-5)


@exercise("decayed_attention_chunked")
@few
@given(n=text_sizes, seed=seeds)
def test_a_chunk_has_at_least_one_position(learner, n, seed):
    """chunk below 1 raises a ValueError that names it."""
    inputs = text(seed, n)
    compare_both(learner.decayed_attention_chunked(*inputs, 1), recurrence(*inputs), "with chunk = 1")
    for chunk in (-3, 0):
        refuses(lambda chunk=chunk: learner.decayed_attention_chunked(*inputs, chunk), naming={"chunk": chunk}, because="a chunk has at least one position")


def numbers_of_both(chunked, q, k, v, log_decay):
    """For `bring`: output and state in chunks of 3 as one row of numbers."""
    output, state = chunked(q, k, v, log_decay, 3)
    return torch.cat([output.flatten(), state.flatten()])


@exercise("decayed_attention_chunked")
@few
@given(n=text_sizes, seed=seeds)
def test_chunks_keep_dtype_device_and_layout(learner, n, seed):
    """float32 stays float32, views and a single position of one text are read as well, and no tensor stays on another device."""
    inputs, state = text(seed, n, torch.float32), some_state(seed, n, torch.float32)
    plain = learner.decayed_attention_chunked(*inputs, 4)
    views = learner.bring(of_views)(learner.decayed_attention_chunked, *inputs, 4, state)
    one = learner.decayed_attention_chunked(*(x[:1, :, :1] for x in inputs), 4, state[:1])
    compare_both(plain, recurrence(*inputs), "in float32", torch.float32, tol=1e-5)
    compare_both(views, recurrence(*inputs, state), "for views", torch.float32, tol=1e-5)
    compare_both(one, recurrence(*(x[:1, :, :1] for x in inputs), state[:1]), "for one position of one text", torch.float32, tol=1e-5)
    row = torch.empty(n.B * n.H * (n.T * n.d_v + n.d * n.d_v))
    check_device_of_result(learner, row, learner.bring(numbers_of_both), learner.decayed_attention_chunked, *inputs)
