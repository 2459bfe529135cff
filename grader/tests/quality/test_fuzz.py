"""Bytes from strangers: frames of the boundary, archives, a damaged gradebook. None may take much memory or end in anything but our own messages.

    HEADWAY_FUZZ=20000 python -m pytest grader/tests/quality/test_fuzz.py grader/tests/quality/test_fuzz_texts.py

tries that many examples of each, other ones every time; without it a few are tried, the same ones every time.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import tempfile
import threading
import time
import tracemalloc
from functools import cache
from pathlib import Path

import pytest
from example_class import EXERCISES, VERSIONS, a_class, verdict_of
from fuzzing import fuzzed, mutated, values
from grader.classroom.gradebook import Gradebook
from grader.classroom.gradebook_file import GradebookProblem
from grader.classroom.intake.reader import read_submissions
from grader.classroom.intake.submissions import GradingProblem
from grader.classroom.judging.rules import Rules
from grader.execution.values import MAX_NODES
from grader.execution.wire import HEAD_WEIGHT, MAX_EXAMPLE, MAX_HEAD, Allowance, DeadlinePassed, MalformedFrame, receive
from hypothesis import given
from hypothesis import strategies as st
from submission_archives import CHAPTER, tar_member, tarred, zipped

pytestmark = pytest.mark.thorough

LONG = 60.0  # seconds until `receive` gives up; no test waits for it


# ---- the boundary's frames


def frame(head: bytes, payload: bytes = b"", claimed: int | None = None) -> bytes:
    return struct.pack("<4sI", b"hdwy", len(head) if claimed is None else claimed) + head + payload


def receive_bytes(data: bytes, allowance: Allowance | None = None, seconds: float = LONG):
    """What `receive` makes of these bytes from a sender that then closes the connection."""
    ours, theirs = socket.socketpair()
    with ours:
        sender = threading.Thread(target=_send, args=(theirs, data))
        sender.start()
        try:
            return receive(ours, time.monotonic() + seconds, allowance)
        finally:
            ours.close()
            sender.join()


def _send(sock: socket.socket, data: bytes) -> None:
    with sock:
        try:
            sock.sendall(data)
        except OSError:  # the receiver has closed the connection
            pass


FRAMES = [
    frame(json.dumps([{"value": [1, 2.5, "text", None]}, []]).encode()),
    frame(json.dumps([{"value": {"tensor": ["float32", [2], "cpu", 0]}}, [8]]).encode(), bytes(8)),
    frame(json.dumps([{"error": {"kind": "ValueError", "message": "no"}}, [3, 0, 5]]).encode(), b"abcdefgh"),
]


@fuzzed(300)
@given(data=st.one_of(st.binary(max_size=300), mutated(FRAMES), values.map(lambda value: frame(json.dumps(value).encode(), b"x" * 40))))
def test_bytes_that_are_not_a_frame_are_refused(data):
    try:
        body, buffers = receive_bytes(data, Allowance())
    except (MalformedFrame, EOFError, DeadlinePassed):
        return
    assert sum(map(len, buffers)) <= len(data)
    json.dumps(body)


HEAVY = {
    "a head that is promised and does not come": frame(b"[", claimed=MAX_HEAD),
    "a head of lists in lists": frame(b"[" * 300_000),
    "as many lists as may be": frame(b"[" + b"[]," * (2 * MAX_NODES - 2) + b"0]"),
    "as many objects as may be": frame(b"[" + b'{"a":0},' * (MAX_NODES) + b"[]]"),
    "one long text": frame(b'["' + b"x" * (MAX_EXAMPLE // HEAD_WEIGHT - 100) + b'",[]]'),
    "one long text of signs that take four bytes": frame(b'["' + b"\\ud83d\\ude00" * (MAX_EXAMPLE // HEAD_WEIGHT // 12 - 10) + b'",[]]'),
    "a number of a million digits": frame(b"[" + b"9" * 1_000_000 + b",[]]"),
    "many keys": frame(b"[{" + b",".join(b'"%d":0' % number for number in range(200_000)) + b"},[]]"),
    "lengths below zero": frame(b"[0,[-1,-5]]", b"x" * 10),
    "lengths beyond all": frame(b"[0,[1e400,Infinity,NaN]]", b"x" * 10),
    "a length that is true": frame(b"[0,[true]]", b"x"),
    "more lengths than bytes": frame(b"[0,[" + b"1," * 100_000 + b"1]]", b"x" * 10),
}


@pytest.mark.parametrize("name", HEAVY)
def test_no_frame_takes_more_memory_than_an_example_may_use(name):
    data = HEAVY[name]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        try:
            value = receive_bytes(data, Allowance())
        except (MalformedFrame, EOFError) as refused:
            value = refused
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert peak < 2 * MAX_EXAMPLE, (value if isinstance(value, Exception) else "read", peak)


# ---- archives

_TEXT = "x = 1\n" * 30
ARCHIVES = [
    zipped({f"hw/{CHAPTER}": _TEXT, "notes.txt": "n"}),
    zipped({f"alpha/{CHAPTER}": _TEXT, f"beta/{CHAPTER}": "y", "gamma.zip": zipped({CHAPTER: "z"})}),
    tarred({f"hw/{CHAPTER}": _TEXT, "x" * 150 + "/notes.txt": "n"}, "w:"),
    tarred({f"hw/{'é' * 120}/{CHAPTER}": _TEXT}, "w:"),
    tar_member(CHAPTER.encode()) + tar_member(b"link", b"", b"2") + bytes(1024),
    tarred({CHAPTER: _TEXT}),
    tarred({CHAPTER: _TEXT}, "w:bz2"),
    tarred({CHAPTER: _TEXT}, "w:xz"),
]


@fuzzed(150)
@given(data=st.binary(max_size=1500) | mutated(ARCHIVES), name=st.sampled_from(["alpha.zip", "alpha.tar.gz", "alpha", CHAPTER]))
def test_any_archive_is_read_or_refused_in_a_sentence_and_nothing_is_unpacked(tmp_path_factory, data, name):
    """As one person's file, and as the archive of a whole class."""
    folder = _fresh(tmp_path_factory)
    (folder / "class").mkdir()
    (folder / "class" / name).write_bytes(data)
    for path in (folder / "class", folder / "class" / name):
        try:
            found = read_submissions(path)
        except GradingProblem as problem:
            assert len(str(problem).splitlines()) == 1
            continue
        for submission in found:
            assert bool(submission.problem) != bool(submission.sources)
            assert submission.problem.isprintable() and len(submission.problem) < 500
    assert [path.relative_to(folder).as_posix() for path in folder.rglob("*")] == ["class", f"class/{name}"]


