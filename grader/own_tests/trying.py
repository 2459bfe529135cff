"""Has each version tested in a worker of its own, several at a time, with a limit on the time of each."""

from __future__ import annotations

import base64
import contextlib
import os
import select
import socket
import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass, fields
from typing import Any

from grader.course.syllabus import Exercise
from grader.execution.late_calls import slowdown
from grader.execution.worker_pool import WorkerPool
from grader.own_tests.versions import Version, compiled_chapters
from grader.processes.job import decode, encode
from grader.system.process_tree import ENDING_SECONDS, describe_exit

SECONDS = 10.0  # for all tests on one version
LONGEST_ANSWER = 1 << 14  # bytes


class OwnTestsPool(WorkerPool):
    """Starts the workers that run a learner's tests."""

    zygote_program = ("grader.own_tests.zygote",)
    worker_program = ("grader.own_tests.zygote", "--alone")


@dataclass(frozen=True)
class Outcome:
    """What the tests said about one version."""

    ran: int = 0  # tests
    failed: str | None = None  # the first test that failed; "" if the file could not be imported
    line: int = 0  # of the file, where it failed
    said: str = ""
    example: str = ""  # the arguments that hypothesis found
    ended: str = ""  # how the process ended before it had an answer

    @property
    def accepts(self) -> bool:
        return self.failed is None and not self.ended


@dataclass
class _Try:
    """The tests of one version, in a worker."""

    version: Version
    process: Any
    deadline: float
    answer: bytes = b""

    def read(self, sock: socket.socket, pool: WorkerPool) -> Outcome | None:
        """The outcome, if the worker has sent all of it or has ended."""
        try:
            piece = sock.recv(LONGEST_ANSWER)
        except OSError:
            piece = b""
        self.answer += piece
        if b"\n" in self.answer or len(self.answer) > LONGEST_ANSWER:
            return _outcome(decode(self.answer.partition(b"\n")[0]))
        return None if piece else Outcome(ended=describe_exit(pool.end_worker(self.process, ENDING_SECONDS)))

    def late(self) -> Outcome | None:
        return Outcome(ended=f"it did not end within {SECONDS:g} s") if time.monotonic() > self.deadline else None


def _outcome(answer: dict[str, Any]) -> Outcome:
    """The outcome in an answer, which comes from a process that ran other people's code."""
    kinds = {field.name: {"int": int}.get(str(field.type), str) for field in fields(Outcome) if field.name != "ended"}
    if "ran" not in answer or not all(name in kinds and type(answer[name]) is kinds[name] for name in answer):
        return Outcome(ended="it sent an answer that is not one")
    return Outcome(**answer)


def try_versions(
    pool: WorkerPool, exercise: Exercise, tests: str, file: str, versions: Iterable[Version], at_once: int | None = None
) -> Generator[tuple[Version, Outcome], None, None]:
    """Each version with its outcome, in the order in which they end. Closing the iterator ends the processes.

    `at_once` of them run at a time: as many as there are processors if it is None."""
    waiting, running = list(versions)[::-1], {}  # type: list[Version], dict[socket.socket, _Try]
    at_once = at_once or min(len(waiting), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                version = waiting.pop()
                chapters = [
                    [one.name, base64.b64encode(one.code).decode()] for one in compiled_chapters(exercise, version)
                ]
                job = {"chapters": chapters, "chapter": exercise.module, "tests": tests, "file": file}
                sock, process = pool.start()
                running[sock] = _Try(version, process, time.monotonic() + SECONDS * slowdown())
                with contextlib.suppress(OSError):  # it has ended, as reading from it says
                    sock.sendall(encode(job | {"shrink": version.is_correct}))
            next_end = min(one.deadline for one in running.values())
            ready = select.select(list(running), [], [], max(0.0, next_end - time.monotonic()))[0]
            for sock, one in list(running.items()):
                if outcome := (one.read(sock, pool) if sock in ready else None) or one.late():
                    del running[sock]
                    sock.close()
                    pool.end_worker(one.process, 0.0)
                    yield one.version, outcome
    finally:
        for sock, one in running.items():
            sock.close()
            pool.end_worker(one.process, 0.0)
