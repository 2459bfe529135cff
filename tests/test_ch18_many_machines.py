"""Chapter 18, first part: data parallel training. The group is simulated: one thread for each rank, of which one runs at a time."""

from __future__ import annotations

import math

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, same
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pytest_check import check
from simulated_groups import ranks_of
from strategies import distinct, seeds, tensor

few = settings(max_examples=3)
group_sizes = st.integers(1, 4)


def ring(ring_all_reduce, tensors):
    from grader.execution.simulated_group import run_ranks

    given = [t.clone() for t in tensors]
    results, counts = run_ranks(lambda group: ring_all_reduce(given[group.rank], group), len(given))
    return {
        "results": results, "given": given, "calls": [list(c.calls) for c in counts], "bytes": [c.bytes for c in counts],
        "sent_to": [list(c.sent_to) for c in counts],
    }  # fmt: skip


# ---- ring_all_reduce


@exercise("ring_all_reduce", weight=3)
@few
@given(n=st.integers(2, 4), sizes_=distinct("a", "b", a=(3, 5), b=(5, 7)), seed=seeds)
def test_every_rank_gets_the_sum(learner, n, sizes_, seed):
    """The result is the sum of all ranks' tensors, the same on every rank, in the shape of t, also where n does not divide its size."""
    ranks_of(n)
    tensors = [tensor(seed + rank, sizes_.a, sizes_.b) for rank in range(n)]
    got = learner.bring(ring)(learner.ring_all_reduce, tensors)
    for rank, result in enumerate(got["results"]):
        close(result, sum(tensors), f"the result on rank {rank} of {n}")


@exercise("ring_all_reduce", weight=3)
@few
@given(n=st.integers(2, 4), length=st.integers(8, 15), seed=seeds)
def test_each_rank_sends_2_n_minus_1_parts_to_its_neighbour(learner, n, length, seed):
    """Each rank sends 2 (n - 1) messages, all of them to the next rank, and each of them about 1/n of t."""
    ranks_of(n)
    tensors = [tensor(seed + rank, length) for rank in range(n)]
    got = learner.bring(ring)(learner.ring_all_reduce, tensors)
    for rank in range(n):
        close(got["results"][rank], sum(tensors), f"the result on rank {rank}")
        same(sorted(set(got["calls"][rank])), ["receive", "send"], f"the kinds of calls of rank {rank}")
        same(got["sent_to"][rank], [(rank + 1) % n] * (2 * (n - 1)), f"to whom rank {rank} sends")
        most = 2 * (n - 1) * math.ceil(length / n) * 4
        holds(got["bytes"][rank] <= most, f"rank {rank} sends {got['bytes'][rank]} bytes; 2 (n - 1) parts of {length} float32 numbers are at most {most} bytes")


@exercise("ring_all_reduce", weight=2)
@few
@given(n=group_sizes, seed=seeds)
def test_t_does_not_change(learner, n, seed):
    """Each rank's own tensor is the same afterwards, and a group of one returns the tensor's numbers without sending anything."""
    tensors = [tensor(seed + rank, 5) for rank in range(ranks_of(n))]
    got, alone = learner.bring(ring)(learner.ring_all_reduce, tensors), learner.bring(ring)(learner.ring_all_reduce, tensors[:1])
    for rank in range(n):
        close(got["results"][rank], sum(tensors), f"the result on rank {rank} of {n}")
        close(got["given"][rank], tensors[rank], f"the tensor of rank {rank} afterwards")
    close(alone["results"][0], tensors[0], "the result of a group of one")
    same(alone["bytes"], [0], "the bytes that a group of one sends")


@exercise("ring_all_reduce")
def test_fewer_numbers_than_ranks_and_other_types(learner):
    """Two numbers on four ranks, a single number without axes, whole numbers and float64 work too."""
    for dtype, shape in ((torch.float32, (2,)), (torch.float64, ()), (torch.int64, (3, 1)), (torch.float32, (0, 3))):
        tensors = [(tensor(rank, math.prod(shape), scale=6.0)).view(shape).to(dtype) for rank in range(4)]
        got = learner.bring(ring)(learner.ring_all_reduce, tensors)
        close(got["results"][3], sum(tensors), f"the result for {str(dtype).removeprefix('torch.')} of shape {shape}")


# ---- shard_batch


