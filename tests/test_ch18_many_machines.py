"""Chapter 18, first part: data parallel training. The group is simulated: one thread for each rank, of which one runs at a time."""

from __future__ import annotations

import math

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import close, holds, same
from hypothesis import example, given, settings
from hypothesis import strategies as st
from memory_layouts import of_view
from pytest_check import check
from simulated_groups import check_sent, factors, ranks_of, run_on_ranks
from strategies import distinct, seeds, tensor

few = settings(max_examples=3)
group_sizes = st.integers(1, 4)


def ring(ring_all_reduce, tensors):
    """Ranks, each with a tensor of its own, whose axes lie in the opposite order in memory: the result, and the tensor afterwards."""
    from grader.execution.simulated_group import Ranks

    def one_rank(group):
        t = tensors[group.rank].clone()
        backwards = tuple(range(t.dim()))[::-1]
        t = t.permute(backwards).contiguous().permute(backwards)
        return ring_all_reduce(t, group), t

    return Ranks(one_rank, len(tensors))


def run_ring(learner, tensors, change=None):
    """What the ranks did; raises a mismatch if they have sent anything but what a ring sends."""
    n = len(tensors)
    run = run_on_ranks(learner.bring(ring)(learner.ring_all_reduce, tensors), n, change)
    for rank in range(n):
        if change is None:
            close(run.results[rank][0], sum(tensors), f"the result on rank {rank} of {n}")
        same(sorted(set(run.calls[rank])), ["receive", "send"] if n > 1 else [], f"the kinds of calls of rank {rank}")
        same(run.sent_to[rank], [(rank + 1) % n] * (2 * (n - 1)), f"to whom rank {rank} of {n} sends")
    for rank in range(n if n > 1 else 0):
        check_messages(run, rank, n, tensors[rank])
    return run


def check_messages(run, rank, n, own):
    """In the first n - 1 steps a rank sends its own numbers of a part, added to what arrived one step before; from then on, what arrived."""
    sent, arrived = ([t.flatten() for t in messages[rank]] for messages in (run.sent, run.received))
    same(len(arrived), 2 * (n - 1), f"the number of messages that rank {rank} of {n} receives")
    for step in range(1, 2 * (n - 1)):
        same(len(sent[step]), len(arrived[step - 1]), f"how many numbers rank {rank} sends in step {step}, after as many arrived in the step before")
        if step >= n:
            close(sent[step], arrived[step - 1], f"what rank {rank} of {n} sends in step {step}, compared with the finished part that arrived one step before,")
    added = torch.cat([sent[0], *(sent[step] - arrived[step - 1] for step in range(1, n))])
    close(in_order(added), in_order(own), f"the sorted numbers that rank {rank} of {n} adds to what arrives")
    close(in_order(run.results[rank][0]), in_order(torch.cat([sent[n - 1], *arrived[n - 1 :]])), f"the sorted numbers of the result on rank {rank} of {n}, compared with the finished parts that arrived,")


def in_order(t):
    return t.flatten().sort().values


# ---- ring_all_reduce


@exercise("ring_all_reduce", weight=3)
@few
@given(n=st.integers(2, 4), sizes_=distinct("a", "b", a=(3, 5), b=(5, 7)), seed=seeds)
def test_every_rank_gets_the_sum(learner, n, sizes_, seed):
    """The result is the sum of all ranks' tensors, the same on every rank, in the shape of t, also where n does not divide its size."""
    ranks_of(n)
    run_ring(learner, [tensor(seed + rank, sizes_.a, sizes_.b) for rank in range(n)])


