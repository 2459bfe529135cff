"""Chapter 22, first part: linear attention for all positions at once, and position by position."""

from __future__ import annotations

import torch
from devices_and_dtypes import check_device_of_result
from grader.execution.proxy import gradients
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, sizes
from grader.verdict.memory import watch_growth
from hypothesis import given, settings
from memory_layouts import of_views
from module_pairs import compare_gradient
from pytest_check import check
from strategies import at, distinct, seeds, tensor

few = settings(max_examples=3)
double = torch.float64
EXACT = 1e-10  # relative, for float64: another order of the same sums is off by less
text_sizes = distinct("B", "H", "T", "d", "d_v", B=(2, 3), H=(2, 4), T=(5, 7), d=(4, 6), d_v=(3, 8))


def text(seed, n, dtype=double):
    """Queries, keys and values of n.T positions."""
    q, k = (tensor(seed + i, n.B, n.H, n.T, n.d, scale=1.5, dtype=dtype) for i in range(2))
    return q, k, tensor(seed + 2, n.B, n.H, n.T, n.d_v, dtype=dtype)


def phi(x):
    return torch.where(x > 0, x + 1, x.exp())


def by_hand(q, k, v):
    """Position by position, from the definition, in float64."""
    q, k, v, outputs = phi(q.double()), phi(k.double()), v.double(), []
    for t in range(q.size(2)):
        weights = (q[:, :, t, None] * k[:, :, : t + 1]).sum(-1)  # (B, H, t + 1)
        outputs.append((weights[..., None] * v[:, :, : t + 1]).sum(2) / weights.sum(-1, keepdim=True))
    return torch.stack(outputs, dim=2)


def slopes_by_hand(f, inputs, cotangent):
    leaves = [x.clone().requires_grad_() for x in inputs]
    return torch.autograd.grad((f(*leaves) * cotangent).sum(), leaves)


# ---- linear_attention


@exercise("linear_attention", weight=4)
@few
@given(n=text_sizes, seed=seeds)
def test_linear_weights_are_products_over_their_sum(learner, n, seed):
    """The output at t averages the values up to t with the weights φ(q_t)·φ(k_s), divided by their sum; in float64, it is exact to ten digits."""
    q, k, v = text(seed, n)
    close(learner.linear_attention(q, k, v), by_hand(q, k, v), "the output", tol=EXACT)


@exercise("linear_attention", weight=2)
@few
@given(n=text_sizes, seed=seeds)
def test_later_positions_change_no_linear_output(learner, n, seed):
    """Another query, key and value at one position leave the outputs of all earlier positions as they were."""
    q, k, v = text(seed, n)
    t = 1 + seed % (n.T - 1)
    changed = q.clone(), k.clone(), v.clone()
    changed[0][:, :, t], changed[1][:, :, t], changed[2][:, :, t] = -2.0, 3.0, 4.0
    before, after = learner.linear_attention(q, k, v), learner.linear_attention(*changed)
    close(after, by_hand(*changed), "the output after the change", tol=EXACT)
    close(after[:, :, :t], before[:, :, :t], f"the output before position {t}, once the token there has changed,", tol=EXACT)


@exercise("linear_attention", weight=2)
@few
@given(n=text_sizes, seed=seeds)
def test_small_linear_weights_are_divided_by_their_sum_alone(learner, n, seed):
    """Features of about -12 have a φ of about 6e-6, so sums are as small as 1e-10; they are divided by these sums, and by nothing more."""
    q, k, v = text(seed, n)
    close(learner.linear_attention(q - 12, k - 12, v), by_hand(q - 12, k - 12, v), "the output for features of about -12", tol=1e-8)


@exercise("linear_attention", weight=3)
@few
@given(n=text_sizes, seed=seeds)
def test_queries_keys_and_values_get_linear_gradients(learner, n, seed):
    """q, k and v get the gradients of the definition, through the numerator and the denominator."""
    inputs, cotangent = text(seed, n), tensor(seed + 4, n.B, n.H, n.T, n.d_v, dtype=double)
    found = gradients(learner.linear_attention, *inputs, cotangent=cotangent)
    for name, got, right in zip("qkv", found.inputs, slopes_by_hand(by_hand, inputs, cotangent)):
        with check:
            compare_gradient(got, right, name, tol=1e-9)


@exercise("linear_attention", weight=3)
def test_linear_attention_has_no_loop_over_positions(learner):
    """200 positions take about as many torch operations as 6."""
    small, large = (text(3, at(B=1, H=2, T=T, d=4, d_v=3).make()) for T in (6, 200))
    watched = watch_growth(learner, learner.linear_attention, small, large, operations=4)
    close(watched.result, by_hand(*large), "the output for 200 positions", tol=1e-9)
    watched.check()


