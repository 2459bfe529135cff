"""Shares the work of a run among processes that are forked from it: the first attempts at its tests, before it imports
the learner's code, and the search for a known mistake, which runs the reference's.

A test that another process lost by a crash, and every test behind one that ran out of time, is run again in this
process: such an accident then has the same consequences as without sharing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import wait
from os import close, getpid, listdir, pipe, read, write  # the learner's code may replace them in os
from typing import Any

from grader.execution.call_watch import MOST_PROCESSES
from grader.processes.report import Report
from grader.runner.attempts import Attempt
from grader.runner.graded_tests import GradedTest
from grader.runner.judging import Judge
from grader.system.forks import Fork

TESTS_PER_PROCESS = 2  # fewer are not worth another process


def count_processes(tests: int) -> int:
    """The number of processes that share so many tests on this machine."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return max(1, min(MOST_PROCESSES, processors, tests // TESTS_PER_PROCESS))


def first_attempts(judge: Judge, tests: Sequence[GradedTest], report: Report) -> Iterator[Attempt]:
    """The first attempt at each of these tests, in their order."""

    def attempt(place: int) -> Attempt:
        report.message(begun=tests[place].name)
        return judge.first_attempt(tests[place])

    def be_other(line: Fork, number: int) -> None:
        report.pid = getpid()
        report.call_watch.move_to(number)
        while (place := _take(queue)) is not None:
            line.send((place, attempt(place)))

    report.flush()
    queue = _queue_of(len(tests))
    others = [Fork(lambda line, n=n: be_other(line, n)) for n in range(1, count_processes(len(tests)))]  # type: ignore[misc]
    found: dict[int, Attempt] = {}  # by place
    settled = 0
    while settled < len(tests) and not any(_ran_out_of_time(each) for each in found.values()):
        if settled in found:
            yield found.pop(settled)
            settled += 1
        elif (place := _take(queue)) is not None:
            found[place] = attempt(place)
            found |= _received(others, seconds=0)
        elif others:
            found |= _received(others, seconds=None)
        else:
            break
    close(queue)
    for other in others:
        other.end()
    late = min((place for place, each in found.items() if _ran_out_of_time(each)), default=len(tests))
    for place in range(settled, len(tests)):
        yield found[place] if place in found and place <= late else attempt(place)


def map_in_processes(function: Callable[[Any], Any], things: Iterable[Any]) -> list[Any]:
    """Like `map`. A copy of this process would lack the threads that the learner's code has started, and might wait for
    them: then it is one process."""
    things = list(things)
    count = count_processes(len(things)) if len(listdir("/proc/self/task")) == 1 else 1
    others = {
        n: Fork(lambda line, n=n: line.send([function(thing) for thing in things[n::count]]))  # type: ignore[misc]
        for n in range(1, count)
    }
    found: list[Any] = [None] * len(things)
    found[::count] = [function(thing) for thing in things[::count]]
    for n, other in others.items():
        try:
            found[n::count] = other.receive()
        except EOFError:
            found[n::count] = [function(thing) for thing in things[n::count]]
        other.end()
    return found


def _received(others: list[Fork], seconds: float | None) -> dict[int, Attempt]:
    """What the others have sent within so many seconds; who has ended is removed."""
    found = {}
    ready = wait([other.line for other in others], seconds)
    for other in [other for other in others if other.line in ready]:
        try:
            place, attempt = other.receive()
        except EOFError:
            others.remove(other)
            other.end()
        else:
            found[place] = attempt
    return found


def _ran_out_of_time(attempt: Attempt) -> bool:
    return "timeout" in attempt.outcomes


def _queue_of(count: int) -> int:
    """A pipe from which processes take the places of so many tests."""
    queue, last = pipe()
    write(last, b"".join(place.to_bytes(2, "little") for place in range(count)))
    close(last)
    return queue


def _take(queue: int) -> int | None:
    """The next place, or None when all are taken."""
    place = read(queue, 2)
    return int.from_bytes(place, "little") if place else None
