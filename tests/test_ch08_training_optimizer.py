"""Chapter 8, fourth part: the learning rate's schedule, and the optimizer that follows it."""

import math

import torch
from devices_and_dtypes import check_device_of_result
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, same, sizes
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import distinct, seeds, tensor
from torch import nn

# ---- warmup_cosine


@st.composite
def schedules(draw):
    """warmup, total, peak, floor; the cosine has whole steps at each quarter of its way."""
    warmup, quarter = draw(st.integers(3, 9)), draw(st.integers(2, 6))
    sizes(warmup=warmup, total=warmup + 4 * quarter)
    return warmup, warmup + 4 * quarter, draw(st.sampled_from([0.5, 0.8, 2.0])), draw(st.sampled_from([0.1, 0.2]))


def rates(schedule, steps, warmup, total, peak, *floor):
    return {step: schedule(step, warmup, total, peak, *floor) for step in steps}


def the_same_rates(got, expected, where=""):
    for step, rate in expected.items():
        close(got[step], rate, f"the rate at step {step}{where}", tol=1e-6)  # the cosine may be one of a float32 tensor


@exercise("warmup_cosine", weight=2)
@given(schedule=schedules())
def test_the_rate_rises_linearly_during_warmup(learner, schedule):
    """Below `warmup` the rate is peak * step / warmup: 0 at step 0, and `peak` not before step `warmup`, for any floor."""
    warmup, _, peak, _ = schedule
    got = rates(learner.warmup_cosine, range(warmup + 1), *schedule)
    the_same_rates(got, {step: peak * step / warmup for step in range(warmup + 1)})


@exercise("warmup_cosine", weight=2)
@given(schedule=schedules())
def test_the_rate_follows_half_a_cosine(learner, schedule):
    """From `warmup` to `total`, the share of the height above the floor is 0.854 after a quarter of the steps, 0.5 halfway, and 0.146 after three quarters."""
    warmup, total, peak, floor = schedule
    quarter = (total - warmup) // 4
    got = rates(learner.warmup_cosine, range(warmup, total + 1, quarter), *schedule)
    left = [1.0, 0.5 + math.sqrt(0.125), 0.5, 0.5 - math.sqrt(0.125), 0.0]
    the_same_rates(got, {step: floor + (peak - floor) * part for step, part in zip(got, left)})


@exercise("warmup_cosine")
@given(schedule=schedules())
def test_every_step_between_has_its_rate(learner, reference, schedule):
    """At each step from 0 to past `total` the rate follows the definition, also in a long training with small rates; without a floor it ends at 0."""
    steps, long, small = range(schedule[1] + 3), (1, 777, 1999, 2000, 30_000, 99_999), (2000, 100_000, 3e-4, 3e-5)
    far = rates(learner.warmup_cosine, long, *small)
    got = [rates(learner.warmup_cosine, steps, *schedule), rates(learner.warmup_cosine, steps, *schedule[:3])]
    expected = [rates(reference.warmup_cosine, steps, *schedule), rates(reference.warmup_cosine, steps, *schedule[:3])]
    the_same_rates(got[0], expected[0])
    the_same_rates(got[1], expected[1], " without a floor")
    the_same_rates(far, rates(reference.warmup_cosine, long, *small), " of 100,000")


