"""Grades submissions: sends each to a server (start_server.py), and starts another server when one is lost.

Below, it says by which seed each exercise of a submission is graded.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Self

from grader.classroom.intake.submissions import Submission
from grader.course.syllabus import Exercise, load_syllabus
from grader.execution.sandbox.isolation import Isolation
from grader.own_tests.own_file import module_of_tests
from grader.processes.client import NoServer, ServerProcess
from grader.processes.job import Job, moved_to_worker
from grader.processes.server import read_kit_times
from grader.verdict.last_verdicts import code_fingerprint
from grader.verdict.results import ExerciseResult, Failure, TestResult, Verdict

SUBMISSION_SECONDS = 600.0  # then no further test starts; with the running test and the diagnosis it is at most 700
CONNECTION_TRIES = 3  # a very busy server may refuse some
LOST = "the process that graded it ended"
STOPPED = "the grader was stopped"
CHANGED = (
    "the kit has changed since this run began; the results so far are saved, "
    "and the same command continues with the new kit"
)
INTERRUPTED_TEST = "grading_comes_to_an_end"
INTERRUPTED_PROMISE = "The exercise can be graded."
INTERRUPTED_EXPLANATION = (
    "A second process ended in the same way, so the cause is in this submission. "
    "Run `headway check` on your machine to find it."
)
INTERRUPTED_NOTE = (
    "grading was interrupted twice ({why}), so this submission earns no points; `headway regrade NAME` grades it again"
)


class GradingStopped(Exception):
    """No submission can be graded at all; the message says why."""


@dataclass(frozen=True)
class GradeJob(Job):
    """One submission, and which exercises of it to grade."""

    sources: dict[str, str]
    unread: dict[str, str]  # chapters that are there and cannot be read, and why
    exercises: list[str]
    seed: int
    seconds: float  # for all of it
    in_worker: bool = True
    seeds: dict[str, int] = field(default_factory=dict)  # of exercises with other examples than those of `seed`
    own_tests: bool = False  # the sources are the learner's own tests of the exercises

    def after_crash(self, late: bool = False) -> Self | None:
        return moved_to_worker(self)


@dataclass(frozen=True)
class InterruptedRun:
    """A run that ended before its verdict."""

    why: str


class Dispatcher:
    """Grades with servers on this machine, called from any number of threads: each submission runs in a separate
    process.

    If a server is lost, or reports trouble instead of a verdict, the submission is graded once more, by a new server
    and while nothing else runs: so neither a busy machine nor another submission is the cause. If that run breaks off
    too, the verdict is no points. A run that could not begin (no worker, a sandbox that does not come up) is the
    machine's fault: there is a sentence instead of a verdict, and the next run of the grader tries again.
    """

    def __init__(
        self, isolation: Isolation, seconds: float = SUBMISSION_SECONDS, *options: str, own_tests: bool = False
    ) -> None:
        """With `own_tests`, the submissions are learners' own tests of the exercises."""
        self.isolation, self.seconds, self.options, self.own_tests = isolation, seconds, options, own_tests
        self.kit = read_kit_times()
        self.starting, self.turns = threading.Lock(), threading.Condition()
        self.under_way = 0  # submissions that are being graded
        self.is_reserved = False  # does a submission run alone, or wait for that?
        self.shared: ServerProcess | None = None
        self.servers: list[ServerProcess] = []
        self.is_closed = False

    def start_early(self) -> None:
        """Start a server, and do not wait until it has loaded the kit: the first submission does."""
        self.shared = self._launch()

    def grade(self, submission: Submission, seeds: dict[str, int]) -> Verdict | str:
        """The verdict on the exercises with these seeds, or a sentence that says why it is missing."""
        content = (submission.sources, submission.broken, list(seeds))
        job = GradeJob(*content, 0, self.seconds, seeds=seeds, own_tests=self.own_tests)
        with self._turn():
            with self.starting:
                server = self.shared = self.shared or self._launch()
                _wait_for(server)
            first = answer = _run_on(server, job)
            if first == InterruptedRun(LOST):
                self._drop(server)
        if not isinstance(first, Verdict):
            with self._turn(alone=True):
                server = self._launch()
                try:
                    _wait_for(server)
                    answer = _run_on(server, job)
                finally:
                    self._drop(server)
        if self.is_closed:
            raise GradingStopped(STOPPED)
        if not isinstance(answer, InterruptedRun):
            return answer
        if not isinstance(first, InterruptedRun):
            return f"grading it broke off: {answer.why}; the next run tries again"
        return zero_verdict(submission, list(seeds), answer.why)

    @contextmanager
    def _turn(self, alone: bool = False) -> Iterator[None]:
        """Wait while a submission runs alone; with `alone`, wait until no other runs, and let no other begin."""
        with self.turns:
            self.turns.wait_for(lambda: not self.is_reserved)
            if alone:
                self.is_reserved = True
                self.turns.wait_for(lambda: not self.under_way)
            self.under_way += 1
        try:
            yield
        finally:
            with self.turns:
                self.under_way -= 1
                self.is_reserved = self.is_reserved and not alone
                self.turns.notify_all()

    def close(self) -> None:
        """End every server, including one that a thread waits for."""
        self.is_closed = True
        for server in list(self.servers):
            server.end()

    def _launch(self) -> ServerProcess:
        if self.is_closed:
            raise GradingStopped(STOPPED)
        if read_kit_times() != self.kit:  # marks found by another kit do not belong with the others
            raise GradingStopped(CHANGED)
        server = ServerProcess(*self.options, str(self.isolation), module="grader.classroom.judging.start_server")
        self.servers.append(server)
        if self.is_closed:
            server.end()
        return server

    def _drop(self, server: ServerProcess) -> None:
        with self.starting:
            if self.shared is server:
                self.shared = None
            if server in self.servers:
                self.servers.remove(server)
                server.end()


