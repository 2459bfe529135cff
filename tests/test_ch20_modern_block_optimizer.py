"""Chapter 20, fourth part: equal singular values, the optimizer that uses them, and its learning rate."""

from __future__ import annotations

import math

import torch
from devices_and_dtypes import check_device_of_result
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, refuses, same, sizes
from grader.verdict.memory import watch_call
from hypothesis import example, given, settings
from hypothesis import strategies as st
from memory_layouts import of_views
from pytest_check import check
from strategies import distinct, seeds, tensor
from torch import nn

few = settings(max_examples=3)
two_sizes = distinct("low", "high", low=(2, 4), high=(5, 8))


def matrix(seed, *shape, dtype=torch.float64):
    return tensor(seed, *shape, dtype=dtype)


# ---- newton_schulz


def pushed(m, steps=5):
    """The singular values, divided by the root of their sum of squares, go through the polynomial `steps` times."""
    U, s, Vh = torch.linalg.svd(m.double(), full_matrices=False)
    s = s / (s.square().sum().sqrt() + 1e-7)
    for _ in range(steps):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return (U * s) @ Vh


@exercise("newton_schulz", weight=3)
@few
@given(n=two_sizes, seed=seeds)
def test_a_polynomial_acts_on_the_singular_values(learner, n, seed):
    """Each step takes a singular value s to 3.4445 s - 4.7750 s³ + 2.0315 s⁵, and singular vectors stay: for wide, high and square matrices, and for a row."""
    given_matrices = {shape: matrix(seed, *shape) for shape in ((n.low, n.high), (n.high, n.low), (n.low, n.low), (1, n.high))}
    got = {shape: learner.newton_schulz(m) for shape, m in given_matrices.items()}
    for shape, m in given_matrices.items():
        with check:
            close(got[shape], pushed(m), f"the result for a matrix of shape {shape}", tol=1e-5)


@exercise("newton_schulz", weight=2)
@few
@given(n=two_sizes, seed=seeds)
def test_steps_are_counted(learner, n, seed):
    """steps says how often the polynomial is applied; without steps the matrix is only divided by its norm."""
    m = matrix(seed, n.low, n.high)
    got = {steps: learner.newton_schulz(m, steps) for steps in (0, 1, 2, 7)}
    for steps, result in got.items():
        close(result, pushed(m, steps), f"the result after {steps} steps", tol=1e-5)


@exercise("newton_schulz", weight=2)
@few
@given(seed=seeds, high=st.booleans())
def test_all_singular_values_come_near_1(learner, seed, high):
    """Singular values from 1 down to a fiftieth all lie between 0.6 and 1.3 afterwards."""
    U, _, Vh = torch.linalg.svd(matrix(seed, 4, 7), full_matrices=False)
    m = (U * torch.tensor([1.0, 0.3, 0.1, 0.02], dtype=torch.float64)) @ Vh
    got = learner.newton_schulz(m.mT if high else m)
    close(got, pushed(m.mT if high else m), "the result", tol=1e-5)
    values = torch.linalg.svdvals(got)
    holds(bool((values > 0.6).all() and (values < 1.3).all()), f"the singular values of the result go from {float(values.min()):.3f} to {float(values.max()):.3f}")


@exercise("newton_schulz", weight=2)
@few
@given(n=two_sizes, seed=seeds)
def test_the_size_of_a_matrix_does_not_matter(learner, n, seed):
    """A matrix that is ten thousand times as large has the same result; 1e-7 is added to the norm, which shows for a tiny matrix, and zeros stay zeros."""
    m = matrix(seed, n.low, n.high)
    cases = {"a large matrix": 1e4 * m, "a matrix with a norm of 5e-8": 5e-8 * m / m.norm(), "a negative matrix": -m, "zeros": 0 * m}
    got = {what: learner.newton_schulz(case) for what, case in cases.items()}
    for what, case in cases.items():
        close(got[what], pushed(case), f"the result for {what}", tol=1e-5)


@exercise("newton_schulz")
def test_high_matrices_need_no_large_product(learner):
    """For 60 rows and 3 columns, no tensor has 60 × 60 entries: the matrix is transposed before the steps, and after them."""
    m = matrix(3, 60, 3)
    watched, wide = watch_call(learner, learner.newton_schulz, m, largest=1000), watch_call(learner, learner.newton_schulz, m.T.contiguous(), largest=1000)
    close(watched.result, pushed(m), "the result for 60 rows and 3 columns", tol=1e-5)
    close(wide.result, pushed(m.T), "the result for 3 rows and 60 columns", tol=1e-5)
    watched.check()
    wide.check()


