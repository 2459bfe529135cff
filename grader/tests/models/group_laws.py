"""What every group of ranks does, as functions `law(group)` that each rank runs, and what must come out on each rank.

`python -m grader.tests.models.group_laws METHOD RANK SIZE FILE` runs all of them as one rank of a group of real processes.
"""

from __future__ import annotations

import sys

import torch
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from torch import nn

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.uint8)


def own(group, *shape, dtype=torch.float32):
    """Small whole numbers, other ones on each rank: every sum of them is exact in every dtype."""
    return (torch.randint(0, 5, shape, generator=torch.Generator().manual_seed(7)) + group.rank).to(dtype)


def of_all(size, *shape, dtype=torch.float32):
    base = torch.randint(0, 5, shape, generator=torch.Generator().manual_seed(7))
    return [(base + rank).to(dtype) for rank in range(size)]


def equal(got, expected):
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        assert a.dtype == b.dtype and a.shape == b.shape and a.equal(b), (a, b)


class Sum:
    """all_reduce adds in every dtype, for every shape: also none, no number, and a view with strides."""

    shapes = ((), (0,), (5,), (2, 3))

    def run(self, group):
        found = [group.all_reduce(own(group, *shape, dtype=dtype)) for dtype in DTYPES for shape in self.shapes]
        return [*found, group.all_reduce(own(group, 4, 3).T), group.all_reduce(own(group, 6)[::2])]

    def check(self, got, rank, size):
        sums = [sum(of_all(size, *shape, dtype=dtype)[1:], of_all(size, *shape, dtype=dtype)[0]) for dtype in DTYPES for shape in self.shapes]
        equal(got, [*sums, sum(of_all(size, 4, 3)).T, sum(of_all(size, 6))[::2]])


class Gather:
    """all_gather gives all ranks' tensors in the order of the ranks."""

    def run(self, group):
        return [part for dtype in DTYPES for part in group.all_gather(own(group, 2, 3, dtype=dtype))] + group.all_gather(torch.tensor(group.rank))

    def check(self, got, rank, size):
        equal(got, [part for dtype in DTYPES for part in of_all(size, 2, 3, dtype=dtype)] + [torch.tensor(r) for r in range(size)])


class Scatter:
    """reduce_scatter gives this rank its part of the sum, by the first axis."""

    def run(self, group):
        return [group.reduce_scatter(own(group, 2 * group.size, 3, dtype=dtype)) for dtype in DTYPES]

    def check(self, got, rank, size):
        equal(got, [sum(of_all(size, 2 * size, 3, dtype=dtype)).to(dtype).chunk(size)[rank] for dtype in DTYPES])


class Broadcast:
    """broadcast gives the tensor of its source, whichever it is."""

    def run(self, group):
        return [group.broadcast(own(group, 3, dtype=dtype), source) for source in range(group.size) for dtype in DTYPES]

    def check(self, got, rank, size):
        equal(got, [of_all(size, 3, dtype=dtype)[source] for source in range(size) for dtype in DTYPES])


class Copies:
    """Every result is a new tensor without a graph, and no argument changes."""

    def run(self, group):
        t = own(group, 2 * group.size).requires_grad_()
        results = [group.all_reduce(t), *group.all_gather(t), group.reduce_scatter(t), group.broadcast(t, 0)]
        graphs = [result.requires_grad for result in results]
        for result in results:
            result.fill_(-9.0)
        later = group.all_gather(t)
        later[0].fill_(-9.0)
        return [torch.tensor(graphs).any(), t.detach(), *later[1:]]

    def check(self, got, rank, size):
        equal(got, [torch.tensor(False), of_all(size, 2 * size)[rank], *of_all(size, 2 * size)[1:]])


