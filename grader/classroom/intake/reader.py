"""Reads a class's submissions in a separate process with limits on time and memory.

If the process exceeds a limit or crashes, the submission that it was reading is rejected (or read once more, if the
machine may have been too busy), and a new process continues with the others.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from grader.classroom.intake.problems import GradingProblem, describe_error
from grader.classroom.intake.reading import NAMES, iterate_submissions
from grader.classroom.intake.submissions import NoteCallback, Submission, add_slugs


@dataclass(frozen=True)
class ReadLimits:
    memory: int = 2_000_000_000  # bytes of address space, if the system can limit it
    seconds: int = 60  # of processor time for one submission
    timeout: float = 180.0  # seconds of wall time without a progress report


class _ReaderStopped(Exception):
    """The process ended early or had to be killed."""

    def __init__(self, why: str, certain: bool) -> None:
        super().__init__(why)
        self.why = why
        self.certain = certain  # will it end in the same way again?


@dataclass
class _ReadState:
    """What all processes have read so far."""

    done: dict[str, list[Submission]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    current: str = NAMES  # the key that is being read


def read_in_subprocess(
    path: Path, add_note: NoteCallback = lambda sentence: None, limits: ReadLimits = ReadLimits()
) -> list[Submission]:
    """Like `read_submissions`: all submissions, sorted by name. GradingProblem if the input cannot be used."""
    state, stops = _ReadState(), Counter[str]()
    while True:
        state.current = NAMES
        try:
            _run_reader(path, state, limits)
            break
        except _ReaderStopped as stopped:
            stops[state.current] += 1
            if stopped.certain or stops[state.current] > 1:
                if state.current == NAMES:
                    raise GradingProblem(f"the file names in {path.name} could not be read: {stopped.why}") from None
                state.refused[state.current] = f"it cannot be read: {stopped.why}; submit only the chapter files"
    for sentence in dict.fromkeys(state.notes):
        add_note(sentence)
    return add_slugs(submission for found in state.done.values() for submission in found)


def _run_reader(path: Path, state: _ReadState, limits: ReadLimits) -> None:
    """Run one process until everything is read; _ReaderStopped if it ends before."""
    context = multiprocessing.get_context("spawn")  # a forked process could wait for locks of other threads here
    messages, sender = context.Pipe(duplex=False)
    process = context.Process(target=_read, args=[sender, path, tuple(state.done), state.refused, limits])
    try:
        process.start()
    except OSError as error:
        raise GradingProblem(f"the process that reads submissions did not start: {describe_error(error)}") from None
    sender.close()
    try:
        while True:
            if not messages.poll(limits.timeout):
                why = f"reading it took longer than {limits.timeout:.0f} seconds"
                raise _ReaderStopped(why, certain=False)
            try:
                kind, value = messages.recv()
            except (EOFError, OSError):
                process.join()
                raise _describe_exit(process.exitcode or 0, limits) from None
            if kind == "at":
                state.current = value
            elif kind == "note":
                state.notes.append(value)
            elif kind == "read":
                state.done[state.current] = value
            elif kind == "refused":
                raise GradingProblem(value)
            else:
                return
    finally:
        process.kill()
        process.join()
        messages.close()


def _describe_exit(status: int, limits: ReadLimits) -> _ReaderStopped:
    if hasattr(signal, "SIGXCPU") and status == -signal.SIGXCPU:
        return _ReaderStopped(f"reading it takes longer than {limits.seconds} seconds", certain=True)
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    with contextlib.suppress(ValueError):
        how = signal.Signals(-status).name
    return _ReaderStopped(f"the process that read it crashed ({how})", certain=False)


# ---- the separate process


def _read(
    sender: Connection, path: Path, done: Collection[str], refused: Mapping[str, str], limits: ReadLimits
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process ends this one
    sys.stderr = open(os.devnull, "w")  # Python warns of odd code in submissions
    _limit("RLIMIT_AS", limits.memory)

    def report(key: str) -> None:
        sender.send(("at", key))
        _limit("RLIMIT_CPU", int(time.process_time()) + limits.seconds + 1)  # then SIGXCPU ends the process

    def add_note(sentence: str) -> None:
        sender.send(("note", sentence))

    try:
        for submissions in iterate_submissions(path, add_note, done, refused, report):
            sender.send(("read", submissions))
    except GradingProblem as problem:
        sender.send(("refused", str(problem)))
    except Exception as error:
        sender.send(("refused", f"{path.name} cannot be read: {describe_error(error)}"))
    sender.send(("end", ""))


def _limit(name: str, most: int) -> None:
    """Set a limit of the operating system, where there is one. macOS and Windows have no limit of memory that works."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        kind = getattr(resource, name)
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