@exercise("newton_schulz")
@few
@given(n=two_sizes, seed=seeds)
def test_dtype_and_device_of_the_matrix_stay(learner, n, seed):
    """float32 and bfloat16 stay, and the result is on the device of the matrix."""
    m = matrix(seed, n.low, n.high)
    got = {dtype: learner.newton_schulz(m.to(dtype), 1) for dtype in (torch.float32, torch.bfloat16)}
    for dtype, result in got.items():
        close(result, pushed(m.to(dtype), 1).to(dtype), f"the result after one step in {dtype}", tol={torch.bfloat16: 6e-2}.get(dtype))
    check_device_of_result(learner, m, learner.newton_schulz, m)


@exercise("newton_schulz")
@few
@given(n=two_sizes, seed=seeds)
def test_a_float64_matrix_is_computed_in_float64(learner, n, seed):
    """In float64, ten digits of the result are right; the matrix may be a view, such as a transposed one."""
    m = matrix(seed, n.low, n.high)
    got, view = learner.newton_schulz(m, 3), learner.bring(of_views)(learner.newton_schulz, m, 3)
    for result, what in ((got, "the result in float64 after 3 steps"), (view, "the result for a view after 3 steps")):
        close(result, pushed(m, 3), what, tol=1e-10)


# ---- Muon


def descend(Muon, beginnings, slopes, rates=None, **options):
    """Parameters with these beginnings, given these gradients step by step (None: none); their values after each step. A gradient's columns lie side by side in memory."""
    held, course = [nn.Parameter(beginning.clone()) for beginning in beginnings], []
    optimizer = Muon(held, **options)
    for step, of_step in enumerate(slopes):
        for parameter, slope in zip(held, of_step):
            parameter.grad = None if slope is None else slope.T.contiguous().T
        if rates is not None:
            optimizer.param_groups[0]["lr"] = rates[step]
        optimizer.step()
        course.append([parameter.detach().clone() for parameter in held])
    return course


def by_hand(beginnings, slopes, rates=None, lr=0.02, momentum=0.95, steps=5, weight_decay=0.0):
    """The same by the definition."""
    values, v, course = [x.clone() for x in beginnings], [torch.zeros_like(x) for x in beginnings], []
    for step, of_step in enumerate(slopes):
        rate = lr if rates is None else rates[step]
        for i, g in enumerate(of_step):
            if g is not None:
                v[i] = momentum * v[i] + (1 - momentum) * g
                update = pushed(momentum * v[i] + (1 - momentum) * g, steps).to(g.dtype)
                rows, columns = g.shape
                values[i] = values[i] * (1 - rate * weight_decay) - rate * math.sqrt(max(1, rows / columns)) * update
        course.append([x.clone() for x in values])
    return course


def compare_course(got, expected, tol=1e-6, when=""):
    for step, values in enumerate(expected):
        for i, value in enumerate(values):
            close(got[step][i], value, f"parameter {i + 1} of {len(values)} after step {step + 1}{when}", tol=tol)


def both(learner, beginnings, slopes, rates=None, when="", tol=1e-6, **options):
    got = learner.bring(descend)(learner.Muon, beginnings, slopes, rates, **options)
    compare_course(got, by_hand(beginnings, slopes, rates, **options), tol, when)


def matrices(seed, n, scale=1.0, dtype=torch.float64):
    """A high, a wide and a square one, as beginnings or as gradients."""
    return [scale * matrix(seed + i, *shape, dtype=dtype) for i, shape in enumerate(((n.high, n.low), (n.low, n.high), (n.low, n.low)))]


@exercise("Muon", weight=3)
@few
@given(n=two_sizes, seed=seeds)
def test_the_first_step_moves_along_the_orthogonalised_gradient(learner, n, seed):
    """A first step moves each matrix by -lr · sqrt(max(1, rows / columns)) · newton_schulz(gradient), for high, wide and square ones, whether the gradient is small or large."""
    for scale in (1e-2, 1e2):
        both(learner, matrices(seed, n), [matrices(seed + 5, n, scale)], lr=0.3, momentum=0.0, when=" without momentum")
        both(learner, matrices(seed, n), [matrices(seed + 5, n, scale)], lr=0.3, when=f" with gradients of about {scale:g}", tol=1e-4)


