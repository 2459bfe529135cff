"""Which of the learner's exercises pass their tests, recorded by content, so that one exercise can be judged without running the tests of others.

The file is a cache: a missing, outdated or damaged entry is found again by running the tests.
"""

from __future__ import annotations

import hashlib
import json
from functools import cached_property

from grader.course.source import SourceProblem
from grader.course.syllabus import EXERCISES, load_syllabus
from grader.execution.errors import ChapterBroken
from grader.execution.names_used import code_of
from grader.execution.target import Target
from grader.files import write_whole
from grader.verdict.conditions import conditions
from grader.verdict.results import REASONS
from grader.version import __version__

FILE = EXERCISES / ".headway" / "states.json"
MOST = 1000  # entries; the oldest are dropped
_STATES = {"passed", *REASONS}


class StateRecord:
    """The record for one target; it is used for the learner's own folder only."""

    def __init__(self, target: Target, seed: int) -> None:
        self.target, self.seed = target, seed

    def state_of(self, exercise: str) -> str | None:
        """The recorded state of the exercise as it is now."""
        if not self.target.is_own_folder or not self._stored:
            return None
        key = self._key(exercise)
        return self._stored.get(key) if key else None

    def has_failures_of(self, exercise: str) -> bool:
        """Whether any version of the exercise is recorded as failing; without one, `state_of` need not be called to find out that it fails."""
        return self.target.is_own_folder and any(state != "passed" and key.startswith(f"{exercise} ") for key, state in self._stored.items())

    def store(self, states: dict[str, str]) -> None:
        """Record the states of exercises as they are now."""
        if not self.target.is_own_folder:
            return
        new = {key: state for name, state in states.items() if (key := self._key(name))}
        if new.items() <= self._stored.items():
            return
        kept = {key: state for key, state in self._stored.items() if key not in new} | new
        try:
            write_whole(FILE, json.dumps(dict(list(kept.items())[-MOST:]), indent=0) + "\n")
        except OSError:
            return  # without the record, tests of other exercises run again where a test fails

    @cached_property
    def _stored(self) -> dict[str, str]:
        try:
            data = json.loads(FILE.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return {key: state for key, state in data.items() if state in _STATES} if isinstance(data, dict) and all(isinstance(s, str) for s in data.values()) else {}

    def _key(self, exercise: str) -> str | None:
        """A fingerprint of the definition, of all that it uses in its chapter, and of what runs when the chapter is imported; None if it cannot be read."""
        module = load_syllabus().exercise(exercise).module
        try:
            parts = code_of(self.target.source(module).text, exercise)
        except (SourceProblem, ChapterBroken):
            return None
        return f"{exercise} {hashlib.sha256(chr(10).join([__version__, str(self.seed), conditions(), *parts]).encode()).hexdigest()}"
