"""What every group of ranks does, as functions `law(group)` that each rank runs, and what must come out on each rank.

`python -m grader.tests.models.group_laws METHOD RANK SIZE FILE` runs all of them as one rank of a group of real processes.
"""

from __future__ import annotations

import sys

import torch
from grader.execution.simulated_group import GroupProblem

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


class Collectives:
    """In every dtype: all_reduce adds, all_gather has the order of the ranks, reduce_scatter gives a part of the sum, broadcast what its source has."""

    def run(self, group):
        found = []
        for dtype in DTYPES:
            found.append(group.all_reduce(own(group, 2, 3, dtype=dtype)))
            found += group.all_gather(own(group, 2, 3, dtype=dtype))
            found.append(group.reduce_scatter(own(group, 2 * group.size, 3, dtype=dtype)))
            found += [group.broadcast(own(group, 3, dtype=dtype), source) for source in range(group.size)]
        return found

    def check(self, got, rank, size):
        expected = []
        for dtype in DTYPES:
            expected += [sum(of_all(size, 2, 3, dtype=dtype)).to(dtype), *of_all(size, 2, 3, dtype=dtype)]
            expected.append(sum(of_all(size, 2 * size, 3, dtype=dtype)).to(dtype).chunk(size)[rank])
            expected += of_all(size, 3, dtype=dtype)
        equal(got, expected)


class Shapes:
    """A tensor without axes, without numbers, and a view with strides are added and gathered like others."""

    def run(self, group):
        found = [group.all_reduce(own(group, *shape)) for shape in ((), (0,), (5,))]
        return [*found, group.all_reduce(own(group, 4, 3).T), group.all_reduce(own(group, 6)[::2]), *group.all_gather(torch.tensor(group.rank))]

    def check(self, got, rank, size):
        found = [sum(of_all(size, *shape)) for shape in ((), (0,), (5,))]
        equal(got, [*found, sum(of_all(size, 4, 3)).T, sum(of_all(size, 6))[::2], *map(torch.tensor, range(size))])


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


LAWS = {law.__name__: law() for law in (Collectives, Shapes, Copies, Messages, Uneven, Refusals, LastWords)}


def main(method: str, rank: str, size: str, file: str) -> None:
    from grader.models.process_group import join_group

    group = join_group(method, int(rank), int(size))
    found = {name: law.run(group) for name, law in LAWS.items()}
    group.close()
    torch.save(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