@exercise("shard_batch", weight=3)
@few
@example(B=9, n=4)
@example(B=5, n=4)
@given(B=st.integers(1, 11), n=group_sizes)
def test_every_row_has_one_rank(learner, B, n):
    """The ranks' rows, one after the other, are the batch; their numbers differ by at most one, and the first ranks have more."""
    ids = torch.arange(B * 3).view(B, 3)
    got = [learner.shard_batch(ids, rank, ranks_of(n)) for rank in range(n)]
    for rank, expected in enumerate(ids.tensor_split(n)):
        same(got[rank], expected, f"the rows of rank {rank} of {n}, of a batch with {B} rows")


@exercise("shard_batch")
def test_rows_may_have_any_axes(learner):
    """A batch may have any axes behind the rows; with more ranks than rows, the last ranks get none."""
    batch = tensor(1, 5, 2, 3)
    got, flat = [learner.shard_batch(batch, rank, 2) for rank in range(2)], [learner.shard_batch(torch.tensor([7, 8]), rank, 3) for rank in range(3)]
    close(got[0], batch[:3], "the rows of rank 0")
    close(got[1], batch[3:], "the rows of rank 1")
    for rank, expected in enumerate((torch.tensor([7]), torch.tensor([8]), torch.zeros(0, dtype=torch.int64))):
        same(flat[rank], expected, f"the rows of rank {rank} of 3, of a batch with 2 rows")


# ---- average_gradients


def averaged(average_gradients, gradients, bucket_bytes, tied=False, frozen=False, dtype=torch.float32):
    """The gradients of a small model on each rank after averaging; `gradients` has each rank's, None for a missing one."""
    from grader.execution.simulated_group import run_ranks
    from torch import nn

    def model():
        made = nn.Module()
        made.first = nn.Parameter(torch.ones(3, 4, dtype=dtype))
        made.second = nn.Parameter(torch.ones(5, dtype=dtype))
        made.third = nn.Parameter(torch.ones(2, 1, dtype=dtype))
        if tied:
            made.part = nn.Module()
            made.part.again = made.first
        if frozen:
            made.fixed = nn.Parameter(torch.ones(4), requires_grad=False)
        return made

    def one_rank(group):
        own = model()
        for parameter, gradient in zip((own.first, own.second, own.third), gradients[group.rank]):
            parameter.grad = None if gradient is None else gradient.clone()
        average_gradients(own, group, bucket_bytes)
        found = {name: None if parameter.grad is None else parameter.grad.clone() for name, parameter in own.named_parameters()}
        return found, [parameter.detach().clone() for parameter in own.parameters()]

    results, counts = run_ranks(one_rank, len(gradients))
    return {"gradients": [found for found, _ in results], "weights": results[0][1], "calls": [list(c.calls) for c in counts], "bytes": [c.bytes for c in counts]}


SHAPES = {"first": (3, 4), "second": (5,), "third": (2, 1)}
NUMBERS = 19


def drawn_gradients(seed, n, without=()):
    """Each rank's gradients; (rank, place) in `without` have none."""
    return [[None if (rank, i) in without else tensor(seed + 10 * rank + i, *shape) for i, shape in enumerate(SHAPES.values())] for rank in range(n)]


def means(gradients):
    zeros = [torch.zeros(shape) for shape in SHAPES.values()]
    every = [[zeros[i] if g is None else g for i, g in enumerate(own)] for own in gradients]
    return {name: sum(own[i] for own in every) / len(every) for i, name in enumerate(SHAPES)}


def compare_gradients(found, expected, what=""):
    for name, right in expected.items():
        with check:
            close(found[name], right, f"the gradient of `{name}`{what}")


@exercise("average_gradients", weight=3)
@few
@given(n=group_sizes, seed=seeds)
def test_every_rank_gets_the_mean(learner, n, seed):
    """Afterwards each gradient is the mean over all ranks, the same on every rank; weights do not change."""
    gradients = drawn_gradients(seed, ranks_of(n))
    got = learner.bring(averaged)(learner.average_gradients, gradients, 1 << 20)
    for rank, found in enumerate(got["gradients"]):
        compare_gradients(found, means(gradients), f" on rank {rank} of {n}")
    for weights in got["weights"]:
        close(weights, torch.ones_like(weights), "the weights afterwards")


