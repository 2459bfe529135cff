"""Has submissions judged: asks a judge's process (judge.py), and starts another where one is lost."""

from __future__ import annotations

import threading

from ..sandbox.isolation import Isolation
from ..verdict import Verdict
from ..warm.client import Address, Engine, NoEngine
from ..warm.job import read
from ..warm.kit import stamp
from .grade_job import GradeJob
from .seeds import own_seed
from .submissions import Submission

SECONDS = 600.0  # for one submission; then no more of its tests begin. With what is under way and the diagnosis it is at most 700
ASKS = 3  # times that a judge is asked which is alive and has no ear for us: it may just be very busy
LOST = "the process that graded it broke off twice; the next run tries again"
STOPPED = "the grader was stopped"
CHANGED = "the kit has changed since this run began; what is graded is kept, and the same command goes on with the new kit"


class NotJudged(Exception):
    """No submission can be judged at all; the message says why."""


class Judge:
    """A judge's process, for as many threads as ask it: each submission is a process of its own there.

    Where a judge is lost, or has a sentence instead of a verdict, whoever was being judged is judged once more, one at a time, by a judge that
    has nobody else: a submission that takes its judge with it costs only its own author, and one that the machine was too busy for is graded.
    """

    def __init__(self, isolation: Isolation, exercises: list[str], seed: int, seconds: float = SECONDS, *options: str) -> None:
        self.isolation, self.exercises, self.seed, self.seconds, self.options = isolation, exercises, seed, seconds, options
        self.kit = stamp()
        self.starting, self.alone = threading.Lock(), threading.Lock()
        self.shared: _Process | None = None
        self.processes: list[_Process] = []
        self.closed = False

    def judge(self, submission: Submission) -> Verdict | str:
        """The verdict on all of it, or a sentence that says why there is none."""
        job = GradeJob(submission.sources, submission.broken, self.exercises, own_seed(self.seed, submission.digest), self.seconds)
        with self.starting:
            if self.shared is None:
                self.shared = self._start()
            process = self.shared
        answer = process.ask(job)
        if not isinstance(answer, Verdict):
            if answer is None:
                self._drop(process)
            with self.alone:
                process = self._start()
                answer = process.ask(job)
                self._drop(process)
        if self.closed:
            raise NotJudged(STOPPED)
        return LOST if answer is None else answer

    def close(self) -> None:
        """End every judge, whoever still waits for one."""
        self.closed = True
        for process in list(self.processes):
            process.engine.end()

    def _start(self) -> _Process:
        if self.closed:
            raise NotJudged(STOPPED)
        if stamp() != self.kit:  # marks found by another kit do not belong with the others
            raise NotJudged(CHANGED)
        process = _Process(Engine(*self.options, str(self.isolation), module="grader.grading.judge"))
        self.processes.append(process)
        if self.closed:
            process.engine.end()
        try:
            process.address = process.engine.address()
        except (NoEngine, ValueError) as problem:  # ValueError: ended while it started, by `close`
            raise NotJudged(str(problem)) from None
        return process

    def _drop(self, process: _Process) -> None:
        with self.starting:
            if self.shared is process:
                self.shared = None
            if process in self.processes:
                self.processes.remove(process)
                process.engine.end()


class _Process:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.address: Address | None = None

    def ask(self, job: GradeJob) -> Verdict | str | None:
        """What it says; None where it is lost."""
        assert self.address is not None, "nobody is given it before it is ready"
        for _ in range(ASKS):
            try:
                sock = self.address.ask(job)
            except NoEngine:
                if self.engine.alive:
                    continue
                return None
            with sock:
                for message in read(sock):
                    match message:
                        case {"verdict": dict() as data}:
                            return Verdict.from_data(data)
                        case {"trouble": str() as sentence}:
                            return sentence
            return None
        return None
