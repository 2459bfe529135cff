"""One run of `headway grade` in a copy of the kit, watched from outside: its output, its progress, and its memory."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from grader.quality.benchmarks.processes import Members, descendants, descriptors, find_process, memory


@dataclass(frozen=True)
class Sample:
    """Resources of the run at the moment when so many submissions were graded."""

    graded: int
    seconds: float  # since the previous sample
    memory: list[tuple[float, float]]  # of the grader, its server and the zygote: Rss, and Pss
    processes: int
    descriptors: int

    def row(self) -> list[str]:
        return [str(self.graded), f"{self.seconds:.0f} s", *(f"{amount:.0f}" for pair in self.memory for amount in pair), str(self.processes), str(self.descriptors)]


class GraderRun:
    """`todo` is the number of submissions to grade, None until the grader has printed it; a sample is taken after every `step` of them."""

    WHO = ("grader", "server", "zygote")

    def __init__(self, arguments: list[str], kit: Path, environment: dict[str, str], step: int) -> None:
        self.todo: int | None = None
        self.announced_at: float | None = None
        self.samples: list[Sample] = []
        self.step = step
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "grader.cli", "grade", *arguments],
            cwd=kit, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
        )  # fmt: skip
        self.last = time.monotonic()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def ended(self) -> int | None:
        """Its exit status; None while it runs."""
        return self.process.poll()

    def output(self) -> str:
        self.reader.join(10)
        return "".join(self.lines)

    def members(self) -> Members:
        """Its descendants that run now."""
        return descendants(self.process.pid)

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.lines.append(line)
            if match := re.fullmatch(r"graded (\d+) of (\d+)\n", line):
                done, of = map(int, match.groups())
                self.todo = of
                self.announced_at = self.announced_at or time.time()
                if done and (done % self.step == 0 or done == of):
                    self._measure(done)
            elif match := re.match(r"\d+ (?:person|people), (\d+) submissions? graded now", line):
                self.todo = int(match[1])

    def _measure(self, done: int) -> None:
        members = list(self.members())
        pids = [self.process.pid, find_process(members, "grader.classroom.judging.server"), find_process(members, "grader.execution.zygote")]
        now = time.monotonic()
        self.samples.append(Sample(done, now - self.last, [memory(pid) for pid in pids], len(members), sum(map(descriptors, pids))))
        self.last = now
