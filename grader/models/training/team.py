"""The processes that train one model together: each computes the gradients of its rows of the batch, and all make the
same update."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from grader.execution.simulated_group import GroupProblem
from grader.models.machines.processes import ProcessGroup
from grader.models.training.corpora import Batch, count_targets
from torch import nn

EXERCISES = ("shard_batch", "average_gradients")
NO_PLAN, STOP = 0, -1  # instead of the number of steps of the whole training


class Team:
    """All processes, as one of them sees them."""

    def __init__(self, group: ProcessGroup, parts: Any, why_one_ended: Callable[[], str | None]) -> None:
        self.group, self.parts, self.why_one_ended = group, parts, why_one_ended
        self.share = 1.0  # of the batch's targets: those in this rank's rows

    def own_rows(self, batches: Sequence[Batch]) -> list[Batch]:
        """This rank's rows of each smaller batch. Where it has none, one row without targets, which has no effect."""
        rank, size = self.group.rank, self.group.size
        shards = [[self.parts.shard_batch(t, rank, size) for t in batch] for batch in batches]
        own = [(inputs, targets) for inputs, targets in shards if len(inputs)]
        if not own:
            inputs, targets = batches[0]
            own = [(inputs[:1], torch.full_like(targets[:1], -100))]
        self.share = count_targets(own) / max(count_targets(batches), 1)
        return own

    def average_gradients(self, model: nn.Module) -> None:
        """Make each gradient that of the whole batch's loss. Each rank has the mean over its own targets, so its
        weight in the mean over the ranks is its share of the targets."""
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(self.share * self.group.size)
        self.parts.average_gradients(model, self.group)

    def loss_of_all(self, loss: float) -> float:
        """The loss of the whole batch. The update is made already: if a rank has ended since then, this is this
        rank's own loss, and the next step reports the problem."""
        with contextlib.suppress(GroupProblem):
            return float(self.group.all_reduce(torch.tensor(loss * self.share, dtype=torch.float64)))
        return loss

    def announce_plan(self, total: int | None) -> None:
        """Rank 0, before each step: the number of steps of the whole training, if it is known."""
        self.group.broadcast(torch.tensor(NO_PLAN if total is None else total), 0)

    def receive_plan(self) -> int:
        """The other ranks: what rank 0 announces, NO_PLAN, or STOP."""
        return int(self.group.broadcast(torch.tensor(NO_PLAN), 0))

    def explain(self, problem: GroupProblem) -> str:
        """What a problem means, as a part of a sentence."""
        return self.why_one_ended() or str(problem)
