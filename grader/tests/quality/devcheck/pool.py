"""Runs jobs on a server of its own, several at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, TypeVar

from grader.processes.client import NoServer, ServerProcess
from grader.processes.job import Job
from grader.tests.quality.devcheck.trying import Tried, TryJob

CONNECTION_TRIES = 10  # a very busy server may refuse some

J = TypeVar("J", bound=Job)


class PoolBroken(RuntimeError):
    """A job has no result; the message says why."""


def try_all(jobs: Sequence[TryJob], processes: int | None = None) -> Iterator[tuple[TryJob, list[Tried]]]:
    """Each job with the results of its subjects, in the order in which they end."""
    longest_first = sorted(jobs, key=lambda job: -len(job.subjects) * (2 if job.in_worker else 1))
    for job, result in run_jobs(longest_first, processes or os.cpu_count() or 1):
        yield job, [Tried(**entry) for entry in result]


def run_jobs(jobs: Sequence[J], at_once: int) -> Iterator[tuple[J, Any]]:
    """Each job with its result, in the order in which they end. A server runs `at_once` of them at a time."""
    if not jobs:
        return
    # the same hash seed as in workers, so that a set has the same order on both sides
    server = ServerProcess(module="grader.tests.quality.devcheck.trying", PYTHONHASHSEED="0")
    pool = ThreadPoolExecutor(at_once)
    try:
        server.address()
        running = {pool.submit(_result, server, job): job for job in jobs}
        for future in as_completed(running):
            yield running[future], future.result()
    except NoServer as problem:
        sentence = str(problem) or "the server that runs them stopped, or the kit has changed meanwhile; run this again"
        raise PoolBroken(sentence) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        server.end()


def _result(server: ServerProcess, job: Job) -> Any:
    for message in server.answers(job, CONNECTION_TRIES):
        match message:
            case {"result": result}:
                return result
            case {"trouble": str() as why}:
                raise PoolBroken(why)
    name = getattr(job, "exercise", "an exercise")
    raise PoolBroken(f"the server that ran the tests of {name} was lost; run this again")
