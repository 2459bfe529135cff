"""Shares the tests of one run among processes forked from it: each takes the next test in the queue.

The results are the same as those of one process, in the same order. A process that dies ends the whole run, in the same
way, as its test would have done alone. A test that runs out of time ends the sharing, because it decides how many other
tests run at all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from os import _exit, close, getpid, kill, pipe, read, write  # the learner's code may replace them in os
from typing import Any, TypeVar

from grader.processes.forked import MOST_PROCESSES
from grader.processes.report import Report
from grader.runner.attempts import Attempt
from grader.runner.graded_tests import GradedTest
from grader.runner.judging import Judge
from grader.system.forks import Fork
from grader.system.process_tree import ENDING_SECONDS
from grader.verdict.results import TestResult

T = TypeVar("T")

ALONE_SECONDS = 0.04  # a shorter run is not worth sharing
FEWEST = 3  # tests that must remain


def count_processes() -> int:
    """The number of processes that share a run's tests on this machine."""
    return min(MOST_PROCESSES, len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else 1


def judge_in_processes(
    judge: Judge, tests: Sequence[GradedTest], report: Report, processes: int, begun: Callable[[GradedTest], None],
    decided: Callable[[GradedTest, list[TestResult]], None],
) -> None:  # fmt: skip
    """Like `judge.run_tests`, in up to so many processes."""
    _Sharing(judge, tests, report, processes, begun, decided).run()


@dataclass
class _Sharing:
    judge: Judge
    tests: Sequence[GradedTest]
    report: Report
    processes: int
    begun: Callable[[GradedTest], None]
    decided: Callable[[GradedTest, list[TestResult]], None]
    reported: int = 0  # number of tests, from the first on
    found: dict[int, Attempt] = field(default_factory=dict)  # first attempts, by place, that are not reported yet
    siblings: list[Fork] = field(default_factory=list)

    def run(self) -> None:
        began = time.monotonic()
        while self.reported < len(self.tests) and not self._worth_sharing(began):
            self._first_attempt(self.reported)
            self._report_next()
        if self.reported < len(self.tests):
            self._share()

    def _worth_sharing(self, began: float) -> bool:
        left, run = len(self.tests) - self.reported, self.judge.run
        usual = not run.broken and not run.trial.timeouts and _threads() == 1
        return usual and left >= FEWEST and self.reported > 0 and time.monotonic() - began > ALONE_SECONDS

    def _share(self) -> None:
        count = len(self.tests)
        queue, last = pipe()
        write(last, b"".join(place.to_bytes(2, "little") for place in range(self.reported, count)))
        close(last)
        for number in range(1, min(self.processes, count - self.reported)):
            self.report.flush()
            self.siblings.append(Fork(lambda line, number=number: self._be_sibling(queue, line, number)))  # type: ignore[misc]
        while (place := _take_test(queue)) is not None and not self._out_of_time():
            self._first_attempt(place)
            self._receive(0)
            self._report_found()
        while self.reported < count and not self._out_of_time():
            self._receive(None)
            self._report_found()
        close(queue)
        for sibling in self.siblings:
            sibling.end()
        if self.reported < count:
            self._continue_alone()

    def _first_attempt(self, place: int) -> None:
        """The process that reports settles it, because it has the results of all tests before this one."""
        self.begun(self.tests[place])
        self.found[place] = self.judge.first_attempt(self.tests[place])

    def _be_sibling(self, queue: int, line: Fork, number: int) -> None:
        """In a copy of this process: make first attempts, as long as there are tests."""
        self.report.pid = getpid()
        self.judge.run.trial.call_watch.move_to(number)
        self.judge.run.trial.continue_in_fork()
        while (place := _take_test(queue)) is not None:
            self._first_attempt(place)
            line.send((place, self.found.pop(place)))

    def _receive(self, seconds: float | None) -> None:
        """Take the results that siblings have sent; wait so long for one, None: as long as it takes."""
        ready = wait([sibling.line for sibling in self.siblings], seconds)
        for sibling in [sibling for sibling in self.siblings if sibling.line in ready]:
            try:
                place, found = sibling.receive()
                self.found[place] = found
            except EOFError:
                self._sibling_ended(sibling)

    def _sibling_ended(self, sibling: Fork) -> None:
        """If tests remain, a test has ended it, and would have ended this process too."""
        self.siblings.remove(sibling)
        status = sibling.end(ENDING_SECONDS) or 0
        if status < 0:
            kill(getpid(), -status)
        if status or (not self.siblings and self.reported + len(self.found) < len(self.tests)):
            _exit(status)

    # ---- all of them, in order

    def _report_found(self) -> None:
        while self.reported in self.found and not self._out_of_time():
            self._report_next()

    def _report_next(self) -> None:
        test, found = self.tests[self.reported], self.found.pop(self.reported)
        self.reported += 1
        self.decided(test, self.judge.accept(self.judge.settle(test, found)))

    def _out_of_time(self) -> bool:
        return any(found.ran_out_of_time for found in self.found.values())

    def _continue_alone(self) -> None:
        """Run the tests behind the first that ran out of time, as if none of them had run."""
        first = min(place for place, found in self.found.items() if found.ran_out_of_time)
        self.found = {place: found for place, found in self.found.items() if place <= first}
        while self.reported < len(self.tests):
            if self.reported not in self.found:
                self._first_attempt(self.reported)
            self._report_next()


def map_in_two_processes(function: Callable[[T], Any], things: Sequence[T]) -> list[Any]:
    """Like `map`, with every other item in a copy of this process."""
    if len(things) < 2 or _threads() != 1:
        return [function(thing) for thing in things]
    other = Fork(lambda line: line.send([function(thing) for thing in things[1::2]]))
    mine = [function(thing) for thing in things[::2]]
    try:
        others = other.receive()
    except EOFError:
        others = [function(thing) for thing in things[1::2]]
    other.end(ENDING_SECONDS)
    both = [None] * len(things)
    both[::2], both[1::2] = mine, others
    return both


def _threads() -> int:
    """Threads of native code too: a copy of this process would lack them, and might wait for them for ever."""
    return len(os.listdir("/proc/self/task"))


def _take_test(queue: int) -> int | None:
    """Take the next test from the queue: its place, or None when all are taken."""
    place = read(queue, 2)
    return int.from_bytes(place, "little") if place else None
