"""Reads a class's submissions in a separate process with limits on time and memory.

If the process exceeds a limit or crashes, the submission that it was reading is rejected (or read once more, if the
machine may have been too busy), and a new process continues with the others: each submission has a key, and the next
process skips the keys that are done. Every fault in one submission becomes the `problem` of that submission only.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from grader.classroom.intake.class_layout import ClassFiles, PersonFiles, divide_class
from grader.classroom.intake.clones import NO_DATES, CommitDates, is_clone, read_clone
from grader.classroom.intake.file_names import NeutralNames, parse_code_name, strip_archive_suffix
from grader.classroom.intake.files import CLASS_LIMITS, describe_entry, is_archive, list_members, walk_folder
from grader.classroom.intake.submission_content import read_content, unreadable
from grader.classroom.intake.submissions import (
    GradingProblem,
    NoteCallback,
    ReadingCallback,
    Submission,
    UnreadableSubmission,
    add_slugs,
    describe_error,
    replace_undecodable,
)
from grader.classroom.intake.tables import SubmissionRow, read_submission_table
from grader.course.syllabus import EXERCISES, ROOT, SOLUTIONS, TESTS

NAMES = "\0names"  # the key while the files of the class are listed
FILES_BETWEEN_REPORTS = 1_000
SLOW_SECONDS = 1.0  # after which it is reported again what is being read


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
    path: Path, add_note: NoteCallback = lambda sentence: None, limits: ReadLimits = ReadLimits(),
    report: ReadingCallback = lambda what: None, hides_names: bool = False, dates: CommitDates = NO_DATES,
) -> list[Submission]:  # fmt: skip
    """Like `read_submissions`: all submissions, sorted by name. GradingProblem if the input cannot be used.

    `report` is called with what is being read, and each second while that takes long.
    """
    state, stops = _ReadState(), Counter[str]()
    while True:
        state.current = NAMES
        try:
            _run_reader(path, state, limits, report, hides_names, dates)
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


def _run_reader(
    path: Path, state: _ReadState, limits: ReadLimits, report: ReadingCallback, hides_names: bool, dates: CommitDates
) -> None:
    """Run one process until everything is read; _ReaderStopped if it ends before."""
    context = multiprocessing.get_context("spawn")  # a forked process could wait for locks of other threads here
    messages, sender = context.Pipe(duplex=False)
    asked = (path, tuple(state.done), state.refused, limits, hides_names, dates)
    process = context.Process(target=_read, args=[sender, *asked])
    try:
        process.start()
    except OSError as error:
        raise GradingProblem(f"the process that reads submissions did not start: {describe_error(error)}") from None
    sender.close()
    waited, what = 0.0, f"the file names in {path.name}"
    report(what)
    try:
        while True:
            if not messages.poll(min(SLOW_SECONDS, limits.timeout - waited)):
                waited += SLOW_SECONDS
                if waited >= limits.timeout:
                    why = f"reading it took longer than {limits.timeout:.0f} seconds"
                    raise _ReaderStopped(why, certain=False)
                report(what)
                continue
            waited = 0.0
            try:
                kind, value = messages.recv()
            except (EOFError, OSError):
                process.join()
                raise _describe_exit(process.exitcode or 0, limits) from None
            if kind == "at":
                state.current = value
                if value != NAMES:
                    what = f"submission {len(state.done) + 1}" + ("" if hides_names else f": {value or path.name}")
                    report(what)
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
    sender: Connection, path: Path, done: Collection[str], refused: Mapping[str, str], limits: ReadLimits,
    hides_names: bool, dates: CommitDates,
) -> None:  # fmt: skip
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process ends this one
    sys.stderr = open(os.devnull, "w")  # Python warns of odd code in submissions
    _limit("RLIMIT_AS", limits.memory)

    def report(key: str) -> None:
        sender.send(("at", key))
        _limit("RLIMIT_CPU", int(time.process_time()) + limits.seconds + 1)  # then SIGXCPU ends the process

    def add_note(sentence: str) -> None:
        sender.send(("note", sentence))

    try:
        for submissions in iterate_submissions(path, add_note, done, refused, report, hides_names, dates):
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


# The key of a submission, its people, and a function that reads it.
Reading = tuple[str, Sequence[str], Callable[[], list[Submission]]]


# ---- what it reads


def read_submissions(path: Path, add_note: NoteCallback = lambda sentence: None) -> list[Submission]:
    """All submissions, sorted by name. GradingProblem, one sentence, if the input as a whole cannot be used."""
    return add_slugs(one for found in iterate_submissions(path, add_note) for one in found)


def iterate_submissions(
    path: Path,
    add_note: NoteCallback,
    done: Collection[str] = (),
    refused: Mapping[str, str] = {},
    report: Callable[[str], None] = lambda key: None,
    hides_names: bool = False,
    dates: CommitDates = NO_DATES,
) -> Iterator[list[Submission]]:
    """The submissions of each key (for a group, one per person). `report` is called with each key before.

    With `hides_names`, no sentence shows a name of a file or folder that somebody handed in.

    An earlier process has read those that are `done`, and failed at those that are `refused`, for the reason there.
    """
    for key, names, read in _find_submissions(Path(path).expanduser(), add_note, report, hides_names, dates):
        if key in done:
            continue
        report(key)
        problem = refused.get(key, "")
        try:
            found = [] if problem else read()
        except Exception as error:  # no other submission is affected
            problem = f"it cannot be read: {describe_error(error)}"
        if problem:
            found = [replace(unreadable(problem), name=name) for name in names]
        yield [replace(one, name=replace_undecodable(one.name)) for one in found]


def _find_submissions(
    path: Path, add_note: NoteCallback, report: Callable[[str], None], hides_names: bool, dates: CommitDates
) -> Iterator[Reading]:
    names, clones = NeutralNames() if hides_names else None, list[str]()
    if path.is_dir():
        if path.resolve() in (ROOT, EXERCISES, SOLUTIONS, TESTS):
            raise GradingProblem(f"{path} belongs to the kit itself; name the folder with the submissions")
        with contextlib.suppress(OSError):  # the walk says why
            clones = sorted(name for name in os.listdir(path) if name[0] != "." and is_clone(path / name))
        for clone in clones:
            yield clone, [clone], partial(read_clone, path / clone, dates, hides_names)
        files = []
        for number, found in enumerate(walk_folder(path)):
            if number % FILES_BETWEEN_REPORTS == 0:
                report(NAMES)
            if found.path[0] not in clones:
                files.append(found)
        others = ClassFiles(str(path), path.resolve().name, files, names=names)
        if not clones or others.people(()):
            yield from _divide(others, add_note)
    elif not path.exists():
        raise GradingProblem(f"{path} does not exist")
    elif not path.is_file():
        raise GradingProblem(f"{path} is neither a file nor a folder")
    elif not os.access(path, os.R_OK):
        raise GradingProblem(f"{path} cannot be read: permission denied")
    elif is_archive(describe_entry(path.resolve(), (path.name,))):
        with path.open("rb") as file:
            try:
                members = list_members(file, path.stat().st_size, CLASS_LIMITS)
            except UnreadableSubmission as problem:
                raise GradingProblem(f"{path.name}: {problem}") from None
            stem = strip_archive_suffix(path.name) or path.name
            yield from _divide(ClassFiles(path.name, stem, members, is_archive=True, names=names), add_note)
    elif path.suffix.lower() == ".csv":
        for row in read_submission_table(path):
            yield f"line {row.line}", [row.name], partial(_read_row, row, hides_names)
    elif code := parse_code_name(path.name):
        if hides_names:
            raise _one_person(path.name)
        name = code.person or path.stem
        yield "", [name], lambda: [replace(_read_path(path), name=name)]
    else:
        raise GradingProblem(f"{path.name} is not a folder, an archive, a table (.csv), a Python file or a notebook")


def _divide(found: ClassFiles, add_note: NoteCallback) -> Iterator[Reading]:
    for person in divide_class(found, add_note):
        if found.names and not person.folder:
            raise _one_person(found.name)
        yield person.key, person.names, partial(_read_person, person, bool(found.names))


def _one_person(name: str) -> GradingProblem:
    why = "its path, which may have the person's name, would stay in the folder of the grades"
    return GradingProblem(f"{name} is the submission of one person: {why}; put it into a folder, and name that folder")


def _read_row(row: SubmissionRow, hides_names: bool) -> list[Submission]:
    if row.path is None:
        found = unreadable(f"nothing was submitted: line {row.line} of the table has no path")
    elif not row.path.exists():
        found = unreadable(f"the path in line {row.line} of the table does not exist")
    else:
        found = _read_path(row.path.resolve(), hides_names)
    return [replace(found, name=row.name, submitted=row.submitted)]


def _read_path(path: Path, hides_names: bool = False) -> Submission:
    """One person's folder, archive or file."""
    return read_content(walk_folder(path) if path.is_dir() else [describe_entry(path, (path.name,))], hides_names)


def _read_person(person: PersonFiles, hides_names: bool) -> list[Submission]:
    """One submission for each person of a group (usually one person)."""
    content = unreadable(person.problem) if person.problem else read_content(person.files, hides_names)
    group = person.key if len(person.names) > 1 else ""
    content = replace(content, submitted=person.submitted, group=group)
    people = zip(person.names, person.ids, strict=True)
    return [replace(content, name=name, ids=ids) for name, ids in people]
