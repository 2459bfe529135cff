"""Runs jobs on a server, and caches dev-check's results by the content they depend on, so that a second run does only what changed."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from grader.course.syllabus import ROOT, load_syllabus
from grader.files import write_whole
from grader.processes.client import NoServer, ServerProcess
from grader.processes.job import Job
from grader.quality.devcheck.fingerprint import fingerprint
from grader.quality.devcheck.trying import Tried, TryJob

CACHE = ROOT / ".headway" / "devcheck"
TRIES = 10  # times that the server may refuse a connection: it may be very busy


J = TypeVar("J", bound=Job)


class PoolBroken(RuntimeError):
    """A job has no result; the message says why."""


def try_all(jobs: list[TryJob], fresh: bool = False, processes: int | None = None) -> Iterator[tuple[TryJob, list[Tried]]]:
    """Each job with what its subjects got, as they come; from the cache where nothing it depends on has changed."""
    waiting = []
    for job in jobs:
        kept = None if fresh else _kept(job)
        if kept is None:
            waiting.append(job)
        else:
            yield job, kept
    waiting.sort(key=lambda job: -len(job.subjects) * (2 if job.in_worker else 1))
    for job, result in run_jobs(waiting, processes or os.cpu_count() or 1):
        tried = [Tried(**entry) for entry in result]
        _keep(job, tried)
        yield job, tried


def run_jobs(jobs: Sequence[J], at_once: int) -> Iterator[tuple[J, Any]]:
    """Each job with its result, as they come. A server (grader.quality.server) runs them, so many at once."""
    if not jobs:
        return
    server = ServerProcess(module="grader.quality.server", PYTHONHASHSEED="0")  # as the workers have it: a set's order is then the same on both sides
    pool = ThreadPoolExecutor(at_once)
    try:
        server.address()
        asked = {pool.submit(_result, server, job): job for job in jobs}
        for future in as_completed(asked):
            yield asked[future], future.result()
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


# ---- the cache


def _kept(job: TryJob) -> list[Tried] | None:
    try:
        return [Tried(**entry) for entry in json.loads(_file(job).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return None


def _keep(job: TryJob, tried: list[Tried]) -> None:
    try:
        write_whole(_file(job), json.dumps([asdict(entry) for entry in tried]))
    except OSError:
        pass  # a cache that cannot be kept costs time, and nothing else


def _file(job: TryJob) -> Path:
    digest = hashlib.sha256(fingerprint(load_syllabus().exercise(job.exercise)).encode())
    digest.update(repr(sys.version_info[:2]).encode())
    for part in (job.exercise, job.in_worker, job.seed, *[part for subject in job.subjects for part in (subject.kind, subject.name, subject.text)]):
        digest.update(repr(part).encode())
    return CACHE / f"{digest.hexdigest()[:32]}.json"