@exercise("average_gradients", weight=3)
@few
@given(seed=seeds)
def test_a_missing_gradient_counts_as_zeros(learner, seed):
    """A parameter without a gradient on some ranks counts as zeros there, is divided by all ranks, and has a gradient everywhere afterwards."""
    for without in ({(0, 1)}, {(1, 0), (2, 0)}, {(0, 2), (1, 2), (2, 2)}):
        gradients = drawn_gradients(seed, ranks_of(3), without)
        got = learner.bring(averaged)(learner.average_gradients, gradients, 1 << 20)
        for rank, found in enumerate(got["gradients"]):
            compare_gradients(found, means(gradients), f" on rank {rank} of 3")


@exercise("average_gradients", weight=3)
@few
@example(n=2, some=1, many=21, seed=0)
@given(n=st.integers(2, 4), some=st.integers(3, 4), many=st.integers(17, 18), seed=seeds)
def test_the_numbers_go_in_few_large_pieces(learner, n, some, many, seed):
    """All gradients together go through all_reduce in pieces of bucket_bytes: as few calls as possible, and no number twice."""
    gradients, runs = drawn_gradients(seed, ranks_of(n)), {}
    for numbers in (some, many):
        runs[numbers] = learner.bring(averaged)(learner.average_gradients, gradients, numbers * 4)
    for numbers, got in runs.items():
        compare_gradients(got["gradients"][n - 1], means(gradients), f" with bucket_bytes = {numbers * 4}")
        for rank in range(n):
            same(got["calls"][rank], ["all_reduce"] * math.ceil(NUMBERS / numbers), f"the calls of rank {rank} for {NUMBERS * 4} bytes with bucket_bytes = {numbers * 4}")
            same(got["bytes"][rank], NUMBERS * 4, f"the bytes that rank {rank} sends")


def calls_by_default(average_gradients, numbers):
    """The calls of one rank for a parameter with so many float32 numbers, without the argument bucket_bytes."""
    from grader.execution.simulated_group import run_ranks

    def one_rank(group):
        model = torch.nn.Module()
        model.weight = torch.nn.Parameter(torch.zeros(numbers))
        model.weight.grad = torch.full((numbers,), float(group.rank))
        average_gradients(model, group)
        return model.weight.grad[[0, -1]]

    results, counts = run_ranks(one_rank, 2)
    return results[0], list(counts[0].calls)


@exercise("average_gradients")
def test_pieces_are_counted_in_bytes(learner):
    """bucket_bytes counts bytes: a float64 number has 8. The default is 2^20 bytes."""
    gradients = [[g.double() / 3 for g in own] for own in drawn_gradients(4, 2)]
    got = learner.bring(averaged)(learner.average_gradients, gradients, 40, False, False, torch.float64)
    ends, calls = learner.bring(calls_by_default)(learner.average_gradients, 2**18 + 1)
    for i, name in enumerate(SHAPES):
        close(got["gradients"][0][name], (gradients[0][i] + gradients[1][i]) / 2, f"the float64 gradient of `{name}`", tol=1e-10)
    same(got["calls"][0], ["all_reduce"] * 4, "the calls of rank 0 for 19 float64 numbers with bucket_bytes = 40")
    close(ends, torch.full((2,), 0.5), "the first and the last gradient of a long parameter")
    same(calls, ["all_reduce"] * 2, "the calls of rank 0 for 2^18 + 1 float32 numbers with the default bucket_bytes")


@exercise("average_gradients", weight=2)
def test_shared_parameters_go_once_and_frozen_ones_do_not(learner):
    """A Parameter with two names is sent once; a frozen parameter is not sent, and has no gradient afterwards."""
    gradients = drawn_gradients(4, ranks_of(2))
    tied = learner.bring(averaged)(learner.average_gradients, gradients, 1 << 20, True)
    frozen = learner.bring(averaged)(learner.average_gradients, gradients, 1 << 20, False, True)
    for got, what in ((tied, " of a model with a shared parameter"), (frozen, " of a model with a frozen parameter")):
        compare_gradients(got["gradients"][0], means(gradients), what)
        same(got["bytes"], [NUMBERS * 4] * 2, f"the bytes that the ranks send for the gradients{what}")
    same(frozen["gradients"][0]["fixed"], None, "the gradient of the frozen parameter")


@exercise("average_gradients", weight=2)
@few
@given(n=group_sizes, seed=seeds)
def test_ranks_together_equal_one_machine(learner, n, seed):
    """With equally many rows on each rank, the gradients are those of the mean loss over the whole batch."""
    x, y = tensor(seed, 12, 4), tensor(seed + 1, 12, 2)
    got = learner.bring(data_parallel)(learner.average_gradients, x, y, ranks_of(n))
    whole = torch.nn.Linear(4, 2)
    with torch.no_grad():
        whole.weight.copy_(torch.arange(8.0).view(2, 4) / 8), whole.bias.zero_()
    (whole(x) - y).square().mean().backward()
    for found in got:
        close(found["weight"], whole.weight.grad, f"the gradient of the weight on {n} ranks", tol=1e-4)
        close(found["bias"], whole.bias.grad, f"the gradient of the bias on {n} ranks", tol=1e-4)


