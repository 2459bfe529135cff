"""Runs jobs on a server. Dev-check's results are stored, so that a second run repeats only what has changed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, TypeVar

from grader.processes.client import NoServer, ServerProcess
from grader.processes.job import Job
from grader.quality.devcheck.stored import load, store, stored_file
from grader.quality.devcheck.trying import Tried, TryJob

TRIES = 10  # connection attempts: a very busy server may refuse some


J = TypeVar("J", bound=Job)


class PoolBroken(RuntimeError):
    """A job has no result; the message says why."""


def try_all(jobs: list[TryJob], fresh: bool = False, processes: int | None = None) -> Iterator[tuple[TryJob, list[Tried]]]:
    """Each job with the results of its subjects, in the order in which they end; the stored ones if nothing that they depend on has changed."""
    waiting = []
    for job in jobs:
        stored = None if fresh else load(_stored_file(job), lambda data: [Tried(**entry) for entry in data])
        if stored is None:
            waiting.append(job)
        else:
            yield job, stored
    waiting.sort(key=lambda job: -len(job.subjects) * (2 if job.in_worker else 1))
    for job, result in run_jobs(waiting, processes or os.cpu_count() or 1):
        tried = [Tried(**entry) for entry in result]
        store(_stored_file(job), result)
        yield job, tried


def run_jobs(jobs: Sequence[J], at_once: int) -> Iterator[tuple[J, Any]]:
    """Each job with its result, in the order in which they end. A server (grader.quality.server) runs `at_once` of them at a time."""
    if not jobs:
        return
    server = ServerProcess(module="grader.quality.server", PYTHONHASHSEED="0")  # as in the workers, so that a set has the same order on both sides
    pool = ThreadPoolExecutor(at_once)
    try:
        server.address()
        running = {pool.submit(_result, server, job): job for job in jobs}
        for future in as_completed(running):
            yield running[future], future.result()
    except NoServer as problem:
        raise PoolBroken(str(problem) or "the server that runs them stopped, or the kit has changed meanwhile") from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        server.end()


def _result(server: ServerProcess, job: Job) -> Any:
    for message in server.answers(job, TRIES):
        match message:
            case {"result": result}:
                return result
            case {"lost": str() as why}:
                raise PoolBroken(f"the process that ran {_name(job)} was lost: {why}")
            case {"trouble": str() as why}:
                raise PoolBroken(why)
    raise PoolBroken(f"the server that ran {_name(job)} was lost")


def _name(job: Job) -> str:
    return f"a {type(job).__name__} of {getattr(job, 'exercise', 'an exercise')}"


def _stored_file(job: TryJob) -> Path:
    subjects = [(subject.kind, subject.name, subject.text) for subject in job.subjects]
    return stored_file("devcheck", job.exercise, sys.version_info[:2], job.in_worker, job.seed, subjects)