@exercise("ring_all_reduce", weight=3)
@few
@example(n=4, length=11, seed=0)
@given(n=st.integers(2, 4), length=st.integers(8, 15), seed=seeds)
def test_each_rank_sends_2_n_minus_1_parts_to_its_neighbour(learner, n, length, seed):
    """Each rank sends 2 (n - 1) messages, all of them to the next rank, and each of them about 1/n of t. The result is what arrived: a message that changes on its way changes the result."""
    ranks_of(n)
    tensors = [tensor(seed + rank, length) for rank in range(n)]
    run = run_ring(learner, tensors)
    run_ring(learner, tensors, factors(seed))
    part, longer = divmod(length, n)
    for rank in range(n):
        for step, t in enumerate(run.sent[rank]):
            holds(part <= t.numel() <= part + (longer > 0), f"rank {rank} of {n} sends {t.numel()} numbers in step {step}; a part of {length} numbers has {part}" + (f" or {part + 1}" if longer else ""))


@exercise("ring_all_reduce", weight=2)
@few
@given(n=group_sizes, seed=seeds)
def test_t_does_not_change(learner, n, seed):
    """Each rank's own tensor is the same afterwards, and a group of one returns the tensor's numbers without sending anything."""
    tensors = [tensor(seed + rank, 5) for rank in range(ranks_of(n))]
    run = run_ring(learner, tensors)
    for rank in range(n):
        close(run.results[rank][1], tensors[rank], f"the tensor of rank {rank} afterwards")
    if n > 1:
        run_ring(learner, tensors[:1])


@exercise("ring_all_reduce")
def test_fewer_numbers_than_ranks_and_other_types(learner):
    """Two numbers on four ranks, a single number without axes, whole numbers and float64 work too."""
    for dtype, shape in ((torch.float32, (2,)), (torch.float64, ()), (torch.int64, (3, 1)), (torch.float32, (0, 3))):
        run_ring(learner, [(tensor(rank, math.prod(shape), scale=6.0)).view(shape).to(dtype) for rank in range(4)])


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
    """A batch may have any axes behind the rows, and be a view; with more ranks than rows, the last ranks get none."""
    batch, view = tensor(1, 5, 2, 3), learner.bring(of_view)
    got, flat = [view(learner.shard_batch, batch, rank, 2) for rank in range(2)], [learner.shard_batch(torch.tensor([7, 8]), rank, 3) for rank in range(3)]
    close(got[0], batch[:3], "the rows of rank 0")
    close(got[1], batch[3:], "the rows of rank 1")
    for rank, expected in enumerate((torch.tensor([7]), torch.tensor([8]), torch.zeros(0, dtype=torch.int64))):
        same(flat[rank], expected, f"the rows of rank {rank} of 3, of a batch with 2 rows")


# ---- average_gradients


def averaged(average_gradients, gradients, bucket_bytes, tied=False, frozen=False, dtype=torch.float32):
    """Ranks, each with a small model: its gradients after averaging, and its weights; `gradients` has each rank's, None for a missing one."""
    from grader.execution.simulated_group import Ranks
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

    return Ranks(one_rank, len(gradients))


def average(side, gradients, bucket_bytes, *options, change=None):
    """What `averaged` gives, once the ranks have ended."""
    run = run_on_ranks(side.bring(averaged)(side.average_gradients, gradients, bucket_bytes, *options), len(gradients), change)
    run.gradients = [found for found, _ in run.results]
    return run


def check_numbers(run, gradients):
    """Each rank gives all its gradients to its calls, or what they add to the mean: a rank's own share."""
    n = len(gradients)
    for rank, own in enumerate(gradients):
        whole = torch.cat([torch.zeros(shape).flatten() if g is None else g.flatten() for g, shape in zip(own, SHAPES.values())])
        sent = torch.cat([whole[:0], *(t.flatten() for t in run.sent[rank])])
        same(len(sent), len(whole), f"how many numbers rank {rank} of {n} gives to its calls")
        shared = (sent.norm() < whole.norm() * (1 + 1 / n) / 2).item() and n > 1  # divided before they are summed
        close(sent, whole / n if shared else whole, f"what rank {rank} of {n} gives to its calls")


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
    got = average(learner, gradients, 1 << 20)
    for rank, found in enumerate(got.gradients):
        compare_gradients(found, means(gradients), f" on rank {rank} of {n}")
    for weights in got.results[0][1]:
        close(weights, torch.ones_like(weights), "the weights afterwards")
    check_numbers(got, gradients)