def data_parallel(average_gradients, x, y, n):
    from grader.execution.simulated_group import run_ranks

    def one_rank(group):
        model = torch.nn.Linear(4, 2)
        with torch.no_grad():
            model.weight.copy_(torch.arange(8.0).view(2, 4) / 8), model.bias.zero_()
        rows = slice(group.rank * 12 // n, (group.rank + 1) * 12 // n)
        (model(x[rows]) - y[rows]).square().mean().backward()
        average_gradients(model, group, 16)
        return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}

    return run_ranks(one_rank, n)[0]


# ---- ShardedAdamW


def trained(ShardedAdamW, weights, gradients, n, rates, options):
    """The parameters on each rank after steps with these gradients, and what the optimizer keeps there."""
    from grader.execution.simulated_group import run_ranks

    def numbers_kept(optimizer):
        seen, pending, total = set(), [value for name, value in vars(optimizer).items() if name not in ("param_groups", "group")], 0
        while pending:
            value = pending.pop()
            if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
                storage = value.untyped_storage()
                if storage.data_ptr() not in seen:
                    seen.add(storage.data_ptr())
                    total += storage.nbytes() // value.element_size()
            elif isinstance(value, dict):
                pending += list(value.values())
            elif isinstance(value, (list, tuple)):
                pending += list(value)
        return total

    def one_rank(group):
        parameters = [torch.nn.Parameter(w.clone()) for w in weights]
        optimizer = ShardedAdamW((p for p in parameters), group, **options)
        for p in parameters:
            p.grad = torch.ones_like(p)
        optimizer.zero_grad()
        cleared = all(p.grad is None for p in parameters)
        for rate, own in zip(rates, gradients):
            if rate is not None:
                optimizer.param_groups[0]["lr"] = rate
            for p, g in zip(parameters, own):
                p.grad = g.clone()
            optimizer.step()
        unchanged = all(p.grad is not None and torch.equal(p.grad, g) for p, g in zip(parameters, gradients[-1]))
        return {
            "parameters": [p.detach().clone() for p in parameters], "m": list(optimizer.m.shape), "v": list(optimizer.v.shape),
            "kept": numbers_kept(optimizer), "cleared": cleared, "unchanged": unchanged,
        }  # fmt: skip

    results, counts = run_ranks(one_rank, n)
    return {"ranks": results, "calls": [list(c.calls) for c in counts], "bytes": [c.bytes for c in counts]}