@exercise("warmup_cosine")
@given(schedule=schedules())
def test_the_rate_is_floor_from_total_on(learner, schedule):
    """At `total` the rate is `floor`, and it stays there however long training goes on."""
    warmup, total, peak, floor = schedule
    steps = [warmup, total, total + 1, total + (total - warmup) // 2, 2 * total - warmup, 9 * total]
    the_same_rates(rates(learner.warmup_cosine, steps, *schedule), dict(zip(steps, [peak] + [floor] * 5)))


@exercise("warmup_cosine")
@given(schedule=schedules())
def test_no_warmup_begins_at_the_peak(learner, schedule):
    """With warmup = 0 the first step already has the peak, and the cosine begins there."""
    total, peak = schedule[1] - schedule[0], schedule[2]
    sizes(warmup=0, total=total)
    got = rates(learner.warmup_cosine, [0, total // 4, total], 0, total, peak)
    the_same_rates(got, dict(zip(got, [peak, peak * (0.5 + math.sqrt(0.125)), 0.0])), " without warmup")


# ---- AdamW


def descend(AdamW, beginnings, gradients, changes=None, anew=None, **options):
    """Parameters with these beginnings, given these gradients step by step (None: none); their values after each step.

    `changes` has new values of the group for each step. Step `anew` begins with a new optimizer of the same parameters.
    """
    parameters = [nn.Parameter(beginning.clone()) for beginning in beginnings]
    optimizer, course = AdamW(parameters, **options), []
    for step, slopes in enumerate(gradients):
        if step == anew:
            optimizer = AdamW(parameters, **options)
        for parameter, gradient in zip(parameters, slopes):
            parameter.grad = None if gradient is None else gradient.clone()
        if changes is not None:
            optimizer.param_groups[0].update(changes[step])
        optimizer.step()
        course.append([parameter.detach().clone() for parameter in parameters])
    return course


def the_same_course(learner, reference, what, beginnings, gradients, changes=None, anew=None, tol=None, **options):
    """Run the learner's optimizer on these parameters and compare with the reference's, step by step."""
    got = learner.bring(descend)(learner.AdamW, beginnings, gradients, changes, anew, **options)
    expected = reference.bring(descend)(reference.AdamW, beginnings, gradients, changes, anew, **options)
    for step, values in enumerate(expected):
        for i, value in enumerate(values):
            close(got[step][i], value, f"{what} {i + 1} of {len(values)} after step {step + 1}", tol=tol)


def weights(seed, n, scale=1.0, dtype=None):
    """Two tensors, as beginnings or as gradients: a matrix and a vector."""
    drawn = [tensor(seed, n.A, n.B, scale=scale), tensor(seed + 1, n.C, scale=scale)]
    return drawn if dtype is None else [value.to(dtype) for value in drawn]


two_shapes = distinct("A", "B", "C")


@exercise("AdamW", weight=2)
@given(n=two_shapes, seed=seeds)
def test_the_first_step_is_lr_long(learner, n, seed):
    """Without decay the first step moves every number by lr against its gradient's sign, whether the gradient is 0.01 or 100."""
    begin, size = weights(seed, n), tensor(seed + 9, n.C).abs() + 0.5
    slopes = [tensor(seed + 5, n.A, n.B).sign() * 0.01, tensor(seed + 6, n.C).sign() * size * 100]
    got = learner.bring(descend)(learner.AdamW, begin, [slopes], lr=0.03, weight_decay=0.0)
    moved = [bool((mine != value).any()) for mine, value in zip(got[0], begin)]
    holds(any(moved), "no parameter has changed: change the parameters themselves, in place, and do not assign a new tensor")
    for mine, value, slope in zip(got[0], begin, slopes):
        close(mine, value - 0.03 * slope.sign(), "the parameter after step 1")


@exercise("AdamW", weight=3)
@given(n=two_shapes, seed=seeds)
def test_both_averages_are_kept_from_step_to_step(learner, reference, n, seed):
    """Over several steps with changing gradients, each step uses the averages of all gradients so far, corrected by 1 - b^t."""
    slopes = [weights(seed + 10 * step, n, scale=(1.0, 3.0, 0.3, 2.0)[step]) for step in range(4)]
    for betas in ((0.9, 0.999), (0.6, 0.8)):
        the_same_course(learner, reference, "parameter", weights(seed, n), slopes, lr=0.1, betas=betas, weight_decay=0.0)


@exercise("AdamW", weight=2)
@given(n=two_shapes, seed=seeds)
def test_decay_alone_shrinks_by_lr_times_decay(learner, n, seed):
    """Where the gradient is zero at every step, a step multiplies a parameter by 1 - lr * weight_decay, and does nothing else."""
    begin, zeros = weights(seed, n, scale=3.0), weights(seed, n, scale=0.0)
    got = learner.bring(descend)(learner.AdamW, begin, [zeros] * 3, lr=0.05, weight_decay=0.5)
    for step in range(3):
        for mine, value in zip(got[step], begin):
            close(mine, value * (1 - 0.05 * 0.5) ** (step + 1), f"the parameter after step {step + 1}")


@exercise("AdamW", weight=2)
@given(n=two_shapes, seed=seeds)
def test_decay_stays_out_of_the_averages(learner, reference, n, seed):
    """Decay is a separate first step: it affects neither average, and it does not shrink the update after it."""
    slopes = [weights(seed + 10 * step + 1, n) for step in range(3)]
    the_same_course(learner, reference, "parameter", weights(seed, n, scale=10.0), slopes, lr=0.05, weight_decay=0.5, tol=1e-6)


@exercise("AdamW")
@given(n=two_shapes, seed=seeds)
def test_eps_is_added_after_the_square_root(learner, reference, n, seed):
    """eps is added to the root of the corrected average, nowhere else: gradients of a millionth, or a large eps, show where it is added."""
    for scale, options in ((1e-6, {}), (1.0, {"eps": 0.1})):
        slopes = [weights(seed + 10 * step, n, scale=scale) for step in range(3)]
        the_same_course(learner, reference, "parameter", weights(seed, n), slopes, lr=0.05, weight_decay=0.0, **options)


@exercise("AdamW")
@given(n=two_shapes, seed=seeds)
def test_each_parameter_has_its_own_averages(learner, reference, n, seed):
    """Parameters of one shape, and even of one value, are distinguished: each has its own t, m and v."""
    begin = tensor(seed, n.A, n.B)
    slopes = [[tensor(seed + 10 * step + i, n.A, n.B, scale=i) for i in (1, 3, 5)] for step in range(3)]
    the_same_course(learner, reference, "parameter", [begin, begin, begin * 2], slopes, lr=0.05)


@exercise("AdamW")
@settings(max_examples=3)
@given(n=two_shapes, seed=seeds)
def test_a_new_optimizer_starts_anew(learner, reference, n, seed):
    """A second optimizer of the same parameters starts with t = 1 and with averages of its own, whatever an earlier one has done."""
    slopes = [weights(seed + 10 * step + 1, n, scale=(5.0, 5.0, 0.3, 0.2)[step]) for step in range(4)]
    the_same_course(learner, reference, "parameter", weights(seed, n), slopes, anew=2, lr=0.05)


@exercise("AdamW", weight=2)
@given(n=two_shapes, seed=seeds)
def test_parameters_without_gradient_do_not_change(learner, reference, n, seed):
    """A parameter without gradient does not change, with no decay and no step counted, while the others are updated; later it continues with its old t, m and v."""
    slopes = [weights(seed + 10 * step + 1, n) for step in range(5)]
    slopes[0][0] = slopes[1][0] = slopes[3][0] = slopes[2][1] = None
    the_same_course(learner, reference, "parameter", weights(seed, n), slopes, lr=0.05, weight_decay=0.5)


@exercise("AdamW", weight=2)
@given(n=two_shapes, seed=seeds)
def test_a_schedule_may_set_the_learning_rate(learner, reference, n, seed):
    """The "lr" in param_groups[0] is used by the next step, for the update and for the decay."""
    slopes = [weights(seed + 10 * step + 1, n) for step in range(4)]
    the_same_course(learner, reference, "parameter", weights(seed, n), slopes, [{"lr": rate} for rate in (0.2, 0.0, 0.1, 0.02)], lr=0.01, weight_decay=0.5)


@exercise("AdamW")
@settings(max_examples=3)
@given(n=two_shapes, seed=seeds)
def test_defaults_and_precision(learner, reference, n, seed):
    """By default lr is 0.001, betas (0.9, 0.999), eps 1e-8 and weight_decay 0.01; float64 keeps all its digits."""
    begin, slopes = weights(seed, n, scale=20.0, dtype=torch.float64), [weights(seed + step + 1, n, scale=1e-6, dtype=torch.float64) for step in range(3)]
    far = [weights(seed + step + 7, n, dtype=torch.float64) for step in range(3)]
    the_same_course(learner, reference, "float64 parameter", begin, slopes)
    the_same_course(learner, reference, "float64 parameter with lr = 0.5", weights(seed, n, dtype=torch.float64), far, lr=0.5, tol=1e-10)


def live(AdamW, weight, inputs):
    """A model whose parameters are given as a generator takes three real steps: its outputs, its parameters, what zero_grad left.

    Its matrix is transposed in memory.
    """
    model = nn.Linear(weight.size(1), weight.size(0), bias=False)
    model.weight = nn.Parameter(weight.t().contiguous().t())
    held, outputs, stale, kept, memory = model.weight, [], 0.0, True, model.weight.data_ptr()
    optimizer = AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    begins_at = float(optimizer.param_groups[0]["lr"])
    for x in inputs:
        optimizer.zero_grad()
        stale = max(stale, 0.0 if held.grad is None else float(held.grad.abs().max()))
        model(x).square().sum().backward()
        slope = held.grad.clone()
        optimizer.step()
        kept = kept and held.grad is not None and torch.equal(held.grad, slope)
        outputs.append(model(x).detach())
    same = model.weight is held and model.weight.data_ptr() == memory
    return {"outputs": outputs, "stale": stale > 0, "rate": begins_at, "kept": kept, "same": same, "learns": held.requires_grad and held.is_leaf}


def groups(AdamW, weight):
    """What param_groups has of each promised key; of the parameters only their number."""
    optimizer = AdamW([nn.Parameter(weight)], lr=0.02, betas=(0.7, 0.8), eps=1e-5, weight_decay=0.3)
    found = [{name: group.get(name, "missing") for name in ("lr", "betas", "eps", "weight_decay", "params")} for group in optimizer.param_groups]
    return [group | {name: list(group[name]) for name in ("betas", "params") if not isinstance(group[name], str)} for group in found]


@exercise("AdamW")
@settings(max_examples=2)
@given(n=two_shapes, seed=seeds)
def test_param_groups_has_the_parameters_and_the_options(learner, n, seed):
    """`param_groups` is a list of one dict, with "params", "lr", "betas", "eps" and "weight_decay"."""
    weight = tensor(seed, n.A, n.B)
    found = learner.bring(groups)(learner.AdamW, weight)
    same(len(found), 1, "the number of dicts in param_groups")
    same(found[0]["betas"], [0.7, 0.8], 'param_groups[0]["betas"]')
    for name, value in (("lr", 0.02), ("eps", 1e-5), ("weight_decay", 0.3)):
        same(found[0][name], value, f'param_groups[0]["{name}"]')
    holds(len(found[0]["params"]) == 1, 'param_groups[0]["params"] should have every parameter')


def two_steps(AdamW, weight, slope):
    """A parameter after two steps with the same gradient."""
    parameter = nn.Parameter(weight.clone())
    parameter.grad = slope.clone()
    optimizer = AdamW([parameter], lr=0.1)
    optimizer.step()
    optimizer.step()
    return parameter.detach()


@exercise("AdamW")
@settings(max_examples=2)
@given(n=two_shapes, seed=seeds)
def test_a_step_runs_on_the_device_of_the_parameter(learner, reference, n, seed):
    """The averages are on the device of their parameter: no tensor is created on a fixed device."""
    weight, slope = tensor(seed, n.A, n.B), tensor(seed + 1, n.A, n.B)
    got = learner.bring(two_steps)(learner.AdamW, weight, slope)
    close(got, reference.bring(two_steps)(reference.AdamW, weight, slope), "the parameter after two steps")
    check_device_of_result(learner, weight, learner.bring(two_steps), learner.AdamW, weight, slope)


@exercise("AdamW", weight=2)
@given(n=two_shapes, seed=seeds)
def test_parameters_are_changed_in_place(learner, reference, n, seed):
    """Parameters may be a generator, and transposed in memory; they are changed in place, so their model gives another result after each step."""
    weight, inputs = tensor(seed, n.A, n.B), [tensor(seed + step, n.C, n.B) for step in (1, 2, 3)]
    got = learner.bring(live)(learner.AdamW, weight, inputs)
    expected = reference.bring(live)(reference.AdamW, weight, inputs)
    holds(not got["stale"], "zero_grad did not clear a gradient: the next backward pass would add to it")
    for step in range(3):
        close(got["outputs"][step], expected["outputs"][step], f"the model's output after step {step + 1}", tol=1e-4)
    same(got["rate"], expected["rate"], 'param_groups[0]["lr"] of a new optimizer')
    holds(got["kept"], "a step changed a parameter's gradient; it should change only the parameter")
    holds(got["same"], "after the step the model has another Parameter object, or its parameter has other memory: change it in place")
    holds(got["learns"], "after a step the parameter no longer gets a gradient")
