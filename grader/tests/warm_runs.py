"""A real server on a copy of the kit, and what it leaves behind."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from grader.processes.client import Address
from grader.processes.job import CheckJob, decode, read
from grader.verdict.results import ExerciseResult, Verdict
from kit_copy import Kit
from linux_processes import command_line

CHAPTER = "ch03_attention"
FIRST_STEP = "    # TODO 1: subtract each slice's largest"
PATIENCE = 60.0  # seconds: generous, also for a busy machine


def until(condition: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """Wait for it; return False if it does not happen."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@dataclass
class RunOutput:
    """The result of one run."""

    text: str = ""
    outcomes: dict[str, list[str]] = field(default_factory=dict)
    again: list[str] = field(default_factory=list)
    done: int | None = None
    trouble: str = ""
    verdict: Verdict | None = None

    def result(self, name: str) -> ExerciseResult:
        assert self.verdict is not None, self.trouble
        found = self.verdict.result(name)
        assert found is not None, list(self.verdict.outcomes)
        return found

    @property
    def prose(self) -> str:
        """The text in one line."""
        return re.sub(r"\s+", " ", self.text)


class WarmKit:
    """A copy of the kit and its server. Every process that the server starts has a mark in its environment."""

    def __init__(self, kit: Kit, *options: str, **environment: str) -> None:
        self.kit, self.mark = kit, uuid.uuid4().hex
        command = [sys.executable, "-P", "-m", "grader.processes.check_server", *options]
        environment = kit.environment(HEADWAY_TEST_MARK=self.mark, **environment)
        self.process = subprocess.Popen(
            command, cwd=kit.root, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )  # fmt: skip
        self.said = decode(self.process.stdout.readline())

    @property
    def address(self) -> Address:
        return Address(**self.said)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def job(self, name: str = "softmax", in_worker: bool = False) -> CheckJob:
        return CheckJob(name, str(self.kit.root), in_worker=in_worker)

    def ask(self, name: str = "softmax", in_worker: bool = False) -> RunOutput:
        output = RunOutput()
        with self.address.ask(self.job(name, in_worker)) as sock:
            for message in read(sock):
                output.text += message.get("text", "")
                output.again += [message["again"]] if "again" in message else []
                output.trouble = message.get("trouble", output.trouble)
                output.done = message.get("done", output.done)
                output.verdict = Verdict.from_data(message["verdict"]) if "verdict" in message else output.verdict
                for result in message.get("verdict", {}).get("results", []):
                    output.outcomes[result["exercise"]] = [test["outcome"] for test in result["tests"]]
        return output

    def descendants(self) -> set[int]:
        """The living processes of all that the server has started, at any depth, with the server itself."""
        # a worker that starts without the server's memory has its own environment, with the kit's folder on the path
        marks, found = (self.mark.encode(), f"PYTHONPATH={self.kit.root}".encode()), set()
        for path in Path("/proc").glob("[0-9]*"):
            try:
                environment = (path / "environ").read_bytes()
                state = (path / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if any(mark in environment for mark in marks) and state not in "ZX":
                found.add(int(path.name))
        return found

    def quiet(self) -> bool:
        """Is nothing of the runs left?"""
        return until(lambda: self.descendants() <= {self.process.pid} | self.prestarted())

    def prestarted(self) -> set[int]:
        return {pid for pid in self.descendants() if "--one-job" in command_line(pid)}

    def gone(self) -> bool:
        """Is there no process left?"""
        return until(lambda: self.process.poll() is not None and not self.descendants())

    def close(self) -> None:
        self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


def write_softmax(kit: Kit, body: str = "", top: str = "") -> None:
    """A correct chapter, with these lines at the beginning of softmax, and those at the end of the file."""
    kit.solve(CHAPTER)
    if body:
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        kit.edit(CHAPTER, FIRST_STEP, lines + FIRST_STEP)
    if top:
        path = kit.file(CHAPTER)
        path.write_text(path.read_text(encoding="utf-8") + f"\n{top}\n", encoding="utf-8")


def timeless(text: str) -> str:
    """The output without times, and without the line that fills the space next to them."""
    return re.sub(r"in [0-9.]+s( \([0-9:]+\))?( =+)?", "", re.sub(r"=+ (\d)", r"\1", text))
