"""Reads a class's submissions in a separate process with limits on time and memory (read_process.py).

If the process exceeds a limit or crashes, the submission or chapter that it was reading is rejected (or read once more, if the machine may have
been too busy), and a new process continues with the others.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from grader.classroom.intake.chapter_versions import ChapterVersion
from grader.classroom.intake.options import DEFAULTS, ReadOptions
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.intake.several_people import refuse_classes
from grader.classroom.intake.submissions import NAMES, NoteCallback, Submission, add_slugs
from grader.course.syllabus import ROOT

LONGEST_LINE = 1 << 26  # bytes, twenty times the largest submission
MOST_CHAPTERS = 2  # rejected chapters of one submission, after which the whole submission is rejected


@dataclass(frozen=True)
class ReadLimits:
    memory: int = 2_000_000_000  # bytes of address space, if the system can limit it
    seconds: int = 60  # of processor time between two steps of reading one submission's files
    chapter_seconds: int = 10  # of processor time for one chapter
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
    refused: dict[str, dict[str, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    current: tuple[str, str] = (NAMES, "")  # the key and chapter that are being read


def read_in_subprocess(
    path: Path, add_note: NoteCallback = lambda sentence: None, limits: ReadLimits = ReadLimits(), options: ReadOptions = DEFAULTS
) -> list[Submission]:
    """Like `read_submissions`: all submissions, sorted by name. GradingProblem if the input as a whole cannot be used."""
    state, stops = _ReadState(), Counter[tuple[str, str]]()
    while True:
        state.current = (NAMES, "")
        try:
            _run_reader(path, state, limits, options)
            break
        except _ReaderStopped as stopped:
            stops[state.current] += 1
            if stopped.certain or stops[state.current] > 1:
                _reject_current(state, stopped.why, path)
    for sentence in state.notes:
        add_note(sentence)
    submissions = [submission for found in state.done.values() for submission in found]
    refuse_classes(path, submissions, add_note)
    return add_slugs(submissions)


def _reject_current(state: _ReadState, why: str, path: Path) -> None:
    """Exclude the submission or chapter that was being read."""
    key, chapter = state.current
    if key == NAMES:
        raise GradingProblem(f"the file names in {path.name} could not be read: {why}")
    refused = state.refused.setdefault(key, {})
    if chapter and len(refused) < MOST_CHAPTERS:
        refused[chapter] = f"{chapter if '.' in chapter else f'{chapter}.py'} cannot be read: {why}; simplify it"
    else:
        refused[""] = f"it cannot be read: {why}; submit only the chapter files"


def _run_reader(path: Path, state: _ReadState, limits: ReadLimits, options: ReadOptions) -> None:
    """Run one process until everything is read; _ReaderStopped if it ends before."""
    job = dict(path=str(path), done=list(state.done), refused=state.refused, memory=limits.memory, seconds=limits.seconds, chapter_seconds=limits.chapter_seconds)
    job |= dict(options=vars(options) | {"chapters": dict(options.chapters), "modules": sorted(options.modules)})
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-P", "-m", "grader.classroom.intake.read_process"]
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": paths})
    except OSError as error:
        raise GradingProblem(f"the process that reads submissions did not start: {(error.strerror or str(error)).lower()}") from None
    lines: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_forward_lines, args=[process, lines], name="headway reader", daemon=True).start()
    try:
        _send_job(process, job)
        while True:
            try:
                line = lines.get(timeout=limits.timeout)
            except queue.Empty:
                raise _ReaderStopped(f"reading it took longer than {limits.timeout:.0f} seconds", certain=False) from None
            if not line:
                raise _describe_exit(process.wait(), limits, bool(state.current[1]))
            if _apply_message(json.loads(line), state):
                return
    finally:
        process.kill()
        process.wait()


def _send_job(process: subprocess.Popen[bytes], job: dict[str, Any]) -> None:
    assert process.stdin
    try:
        process.stdin.write(json.dumps(job).encode() + b"\n")
        process.stdin.close()
    except OSError:  # it has ended already; reading its output shows how
        pass


def _forward_lines(process: subprocess.Popen[bytes], lines: queue.Queue[bytes]) -> None:
    assert process.stdout
    with process.stdout:
        while (line := process.stdout.readline(LONGEST_LINE)).endswith(b"\n"):
            lines.put(line)
    lines.put(b"")


def _apply_message(message: dict[str, Any], state: _ReadState) -> bool:
    """Store one message of the process; True after the last. GradingProblem if it reports that nothing can be read."""
    match message:
        case {"at": [str() as key, str() as chapter]}:
            state.current = (key, chapter)
        case {"note": str() as sentence}:
            state.notes += [sentence] if sentence not in state.notes else []
        case {"read": str() as key, "submissions": list() as submissions}:
            state.done[key] = [_parse_submission(data) for data in submissions]
        case {"refused": str() as sentence}:
            raise GradingProblem(sentence)
    return "end" in message


def _parse_submission(data: dict[str, Any]) -> Submission:
    when = data["submitted"]
    versions = tuple(ChapterVersion(**version | {"notes": tuple(version["notes"])}) for version in data["versions"])
    texts = {name: tuple(data[name]) for name in ("notes", "mapped", "other_code", "people")}
    return Submission(**data | texts | {"submitted": datetime.fromisoformat(when) if when else None, "versions": versions})


def _describe_exit(status: int, limits: ReadLimits, is_chapter: bool) -> _ReaderStopped:
    if hasattr(signal, "SIGXCPU") and status == -signal.SIGXCPU:
        seconds = limits.chapter_seconds if is_chapter else limits.seconds
        return _ReaderStopped(f"reading it takes longer than {seconds} seconds", certain=True)
    try:
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    except ValueError:
        how = f"signal {-status}"
    return _ReaderStopped(f"the process that read it crashed ({how})", certain=False)
