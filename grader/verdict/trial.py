"""Runs an implementation behind the boundary through the tests, example by example.

It does not depend on pytest: the plugin calls it, and so does other code that runs tests.
"""

from __future__ import annotations

import contextlib
import math
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from grader.course.chapter_source import ChapterSource
from grader.course.syllabus import Chapter, Exercise, load_syllabus
from grader.course.torch_operators import reportable
from grader.execution.chapter_package import without_text
from grader.execution.connection import HostConnection
from grader.execution.errors import ChapterBroken, ExtendDeadline, NoWorker, OutOfTime, Todo
from grader.execution.example_requests import RecordedExample
from grader.execution.host import reset_state
from grader.execution.in_process import InProcessHost, connect_reference
from grader.execution.late_calls import CallWatch, slowdown
from grader.execution.proxy import Boundary, Implementation
from grader.execution.target import Target, package_sources
from grader.execution.worker import Worker, WorkerPool
from grader.verdict import comparing
from grader.verdict.replay import Record

CALL_SECONDS = 5.0
IMPORT_SECONDS = 30.0
TEST_SECONDS = 20.0  # of the learner's code, in all examples of a test together
# once a test of the exercise has run out of time, while a learner waits; a class has the full limit
LATER_CALL_SECONDS = 0.8
TIMEOUTS_AN_EXERCISE = 2  # then its other tests are not run: an exercise whose code never ends takes about 6 s in all
# larger answers are not stored for the diagnosis: legitimate ones are at most 0.5 MB
MAX_RECORD_BYTES = 8 * 1024 * 1024
MAX_ALL_RECORDS_BYTES = 128 * 1024 * 1024  # in all tests of a submission


@dataclass
class Traces:
    """What tests have left in a trial: what `Trial.add` needs to make an attempt at a test count."""

    records: dict[str, list[Record]] = field(default_factory=dict)  # by exercise
    timeouts: dict[str, int] = field(default_factory=dict)


