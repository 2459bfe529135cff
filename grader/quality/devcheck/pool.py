"""Jobs spread over processes, and answers kept by the content they depend on, so that a second run does only what changed."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from grader.course.syllabus import ROOT, load_syllabus
from grader.files import write_whole
from grader.quality.devcheck.fingerprint import fingerprint
from grader.quality.devcheck.trying import Job, Tried, serve

CACHE = ROOT / ".headway" / "devcheck"


class PoolBroken(RuntimeError):
    """A process that tries implementations ended, or could not begin."""


def try_all(jobs: list[Job], fresh: bool = False, processes: int | None = None) -> Iterator[tuple[Job, list[Tried]]]:
    """Each job with what its subjects got, as they come; from the cache where nothing it depends on has changed."""
    waiting = []
    for job in jobs:
        kept = None if fresh else _kept(job)
        if kept is None:
            waiting.append(job)
        else:
            yield job, kept
    waiting.sort(key=lambda job: -len(job.subjects) * (2 if job.in_worker else 1))
    for job, tried in spread(waiting, serve, processes or os.cpu_count() or 1):
        _keep(job, tried)
        yield job, tried


def spread(jobs: list, work: Callable[[Connection], None], processes: int) -> Iterator[tuple[Any, list]]:
    """Each job with the answer to it, as they come, from processes that do this `work`. A job says to which `exercise` it belongs."""
    context = multiprocessing.get_context("spawn")
    os.environ["PYTHONHASHSEED"] = "0"  # as the workers have it: what a set's order does is then the same on both sides
    at_work: dict = {}
    started = []
    try:
        for _ in range(min(processes, len(jobs))):
            ours, theirs = context.Pipe()
            process = context.Process(target=work, args=(theirs,), daemon=False)
            process.start()
            theirs.close()
            started.append((process, ours))
            at_work[ours] = jobs.pop(0)
            ours.send(at_work[ours])
        while at_work:
            for pipe in wait(list(at_work)):
                assert isinstance(pipe, Connection)
                try:
                    answer = pipe.recv()
                except (EOFError, ConnectionResetError):
                    raise PoolBroken(f"a process ended while it tried {at_work[pipe].exercise}") from None
                if isinstance(answer, str):
                    raise PoolBroken(answer)
                yield at_work.pop(pipe), answer
                if jobs:
                    at_work[pipe] = jobs.pop(0)
                    pipe.send(at_work[pipe])
    finally:
        for process, pipe in started:
            try:
                pipe.send(None)
            except OSError:
                pass
            process.join(10)
            if process.is_alive():
                process.kill()


# ---- the cache


def _kept(job: Job) -> list[Tried] | None:
    try:
        return [Tried(**entry) for entry in json.loads(_file(job).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return None


def _keep(job: Job, tried: list[Tried]) -> None:
    try:
        write_whole(_file(job), json.dumps([asdict(entry) for entry in tried]))
    except OSError:
        pass  # a cache that cannot be kept costs time, and nothing else


def _file(job: Job) -> Path:
    digest = hashlib.sha256(fingerprint(load_syllabus().exercise(job.exercise)).encode())
    digest.update(repr(sys.version_info[:2]).encode())
    for part in (job.exercise, job.in_worker, job.seed, *[part for subject in job.subjects for part in (subject.kind, subject.name, subject.text)]):
        digest.update(repr(part).encode())
    return CACHE / f"{digest.hexdigest()[:32]}.json"