@exercise("average_gradients", weight=3)
@few
@given(seed=seeds)
def test_a_missing_gradient_counts_as_zeros(learner, seed):
    """A parameter without a gradient on some ranks counts as zeros there, is divided by all ranks, and has a gradient everywhere afterwards."""
    for without in ({(0, 1)}, {(1, 0), (2, 0)}, {(0, 2), (1, 2), (2, 2)}):
        gradients = drawn_gradients(seed, ranks_of(3), without)
        got = average(learner, gradients, 1 << 20)
        for rank, found in enumerate(got.gradients):
            compare_gradients(found, means(gradients), f" on rank {rank} of 3")
        check_numbers(got, gradients)


@exercise("average_gradients", weight=3)
@few
@example(n=2, some=1, many=21, seed=0)
@given(n=st.integers(2, 4), some=st.integers(3, 4), many=st.integers(17, 18), seed=seeds)
def test_the_numbers_go_in_few_large_pieces(learner, reference, n, some, many, seed):
    """All gradients together go through all_reduce in pieces of bucket_bytes: as few calls as possible, and no number twice. A piece that changes on its way changes the mean."""
    gradients, runs = drawn_gradients(seed, ranks_of(n)), {}
    for numbers in (some, many):
        runs[numbers] = average(learner, gradients, numbers * 4)
    for numbers, got in runs.items():
        compare_gradients(got.gradients[n - 1], means(gradients), f" with bucket_bytes = {numbers * 4}")
        for rank in range(n):
            same(got.calls[rank], ["all_reduce"] * math.ceil(NUMBERS / numbers), f"the calls of rank {rank} for {NUMBERS * 4} bytes with bucket_bytes = {numbers * 4}")
            same(got.bytes[rank], NUMBERS * 4, f"the bytes that rank {rank} sends")
        check_numbers(got, gradients)
    changed, right = (average(side, gradients, some * 4, change=factors(seed)) for side in (learner, reference))
    for rank in range(n):
        compare_gradients(changed.gradients[rank], right.gradients[rank], f" on rank {rank} of {n}, if each piece changes on its way,")


def calls_by_default(average_gradients, numbers):
    """Two ranks with a parameter of so many float32 numbers, without the argument bucket_bytes: its first and last gradient."""
    from grader.execution.simulated_group import Ranks

    def one_rank(group):
        model = torch.nn.Module()
        model.weight = torch.nn.Parameter(torch.zeros(numbers))
        model.weight.grad = torch.full((numbers,), float(group.rank))
        average_gradients(model, group)
        return model.weight.grad[[0, -1]]

    return Ranks(one_rank, 2)


@exercise("average_gradients")
def test_pieces_are_counted_in_bytes(learner):
    """bucket_bytes counts bytes: a float64 number has 8. The default is 2^20 bytes."""
    gradients = [[g.double() / 3 for g in own] for own in drawn_gradients(4, 2)]
    got = average(learner, gradients, 40, False, False, torch.float64)
    long = run_on_ranks(learner.bring(calls_by_default)(learner.average_gradients, 2**18 + 1), 2)
    for i, name in enumerate(SHAPES):
        close(got.gradients[0][name], (gradients[0][i] + gradients[1][i]) / 2, f"the float64 gradient of `{name}`", tol=1e-10)
    same(got.calls[0], ["all_reduce"] * 4, "the calls of rank 0 for 19 float64 numbers with bucket_bytes = 40")
    check_numbers(got, gradients)
    close(long.results[0], torch.full((2,), 0.5), "the first and the last gradient of a long parameter")
    same(long.calls[0], ["all_reduce"] * 2, "the calls of rank 0 for 2^18 + 1 float32 numbers with the default bucket_bytes")


