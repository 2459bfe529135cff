"""Grades submissions: sends each to a server (server.py), and starts another server when one is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from grader.classroom.intake.submissions import Submission
from grader.classroom.judging.interrupted_run import InterruptedRun, zero_verdict
from grader.classroom.judging.job import GradeJob
from grader.classroom.judging.seeds import exercise_seed
from grader.execution.sandbox.isolation import Isolation
from grader.processes.client import NoServer, ServerProcess
from grader.processes.kit_version import stamp
from grader.verdict.summary import Verdict

SECONDS = 600.0  # for one submission, after which none of its tests starts; with the running test and the diagnosis it is at most 700
TRIES = 3  # connection attempts: a very busy server may refuse some
LOST = "the process that graded it ended"
STOPPED = "the grader was stopped"
CHANGED = "the kit has changed since this run began; the results so far are saved, and the same command continues with the new kit"


class GradingStopped(Exception):
    """No submission can be graded at all; the message says why."""


class Dispatcher:
    """Grades with servers on this machine, called from any number of threads: each submission runs in a separate process.

    If a server is lost, or reports trouble instead of a verdict, the submissions that it was grading are graded once more, one at a time, each by a
    server that grades nothing else: a submission that ends its server costs only its own author points, and one that failed because the machine was too busy is graded.
    A submission whose run breaks off both times has a verdict: no points. If the run was killed from outside, memory may have run out because
    of the others, so before that verdict it is graded a third time, when nothing else runs. A run that could not begin (no worker, a sandbox that does
    not come up) is the machine's fault: there is a sentence instead of a verdict, and the next run of the grader tries again.
    """

    def __init__(self, isolation: Isolation, exercises: list[str], seed: int, seconds: float = SECONDS, *options: str) -> None:
        self.isolation, self.exercises, self.seed, self.seconds, self.options = isolation, exercises, seed, seconds, options
        self.kit = stamp()
        self.starting, self.alone, self.last_try = threading.Lock(), threading.Lock(), threading.Lock()
        self.turns = threading.Condition()
        self.under_way = 0  # submissions that are being graded
        self.reserved = False  # does a submission wait until nothing else runs?
        self.shared: ServerProcess | None = None
        self.servers: list[ServerProcess] = []
        self.closed = False

    def grade(self, submission: Submission, seeds: dict[str, int] | None = None) -> Verdict | str:
        """The verdict on the exercises with these seeds (on all without them), or a sentence that says why it is missing. One without points is on all."""
        if seeds is None:
            seeds = {name: exercise_seed("", self.seed, name, submission.digest) for name in self.exercises}
        job = GradeJob(submission.sources, submission.broken, list(seeds), 0, self.seconds, seeds=seeds)
        with self._turn():
            with self.starting:
                if self.shared is None:
                    self.shared = self._start()
                server = self.shared
            first = answer = _run_on(server, job)
            if not isinstance(answer, Verdict):
                if isinstance(answer, InterruptedRun) and answer.why == LOST:
                    self._drop(server)
                with self.alone:
                    answer = self._ask_new_server(job)
        if isinstance(first, InterruptedRun) and isinstance(answer, InterruptedRun) and answer.killed:
            with self._nothing_else():
                answer = self._ask_new_server(job)
        if self.closed:
            raise GradingStopped(STOPPED)
        if not isinstance(answer, InterruptedRun):
            return answer
        if not isinstance(first, InterruptedRun):
            return f"grading it broke off: {answer.why}; the next run tries again"
        return zero_verdict(submission, self.exercises, answer.why)

    def _ask_new_server(self, job: GradeJob) -> Verdict | InterruptedRun | str:
        server = self._start()
        try:
            return _run_on(server, job)
        finally:
            self._drop(server)

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
        """Wait until all others are graded, and let no other begin."""
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
        """End every server, including one that a thread waits for."""
        self.closed = True
        for server in list(self.servers):
            server.end()

    def _start(self) -> ServerProcess:
        if self.closed:
            raise GradingStopped(STOPPED)
        if stamp() != self.kit:  # marks found by another kit do not belong with the others
            raise GradingStopped(CHANGED)
        server = ServerProcess(*self.options, str(self.isolation), module="grader.classroom.judging.server")
        self.servers.append(server)
        if self.closed:
            server.end()
        try:
            server.address()
        except (NoServer, ValueError) as problem:  # ValueError: ended while it started, by `close`
            raise GradingStopped(str(problem)) from None
        return server

    def _drop(self, server: ServerProcess) -> None:
        with self.starting:
            if self.shared is server:
                self.shared = None
            if server in self.servers:
                self.servers.remove(server)
                server.end()


def _run_on(server: ServerProcess, job: GradeJob) -> Verdict | InterruptedRun | str:
    """What comes of the job; a sentence where the run could not begin."""
    with suppress(NoServer):
        for message in server.answers(job, TRIES):
            match message:
                case {"verdict": dict() as data}:
                    return Verdict.from_data(data)
                case {"lost": str() as why, "killed": bool() as killed}:
                    return InterruptedRun(why, killed)
                case {"trouble": str() as sentence}:
                    return sentence
    return InterruptedRun(LOST, killed=True)