def _wait_for(server: ServerProcess) -> None:
    try:
        server.address()
    except (NoServer, ValueError) as problem:  # ValueError: ended while it started, by `close`
        raise GradingStopped(str(problem)) from None


def _run_on(server: ServerProcess, job: GradeJob) -> Verdict | InterruptedRun | str:
    """What comes of the job; a sentence where the run could not begin."""
    with suppress(NoServer):
        for message in server.answers(job, CONNECTION_TRIES):
            match message:
                case {"verdict": dict() as data}:
                    return Verdict.from_data(data)
                case {"lost": str() as why}:
                    return InterruptedRun(why)
                case {"trouble": str() as sentence}:
                    return sentence
    return InterruptedRun(LOST)


def zero_verdict(submission: Submission, exercises: Sequence[str], why: str) -> Verdict:
    """The verdict after two runs that ended without one: no points for each exercise whose file was submitted."""
    message = f"Grading was interrupted twice: {why}."
    words = Failure(INTERRUPTED_PROMISE, message=message, explanation=INTERRUPTED_EXPLANATION)
    test = TestResult(INTERRUPTED_TEST, "error", 0.0, 1.0, INTERRUPTED_PROMISE, message, words.explanation, words)
    found = [load_syllabus().exercise(name) for name in exercises]
    submitted = {*submission.sources, *submission.broken}
    results = [
        ExerciseResult(exercise, [test])
        for exercise in found
        if submitted & {exercise.module, module_of_tests(exercise)}
    ]
    return Verdict(results, notes=[INTERRUPTED_NOTE.format(why=why)])


# ---- the seed of each exercise
#
# A seed draws an exercise's own examples, besides the common ones that every run draws. Anybody who has the kit can
# find the common examples, so a submission could contain the answers to them. So the seed depends on a secret of the
# instructor's, which the gradebook stores. The exercise's own code chooses one of a few sets of examples: equal code
# gets equal examples, today and tomorrow, and what the reference answers to them can be recorded.


EXAMPLE_SETS = 16  # for each exercise


def seeds_of(submission: Submission, exercises: Iterable[Exercise], secret: str, seed: int) -> dict[str, int]:
    """The seed of each exercise; `seed` is the instructor's `--seed`."""
    found = {}
    for exercise in exercises:
        code = code_fingerprint(submission.sources.get(exercise.module, ""), exercise.name)
        found[exercise.name] = exercise_seed(secret, seed, exercise.name, code)
    return found


def exercise_seed(secret: str, seed: int, exercise: str, content: str) -> int:
    """The seed for an exercise with this content (a fingerprint of its code)."""
    return pool_of_seeds(secret, seed, exercise)[_hash(secret, seed, exercise, "content", content) % EXAMPLE_SETS]


def pool_of_seeds(secret: str, seed: int, exercise: str) -> tuple[int, ...]:
    """All seeds of an exercise: 56 bits of a hash each, and never 0, which means the common examples alone."""
    return tuple(_hash(secret, seed, exercise, "set", number) + 1 for number in range(EXAMPLE_SETS))


def _hash(*parts: str | int) -> int:
    return int.from_bytes(hashlib.sha256("\0".join(map(str, parts)).encode()).digest()[:7], "big")