@exercise("Muon", weight=3)
@few
@given(n=two_sizes, seed=seeds)
def test_the_momentum_goes_on_from_step_to_step(learner, n, seed):
    """The momentum averages all gradients so far; at each step it is mixed with the gradient once more before it is orthogonalised, and only the momentum is kept."""
    slopes = [matrices(seed + 10 * step + 1, n, scale=(1.0, 3.0, 0.3, 2.0)[step]) for step in range(4)]
    for momentum in (0.95, 0.5):
        both(learner, matrices(seed, n), slopes, lr=0.1, momentum=momentum, when=f" with momentum = {momentum}")


@exercise("Muon", weight=2)
@few
@given(n=two_sizes, seed=seeds)
def test_decay_shrinks_by_lr_times_decay_before_the_move(learner, n, seed):
    """Decay multiplies the parameter by 1 - lr · weight_decay before it moves, and stays out of the momentum; with a gradient of zeros a step does nothing else."""
    zeros = [[0 * x for x in matrices(seed, n)]] * 2
    both(learner, matrices(seed, n, 3.0), zeros, lr=0.05, weight_decay=0.5, when=" with gradients of zeros")
    slopes = [matrices(seed + 10 * step + 1, n) for step in range(3)]
    both(learner, matrices(seed, n, 3.0), slopes, lr=0.2, weight_decay=0.8, when=" with weight_decay = 0.8")


@exercise("Muon")
@few
@given(n=two_sizes, seed=seeds)
def test_steps_are_those_of_newton_schulz(learner, n, seed):
    """`steps` is the number of steps of newton_schulz; by default it is 5, lr is 0.02, momentum 0.95 and weight_decay 0."""
    slopes = [matrices(seed + 10 * step + 1, n) for step in range(3)]
    both(learner, matrices(seed, n), slopes, steps=2, lr=0.1, when=" with steps = 2")
    both(learner, matrices(seed, n), slopes, when=" with the defaults", tol=1e-7)


@exercise("Muon", weight=2)
@few
@given(n=two_sizes, seed=seeds)
def test_a_parameter_without_gradient_stays(learner, n, seed):
    """A parameter without gradient does not move and does not decay, while others do; later it goes on with its old momentum. Parameters of one shape and value have momenta of their own."""
    slopes = [matrices(seed + 10 * step + 1, n) for step in range(5)]
    slopes[0][0] = slopes[2][0] = slopes[3][1] = None
    both(learner, matrices(seed, n), slopes, lr=0.1, weight_decay=0.5)
    alike = matrix(seed, n.low, n.high)
    both(learner, [alike, alike], [[matrix(seed + 10 * step + i, n.low, n.high) for i in (1, 2)] for step in range(3)], lr=0.1, when=", where both begin alike")


@exercise("Muon", weight=2)
@few
@given(n=two_sizes, seed=seeds)
def test_a_schedule_may_set_its_learning_rate(learner, n, seed):
    """The "lr" in param_groups[0] is used by the next step, for the move and for the decay."""
    slopes = [matrices(seed + 10 * step + 1, n) for step in range(4)]
    both(learner, matrices(seed, n), slopes, rates=[0.5, 0.0, 0.1, 0.02], lr=0.5, weight_decay=0.4)


def live(Muon, weight, inputs):
    """A model whose parameters are given as a generator takes real steps."""
    model = nn.Sequential(nn.Linear(weight.size(1), weight.size(0), bias=False), nn.Tanh(), nn.Linear(weight.size(0), 2, bias=False))
    with torch.no_grad():
        model[0].weight.copy_(weight)
        model[2].weight.copy_(weight[:, :1].T.expand(2, -1) * torch.tensor([[1.0], [-0.5]]))
    held, outputs, left, kept = list(model.parameters()), [], [], True
    shared = [parameter.detach() for parameter in held]
    optimizer = Muon((parameter for parameter in held), lr=0.1)
    group = {name: float(value) for name, value in optimizer.param_groups[0].items() if name != "params"}
    listed = [id(parameter) for parameter in dict(optimizer.param_groups[0].items()).get("params", ())] == [id(parameter) for parameter in held]
    for x in inputs:
        optimizer.zero_grad()
        left += [0.0 if parameter.grad is None else float(parameter.grad.abs().max()) for parameter in held]
        model(x).square().sum().backward()
        before = [parameter.grad.clone() for parameter in held]
        optimizer.step()
        kept = kept and all(torch.equal(parameter.grad, old) for parameter, old in zip(held, before))
        outputs.append(model(x).detach())
    owned = [parameter is old and parameter.requires_grad and parameter.is_leaf for parameter, old in zip(model.parameters(), held)]
    in_place = all(torch.equal(parameter, alias) for parameter, alias in zip(held, shared))
    return {"in_place": in_place, "listed": listed, "outputs": outputs, "left": max(left), "kept": kept, "group": group, "groups": len(optimizer.param_groups), "owned": all(owned)}