@exercise("linear_attention")
@few
@given(n=text_sizes, seed=seeds)
def test_linear_attention_keeps_dtype_and_device(learner, n, seed):
    """float32 gives float32, and no tensor stays on another device."""
    q, k, v = text(seed, n, torch.float32)
    close(learner.linear_attention(q, k, v), by_hand(q, k, v).float(), "the output in float32")
    check_device_of_result(learner, v, learner.linear_attention, q, k, v)


@exercise("linear_attention")
@few
@given(n=text_sizes, seed=seeds)
def test_linear_attention_reads_views_and_single_positions(learner, n, seed):
    """Arguments that lie in another order in memory give the same; so does one text alone; with one position, the output is its value."""
    q, k, v = text(seed, n)
    views = learner.bring(of_views)(learner.linear_attention, q, k, v)
    alone, first = learner.linear_attention(q[:1], k[:1], v[:1]), learner.linear_attention(q[:, :, :1], k[:, :, :1], v[:, :, :1])
    close(views, by_hand(q, k, v), "the output for views", tol=EXACT)
    close(alone, by_hand(q, k, v)[:1], "the output for one text", tol=EXACT)
    close(first, v[:, :, :1], "the output for one position", tol=EXACT)


# ---- linear_attention_step


def step_parts(result):
    """Output, S and z; a Mismatch if it is anything else."""
    right = isinstance(result, tuple | list) and len(result) == 2 and isinstance(result[1], tuple | list) and len(result[1]) == 2
    holds(right, "the result should be a pair: the output, and the state, which is a pair of S and z")
    return result[0], *result[1]


def all_steps(learner, q, k, v):
    """Output, S and z of a step at each position, from None on; each step is given the state that the last one returned."""
    parts, state = [], None
    for t in range(q.size(2)):
        parts.append(step_parts(learner.linear_attention_step(q[:, :, t], k[:, :, t], v[:, :, t], state)))
        state = parts[-1][1:]
    return parts


def sums_by_hand(k, v):
    """The two sums over these positions."""
    return (phi(k.double())[..., None] * v.double()[..., None, :]).sum(2), phi(k.double()).sum(2)


def some_state(seed, n, dtype=double):
    """Sums over three earlier positions."""
    n = at(B=n.B, H=n.H, T=3, d=n.d, d_v=n.d_v).make()
    sizes(T=None)
    S, z = sums_by_hand(*text(seed + 5, n)[1:])
    return S.to(dtype), z.to(dtype)


step_sizes = distinct("B", "H", "d", "d_v", B=(2, 3), H=(2, 4), d=(4, 6), d_v=(3, 8))


def one_position(seed, n, dtype=double):
    return tuple(x[:, :, 0] for x in text(seed, at(B=n.B, H=n.H, T=1, d=n.d, d_v=n.d_v).make(), dtype))


def step_by_hand(q, k, v, S, z):
    """Output, S and z after this position, from the sums before it."""
    q, k = phi(q), phi(k)
    S, z = S + k[..., None] * v[..., None, :], z + k
    return (q[..., None] * S).sum(-2) / (q * z).sum(-1, keepdim=True), S, z


@exercise("linear_attention_step", weight=4)
@few
@given(n=text_sizes, seed=seeds)
def test_steps_give_the_outputs_of_linear_attention(learner, n, seed):
    """Steps over all positions of a text, each from the last one's state and the first from None, give the outputs of linear_attention."""
    q, k, v = text(seed, n)
    parts, right = all_steps(learner, q, k, v), by_hand(q, k, v)
    for t, (output, _, _) in enumerate(parts):
        close(output, right[:, :, t], f"the output of the step at position {t}", tol=EXACT)


@exercise("linear_attention_step", weight=3)
@few
@given(n=text_sizes, seed=seeds)
def test_a_linear_state_is_two_sums_that_do_not_grow(learner, n, seed):
    """After each step, S (B, H, d, d_v) is the sum of φ(k_s) v_sᵀ, and z (B, H, d) is the sum of φ(k_s), over all positions with this one."""
    q, k, v = text(seed, n)
    for t, (_, S, z) in enumerate(all_steps(learner, q, k, v)):
        right = sums_by_hand(k[:, :, : t + 1], v[:, :, : t + 1])
        close(S, right[0], f"S after position {t}", tol=EXACT)
        close(z, right[1], f"z after position {t}", tol=EXACT)


@exercise("linear_attention_step", weight=3)
@few
@given(n=step_sizes, seed=seeds)
def test_a_linear_step_goes_on_from_any_state(learner, n, seed):
    """The position is added to the two sums that are passed, and the query reads both sums with this position in them; zeros are the same as None."""
    q, k, v = one_position(seed, n)
    S, z = some_state(seed, n)
    later, zeros = learner.linear_attention_step(q, k, v, (S, z)), learner.linear_attention_step(q, k, v, (0 * S, 0 * z))
    none = learner.linear_attention_step(q, k, v, None)
    for name, got, right in zip(("the output", "S", "z"), step_parts(later), step_by_hand(q, k, v, S, z)):
        close(got, right, f"{name} from a state", tol=EXACT)
    for when, result in {"a state of zeros": zeros, "None": none}.items():
        for name, got, right in zip(("the output", "S", "z"), step_parts(result), step_by_hand(q, k, v, 0 * S, 0 * z)):
            close(got, right, f"{name} from {when}", tol=EXACT)


