"""Shares the work of a run among copies of its process, as many as processors are free: the first attempts at its
tests, and the search for a known mistake, which runs the reference's code.

What a copy had begun when it was lost, this process does again; and every test behind one that ran out of time. Such an
accident then has the same consequences as without sharing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from multiprocessing.connection import wait
from os import close, getpid, listdir, pipe, read, write  # the learner's code may replace them in os
from typing import Any

from grader.execution.late_calls import MOST_PROCESSES
from grader.processes.report import Report
from grader.runner.graded_tests import GradedTest
from grader.runner.judging import Attempt, Judge
from grader.system.forks import Fork


def first_attempts(judge: Judge, tests: Sequence[GradedTest], report: Report) -> Iterator[Attempt]:
    """The first attempt at each of these tests, in their order. Called before the learner's code is imported."""

    def attempt(place: int) -> Attempt:
        report.message(begun=tests[place].name)
        return judge.first_attempt(tests[place])

    def become_copy(number: int) -> None:
        report.pid = getpid()
        report.call_watch.move_to(number)

    report.flush()
    done = 0
    with contextlib.closing(_in_order(attempt, len(tests), become_copy)) as attempts:
        for found in attempts:
            yield found
            done += 1
            if "timeout" in found.outcomes:
                break
    yield from map(attempt, range(done, len(tests)))


def map_in_processes(function: Callable[[Any], Any], things: Iterable[Any]) -> Iterable[Any]:
    """Like `map`. A copy of this process would lack the threads that the learner's code has started, and might wait for
    them: then it is one process."""
    things = list(things)
    if len(listdir("/proc/self/task")) > 1:
        return map(function, things)
    return _in_order(lambda place: function(things[place]), len(things))


def _free_processors() -> int:
    """How many processors of Linux this process may use that run no other one at this moment, its own counted."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            running = int(file.read().split()[3].partition("/")[0])
        return max(1, len(os.sched_getaffinity(0)) - running + 1)
    except (OSError, ValueError, AttributeError):  # no Linux
        return 1


def _in_order(
    work: Callable[[int], Any], count: int, become_copy: Callable[[int], None] = lambda number: None
) -> Generator[Any]:
    """What `work` returns for each number below `count`."""

    def take() -> int | None:
        place = read(queue, 2)
        return int.from_bytes(place, "little") if place else None

    def help_out(line: Fork, number: int) -> None:
        become_copy(number)
        while (place := take()) is not None:
            line.send((place, work(place)))

    queue, last = pipe()  # from which each process takes the next number
    write(last, b"".join(place.to_bytes(2, "little") for place in range(count)))
    close(last)
    copies = [
        Fork(lambda line, number=number: help_out(line, number))  # type: ignore[misc]
        for number in range(1, min(MOST_PROCESSES, _free_processors(), count // 2))  # one thing is not worth a copy
    ]
    found: dict[int, Any] = {}
    try:
        for place in range(count):
            while place not in found:
                if (mine := take()) is not None:
                    found[mine] = work(mine)
                elif not copies:
                    found[place] = work(place)
                _receive(copies, found, seconds=0 if mine is not None else None)
            yield found.pop(place)
    finally:
        close(queue)
        for copy in copies:
            copy.end()


def _receive(copies: list[Fork], found: dict[int, Any], seconds: float | None) -> None:
    """Add what the copies send within so many seconds, and remove those that have ended."""
    ready = wait([copy.line for copy in copies], seconds) if copies else []
    for copy in [copy for copy in copies if copy.line in ready]:
        try:
            place, result = copy.receive()
        except EOFError:
            copies.remove(copy)
            copy.end()
        else:
            found[place] = result
