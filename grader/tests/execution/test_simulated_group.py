"""The simulated group of ranks: what it says about ranks that do not fit together, what it counts, and how it ends."""

from __future__ import annotations

import threading

import pytest
import torch
from boundaries import QUICK_KINDS, opened
from grader.execution.errors import LearnerError, OutOfTime
from grader.execution.proxy import Implementation
from grader.execution.simulated_group import GroupProblem, Ranks, run_group, run_ranks


def ones(*shape):
    return torch.ones(*shape)


def both_receive_first(group):
    group.all_reduce(ones(1))
    t = group.receive((1,), 1 - group.rank)
    group.send(t, 1 - group.rank)


def one_ends_early(group):
    group.all_reduce(ones(1))
    return group.rank or group.all_reduce(ones(1))


PROBLEMS = {
    "different calls": (
        lambda group: group.all_reduce(ones(2)) if group.rank == 0 else group.all_gather(ones(2)),
        "the calls do not fit: rank 0 calls all_reduce of (2,) float32 (call 1), and rank 1 calls all_gather of (2,) float32 (call 1)",
    ),
    "different shapes": (
        lambda group: group.all_reduce(group.all_reduce(ones(2)).repeat(1 + group.rank)),
        "the calls do not fit: rank 1 calls all_reduce of (4,) float32 (call 2), and rank 0 calls all_reduce of (2,) float32 (call 2)",
    ),
    "different dtypes": (
        lambda group: group.broadcast(ones(2).to(torch.float64 if group.rank else torch.float32), 1),
        "the calls do not fit: rank 0 calls broadcast from 1 of (2,) float32 (call 1), and rank 1 calls broadcast from 1 of (2,) float64 (call 1)",
    ),
    "different sources": (
        lambda group: group.broadcast(ones(2), group.rank),
        "the calls do not fit: rank 0 calls broadcast from 0 of (2,) float32 (call 1), and rank 1 calls broadcast from 1 of (2,) float32 (call 1)",
    ),
    "both receive first": (both_receive_first, "no rank can go on: rank 0 waits in receive from 1 (call 2), rank 1 waits in receive from 0 (call 2)"),
    "one ends early": (one_ends_early, "no rank can go on: rank 0 waits in all_reduce (call 2), rank 1 has ended after 1 call"),
    "one waits for a message": (
        lambda group: group.receive((1,), 1) if group.rank == 0 else group.all_gather(ones(1)),
        "no rank can go on: rank 0 waits in receive from 1 (call 1), rank 1 waits in all_gather (call 1)",
    ),
    "wrong shape": (
        lambda group: group.send(ones(2, 3), 1) if group.rank == 0 else group.receive((3, 2), 0),
        "rank 1 receives (3, 2) from rank 0, which sent (2, 3)",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_ranks_that_do_not_fit_together_are_one_sentence_about_their_calls(name):
    function, sentence = PROBLEMS[name]
    with pytest.raises(GroupProblem) as found:
        run_ranks(function, 2)
    assert str(found.value) == sentence and no_rank_is_left()


def no_rank_is_left() -> bool:
    ranks = [thread for thread in threading.enumerate() if thread.name.startswith("rank ")]
    for rank in ranks:
        rank.join(timeout=30)
    return not any(rank.is_alive() for rank in ranks)


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_exception_of_one_rank_ends_all_and_is_raised(failing):
    ended = []

    def function(group):
        try:
            group.all_reduce(ones(1))
            if group.rank == failing:
                raise IndexError("of my own")
            group.all_reduce(ones(1))
        finally:
            ended.append(group.rank)

    with pytest.raises(IndexError, match="of my own"):
        run_ranks(function, 3)
    assert sorted(ended) == [0, 1, 2] and no_rank_is_left()


def test_results_calls_and_bytes_are_those_of_each_rank():
    def function(group):
        group.all_reduce(ones(3))
        group.all_gather(ones(2).double())
        group.broadcast(ones(()), 1)
        group.reduce_scatter(ones(4))
        if group.rank == 0:
            group.send(torch.arange(5), 1)
        else:
            group.receive((5,), 0)
        return group.rank, group.size

    results, (first, second) = run_ranks(function, 2)
    assert results == [(0, 2), (1, 2)] and no_rank_is_left()
    common = ["all_reduce", "all_gather", "broadcast", "reduce_scatter"]
    assert (first.calls, second.calls) == ([*common, "send"], [*common, "receive"])
    assert (first.bytes, second.bytes) == (12 + 16 + 4 + 16 + 40, 12 + 16 + 4 + 16)


def test_the_order_in_which_ranks_run_is_the_same_every_time():
    def outcome():
        order = []

        def function(group):
            order.append(group.rank)
            group.send(ones(1) * group.rank, (group.rank + 1) % 3)
            order.append(group.rank)
            t = group.receive((1,), (group.rank - 1) % 3)
            order.append(group.rank)
            total = group.all_reduce(t + torch.rand(1))
            order.append(group.rank)
            return float(total)

        torch.manual_seed(0)
        return run_ranks(function, 3)[0], order

    first = outcome()
    assert len(first[1]) == 12
    assert all(outcome() == first for _ in range(9))


def test_what_a_rank_sends_can_change_on_its_way_to_the_others():
    def function(group):
        group.send(ones(1), 1 - group.rank)
        parts = group.all_gather(ones(1) * 2)
        return [*parts, group.receive((1,), 1 - group.rank), group.all_reduce(ones(1) * 4), group.all_reduce(ones(1) * 8)]

    def change(rank, number, t):
        return t + 100 * rank + 10 * number

    ranks = Ranks(function, 2)
    results, (first, _) = run_group(ranks.advance, 2, change)
    assert [[t.item() for t in own] for own in results] == [[2, 112, 111, 118, 136], [12, 2, 11, 18, 36]]
    assert [t.item() for t in first.sent] == [1, 2, 4, 8] and [t.item() for t in first.received] == [111]


# ---- through the boundary


@pytest.fixture(params=QUICK_KINDS, scope="module")
def boundary(request, worker_pool):
    """A boundary to the toy chapter, with a time limit of a second for each call."""
    with opened(request.param, worker_pool, seconds=1.0) as boundary:
        yield boundary


@pytest.fixture
def toy(boundary):
    boundary.begin(0)
    return Implementation(boundary)


def on_ranks(function, size, *values):
    from grader.execution.simulated_group import run_ranks

    results, counts = run_ranks(lambda group: group.all_reduce(function(torch.ones(2) * group.rank, *values)), size)
    return results, [count.bytes for count in counts]


def one_too_few(function):
    from grader.execution.simulated_group import run_ranks

    return run_ranks(lambda group: group.rank and group.all_reduce(function(torch.ones(1))), 2)[0]


def endless(function):
    from grader.execution.simulated_group import run_ranks

    def rank(group):
        group.all_reduce(torch.ones(1))
        while group.rank == 1:
            function()
        group.all_reduce(torch.ones(1))

    return run_ranks(rank, 2)[0]


def test_ranks_run_the_learners_code_behind_the_boundary(toy):
    results, sent = toy.bring(on_ranks)(toy.add, 3, 1)
    assert [result.tolist() for result in results] == [[6.0, 6.0]] * 3 and sent == [8, 8, 8]
    with pytest.raises(LearnerError, match="the line of the error|division|unsupported"):
        toy.bring(on_ranks)(toy.divide, 2, "zero")
    with pytest.raises(LearnerError, match="no rank can go on: rank 0 has ended after 0 calls, rank 1 waits in all_reduce"):
        toy.bring(one_too_few)(toy.same)


def test_a_rank_in_an_endless_loop_is_ended_by_the_time_limit(toy):
    with pytest.raises(OutOfTime):
        toy.bring(endless)(toy.same)
    assert no_rank_is_left()


def test_a_rank_that_has_ended_does_not_go_on():
    """Recorded requests are sent ahead, also to code whose ranks end earlier."""
    ranks = Ranks(lambda group: group.rank or group.all_reduce(ones(1)), 2)
    assert [ranks.advance(1)[0][:2], ranks.advance(0)[0][0]] == [("end", 1), "all_reduce"]
    with pytest.raises(GroupProblem, match="rank 1 has ended"):
        ranks.advance(1, ones(1))
    del ranks
    assert no_rank_is_left()
