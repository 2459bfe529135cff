"""Recordings of tests: the examples that hypothesis drew, and the reference's answers to them.

Both are always the same for a test and a seed, so a run in which nothing fails need not find them again. The recordings are a cache on disk.
A missing, outdated or damaged one is made again, and a run without any gives the same verdicts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import struct
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from grader.course.syllabus import ROOT
from grader.execution.reference_connection import Answer
from grader.files import write_whole
from grader.verdict.conditions import conditions, read_conditions

FOLDER = ROOT / ".headway" / "recordings"
MOST_BYTES = 4 * 1024 * 1024  # of the answers of one test; larger ones are not recorded, the examples still are
CONDITIONS_KEPT = 3  # older recordings are of suites or versions that have changed
SEEDS_KEPT = 24  # of a test, besides the common examples: a class has 16 sets of examples for each exercise
_CHECKSUM = 16


@dataclass(frozen=True)
class Example:
    """What hypothesis drew for one example, and the sizes that it named meanwhile."""

    arguments: dict[str, Any]  # in a form for JSON
    sizes: dict[str, int]
    simplest: bool  # is it the simplest that the test's strategies have?

    @classmethod
    def of(cls, arguments: dict[str, Any], sizes: dict[str, int], simplest: bool = False) -> Example:
        """NotRecordable if an argument is of a kind that has no form for JSON."""
        return cls({name: _tree(value) for name, value in arguments.items()}, dict(sizes), simplest)

    def values(self) -> dict[str, Any]:
        """The arguments, as new objects: a test may change them."""
        return {name: _value(tree) for name, tree in self.arguments.items()}


@dataclass
class Recording:
    """One run of a test in which every example passed."""

    examples: list[Example] = field(default_factory=list)  # the drawn ones
    answers: list[list[Answer]] = field(default_factory=list)  # of the reference, for each example that ran, the pinned ones too


class NotRecordable(Exception):
    """A drawn value of a kind that a recording has no form for."""


class Recordings:
    """The recordings on disk that fit the present suites, reference and versions."""

    def __init__(self, folder: Path = FOLDER) -> None:
        conditions()
        self._all = folder
        self._known: dict[tuple[str, int], Recording] = {}

    @cached_property
    def _folder(self) -> Path:
        return self._all / hashlib.blake2b(conditions().encode(), digest_size=12).hexdigest()

    def _path(self, test: str, seed: int) -> Path:
        return self._folder / hashlib.blake2b(test.encode(), digest_size=12).hexdigest() / str(seed)

    def find(self, test: str, seed: int) -> Recording | None:
        """The recording of this test, by its id in pytest, if there is one that can be read."""
        if (test, seed) not in self._known:
            try:
                self._known[test, seed] = _decode(self._path(test, seed).read_bytes())
            except (OSError, ValueError, KeyError, TypeError, IndexError, struct.error, RecursionError):
                return None
        return self._known[test, seed]

    def store(self, test: str, seed: int, recording: Recording) -> None:
        """Store a recording; without a place to write, the next run makes it again."""
        if self._changed:
            return
        self._known[test, seed] = recording
        path = self._path(test, seed)
        with contextlib.suppress(OSError):
            if not self._folder.is_dir():
                _keep_newest(self._all, CONDITIONS_KEPT - 1)
            _keep_newest(path.parent, SEEDS_KEPT)
            write_whole(path, _encode(recording), durable=False)

    @cached_property
    def _changed(self) -> bool:
        """Whether a suite, the reference or the kit has changed since this process loaded them."""
        return read_conditions() != conditions()


@cache
def course_recordings() -> Recordings:
    """The recordings on disk; what is read of them stays in memory, where processes forked from this one find it."""
    return Recordings()


def _keep_newest(folder: Path, count: int) -> None:
    """Remove all in this folder but the newest, and what every run uses: the common examples."""
    found = [path for path in folder.iterdir() if path.name != "0"] if folder.is_dir() else []
    found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in found[count:]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


# ---- the form on disk: a checksum, the length of a JSON head, the head, and the buffers


def _encode(recording: Recording) -> bytes:
    answers, buffers = [], []
    size = sum(len(data) for example in recording.answers for answer in example for data in answer.buffers)
    for example in recording.answers if size <= MOST_BYTES else ():
        answers.append([[answer.request, answer.reply, [len(data) for data in answer.buffers]] for answer in example])
        buffers += [data for answer in example for data in answer.buffers]
    examples = [[example.arguments, example.sizes, example.simplest] for example in recording.examples]
    head = json.dumps([examples, answers]).encode()
    content = b"".join([struct.pack("<Q", len(head)), head, *buffers])
    return hashlib.blake2b(content, digest_size=_CHECKSUM).digest() + content


def _decode(data: bytes) -> Recording:
    content = memoryview(data)[_CHECKSUM:]
    if hashlib.blake2b(content, digest_size=_CHECKSUM).digest() != data[:_CHECKSUM]:
        raise ValueError("damaged")
    (length,) = struct.unpack_from("<Q", content)
    examples, answers = json.loads(bytes(content[8 : 8 + length]))
    place = 8 + length

    def take(size: int) -> bytes:
        nonlocal place
        place += size
        return bytes(content[place - size : place])

    read = [[Answer(request, reply, [take(size) for size in sizes]) for request, reply, sizes in example] for example in answers]
    return Recording([Example(*parts) for parts in examples], read)


def _tree(value: Any) -> Any:
    """A drawn value in a form for JSON that keeps its type: plain values as they are, containers with a name."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in (list, tuple):
        return {kind.__name__: [_tree(item) for item in value]}
    if kind is dict:
        return {"dict": [[_tree(key), _tree(item)] for key, item in value.items()]}
    if kind is SimpleNamespace:
        return {"sizes": [[name, _tree(item)] for name, item in vars(value).items()]}
    raise NotRecordable(kind.__name__)


def _value(tree: Any) -> Any:
    """The value of such a form."""
    if not isinstance(tree, dict):
        return tree
    ((kind, body),) = tree.items()
    match kind:
        case "list":
            return [_value(item) for item in body]
        case "tuple":
            return tuple(_value(item) for item in body)
        case "dict":
            return {_value(key): _value(item) for key, item in body}
        case "sizes":
            return SimpleNamespace(**{name: _value(item) for name, item in body})
    raise ValueError(kind)
