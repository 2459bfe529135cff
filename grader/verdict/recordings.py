"""Recordings of tests: the examples that hypothesis drew, as far as they run, and what the test requested in them when
the reference was tested, with its replies.

Both are always the same for a test and a seed, so a run in which nothing fails need not find them again. The recordings
are a cache on disk. A missing, outdated or damaged one is made again, and a run without any gives the same verdicts.
They are pickles: only the judge writes them, and nothing of a submission is in them.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import pickle
import shutil
import time
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from grader.course.syllabus import ROOT
from grader.execution.example_requests import RecordedExample
from grader.files import write_whole
from grader.verdict.last_verdicts import conditions, read_conditions

FOLDER = ROOT / ".headway" / "recordings"
MAX_RUN_BYTES = 4 * 1024 * 1024  # of one test; of larger ones only the examples are recorded
CONDITIONS_KEPT = 3  # older recordings are of suites or versions that have changed
LOOK_SECONDS = 1.0  # a look at the kit's files takes 14 ms, as long as a recording
SEEDS_KEPT = 24  # of a test, besides the common examples: a class has 16 sets of examples for each exercise


@dataclass(frozen=True)
class Example:
    """What hypothesis drew for one example, and the sizes that it named meanwhile."""

    arguments: bytes  # pickled: a test may change them, so each run gets new objects
    sizes: dict[str, int]
    simplest: bool  # is it the simplest that the test's strategies have?
    key: str = ""  # a short digest of what was drawn; "" where hypothesis does not say

    @classmethod
    def of(cls, arguments: dict[str, Any], sizes: dict[str, int], simplest: bool = False, key: str = "") -> Example:
        """NotRecordable if an argument cannot be pickled."""
        try:
            return cls(pickle.dumps(arguments), dict(sizes), simplest, key)
        except (pickle.PicklingError, TypeError, AttributeError) as problem:
            raise NotRecordable(str(problem)) from None

    def values(self) -> dict[str, Any]:
        """The arguments, as new objects."""
        return pickle.loads(self.arguments)


@dataclass
class Recording:
    """One run of a test on the reference."""

    examples: list[Example] = field(default_factory=list)  # the drawn ones that run
    simplest: Example | None = None  # of all that hypothesis draws
    # of each example that runs, the pinned ones too; empty if they are too large
    runs: list[RecordedExample] = field(default_factory=list)


class NotRecordable(Exception):
    """A drawn value that cannot be pickled."""


class Recordings:
    """The recordings on disk that fit the present suites, reference and versions."""

    def __init__(self, folder: Path = FOLDER) -> None:
        conditions()
        self.folder = folder
        self._known: dict[tuple[str, int], Recording] = {}
        self._fitted_at = -math.inf  # on the monotonic clock, when they were last seen to fit

    @cached_property
    def _current(self) -> Path:
        return self.folder / hashlib.blake2b(conditions().encode(), digest_size=12).hexdigest()

    def _path(self, test: str, seed: int) -> Path:
        return self._current / hashlib.blake2b(test.encode(), digest_size=12).hexdigest() / str(seed)

    def find(self, test: str, seed: int) -> Recording | None:
        """The recording of this test, by its id in pytest, if there is one that can be read."""
        if (test, seed) not in self._known:
            try:
                self._known[test, seed] = pickle.loads(self._path(test, seed).read_bytes())
            except Exception:  # missing or damaged
                return None
        return self._known[test, seed]

    def _fits(self) -> bool:
        """False if a suite, the reference or the kit has changed since this process loaded them."""
        if time.monotonic() - self._fitted_at > LOOK_SECONDS:
            if read_conditions() != conditions():
                return False
            self._fitted_at = time.monotonic()
        return True

    def store(self, test: str, seed: int, recording: Recording) -> None:
        """Store a recording; without a place to write, the next run makes it again."""
        if not self._fits():
            return
        if sum(run.size for run in recording.runs) > MAX_RUN_BYTES:
            recording = Recording(recording.examples, recording.simplest)
        self._known[test, seed] = recording
        path = self._path(test, seed)
        with contextlib.suppress(OSError):
            if not self._current.is_dir():
                _keep_newest(self.folder, CONDITIONS_KEPT - 1)
            _keep_newest(path.parent, SEEDS_KEPT)
            write_whole(path, pickle.dumps(recording), durable=False)


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
