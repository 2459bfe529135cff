"""Many machines: what simulated ranks send and compute, and the time table of a pipeline."""

from __future__ import annotations

from typing import Any

import torch
from grader.chapters.ch18_many_machines.pipeline import ScheduleProblem, pass_time, time_steps, total_time
from grader.execution.proxy import Handle, Implementation
from grader.teaching.show.panel_makers import make_grid, random_tensor
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import Mismatch, holds
from torch import nn

RANKS = 4
STAGES, MICRO_BATCHES = 3, 4


def sum_in_a_ring(ring_all_reduce, rows, own_rows):
    """For `bring`: what each rank sends if each has a row of ones, and the sum of the own rows on each rank."""
    from grader.execution.simulated_group import run_ranks

    class Noting:
        def __init__(self, group):
            self.group, self.rank, self.size, self.sent = group, group.rank, group.size, []

        def send(self, t, to):
            self.sent.append(t.flatten()[0].item())
            self.group.send(t, to)

        def receive(self, shape, source):
            return self.group.receive(shape, source)

    def counted(group):
        noting = Noting(group)
        ring_all_reduce(rows[group.rank].clone(), noting)
        return noting.sent

    sent, _ = run_ranks(counted, len(rows))
    sums, _ = run_ranks(lambda group: ring_all_reduce(own_rows[group.rank].clone(), group), len(own_rows))
    return sent, sums


def ring_all_reduce(side: Implementation) -> list[Panel]:
    own = random_tensor(4, RANKS, 2 * RANKS)
    sent, sums = side.bring(sum_in_a_ring)(side.ring_all_reduce, torch.ones(RANKS, 2 * RANKS), own)
    steps = len(sent[0]) if isinstance(sent, list) else 0
    holds(steps and all(len(each) == steps for each in sent), "every rank should send as often as the others")
    ranks = [f"rank {rank}" for rank in range(RANKS)]
    return [
        make_grid("how many ranks' numbers a message contains", torch.tensor(sent), ranks, steps, ("sender", "step")),
        make_grid("the sum on each rank", torch.stack(list(sums)), ranks, 2 * RANKS, ("", "number")),
    ]


def shard_batch(side: Implementation) -> list[Panel]:
    """Row b of the batch holds b, so the ids say which rows a rank has."""
    n_rows, size = 10, 4
    ids = torch.arange(n_rows)[:, None].expand(-1, 2)
    table = torch.zeros(size, n_rows)
    for rank in range(size):
        table[rank, side.shard_batch(ids, rank, size)[:, 0].long()] = 1.0
    ranks = [f"rank {rank}" for rank in range(size)]
    words = ("another rank's", "its own")
    return [make_grid("the rows of a batch", table, ranks, n_rows, ("", "row"), words=words)]


def run_column_parallel(ColumnParallelLinear, weight, x, size):
    """For `bring`: each rank's output, and its gradient of x."""
    from grader.execution.simulated_group import run_ranks

    whole = nn.Linear(weight.size(1), weight.size(0), bias=False)
    with torch.no_grad():
        whole.weight.copy_(weight)

    def run(group):
        own = x.clone().requires_grad_()
        output = ColumnParallelLinear(whole, group)(own)
        output.sum().backward()
        return output.detach(), own.grad

    return run_ranks(run, size)[0]


def column_parallel_linear(side: Implementation) -> list[Panel]:
    """Output o is o + 1, so the outputs say which rows of the weight a rank has."""
    outputs, inputs, size = 8, 5, 4
    ranks = [f"rank {rank}" for rank in range(size)]
    brought = side.bring(run_column_parallel)
    numbered = torch.arange(1.0, outputs + 1)[:, None] * torch.eye(inputs)[0]
    places = brought(side.ColumnParallelLinear, numbered, torch.ones(1, inputs), size)
    drawn = brought(side.ColumnParallelLinear, random_tensor(5, outputs, inputs), torch.ones(1, inputs), size)
    own = torch.cat([output for output, _ in places])
    gradients = torch.cat([gradient for _, gradient in drawn])
    return [
        make_grid("which outputs a rank computes, counted from 1", own, ranks, outputs // size, ("", "place")),
        make_grid("the gradient of x on each rank", gradients, ranks, inputs, ("", "feature of x")),
    ]


def pipeline_schedule(side: Implementation) -> list[Panel]:
    """A forward pass of micro-batch m is m + 1, and a backward pass, which takes two columns, is -(m + 1)."""
    return [_time_table(side.pipeline_schedule, kind) for kind in ("gpipe", "1f1b")]


def _time_table(schedule_of: Handle, kind: str) -> Panel:
    schedule: Any = schedule_of(STAGES, MICRO_BATCHES, kind)
    try:
        timed = time_steps(schedule, pass_time)
    except ScheduleProblem as problem:
        raise Mismatch(str(problem), schedule) from None
    table = torch.zeros(len(timed), int(total_time(timed)))
    for stage, steps in enumerate(timed):
        for step in steps:
            sign = 1 if step.kind == "forward" else -1
            table[stage, int(step.start) : int(step.end)] = sign * (step.micro + 1)
    stages = [f"stage {stage}" for stage in range(STAGES)]
    title = f"{kind}: m + 1 is forward of m, a negative number is backward"
    return make_grid(title, table, stages, table.size(1), ("", "time"))