class Messages:
    """Messages between two ranks arrive in their order, each with its own dtype; send takes a copy and does not wait."""

    def run(self, group):
        others = [rank for rank in range(group.size) if rank != group.rank]
        for to in others:  # no rank has called receive yet; the first is larger than what a socket stores
            long = torch.full((1_000_000,), float(group.rank))
            group.send(long, to)
            long.fill_(-1.0)
            for dtype in DTYPES:
                group.send(own(group, 2, 3, dtype=dtype).T, to)
            group.send(torch.tensor(True), to)
        found = []
        for source in others:
            found.append(group.receive((1_000_000,), source)[::300_000].clone())
            found += [group.receive(torch.Size((3, 2)), source) for _ in DTYPES] + [group.receive((), source)]
        return found

    def check(self, got, rank, size):
        expected = []
        for source in [other for other in range(size) if other != rank]:
            expected.append(torch.full((4,), float(source)))
            expected += [of_all(size, 2, 3, dtype=dtype)[source].T for dtype in DTYPES] + [torch.tensor(True)]
        equal(got, expected)


class Uneven:
    """Ranks may send and receive as they need to between two collective calls: here the last one asks each other rank twice."""

    def run(self, group):
        last, found = group.size - 1, []
        if group.rank == last:
            for other in range(last):
                for question in (2.0, 3.0):
                    group.send(torch.tensor([question]), other)
                    found.append(group.receive((1,), other))
        else:
            for _ in range(2):
                group.send(group.receive((1,), last) * (group.rank + 1), last)
        return [*found, group.all_reduce(torch.ones(1))]

    def check(self, got, rank, size):
        answers = [torch.tensor([question * (other + 1)]) for other in range(size - 1) for question in (2.0, 3.0)]
        equal(got, [*(answers if rank == size - 1 else []), torch.full((1,), float(size))])


class Refusals:
    """A call with a rank that does not exist, a wrong shape, or a part that cannot be cut is a problem on the rank that makes it; the others go on."""

    def run(self, group):
        calls = [
            lambda: group.send(torch.ones(1), group.size),
            lambda: group.receive((1,), -1),
            lambda: group.broadcast(torch.ones(1), group.size),
            lambda: group.reduce_scatter(torch.ones(())),
        ]
        if group.size > 1:
            calls += [lambda: group.reduce_scatter(torch.ones(group.size + 1)), lambda: group.receive((3,), (group.rank - 1) % group.size)]
            group.send(torch.ones(1, 3), (group.rank + 1) % group.size)
        said = [problem_of(call) for call in calls]
        return [*said, group.all_reduce(torch.ones(1))]

    def check(self, got, rank, size):
        *said, total = got
        assert total.item() == size and len(said) == (6 if size > 1 else 4)
        assert [f"with rank {other}" in sentence for sentence, other in zip(said, (size, -1, size))] == [True] * 3
        assert "equal parts" in said[3]
        assert size == 1 or ("equal parts" in said[4] and f"receives (3,) from rank {(rank - 1) % size}, which sent (1, 3)" in said[5])


def problem_of(call) -> str:
    from grader.execution.simulated_group import GroupProblem

    try:
        call()
    except GroupProblem as problem:
        return str(problem)
    return ""


class LastWords:
    """What a rank sends as its last act arrives. This law is the last one."""

    def run(self, group):
        if group.rank < group.size - 1:
            group.send(own(group, 2), group.size - 1)
            return []
        return [group.receive((2,), source) for source in range(group.size - 1)]

    def check(self, got, rank, size):
        equal(got, of_all(size, 2)[:-1] if rank == size - 1 else [])


# ---- what chapter 18 does with a group


class Reference:
    """The reference's chapters, loaded once in each process."""

    _package = None

    @classmethod
    def chapter(cls, name):
        if cls._package is None:
            cls._package = ChapterPackage(package_sources(resolve("solutions"), load_syllabus().chapters[-1], whole=True), "laws")
        return cls._package.module(name)


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 5))


def data():
    made = torch.Generator().manual_seed(5)
    return torch.randn(12, 4, generator=made), torch.randn(12, 5, generator=made)


