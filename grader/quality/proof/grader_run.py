"""One run of `headway grade` in a copy of the kit, watched from outside: what it says, how far it is, and what it holds in memory."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from grader.quality.benchmarks.processes import Members, called, descriptors, family, memory


@dataclass(frozen=True)
class Sample:
    """What the run held when so many submissions were graded."""

    graded: int
    seconds: float  # since the sample before
    memory: list[tuple[float, float]]  # of the grader, its judge and the zygote: Rss, and Pss
    processes: int
    descriptors: int

    def row(self) -> list[str]:
        return [str(self.graded), f"{self.seconds:.0f} s", *(f"{amount:.0f}" for pair in self.memory for amount in pair), str(self.processes), str(self.descriptors)]


class GraderRun:
    """`todo` is how many submissions it had to grade, None until it has said so; after every `step` of them it is measured."""

    WHO = ("grader", "judge", "zygote")

    def __init__(self, arguments: list[str], kit: Path, environment: dict[str, str], step: int) -> None:
        self.todo: int | None = None
        self.said_at: float | None = None
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

    def said(self) -> str:
        self.reader.join(10)
        return "".join(self.lines)

    def members(self) -> Members:
        """What it has started, as of now."""
        return family(self.process.pid)

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.lines.append(line)
            if told := re.fullmatch(r"graded (\d+) of (\d+)\n", line):
                done, of = map(int, told.groups())
                self.todo = of
                self.said_at = self.said_at or time.time()
                if done and (done % self.step == 0 or done == of):
                    self._measure(done)
            elif told := re.match(r"\d+ (?:person|people), (\d+) submissions? graded now", line):
                self.todo = int(told[1])

    def _measure(self, done: int) -> None:
        members = list(self.members())
        pids = [self.process.pid, called(members, "grader.classroom.judging.server"), called(members, "grader.execution.zygote")]
        now = time.monotonic()
        self.samples.append(Sample(done, now - self.last, [memory(pid) for pid in pids], len(members), sum(map(descriptors, pids))))
        self.last = now