@exercise("linear_attention_step")
@few
@given(n=step_sizes, seed=seeds)
def test_small_linear_sums_are_divided_by_themselves_alone(learner, n, seed):
    """Features of about -12 have a φ of about 6e-6; nothing is added to the small sum that divides the output."""
    q, k, v = one_position(seed, n)
    S, z = some_state(seed, n)
    got = step_parts(learner.linear_attention_step(q - 12, k - 12, v, (1e-6 * S, 1e-6 * z)))
    for name, mine, right in zip(("the output", "S", "z"), got, step_by_hand(q - 12, k - 12, v, 1e-6 * S, 1e-6 * z)):
        close(mine, right, f"{name} for features of about -12", tol=1e-8)


def step_result(step, place, q, k, v, S, z):
    """For `bring`: output, S or z of a step."""
    output, (S, z) = step(q, k, v, (S, z))
    return (output, S, z)[place]


@exercise("linear_attention_step", weight=3)
@few
@given(n=step_sizes, seed=seeds)
def test_gradients_flow_through_a_linear_state(learner, n, seed):
    """q, k, v and both sums get the gradients of the definition, also for a loss of the new S or of the new z."""
    inputs = *one_position(seed, n), *some_state(seed, n)
    shapes = (n.B, n.H, n.d_v), (n.B, n.H, n.d, n.d_v), (n.B, n.H, n.d)
    cotangents = [tensor(seed + 6 + i, *shape, dtype=double) for i, shape in enumerate(shapes)]
    result = learner.bring(step_result)
    found = [gradients(result, learner.linear_attention_step, i, *inputs, cotangent=each) for i, each in enumerate(cotangents)]
    for place, what in enumerate(("the output", "the new S", "the new z")):
        leaves = [x.clone().requires_grad_() for x in inputs]
        loss = (step_by_hand(*leaves)[place] * cotangents[place]).sum()
        for name, got, right in zip(("q", "k", "v", "S", "z"), found[place].inputs[2:], torch.autograd.grad(loss, leaves, allow_unused=True)):
            if right is not None:
                with check:
                    compare_gradient(got, right, f"{name} for a loss of {what}", tol=1e-9)


def device_of_step(step, q, k, v):
    """For `bring`: output, S and z of a second step as one row of numbers."""
    output, (S, z) = step(q, k, v, step(q, k, v, None)[1])
    return torch.cat([output.flatten(), S.flatten(), z.flatten()])


@exercise("linear_attention_step")
@few
@given(n=step_sizes, seed=seeds)
def test_linear_steps_keep_dtype_and_device(learner, n, seed):
    """In float32, output and state are float32, from None and from a state, and no tensor stays on another device."""
    q, k, v = one_position(seed, n, torch.float32)
    first, later = learner.linear_attention_step(q, k, v, None), learner.linear_attention_step(q, k, v, some_state(seed, n, torch.float32))
    S, z = some_state(seed, n)
    rights = {"from None": step_by_hand(q.double(), k.double(), v.double(), 0 * S, 0 * z), "from a state": step_by_hand(q.double(), k.double(), v.double(), S, z)}
    for (when, right), got in zip(rights.items(), (first, later)):
        for name, mine, value in zip(("the output", "S", "z"), step_parts(got), right):
            close(mine, value.float(), f"{name} in float32, {when},")
    row = torch.empty(n.B * n.H * (n.d_v + n.d * n.d_v + n.d))
    check_device_of_result(learner, row, learner.bring(device_of_step), learner.linear_attention_step, q, k, v)


def step_on_views(step, q, k, v, S, z):
    """For `bring`: output, S and z of the same numbers, which lie in another order in memory."""
    q, k, v, S, z = (x.mT.contiguous().mT for x in (q, k, v, S, z))
    output, state = step(q, k, v, (S, z))
    return output, *state


@exercise("linear_attention_step")
@few
@given(n=step_sizes, seed=seeds)
def test_linear_steps_read_views_and_one_text(learner, n, seed):
    """Arguments and sums that lie in another order in memory give the same, and so does one text with one head alone."""
    inputs = *one_position(seed, n), *some_state(seed, n)
    alone = [x[:1, :1] for x in inputs]
    views = learner.bring(step_on_views)(learner.linear_attention_step, *inputs)
    one = learner.linear_attention_step(*alone[:3], tuple(alone[3:]))
    for name, got, right in zip(("the output", "S", "z"), views, step_by_hand(*inputs)):
        close(got, right, f"{name} for views", tol=EXACT)
    for name, got, right in zip(("the output", "S", "z"), step_parts(one), step_by_hand(*alone)):
        close(got, right, f"{name} for one text and one head", tol=EXACT)
