"""The versions of an exercise that a test is tried on, and the goals of the exercises that have a task for it."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from grader.course.chapter_source import ChapterSource
from grader.course.known_mistakes import misconceptions, variants
from grader.course.reference import reference_of
from grader.course.source import SourceProblem
from grader.course.syllabus import EXERCISES, Exercise, load_syllabus
from grader.execution.chapter_package import without_text
from grader.files import UserProblem

TASKS = EXERCISES / "test_tasks.toml"
REFERENCE = "the reference solution"


@dataclass(frozen=True)
class Version:
    says: str  # what a correct version is, or what is wrong
    text: str  # of the chapter
    is_correct: bool


@dataclass(frozen=True)
class Task:
    """What a good test of an exercise finds."""

    share: float  # of the known mistakes
    about: str
    example: str  # the first test's code

    def least(self, mistakes: int) -> int:
        """The number of mistakes to find."""
        return math.ceil(self.share * mistakes)


def versions_of(exercise: Exercise) -> list[Version]:
    """The correct versions, the reference first; then those with a known mistake. UserProblem if there are none."""
    reference = reference_of(exercise.module)
    mistakes = misconceptions(exercise.module, exercise.name)
    if reference is None or not mistakes:
        raise UserProblem(f"there are no known mistakes of {exercise.name} here, so no test of it can be tried")
    correct = [Version(REFERENCE, reference.text, True)]
    for title, text in variants(exercise.module, exercise.name):
        if re.search(r"^\s+assert ", text, re.MULTILINE):
            continue  # graded tests accept an AssertionError where a ValueError is promised; a learner's need not
        correct.append(Version(title, f"{reference.text}\n\n{text}", True))
    return correct + [Version(one.says, one.applied_to_chapter(reference.text), False) for one in mistakes]


def compiled_chapters(exercise: Exercise, version: Version) -> Iterator[ChapterSource]:
    """The version's chapter and the earlier ones of the reference, each without its text."""
    yield without_text(ChapterSource(exercise.module, version.text, ""))
    for chapter in load_syllabus().chapters:
        if chapter.id < exercise.chapter and (reference := reference_of(chapter.name)):
            yield without_text(reference)


@cache
def load_tasks() -> dict[str, Task]:
    """The tasks by exercise; those of exercises that this handout lacks are left out. SourceProblem for a damaged
    file."""
    known = {exercise.name for exercise in load_syllabus().exercises}
    try:
        entries = tomllib.loads(TASKS.read_text(encoding="utf-8")) if TASKS.is_file() else {}
        tasks = {
            name: Task(float(entry["share"]), str(entry["about"]), str(entry["example"]))
            for name, entry in entries.items()
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        advice = f"`git checkout exercises/{TASKS.name}` restores it"
        raise SourceProblem(f"exercises/{TASKS.name} cannot be read: {error}; {advice}") from error
    return {name: task for name, task in tasks.items() if name in known}