@exercise("average_gradients", weight=2)
def test_shared_parameters_go_once_and_frozen_ones_do_not(learner):
    """A Parameter with two names is sent once; a frozen parameter is not sent, and has no gradient afterwards."""
    gradients = drawn_gradients(4, ranks_of(2))
    tied, frozen = average(learner, gradients, 1 << 20, True), average(learner, gradients, 1 << 20, False, True)
    for got, what in ((tied, " of a model with a shared parameter"), (frozen, " of a model with a frozen parameter")):
        compare_gradients(got.gradients[0], means(gradients), what)
        same(got.bytes, [NUMBERS * 4] * 2, f"the bytes that the ranks send for the gradients{what}")
        check_numbers(got, gradients)
    same(frozen.gradients[0]["fixed"], None, "the gradient of the frozen parameter")


@exercise("average_gradients", weight=2)
@few
@given(n=group_sizes, seed=seeds)
def test_ranks_together_equal_one_machine(learner, n, seed):
    """With equally many rows on each rank, the gradients are those of the mean loss over the whole batch."""
    x, y = tensor(seed, 12, 4), tensor(seed + 1, 12, 2)
    run = run_on_ranks(learner.bring(data_parallel)(learner.average_gradients, x, y, ranks_of(n)), n)
    whole = torch.nn.Linear(4, 2)
    with torch.no_grad():
        whole.weight.copy_(torch.arange(8.0).view(2, 4) / 8), whole.bias.zero_()
    (whole(x) - y).square().mean().backward()
    for found in run.results:
        close(found["weight"], whole.weight.grad, f"the gradient of the weight on {n} ranks", tol=1e-4)
        close(found["bias"], whole.bias.grad, f"the gradient of the bias on {n} ranks", tol=1e-4)
    sent = [torch.cat([x.new_zeros(0), *(t.flatten() for t in own)]) for own in run.sent]
    same([len(own) for own in sent], [10] * n, f"how many numbers each of {n} ranks gives to its calls")
    total = sum(sent)
    mean = torch.cat([whole.weight.grad.flatten(), whole.bias.grad])
    close(total / total.norm(), mean / mean.norm(), f"the direction of the vector that {n} ranks give to their calls together", tol=1e-4)


def data_parallel(average_gradients, x, y, n):
    """Ranks that train the same layer on their rows, and average the gradients."""
    from grader.execution.simulated_group import Ranks

    def one_rank(group):
        model = torch.nn.Linear(4, 2)
        with torch.no_grad():
            model.weight.copy_(torch.arange(8.0).view(2, 4) / 8), model.bias.zero_()
        rows = slice(group.rank * 12 // n, (group.rank + 1) * 12 // n)
        (model(x[rows]) - y[rows]).square().mean().backward()
        average_gradients(model, group, 16)
        return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}

    return Ranks(one_rank, n)


# ---- ShardedAdamW


def trained(ShardedAdamW, weights, gradients, n, rates, options):
    """Ranks: the parameters after steps with these gradients, and what the optimizer keeps."""
    from grader.execution.simulated_group import Ranks

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
        cleared, places = [p.grad for p in parameters], [p.data_ptr() for p in parameters]
        [options_read] = optimizer.param_groups
        found = [sorted(options_read), all(mine is p for mine, p in zip(options_read["params"], parameters))]
        for rate, own in zip(rates, gradients):
            if isinstance(rate, dict):
                options_read.update(rate)
            elif rate is not None:
                options_read["lr"] = rate
            for p, g in zip(parameters, own):
                p.grad = g.clone()
            optimizer.step()
        unchanged = all(p.grad is not None and torch.equal(p.grad, g) for p, g in zip(parameters, gradients[-1]))
        return {
            "parameters": [p.detach().clone() for p in parameters], "m": list(optimizer.m.shape), "v": list(optimizer.v.shape),
            "kept": numbers_kept(optimizer), "cleared": cleared, "unchanged": unchanged, "group": found,
            "in place": [p.data_ptr() for p in parameters] == places,
        }  # fmt: skip

    return Ranks(one_rank, n)


