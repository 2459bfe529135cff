"""One training in several processes. Rank 0 is the training that the user sees: it plans, evaluates and saves. The
others follow it: they get its checkpoint, and before each step its plan. So any number of processes can resume it.

On this machine rank 0 starts the others, and ends them. `python -m grader.models.training.data_parallel METHOD RANK
SIZE PARENT` is one of them: it prints a line when it has loaded everything, and one more if it ends for a reason of its
own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import torch
from grader.execution.simulated_group import GroupProblem
from grader.files import UserProblem, write_whole
from grader.models import checkpoint
from grader.models.own_parts import explaining_crashes
from grader.models.process_group import ProcessGroup, join_group
from grader.models.training.trainer import NO_PLAN, STOP, NotANumber, Team, default_threads
from grader.models.training.training_run import Training, reopen
from grader.processes.prestarted import python_process
from grader.system.process_tree import die_with_parent, end_subprocess

READY = b"ready"
LEFT_ALONE = 3  # exit status of a follower because another process has ended
ENDING_SECONDS = 10.0  # for a follower that ends by itself


class Followers:
    """The processes, and how they find each other: by a file in a folder of their own."""

    def __init__(self, size: int, threads: int) -> None:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.method, self.size = (Path(self._folder.name) / "group").as_uri(), size
        self._processes = [
            python_process(
                "grader.models.training.data_parallel", self.method, str(rank), str(size), str(os.getpid()),
                environment={"OMP_NUM_THREADS": str(threads)}, stdout=subprocess.PIPE,
            )
            for rank in range(1, size)
        ]  # fmt: skip

    def wait_until_ready(self) -> str | None:
        """Wait until all have loaded everything; the reason if one has ended instead."""
        for process in self._processes:
            assert process.stdout is not None
            if process.stdout.readline().strip() != READY:
                return self.why_one_ended() or "a process ended before it had begun"
        return None

    def why_one_ended(self) -> str | None:
        """Which process has failed, and how, as a part of a sentence; None if no process has."""
        deadline = time.monotonic() + ENDING_SECONDS  # one that dies closes its connections some time before its end
        while time.monotonic() < deadline:
            statuses = [process.poll() for process in self._processes]
            failed = {rank: one for rank, one in enumerate(statuses, 1) if one not in (None, 0, LEFT_ALONE)}
            if failed:  # torch may abort a process whose neighbour has ended: it is not the one that failed
                rank, status = min(failed.items(), key=lambda each: each[1] == -signal.SIGABRT)
                return f"process {rank}{self._how_it_ended(rank, status)}"
            if None not in statuses:
                break
            time.sleep(0.02)
        return None

    def _how_it_ended(self, rank: int, status: int) -> str:
        output = self._processes[rank - 1].stdout
        assert output is not None
        if said := output.read().decode(errors="replace").strip():
            return f": {said}"
        return f" was ended by {_signal_name(-status)}" if status < 0 else f" ended with the status {status}"

    def close(self, seconds: float) -> None:
        """End all; each gets so many seconds to end by itself."""
        while self._processes:
            process = self._processes.pop()
            end_subprocess(process, seconds)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        self._folder.cleanup()


def _signal_name(number: int) -> str:
    try:
        return f"the signal {signal.Signals(number).name}"
    except ValueError:
        return f"signal {number}"


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


def main(method: str, rank: str, size: str, parent: str) -> None:
    die_with_parent(int(parent))
    print(READY.decode(), flush=True)
    try:
        follow(join_group(method, int(rank), int(size)))
    except (GroupProblem, NotANumber):  # rank 0 says what happened, or has ended
        sys.exit(LEFT_ALONE)
    except Exception as problem:
        name = "" if isinstance(problem, UserProblem) else f"{type(problem).__name__}: "
        print(name + " ".join(str(problem).split()), flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