@dataclass
class Trial:
    """One implementation on trial: its boundaries, seeds and limits, and what its tests have left so far."""

    target: Target
    in_worker: bool = False  # run the code in a separate process
    whole: bool = False
    seed: int = 0
    pool: WorkerPool = field(default_factory=WorkerPool)
    call_seconds: float = CALL_SECONDS
    import_seconds: float = IMPORT_SECONDS
    extend_deadline: ExtendDeadline = lambda _: None
    call_watch: CallWatch = field(default_factory=CallWatch)  # for calls in process
    # exercises with a call that did not return: all their calls get LATER_CALL_SECONDS
    short_limit: set[str] = field(default_factory=set)
    end_time: float = math.inf  # on the monotonic clock: no test starts after that
    records: dict[str, list[Record]] = field(default_factory=dict)
    # of exercises whose own examples are drawn by another seed than `seed`
    seeds: dict[str, int] = field(default_factory=dict)
    sends_ahead: bool = False  # send the requests of a recorded example before its test makes them

    def __post_init__(self) -> None:
        self._boundaries: dict[_Package, Boundary] = {}
        self._references: dict[str, Boundary] = {}
        self._broken: dict[_Package, ChapterBroken] = {}
        self.learner_waits = not self.in_worker
        self.names: set[str] = set()  # of the target that the running test has used
        # exercises of the chapter whose reference is used while the running test judges another one
        self.replaced: tuple[str, ...] = ()
        self.timeouts: dict[str, int] = {}
        self.stubs: dict[str, str] = {}  # exercise → what its stub raised
        self._record_bytes = 0  # of all records
        self._running: Exercise | None = None
        self._test = ""
        self._seconds_before_test = 0.0  # before this test began
        self._seconds_of_closed = 0.0  # in boundaries that are closed
        self.example_seed = 0
        self.run_seed = 0  # that drew the running example; 0 for the examples of all runs
        self.own_examples = False  # whether the examples are those of this run's seed, not the common ones of all runs

    # ---- the two sides of a test

    def learner(self, chapter: str) -> Implementation:
        return Implementation(_LazyImplementation(self, chapter))

    def reference(self, chapter: str) -> Implementation:
        return Implementation(self._reference(chapter))

    def boundary(self, chapter: str) -> Boundary:
        """The boundary to the target's chapter for the running test. ChapterBroken if it does not import."""
        package = self._package(chapter)
        if package in self._broken:
            raise self._broken[package]
        if package not in self._boundaries:
            found = load_syllabus().chapter(chapter)
            if not self.target.has(found.name):
                raise Todo
            try:
                sources = package_sources(self.target, found, self.whole, package.replaced)
            except ChapterBroken as problem:
                self._broken[package] = problem
                raise
            if self.in_worker:
                for other in list(self._boundaries):  # a submission has one worker at a time
                    self._close(other)
            connection = self.connect(found, sources)
            self._boundaries[package] = Boundary(connection, package.replaced)
        return self._boundaries[package]

    def connect(self, chapter: Chapter, sources: list[ChapterSource]) -> HostConnection:
        """A new host of this chapter, in this process or in a worker."""
        if not self.in_worker:
            return InProcessHost(
                sources, chapter.name, self.call_seconds, self.import_seconds,
                extend_deadline=self.extend_deadline, watch=self.call_watch,
            )  # fmt: skip
        if not self.whole:  # the earlier chapters are the reference's
            keep = {source.name for source in sources if source.name == chapter.name or source.code}
            sources = [source if source.name in keep else without_text(source) for source in sources]
        return Worker(self.pool, sources, chapter.name, self.call_seconds, self.import_seconds, self.extend_deadline)

    def _package(self, chapter: str) -> _Package:
        """The chapter package of the running test. With replaced definitions, a worker judges one exercise only."""
        judged = self._running.name if self._running and self.replaced and self.in_worker else ""
        return _Package(chapter, judged, self.replaced)

    def _close(self, package: _Package) -> None:
        boundary = self._boundaries.pop(package)
        self._seconds_of_closed += boundary.spent
        with contextlib.suppress(NoWorker):  # starting the next worker reports the problem
            boundary.connection.close()

    def _reference(self, name: str) -> Boundary:
        if name not in self._references:
            self._references[name] = Boundary(connect_reference(load_syllabus().chapter(name)))
        return self._references[name]

    # ---- an attempt at a test, which may be discarded

    @contextlib.contextmanager
    def separate_attempt(self, replaced: tuple[str, ...]) -> Iterator[Traces]:
        """In this context tests run with these exercises replaced, and leave their traces in the value."""
        before = self.replaced, self.records, self.timeouts
        self.replaced, self.records, self.timeouts = replaced, {}, dict(self.timeouts)
        traces = Traces()
        try:
            yield traces
        finally:
            traces.records = self.records
            traces.timeouts = {name: count - before[2].get(name, 0) for name, count in self.timeouts.items()}
            self.replaced, self.records, self.timeouts = before
            self._record_bytes -= sum(record.size for records in traces.records.values() for record in records)

    def add(self, traces: Traces) -> None:
        """Make the traces of an attempt count: it is the verdict of its test."""
        for name, records in traces.records.items():
            self.records.setdefault(name, []).extend(records)
            self._record_bytes += sum(record.size for record in records)
        for name, count in traces.timeouts.items():
            if count:
                self.timeouts[name] = self.timeouts.get(name, 0) + count

    # ---- a test, and an example of it

    @property
    def _seconds_used(self) -> float:
        """Seconds in which the learner's code ran, without the test's own work."""
        return self._seconds_of_closed + sum(boundary.spent for boundary in self._boundaries.values())

    @property
    def _exercise(self) -> Exercise:
        assert self._running is not None, "call begin_test first"
        return self._running

    def seed_of(self, exercise: str) -> int:
        """The seed that draws this run's own examples for the exercise; 0 if there are only the common ones."""
        return self.seeds.get(exercise, self.seed)

    def begin_test(self, exercise: Exercise, test: str) -> None:
        if self.in_worker and self._running and self._running.chapter != exercise.chapter:
            self.end_chapter(self._running.chapter)
        self._running, self._test, self.names, self.run_seed = exercise, test, set(), 0
        self._seconds_before_test = self._seconds_used
        comparing.new_test()

    def begin_example(self, recorded: RecordedExample | None = None) -> bool:
        """Start afresh: invalidate handles, reset random generators, clear the log. True if the test need not run: all
        replies of the implementation are those in the recording."""
        self.extend_deadline(self.call_seconds)
        exercise = self._exercise
        if broken := self._broken.get(self._package(exercise.chapter)):
            raise broken
        if time.monotonic() > self.end_time:
            raise OutOfTime("not run: the time for one submission was over")
        if self.timeouts.get(exercise.name, 0) >= TIMEOUTS_AN_EXERCISE:
            raise OutOfTime("not run: other tests of this exercise ran out of time before it")
        if self._seconds_used - self._seconds_before_test > TEST_SECONDS * slowdown() and not InProcessHost.debugged:
            raise OutOfTime(f"the test did not end within {TEST_SECONDS:g} s")
        comparing.new_example()
        self.run_seed = self.seed_of(exercise.name) if self.own_examples else 0
        self.example_seed = zlib.crc32(f"{self.run_seed} {self._test}".encode())
        reference = self._reference(exercise.chapter)
        reference.begin(self.example_seed)
        if recorded:
            reference.example.reply_from(recorded.reference)
        boundary = self.boundary(exercise.chapter)
        hurry = exercise.name in self.short_limit or self.learner_waits and bool(self.timeouts.get(exercise.name))
        boundary.connection.seconds = min(self.call_seconds, LATER_CALL_SECONDS) if hurry else self.call_seconds
        if isinstance(boundary.connection, Worker):
            boundary.connection.waited = self.call_seconds if hurry and not self.timeouts.get(exercise.name) else 0.0
        try:
            boundary.begin(self.example_seed, exercise.forbids, exercise.gradient)
        except ChapterBroken as problem:
            self._broken[self._package(exercise.chapter)] = problem
            raise
        if recorded and self.sends_ahead and boundary.send_ahead(recorded):
            self.names |= recorded.names
            return True
        reset_state(self.example_seed)  # of the test; the code's host begins with its first request
        return False

    def recorded_example(self) -> RecordedExample:
        """The example that has run, in a trial of the reference."""
        chapter = self._exercise.chapter
        return RecordedExample.of(self.boundary(chapter).log, self._reference(chapter).log)

    def end_test(self, outcome: str) -> list[str]:
        """Store the requests of the last example; return the forbidden names that were reported while it ran."""
        exercise = self._exercise
        if outcome == "timeout":
            self.timeouts[exercise.name] = self.timeouts.get(exercise.name, 0) + 1
        boundary = self.current_boundary
        if boundary is None or self._package(exercise.chapter) in self._broken:
            return []
        size = boundary.connection.bytes_received
        has_room = size <= MAX_RECORD_BYTES and size + self._record_bytes <= MAX_ALL_RECORDS_BYTES
        if outcome in ("passed", "failed") and has_room:
            self._record_bytes += size
            record = Record(self._test, outcome == "passed", self.example_seed, list(boundary.log), size)
            self.records.setdefault(exercise.name, []).append(record)
        seen = (boundary.connection.shortcuts | boundary.connection.import_shortcuts) & reportable(exercise.forbids)
        boundary.connection.shortcuts.clear()
        return sorted(seen)

    @property
    def current_boundary(self) -> Boundary | None:
        """The boundary with the calls of the running example; None before the chapter is loaded."""
        return self._boundaries.get(self._package(self._exercise.chapter))

    def end_chapter(self, chapter: str) -> None:
        """After the last test of a chapter: end its worker, and drop what needs no diagnosis."""
        for package in [package for package in self._boundaries if package.chapter == chapter]:
            self._close(package)
        if reference := self._references.pop(chapter, None):
            reference.connection.close()
        for exercise in load_syllabus().chapter(chapter).exercises:
            if all(record.passed for record in self.records.get(exercise.name, ())):
                self._record_bytes -= sum(record.size for record in self.records.pop(exercise.name, ()))

    def close(self) -> None:
        for boundary in [*self._boundaries.values(), *self._references.values()]:
            boundary.connection.close()
        self._boundaries, self._references = {}, {}


@dataclass(frozen=True)
class _Package:
    """Identifies the chapter package that a test uses."""

    chapter: str
    judged: str  # the one exercise that a worker with such a package judges
    replaced: tuple[str, ...]


class _LazyImplementation:
    """A boundary created at its first use, so that a broken chapter fails in the test, not in its fixtures."""

    def __init__(self, trial: Trial, chapter: str) -> None:
        self._trial, self._chapter = trial, chapter

    @property
    def names(self) -> set[str]:
        return self._trial.names

    def ask(self, op: str, *arguments: Any, path: str = "") -> Any:
        return self._trial.boundary(self._chapter).ask(op, *arguments, path=path)
