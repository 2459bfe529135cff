"""The ranks 1 and up of a training on this machine: processes that this one starts, and ends. Each runs
`follower_process.py`."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from grader.processes.prestarted import python_process
from grader.system.process_tree import end_subprocess

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
                "grader.models.training.follower_process", self.method, str(rank), str(size), str(os.getpid()),
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