def trained(optimizer, model, gradients):
    for _ in range(3):
        optimizer.zero_grad()
        gradients(model)
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


class DataParallel:
    """n ranks with a share of the rows each, averaged gradients and sharded AdamW train the model that one process trains."""

    def run(self, group):
        ch18 = Reference.chapter("ch18_many_machines")
        model = network()

        def gradients(model):
            x, y = (ch18.shard_batch(t, group.rank, group.size) for t in data())
            nn.functional.mse_loss(model(x), y).backward()
            ch18.average_gradients(model, group, bucket_bytes=50)

        return trained(ch18.ShardedAdamW(model.parameters(), group, lr=0.1), model, gradients)

    def check(self, got, rank, size):
        def gradients(model):
            x, y = data()
            nn.functional.mse_loss(model(x), y).backward()

        model = network()
        expected = trained(Reference.chapter("ch08_training").AdamW(model.parameters(), lr=0.1), model, gradients)
        before = network().parameters()
        assert all(torch.allclose(a, b, atol=1e-5) and not torch.allclose(a, c, atol=1e-2) for a, b, c in zip(got, expected, before))


class Divided:
    """A ring of messages, a fully sharded layer, and two layers divided by columns and rows: each equals the whole one, gradients too."""

    def run(self, group):
        ch18 = Reference.chapter("ch18_many_machines")
        x = data()[0].requires_grad_()
        linear = network()[0]
        sharded = ch18.FullyShardedLinear(linear, group)
        sharded(x).square().sum().backward()
        found = [ch18.ring_all_reduce(own(group, 7), group), sharded(x).detach(), x.grad.clone()]
        x.grad = None
        wide, back = made_layers()
        first, second = ch18.ColumnParallelLinear(wide, group), ch18.RowParallelLinear(back, group)
        out = second(first(x).tanh())
        out.square().sum().backward()
        return [*found, out.detach(), x.grad]

    def check(self, got, rank, size):
        x, linear = data()[0].requires_grad_(), network()[0]
        linear(x).square().sum().backward()
        expected = [sum(of_all(size, 7)), linear(x).detach(), x.grad.clone()]
        x.grad = None
        wide, back = made_layers()
        out = back(wide(x).tanh())
        out.square().sum().backward()
        for a, b in zip(got, [*expected, out.detach(), x.grad], strict=True):
            assert torch.allclose(a, b, atol=1e-4)


def made_layers():
    torch.manual_seed(4)
    return nn.Linear(4, 24), nn.Linear(24, 3)


class Pipeline:
    """Stages on different ranks give the losses and the gradients of the whole model."""

    def run(self, group):
        ch18 = Reference.chapter("ch18_many_machines")
        stage = stages(group.size)[group.rank]
        schedule = ch18.pipeline_schedule(group.size, 4)[group.rank]
        losses = ch18.run_stage(stage, schedule, group, data()[0].chunk(4), lambda out, m: out.square().mean())
        return [stage.weight.grad, *losses]

    def check(self, got, rank, size):
        whole = stages(size)
        losses = []
        for part in data()[0].chunk(4):
            losses.append(nn.Sequential(*whole)(part).square().mean())
            losses[-1].backward()
        expected = [whole[rank].weight.grad, *(loss.detach() for loss in losses if rank == size - 1)]
        for a, b in zip(got, expected, strict=True):
            assert torch.allclose(a, b, atol=1e-6)


def stages(size):
    torch.manual_seed(6)
    return [nn.Linear(4, 4) for _ in range(size)]


LAWS = {law.__name__: law() for law in (Sum, Gather, Scatter, Broadcast, Copies, Messages, Uneven, Refusals, DataParallel, Divided, Pipeline, LastWords)}


def main(method: str, rank: str, size: str, file: str) -> None:
    from grader.models.machines.processes import join_group

    group = join_group(method, int(rank), int(size))
    found = {name: law.run(group) for name, law in LAWS.items()}
    group.close()
    torch.save(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