@exercise("Muon", weight=2)
@few
@given(n=two_sizes, seed=seeds)
def test_a_model_learns_in_place(learner, reference, n, seed):
    """Parameters may be a generator; they are changed in place, zero_grad clears every gradient, and a step does not change gradients. param_groups is one dict with the options."""
    weight, inputs = matrix(seed, n.low, n.high, dtype=torch.float32), [matrix(seed + step, 3, n.high, dtype=torch.float32) for step in (1, 2, 3)]
    got, expected = (side.bring(live)(side.Muon, weight, inputs) for side in (learner, reference))
    same(got["left"], 0.0, "the largest gradient after zero_grad")
    for step in range(3):
        close(got["outputs"][step], expected["outputs"][step], f"the model's output after step {step + 1}", tol=5e-3)
    same(dict(sorted(got["group"].items())), {"lr": 0.1, "momentum": 0.95, "steps": 5.0, "weight_decay": 0.0}, "the options in param_groups[0]")
    same(got["groups"], 1, "the number of param_groups")
    holds(got["kept"], "a step changed a parameter's gradient; it should change only the parameter")
    holds(got["listed"], "param_groups[0][\"params\"] should be the list of the parameters")
    holds(got["in_place"], "a step gave a parameter new memory: a tensor that shared its memory did not change with it")
    holds(got["owned"], "after the steps the model has other Parameter objects, or they no longer get gradients")


def step_once(Muon, weight, slope):
    """The parameter after a step."""
    parameter = nn.Parameter(weight.clone())
    parameter.grad = slope.clone()
    Muon([parameter], lr=0.1, weight_decay=0.5).step()
    return parameter.detach()


@exercise("Muon")
@few
@given(n=two_sizes, seed=seeds)
def test_steps_keep_dtype_and_device_of_parameters(learner, n, seed):
    """float64 parameters have a float64 momentum, with ten right digits after three steps; nothing is made on another device than theirs."""
    slopes = [matrices(seed + 10 * step + 1, n) for step in range(3)]
    both(learner, matrices(seed, n), slopes, lr=0.1, steps=2, when=" in float64", tol=1e-10)
    weight, slope = matrix(seed, n.low, n.high, dtype=torch.float32), matrix(seed + 1, n.low, n.high, dtype=torch.float32)
    check_device_of_result(learner, weight, learner.bring(step_once), learner.Muon, weight, slope)


@exercise("Muon")
def test_only_matrices_are_accepted(learner):
    """A parameter with one axis or three raises a ValueError that names its shape; matrices with one row or one column are fine."""
    fine = [matrix(1, 1, 5), matrix(2, 5, 1)]
    got = learner.bring(descend)(learner.Muon, fine, [fine], lr=0.1)
    for shape in ((7,), (2, 5, 3)):
        refuses(lambda shape=shape: learner.Muon([torch.ones(4, 6), torch.ones(shape)]), naming=shape, because="only matrices can be orthogonalised")
    compare_course(got, by_hand(fine, [fine], lr=0.1))


# ---- schedule_wsd


@st.composite
def plans(draw):
    """warmup, decay, total, peak."""
    warmup, stable, decay = draw(st.integers(3, 6)), draw(st.integers(4, 8)), draw(st.integers(4, 9))
    sizes(warmup=warmup, decay=decay, total=warmup + stable + decay)
    return warmup, decay, warmup + stable + decay, draw(st.sampled_from([0.5, 0.8, 2.0]))


def rates(schedule, steps, *plan):
    return {step: schedule(step, *plan) for step in steps}


def compare_rates(got, expected, where=""):
    for step, rate in expected.items():
        close(got[step], float(rate), f"the rate at step {step}{where}", tol=1e-6)


@exercise("schedule_wsd", weight=2)
@few
@given(plan=plans())
def test_the_rate_rises_along_a_line(learner, plan):
    """Below `warmup` the rate is peak · step / warmup: 0 at step 0, and `peak` not before step `warmup`, whatever the floor is."""
    warmup, _, _, peak = plan
    got, above = rates(learner.schedule_wsd, range(warmup + 1), *plan), rates(learner.schedule_wsd, range(warmup + 1), *plan, 0.1)
    for found, where in ((got, ""), (above, " with floor = 0.1")):
        compare_rates(found, {step: peak * step / warmup for step in range(warmup + 1)}, where)


