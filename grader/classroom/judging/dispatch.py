"""Has submissions judged: asks a judge's process (judge.py), and starts another where one is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from grader.classroom.intake.submissions import Submission
from grader.classroom.judging.interrupted_run import InterruptedRun, zero_verdict
from grader.classroom.judging.job import GradeJob
from grader.classroom.judging.seeds import submission_seed
from grader.execution.sandbox.isolation import Isolation
from grader.processes.client import Address, Engine, NoEngine
from grader.processes.job import read
from grader.processes.kit_version import stamp
from grader.verdict.summary import Verdict

SECONDS = 600.0  # for one submission; then no more of its tests begin. With what is under way and the diagnosis it is at most 700
ASKS = 3  # times that a judge is asked which is alive and has no ear for us: it may just be very busy
LOST = "the process that graded it ended"
STOPPED = "the grader was stopped"
CHANGED = "the kit has changed since this run began; what is graded is kept, and the same command goes on with the new kit"


class NotJudged(Exception):
    """No submission can be judged at all; the message says why."""


class Judge:
    """A judge's process, for as many threads as ask it: each submission is a process of its own there.

    Where a judge is lost, or has a sentence instead of a verdict, whoever was being judged is judged once more, one at a time, by a judge that
    has nobody else: a submission that takes its judge with it costs only its own author, and one that the machine was too busy for is graded.
    A submission whose run breaks off both times has a verdict: no points. Where the run was killed from outside, memory may have run out because
    of the others, so before that verdict it is judged a third time, when nothing else is. A run that could not begin (no worker, a sandbox that does
    not come up) is the machine's fault: there is a sentence instead of a verdict, and the next run of the grader tries again.
    """

    def __init__(self, isolation: Isolation, exercises: list[str], seed: int, seconds: float = SECONDS, *options: str) -> None:
        self.isolation, self.exercises, self.seed, self.seconds, self.options = isolation, exercises, seed, seconds, options
        self.kit = stamp()
        self.starting, self.alone, self.last_try = threading.Lock(), threading.Lock(), threading.Lock()
        self.turns = threading.Condition()
        self.under_way = 0  # submissions that are being judged
        self.reserved = False  # is somebody to be judged when nothing else is?
        self.shared: _Process | None = None
        self.processes: list[_Process] = []
        self.closed = False

    def judge(self, submission: Submission) -> Verdict | str:
        """The verdict on all of it, or a sentence that says why there is none."""
        job = GradeJob(submission.sources, submission.broken, self.exercises, submission_seed(self.seed, submission.digest), self.seconds)
        with self._turn():
            with self.starting:
                if self.shared is None:
                    self.shared = self._start()
                process = self.shared
            first = answer = process.ask(job)
            if not isinstance(answer, Verdict):
                if isinstance(answer, InterruptedRun) and answer.why == LOST:
                    self._drop(process)
                with self.alone:
                    answer = self._ask_another(job)
        if isinstance(first, InterruptedRun) and isinstance(answer, InterruptedRun) and answer.killed:
            with self._nothing_else():
                answer = self._ask_another(job)
        if self.closed:
            raise NotJudged(STOPPED)
        if not isinstance(answer, InterruptedRun):
            return answer
        if not isinstance(first, InterruptedRun):
            return f"grading it broke off: {answer.why}; the next run tries again"
        return zero_verdict(submission, self.exercises, answer.why)

    def _ask_another(self, job: GradeJob) -> Verdict | InterruptedRun | str:
        """A judge of its own."""
        process = self._start()
        try:
            return process.ask(job)
        finally:
            self._drop(process)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        with self.turns:
            self.turns.wait_for(lambda: not self.reserved)
            self.under_way += 1
        try:
            yield
        finally:
            with self.turns:
                self.under_way -= 1
                self.turns.notify_all()

    @contextmanager
    def _nothing_else(self) -> Iterator[None]:
        """Wait until all others are judged, and let no other begin."""
        with self.last_try:
            with self.turns:
                self.reserved = True
                self.turns.wait_for(lambda: not self.under_way)
            try:
                yield
            finally:
                with self.turns:
                    self.reserved = False
                    self.turns.notify_all()

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
        process = _Process(Engine(*self.options, str(self.isolation), module="grader.classroom.judging.server"))
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

    def ask(self, job: GradeJob) -> Verdict | InterruptedRun | str:
        """What it says; a sentence where the run could not begin."""
        assert self.address is not None, "nobody is given it before it is ready"
        for _ in range(ASKS):
            try:
                sock = self.address.ask(job)
            except NoEngine:
                if self.engine.alive:
                    continue
                break
            with sock:
                for message in read(sock):
                    match message:
                        case {"verdict": dict() as data}:
                            return Verdict.from_data(data)
                        case {"lost": str() as why, "killed": bool() as killed}:
                            return InterruptedRun(why, killed)
                        case {"trouble": str() as sentence}:
                            return sentence
            break
        return InterruptedRun(LOST, killed=True)