def train(side, weights, gradients, n, rates, change=None, **options):
    """What `trained` gives, once the ranks have ended."""
    return run_on_ranks(side.bring(trained)(side.ShardedAdamW, weights, gradients, n, rates, options), n, change)


def check_pieces(run, n, weights, gradients, rates, tol=1e-4, **options):
    """In each step, the ranks give their own new numbers to their calls, and nothing else."""
    numbers = sum(w.numel() for w in weights)
    k, steps = math.ceil(numbers / n), [adamw(weights, gradients[: step + 1], rates, **options) for step in range(STEPS)]
    whole = [torch.cat([w.flatten() for w in step]) for step in steps]
    for rank in range(n):
        own = max(0, min(k, numbers - rank * k))  # the others are padding
        run.sent[rank] = [t.flatten()[:own] for t in run.sent[rank]]
    check_sent(run, [[flat[rank * k : (rank + 1) * k] for flat in whole] for rank in range(n)], tol=tol)


def adamw(weights, gradients, rates, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
    """The parameters after these steps on one machine, in float64."""
    now, m, v = [w.double() for w in weights], [0.0] * len(weights), [0.0] * len(weights)
    for t, (rate, own) in enumerate(zip(rates, gradients), 1):
        options = rate if isinstance(rate, dict) else {} if rate is None else {"lr": rate}
        lr, betas, eps, weight_decay = (options.get(name, old) for name, old in (("lr", lr), ("betas", betas), ("eps", eps), ("weight_decay", weight_decay)))
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
    got = train(learner, weights, gradients, ranks_of(n), [None] * STEPS, **options)
    expected = adamw(weights, gradients, [None] * STEPS, **options)
    for rank, found in enumerate(got.results):
        for i, right in enumerate(expected):
            with check:
                close(found["parameters"][i], right, f"parameter {i} on rank {rank} of {n} after {STEPS} steps", tol=1e-4)
    check_pieces(got, n, weights, gradients, [None] * STEPS, **options)


@exercise("ShardedAdamW", weight=3)
@few
@example(n=2, seed=0)
@given(n=st.integers(2, 4), seed=seeds)
def test_each_rank_keeps_its_share_of_the_state(learner, n, seed):
    """A rank keeps m and v for N / n numbers, rounded up, and no other tensors of that size; with float64 weights they are float64."""
    weights, gradients = problem(seed, torch.float64)
    got = train(learner, weights, gradients, ranks_of(n), [None] * STEPS, lr=0.05)
    k, expected = math.ceil(21 / n), adamw(weights, gradients, [None] * STEPS, lr=0.05)
    for rank, found in enumerate(got.results):
        close(found["parameters"][0], expected[0], f"parameter 0 on rank {rank}", tol=1e-8)
        same([found["m"], found["v"]], [[k], [k]], f"the shapes of m and v on rank {rank} of {n}, for 21 numbers")
        holds(found["kept"] <= 2 * k + 8, f"the optimizer on rank {rank} keeps {found['kept']} numbers; m and v have {2 * k}")
    check_pieces(got, n, weights, gradients, [None] * STEPS, tol=1e-8, lr=0.05)


@exercise("ShardedAdamW", weight=2)
@few
@given(n=st.integers(2, 4), seed=seeds)
def test_one_call_a_step_brings_the_others_numbers(learner, reference, n, seed):
    """Each step makes one all_gather of this rank's numbers, and no other call; numbers that change on their way change the parameters. Gradients do not change, and zero_grad clears them."""
    weights, gradients = problem(seed)
    got = train(learner, weights, gradients, ranks_of(n), [None] * STEPS, lr=0.05)
    expected = adamw(weights, gradients, [None] * STEPS, lr=0.05)
    close(got.results[n - 1]["parameters"][1], expected[1], f"parameter 1 on rank {n - 1}", tol=1e-4)
    for rank, found in enumerate(got.results):
        same(got.calls[rank], ["all_gather"] * STEPS, f"the calls of rank {rank} in {STEPS} steps")
        same(got.bytes[rank], STEPS * math.ceil(21 / n) * 4, f"the bytes that rank {rank} sends in {STEPS} steps")
        holds(found["unchanged"], "a step has changed a gradient")
        same(found["cleared"], [None] * len(weights), "the gradients after zero_grad")
        holds(found["in place"], "a step has given a parameter other memory; parameters are updated in place")
    check_pieces(got, n, weights, gradients, [None] * STEPS, lr=0.05)
    changed, right = (train(side, weights, gradients, n, [None] * STEPS, factors(seed), lr=0.05) for side in (learner, reference))
    for rank in range(n):
        for i, parameter in enumerate(right.results[rank]["parameters"]):
            close(changed.results[rank]["parameters"][i], parameter, f"parameter {i} on rank {rank} of {n}, if what the ranks send changes on its way,", tol=1e-4)


@exercise("ShardedAdamW", weight=2)
@few
@given(seed=seeds)
def test_every_step_reads_the_options(learner, seed):
    """The defaults are those of chapter 8's AdamW, and a new lr in param_groups acts from the next step on."""
    weights, gradients = problem(seed)
    rates = [None, 0.02, 0.3]
    plain = train(learner, weights, gradients, ranks_of(2), [None] * STEPS)
    changed = train(learner, weights, gradients, ranks_of(2), rates, lr=0.1)
    for i, right in enumerate(adamw(weights, gradients, [None] * STEPS)):
        close(plain.results[1]["parameters"][i] - weights[i], right - weights[i], f"the change of parameter {i} with the default options", tol=1e-2)
    for i, right in enumerate(adamw(weights, gradients, rates, lr=0.1)):
        close(changed.results[0]["parameters"][i], right, f"parameter {i} with the rates 0.1, 0.02 and 0.3", tol=1e-4)
    check_other_options(learner, seed)
    check_pieces(plain, 2, weights, gradients, [None] * STEPS)
    check_pieces(changed, 2, weights, gradients, rates, lr=0.1)


def check_other_options(learner, seed):
    """Every option of param_groups acts from the next step on, and the defaults are exactly chapter 8's: float64 numbers, and gradients so small that eps counts."""
    weights, gradients = problem(seed, torch.float64)
    small = [[g * 1e-6 for g in own] for own in gradients]
    plain, expected = train(learner, weights, small, 2, [None] * STEPS), adamw(weights, small, [None] * STEPS)
    for i, right in enumerate(expected):
        close(plain.results[0]["parameters"][i], right, f"float64 parameter {i} after steps with small gradients and the default options")
    same(plain.results[0]["group"], [["betas", "eps", "lr", "params", "weight_decay"], True], "the keys of the dict in param_groups, and whether its params are the given ones")
    for name, values in (("betas", (0.5, 0.7)), ("eps", 0.5), ("weight_decay", 0.6)):
        options = [None, {name: values}, None]
        got = train(learner, weights, gradients, 2, options, lr=0.1)
        for i, right in enumerate(adamw(weights, gradients, options, lr=0.1)):
            close(got.results[0]["parameters"][i], right, f"parameter {i} if {name} is changed after the first step")


@exercise("ShardedAdamW")
def test_fewer_numbers_to_update_than_ranks(learner):
    """With a single number on four ranks, three ranks update padding only, and every rank gets the number."""
    weights, gradients = [tensor(1, 1)], [[tensor(2 + step, 1)] for step in range(STEPS)]
    got = train(learner, weights, gradients, 4, [None] * STEPS, lr=0.05)
    [expected] = adamw(weights, gradients, [None] * STEPS, lr=0.05)
    for rank, found in enumerate(got.results):
        close(found["parameters"][0], expected, f"the parameter on rank {rank} of 4", tol=1e-4)
    check_pieces(got, 4, weights, gradients, [None] * STEPS, lr=0.05)
