"""Has submissions judged: asks a judge's process (judge.py), and starts another where one is lost."""

from __future__ import annotations

import threading
from typing import Any

from ..sandbox.isolation import Isolation
from ..verdict import Verdict
from ..warm.client import Engine, NoEngine
from ..warm.job import read
from .judge import GradeJob
from .submissions import Submission

SECONDS = 600.0  # for one submission
TRIES = 2  # judges for one submission, should one be lost with it
LOST = "the process that graded it was lost twice; `headway regrade` tries once more"


class NotJudged(Exception):
    """No submission can be judged at all; the message says why."""


class Judge:
    """A judge's process, for as many threads as ask it: each submission is a process of its own there."""

    def __init__(self, isolation: Isolation, exercises: list[str], seed: int) -> None:
        self.isolation, self.exercises, self.seed = isolation, exercises, seed
        self.lock = threading.Lock()
        self.engine: Engine | None = None
        self.address = None

    def judge(self, submission: Submission) -> Verdict | str:
        """The verdict on all of it, or a sentence that says why there is none."""
        job = GradeJob(submission.sources, submission.broken, self.exercises, self.seed, SECONDS)
        for _ in range(TRIES):
            address = self._address()
            try:
                with address.ask(job) as sock:
                    for message in read(sock):
                        match message:
                            case {"verdict": dict() as data}:
                                return Verdict.from_data(data)
                            case {"trouble": str() as sentence}:
                                return sentence
            except NoEngine:
                pass
            self._drop(address)
        return LOST

    def close(self) -> None:
        if self.engine is not None:
            self.engine.end()

    def _address(self) -> Any:
        with self.lock:
            if self.address is None:
                self.engine = Engine(str(self.isolation), module="grader.grading.judge")
                try:
                    self.address = self.engine.address()
                except NoEngine as problem:
                    raise NotJudged(str(problem)) from None
            return self.address

    def _drop(self, address: Any) -> None:
        with self.lock:
            if self.address is address:
                self.engine.end()
                self.address = None
