"""Runs jobs on a server of its own, several at a time, and stores their results, so a second run is shorter."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from grader.course.syllabus import ROOT, load_syllabus
from grader.files import write_whole
from grader.processes.client import NoServer, ServerProcess
from grader.processes.job import Job
from grader.quality.devcheck.record import fingerprint
from grader.quality.devcheck.trying import Tried, TryJob

CONNECTION_TRIES = 10  # a very busy server may refuse some
STORE = ROOT / ".headway" / "tried"

J = TypeVar("J", bound=Job)


class PoolBroken(RuntimeError):
    """A job has no result; the message says why."""


def try_all(
    jobs: Sequence[TryJob], fresh: bool = False, processes: int | None = None
) -> Iterator[tuple[TryJob, list[Tried]]]:
    """Each job with the results of its subjects, in the order in which they end: the stored ones come first."""
    waiting = []
    for job in jobs:
        stored = None if fresh else stored_result(job)
        if stored is None:
            waiting.append(job)
        else:
            yield job, stored
    waiting.sort(key=lambda job: -len(job.subjects) * (2 if job.in_worker else 1))
    for job, result in run_jobs(waiting, processes or os.cpu_count() or 1):
        with suppress(OSError):  # without stored results the next run only takes longer
            write_whole(_file(job), json.dumps(result))
        yield job, [Tried(**entry) for entry in result]


def stored_result(job: TryJob) -> list[Tried] | None:
    """The result of a job on which nothing that it depends on has changed since; None if it is not known."""
    try:
        return [Tried(**entry) for entry in json.loads(_file(job).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return None


def _file(job: TryJob) -> Path:
    content = repr((fingerprint(load_syllabus().exercise(job.exercise)), sys.version_info[:2], asdict(job)))
    return STORE / f"{job.exercise}-{hashlib.sha256(content.encode()).hexdigest()[:32]}.json"


def run_jobs(jobs: Sequence[J], at_once: int) -> Iterator[tuple[J, Any]]:
    """Each job with its result, in the order in which they end. A server runs `at_once` of them at a time."""
    if not jobs:
        return
    # the same hash seed as in workers, so that a set has the same order on both sides
    server = ServerProcess(module="grader.quality.devcheck.trying", PYTHONHASHSEED="0")
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
