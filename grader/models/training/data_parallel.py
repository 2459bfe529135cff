"""One training in several processes. Rank 0 is the training that the user sees: it plans, evaluates and saves. The
others follow it: they get its checkpoint, and before each step its plan. So any number of processes can resume it.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import torch
from grader.execution.simulated_group import GroupProblem
from grader.files import write_whole
from grader.models import checkpoint
from grader.models.machines.processes import ProcessGroup, join_group
from grader.models.own_parts import explaining_crashes
from grader.models.training.followers import ENDING_SECONDS, Followers
from grader.models.training.making import Training, reopen
from grader.models.training.team import NO_PLAN, STOP, Team
from grader.models.training.trainer import NotANumber, default_threads

FILES = (checkpoint.MODEL, checkpoint.OPTIMIZER, checkpoint.RECORD)


@contextmanager
def started_followers(training: Training, size: int) -> Iterator[None]:
    """Inside, `training` runs in this process and in others that it starts on this machine, `size` in all."""
    threads = max(default_threads() // size, 1)
    torch.set_num_threads(threads)
    followers = Followers(size, threads)
    try:
        if problem := followers.wait_until_ready():
            raise GroupProblem(problem)
        with leading(training, join_group(followers.method, 0, size), followers.why_one_ended):
            yield
        followers.close(ENDING_SECONDS)
    except GroupProblem as problem:
        raise GroupProblem(followers.why_one_ended() or str(problem)) from problem
    finally:
        followers.close(0.0)


@contextmanager
def leading(
    training: Training, group: ProcessGroup, why_one_ended: Callable[[], str | None] = lambda: None
) -> Iterator[None]:
    """Inside, `training` is that of rank 0, and the other ranks follow it."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            replace(training, folder=Path(folder)).save()
            for name in FILES:
                _broadcast_bytes(group, (Path(folder) / name).read_bytes())
        training.trainer.team = team = Team(group, training.own.parts, why_one_ended)
        yield
        with suppress(GroupProblem):  # of one that has ended after the last step
            team.announce_plan(STOP)
            group.close()
    finally:  # after a failure the others may be anywhere in a step, so nothing can be announced
        group.leave()


def follow(group: ProcessGroup) -> None:
    """Another rank: get the training of rank 0, and make every step with it until rank 0 ends. Control-C is for rank 0
    alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with tempfile.TemporaryDirectory() as folder:
        for name in FILES:
            write_whole(Path(folder) / name, _broadcast_bytes(group, b""))
        training = reopen(Path(folder), "cpu")
    training.trainer.team = team = Team(group, training.own.parts, lambda: None)
    with closing(training), explaining_crashes(training.own.parts, GroupProblem, NotANumber):
        while (plan := team.receive_plan()) != STOP:
            training.trainer.step(None if plan == NO_PLAN else plan)
    group.close()


def _broadcast_bytes(group: ProcessGroup, data: bytes) -> bytes:
    """Those of rank 0, on every rank."""
    size = int(group.broadcast(torch.tensor(len(data)), 0))
    own = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.zeros(size, dtype=torch.uint8)
    return group.broadcast(own, 0).numpy().tobytes()