def adamw(weights, gradients, rates, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
    """The parameters after these steps on one machine, in float64."""
    now, m, v = [w.double() for w in weights], [0.0] * len(weights), [0.0] * len(weights)
    for t, (rate, own) in enumerate(zip(rates, gradients), 1):
        lr = lr if rate is None else rate
        for i, g in enumerate(own):
            m[i], v[i] = betas[0] * m[i] + (1 - betas[0]) * g.double(), betas[1] * v[i] + (1 - betas[1]) * g.double() ** 2
            now[i] = now[i] * (1 - lr * weight_decay) - lr * (m[i] / (1 - betas[0] ** t)) / ((v[i] / (1 - betas[1] ** t)).sqrt() + eps)
    return [w.to(weights[0].dtype) for w in now]


ODD_SHAPES = ((3, 5), (2,), (1, 4))  # 21 numbers: 2 and 4 do not divide them
STEPS = 3


def problem(seed, dtype=torch.float32, steps=STEPS):
    weights = [tensor(seed + i, *shape, dtype=dtype) for i, shape in enumerate(ODD_SHAPES)]
    return weights, [[tensor(seed + 10 * step + i + 50, *shape, dtype=dtype) for i, shape in enumerate(ODD_SHAPES)] for step in range(steps)]


@exercise("ShardedAdamW", weight=4)
@few
@given(n=group_sizes, seed=seeds)
def test_the_updates_are_those_of_adamw(learner, n, seed):
    """After several steps, all ranks have the parameters that AdamW gives on one machine, also where n does not divide their numbers."""
    weights, gradients = problem(seed)
    options = {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.2}
    got = learner.bring(trained)(learner.ShardedAdamW, weights, gradients, ranks_of(n), [None] * STEPS, options)
    expected = adamw(weights, gradients, [None] * STEPS, **options)
    for rank, found in enumerate(got["ranks"]):
        for i, right in enumerate(expected):
            with check:
                close(found["parameters"][i], right, f"parameter {i} on rank {rank} of {n} after {STEPS} steps", tol=1e-4)


@exercise("ShardedAdamW", weight=3)
@few
@given(n=st.integers(2, 4), seed=seeds)
def test_each_rank_keeps_its_share_of_the_state(learner, n, seed):
    """A rank keeps m and v for N / n numbers, rounded up, and no other tensors of that size; with float64 weights they are float64."""
    weights, gradients = problem(seed, torch.float64)
    got = learner.bring(trained)(learner.ShardedAdamW, weights, gradients, ranks_of(n), [None] * STEPS, {"lr": 0.05})
    k, expected = math.ceil(21 / n), adamw(weights, gradients, [None] * STEPS, lr=0.05)
    for rank, found in enumerate(got["ranks"]):
        close(found["parameters"][0], expected[0], f"parameter 0 on rank {rank}", tol=1e-8)
        same([found["m"], found["v"]], [[k], [k]], f"the shapes of m and v on rank {rank} of {n}, for 21 numbers")
        holds(found["kept"] <= 2 * k + 8, f"the optimizer on rank {rank} keeps {found['kept']} numbers; m and v have {2 * k}")


@exercise("ShardedAdamW", weight=2)
@few
@given(n=st.integers(2, 4), seed=seeds)
def test_one_call_a_step_brings_the_others_numbers(learner, n, seed):
    """Each step makes one all_gather of this rank's numbers, and no other call; gradients do not change, and zero_grad clears them."""
    weights, gradients = problem(seed)
    got = learner.bring(trained)(learner.ShardedAdamW, weights, gradients, ranks_of(n), [None] * STEPS, {"lr": 0.05})
    expected = adamw(weights, gradients, [None] * STEPS, lr=0.05)
    close(got["ranks"][n - 1]["parameters"][1], expected[1], f"parameter 1 on rank {n - 1}", tol=1e-4)
    for rank, found in enumerate(got["ranks"]):
        same(got["calls"][rank], ["all_gather"] * STEPS, f"the calls of rank {rank} in {STEPS} steps")
        same(got["bytes"][rank], STEPS * math.ceil(21 / n) * 4, f"the bytes that rank {rank} sends in {STEPS} steps")
        holds(found["unchanged"], "a step has changed a gradient")
        holds(found["cleared"], "zero_grad should set every gradient to None")


@exercise("ShardedAdamW", weight=2)
@few
@given(seed=seeds)
def test_every_step_reads_the_options(learner, seed):
    """The defaults are those of chapter 8's AdamW, and a new lr in param_groups acts from the next step on."""
    weights, gradients = problem(seed)
    rates = [None, 0.02, 0.3]
    plain = learner.bring(trained)(learner.ShardedAdamW, weights, gradients, ranks_of(2), [None] * STEPS, {})
    changed = learner.bring(trained)(learner.ShardedAdamW, weights, gradients, ranks_of(2), rates, {"lr": 0.1})
    for i, right in enumerate(adamw(weights, gradients, [None] * STEPS)):
        close(plain["ranks"][1]["parameters"][i] - weights[i], right - weights[i], f"the change of parameter {i} with the default options", tol=1e-2)
    for i, right in enumerate(adamw(weights, gradients, rates, lr=0.1)):
        close(changed["ranks"][0]["parameters"][i], right, f"parameter {i} with the rates 0.1, 0.02 and 0.3", tol=1e-4)


@exercise("ShardedAdamW")
def test_fewer_numbers_to_update_than_ranks(learner):
    """With a single number on four ranks, three ranks update padding only, and every rank gets the number."""
    weights, gradients = [tensor(1, 1)], [[tensor(2 + step, 1)] for step in range(STEPS)]
    got = learner.bring(trained)(learner.ShardedAdamW, weights, gradients, 4, [None] * STEPS, {"lr": 0.05})
    [expected] = adamw(weights, gradients, [None] * STEPS, lr=0.05)
    for rank, found in enumerate(got["ranks"]):
        close(found["parameters"][0], expected, f"the parameter on rank {rank} of 4", tol=1e-4)
