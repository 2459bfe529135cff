"""Which graded tests a session is about: those of the selected chapters and exercises."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from grader.course.syllabus import TESTS, Exercise, UnknownName, load_syllabus
from grader.runner.graded_tests import GradedTest, NotATest, graded_test
from grader.runner.marks import mark_of

_TEST = pytest.StashKey[GradedTest | None]()


@dataclass(frozen=True)
class Selection:
    chapters: frozenset[str]
    exercises: frozenset[str]

    @classmethod
    def of_options(cls, option) -> Selection:
        """UnknownName if there is no such chapter or exercise."""
        course = load_syllabus()
        chapters = frozenset(course.chapter(name).id for name in option.chapter or ())
        return cls(chapters, frozenset(course.exercise(name).name for name in option.exercise or ()))

    def __bool__(self) -> bool:
        """Whether some tests are chosen; otherwise all are wanted."""
        return bool(self.chapters or self.exercises)

    def wants(self, exercise: Exercise) -> bool:
        return (not self.chapters or exercise.chapter in self.chapters) and (
            not self.exercises or exercise.name in self.exercises
        )

    def leaves_out(self, file: Path) -> bool:
        """Whether this suite has none of the selected tests, so that it need not be imported."""
        if not self or file.suffix != ".py" or file.resolve().parent != TESTS:
            return False
        wanted = {exercise.name for exercise in load_syllabus().exercises if self.wants(exercise)}
        return wanted.isdisjoint(re.findall(r"""exercise\(\s*["'](\w+)["']""", file.read_text(encoding="utf-8")))


def graded_test_of(item: pytest.Item) -> GradedTest | None:
    """The graded test that pytest has collected as this item; None for any other item."""
    if _TEST not in item.stash:
        item.stash[_TEST] = _graded_test(item)
    return item.stash[_TEST]


def _graded_test(item: pytest.Item) -> GradedTest | None:
    function = getattr(item, "obj", None)
    if mark_of(function) is None:
        return None
    try:
        if hasattr(item, "callspec"):
            raise NotATest(f"{item.name} is parametrized; have hypothesis draw its arguments instead")
        return graded_test(function, item.path.resolve())
    except (NotATest, UnknownName) as problem:
        raise pytest.UsageError(f"{item.path.name}: {problem}") from None
