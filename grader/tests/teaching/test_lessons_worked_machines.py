"""The numbers that lesson 18 works out by hand are what the reference computes."""

from __future__ import annotations

import math

import torch
from grader.execution.simulated_group import run_ranks
from grader.teaching.machines.pipeline import bubble, most_kept, time_steps, total_time
from lesson_tables import says, shown, shows, table_in


def numbers(text):
    return [number for number, _ in shown(text)]


def test_a_sum_around_a_ring(ours):
    """Each step of the table follows from the one before by the exercise's rule, and the last one is what the reference gives."""
    rows = [[numbers(cell) for cell in row[1:]] for row in table_in("ch18", "A sum around a ring")]
    for step, (before, after) in enumerate(zip(rows, rows[1:])):
        for rank in range(3):
            sender, place = (rank - 1) % 3, step if step < 2 else step - 2
            part = (sender - place) % 3 if step < 2 else (sender + 1 - place) % 3
            expected = list(before[rank])
            expected[part] = before[sender][part] + (expected[part] if step < 2 else 0)
            assert after[rank] == expected, (step, rank)
    results, counts = run_ranks(lambda group: ours.ring_all_reduce(torch.tensor(rows[0][group.rank]), group), 3)
    assert [result.tolist() for result in results] == rows[-1]
    assert says("ch18", "Each rank has sent {} numbers, 2 (n - 1) / n times the {} that it has.", counts[0].bytes / 4, 3)
    assert says("ch18", "With {} ranks and a tensor of 1 GB, each rank sends {} GB.", 100, 2 * 99 / 100)
    assert says("ch18", "its connection would carry {} GB in each direction.", 99)


def test_the_mean_of_means(ours):
    def mean_on(rank_of_row, n):
        rows = torch.tensor([1.0, 1.0, 1.0, 5.0])

        def one_rank(group):
            model = torch.nn.Linear(1, 1, bias=False)
            own = rows[[rank == group.rank for rank in rank_of_row]]
            (model.weight * own).mean().backward()
            ours.average_gradients(model, group)
            return model.weight.grad.item()

        return run_ranks(one_rank, n)[0][0]

    assert says("ch18", "the gradients 1, 1, 1 and 5, and their mean is {}.", mean_on([0] * 4, 1))
    assert says("ch18", "have the means 1 and 3, and the mean of these is {}, too.", mean_on([0, 0, 1, 1], 2))
    assert says("ch18", "the means are 1 and 5, and their mean is {}.", mean_on([0, 0, 0, 1], 2))


def test_where_the_memory_goes():
    weights, ranks = 7, 8  # billions
    expected = [(4, 4, 8), (4, 4, 8 / ranks), (4 / ranks, 4 / ranks, 8 / ranks)]
    for row, parts in zip(table_in("ch18", "Where the memory goes"), expected, strict=True):
        assert shows(" ; ".join(row[1:]), *[weights * part for part in parts], weights * sum(parts)), row


def test_a_layer_on_three_ranks(ours):
    linear = torch.nn.Linear(3, 2)
    shards, _ = run_ranks(lambda group: ours.FullyShardedLinear(linear, group).shard.detach(), 3)
    assert torch.equal(torch.cat(shards), torch.cat([linear.weight.detach().flatten(), linear.bias.detach(), torch.zeros(1)]))
    assert says("ch18", "has {} numbers. On 3 ranks, each keeps k = {} of them", 8, len(shards[0]))


def test_a_layer_that_two_ranks_compute_together(ours):
    rows = table_in("ch18", "A layer that two ranks compute together")
    whole = ours.FeedForward(2, 4, "relu")
    with torch.no_grad():
        whole.up.weight.copy_(torch.tensor([number for row in rows for number in numbers(row[1])]).view(4, 2)), whole.up.bias.zero_()
        whole.down.weight.copy_(torch.tensor([[1.0] * 4, [0.0] * 4])), whole.down.bias.zero_()

    def one_rank(group):
        part, x = ours.TensorParallelFeedForward(whole, group), torch.tensor([1.0, 2.0], requires_grad=True)
        hidden = torch.nn.functional.linear(x, part.up.weight).relu()
        own = (part.down.weight @ hidden)[0]
        alone = torch.autograd.grad(own, x)[0]
        y = part(x)[0]
        return hidden.tolist(), own.item(), alone.tolist(), y.item(), torch.autograd.grad(y, x)[0].tolist()

    results, counts = run_ranks(one_rank, 2)
    for row, (hidden, own, alone, _, _) in zip(rows, results):
        assert (numbers(row[2]), numbers(row[3]), numbers(row[4])) == (hidden, [own], alone)
    assert says("ch18", "One all-reduce gives 3 + 3 = {} on both ranks.", results[1][3])
    assert says("ch18", "The second all-reduce gives ({}, {}).", *results[0][4]) and counts[0].calls == ["all_reduce"] * 2


def test_a_pipeline(ours):
    rows = {row[0]: row[1:] for row in table_in("ch18", "A pipeline")}
    for kind in ("1f1b", "gpipe"):
        timed = time_steps(ours.pipeline_schedule(3, 4, kind), lambda stage, kind, micro: 1.0)
        for stage, steps in enumerate(timed):
            drawn = [(cell, time) for time, cell in enumerate(rows[f"{kind}, stage {stage}"], 1) if cell]
            assert drawn == [(f"{step.kind[0].upper()}{step.micro}", step.end) for step in steps], (kind, stage)
    assert says("ch18", "Each stage works {} of {} units.", 8, total_time(timed))
    assert says("ch18", "(n_stages - 1) / (n_micro + n_stages - 1) = {} / {}.", 2, 6) and math.isclose(bubble(timed), 2 / 6)
    assert says("ch18", "With 100 micro-batches the bubble is {} / {}, gpipe keeps {}, and 1f1b still {}.", 2, 102, 100, 3)
    assert [most_kept(ours.pipeline_schedule(3, 100, kind)[0]) for kind in ("gpipe", "1f1b")] == [100, 3]