# ---- a gradebook


@cache
def whole_book() -> bytes:
    """A small class's."""
    with tempfile.TemporaryDirectory() as folder:
        with Gradebook(Path(folder)) as book:
            book.start_run(0, EXERCISES, VERSIONS)
            for submission in book.submissions_to_do(a_class(4)):
                book.store_verdict(submission.digest, verdict_of(submission.digest))
        return (Path(folder) / "gradebook.sqlite").read_bytes()


def use(folder: Path) -> None:
    """Do everything that a run does with a gradebook; it may raise only its own problem, in one line."""
    try:
        with Gradebook(folder) as book:
            book.list_people()
            book.start_run(0, EXERCISES, VERSIONS)
            for submission in book.submissions_to_do(a_class(4)):
                book.store_verdict(submission.digest, verdict_of(submission.digest))
            book.graded_class(Rules())
            book.delete_verdicts(book.find_person("Learner 000").slug)
    except GradebookProblem as problem:
        assert len(str(problem).splitlines()) == 1


@fuzzed(60)
@given(data=st.data())
def test_a_gradebook_with_bytes_changed_is_used_or_refused_in_a_sentence(tmp_path_factory, data):
    folder = _fresh(tmp_path_factory)
    (folder / "gradebook.sqlite").write_bytes(data.draw(mutated([whole_book()])))
    if data.draw(st.booleans()):
        (folder / "gradebook.sqlite-journal").write_bytes(data.draw(st.binary(max_size=600)))
    use(folder)


def _fresh(tmp_path_factory) -> Path:
    """An empty folder, always the same: there are thousands of examples."""
    folder = tmp_path_factory.getbasetemp() / "fuzzed"
    folder.mkdir(exist_ok=True)
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else os.unlink(path)
    return folder