@exercise("schedule_wsd", weight=2)
@few
@given(plan=plans())
def test_the_rate_stays_at_its_peak(learner, plan):
    """From `warmup` to total - decay, both included, the rate is `peak`."""
    warmup, decay, total, peak = plan
    steps = range(warmup - 1, total - decay + 1)
    compare_rates(rates(learner.schedule_wsd, steps, *plan, 0.05), {step: peak if step >= warmup else peak * step / warmup for step in steps})


@exercise("schedule_wsd", weight=3)
@example(plan=(3, 5, 12, 0.5), floor=0.3)
@few
@given(plan=plans(), floor=st.sampled_from([0.3, 0.0]))
def test_the_rate_falls_along_a_line(learner, plan, floor):
    """In the last `decay` steps the rate falls by the same amount at each step, from `peak` to `floor` at `total`; the floor is 0 unless given."""
    _, decay, total, peak = plan
    steps = range(total - decay, total + 1)
    got = rates(learner.schedule_wsd, steps, *plan, *([floor] if floor else []))
    compare_rates(got, {step: floor + (peak - floor) * (total - step) / decay for step in steps}, f" with floor = {floor:g}")


@exercise("schedule_wsd")
def test_a_small_rate_keeps_its_digits(learner):
    """A peak of 0.0003 falls to a floor of 0.00001234 in ten equal steps; no digit is lost."""
    got = {step: rate * 1e4 for step, rate in rates(learner.schedule_wsd, range(1, 31, 3), 7, 10, 30, 3e-4, 1.234e-5).items()}
    left = {step: min(step / 7, (30 - step) / 10, 1) for step in got}
    compare_rates(got, {step: 3 * left[step] if step < 20 else 0.1234 + 2.8766 * left[step] for step in got}, ", times 10,000")


@exercise("schedule_wsd")
@few
@given(plan=plans())
def test_the_rate_is_the_floor_from_total_on(learner, plan):
    """At `total` and after it the rate is `floor`, however long training goes on."""
    steps = [plan[0], plan[2], plan[2] + 1, 3 * plan[2]]
    compare_rates(rates(learner.schedule_wsd, steps, *plan, 0.2), dict(zip(steps, [plan[3], 0.2, 0.2, 0.2])), " with floor = 0.2")


@exercise("schedule_wsd", weight=2)
def test_each_part_may_be_empty(learner):
    """warmup may be 0: step 0 has the peak. decay may be 0: the peak stays until just before `total`. Nothing stable need be between them, and total may be 0."""
    cases = {"warmup = 0": (0, 4, 8), "decay = 0": (3, 0, 8), "nothing between": (3, 5, 8), "warmup alone": (8, 0, 8), "decay alone": (0, 8, 8), "total = 0": (0, 0, 0)}
    expected = {
        "warmup = 0": {0: 1, 4: 1, 5: 0.75, 8: 0},
        "decay = 0": {1: 1 / 3, 3: 1, 7: 1, 8: 0, 9: 0},
        "nothing between": {2: 2 / 3, 3: 1, 4: 0.8, 7: 0.2, 8: 0},
        "warmup alone": {0: 0, 7: 7 / 8, 8: 0},
        "decay alone": {0: 1, 2: 0.75, 8: 0},
        "total = 0": {0: 0, 1: 0},
    }
    got = {what: rates(learner.schedule_wsd, expected[what], *plan, 1.0) for what, plan in cases.items()}
    for what, found in got.items():
        compare_rates(found, expected[what], f" with {what}")


@exercise("schedule_wsd")
def test_warmup_and_decay_must_fit(learner):
    """If warmup + decay is above total, a ValueError names all three; if they are exactly total, all is well."""
    fine = rates(learner.schedule_wsd, [3, 6], 4, 6, 10, 1.0)
    for warmup, decay, total in ((12, 0, 11), (0, 9, 8), (6, 5, 10)):
        refuses(lambda w=warmup, d=decay, t=total: learner.schedule_wsd(1, w, d, t, 1.0), naming={"warmup": warmup, "decay": decay, "total": total}, because="warm-up and decay must fit into the training")
    compare_rates(fine, {3: 0.75, 6: 2 / 3})
