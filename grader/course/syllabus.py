"""The course as data: chapters, exercises, points and hints, read from exercises/syllabus.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from grader.course.names import match_name, normalise, unknown_name
from grader.files import UserProblem

ROOT = Path(__file__).resolve().parents[2]
EXERCISES = ROOT / "exercises"
SOLUTIONS = ROOT / "solutions"
TESTS = ROOT / "tests"
REFERENCE = ROOT / "reference"  # in a handout, instead of solutions/: the sealed reference

_MARKED_TEST = re.compile(
    r'^@exercise\("(\w+)"(?:, weight=([\d.]+))?\)(?: *#.*)?\n(?:[@#\s)].*\n)*?def (\w+)\(', re.MULTILINE
)


class UnknownName(UserProblem, ValueError):
    """No exercise or chapter has this name; the message suggests similar names."""


@dataclass(frozen=True)
class Exercise:
    name: str
    chapter: str  # the chapter's id, "ch03"
    module: str  # the chapter's module, "ch03_attention"
    points: float
    promise: str
    why: str
    unlocks: str
    hints: tuple[str, ...]
    forbids: tuple[str, ...]  # those of the chapter and those of the exercise
    own_forbids: tuple[str, ...] = ()  # without those of the chapter
    gradient: bool = False  # must every floating-point result carry gradient back to its inputs and parameters?


@dataclass(frozen=True)
class Chapter:
    id: str
    name: str
    title: str
    about: str
    exercises: tuple[Exercise, ...] = field(default=())
    forbids: tuple[str, ...] = ()  # in each of its exercises
    hidden: tuple[str, ...] = ()  # in a handout: exercises that only the instructor can grade
    hours: float = 0.0  # about so many, with the lesson

    @property
    def number(self) -> int:
        return int(self.id.removeprefix("ch"))

    @property
    def points(self) -> float:
        return sum(exercise.points for exercise in self.exercises)


@dataclass(frozen=True)
class Syllabus:
    chapters: tuple[Chapter, ...]

    @cached_property
    def exercises(self) -> tuple[Exercise, ...]:
        return tuple(exercise for chapter in self.chapters for exercise in chapter.exercises)

    def exercise(self, name: str) -> Exercise:
        """The exercise of that name, in any letter case; UnknownName, with similar names, if it does not exist."""
        if found := self._exercise(name):
            return found
        if chapter := self._chapter(name):
            names = ", ".join(exercise.name for exercise in chapter.exercises)
            what = f"a chapter ({chapter.id} {chapter.title})"
            raise UnknownName(f"{name!r} is {what}, and an exercise is needed here: {names}")
        raise UnknownName(unknown_name("exercise", name, [exercise.name for exercise in self.exercises]))

    def chapter(self, name: str) -> Chapter:
        """The chapter called "ch03", "3" or "ch03_attention", or with this title."""
        if found := self._chapter(name):
            return found
        if exercise := self._exercise(name):
            what = f"an exercise of {exercise.chapter}"
            raise UnknownName(f"{name!r} is {what}, and a chapter is needed here: {exercise.chapter}")
        names = [word for chapter in self.chapters for word in (chapter.id, chapter.name, chapter.title)]
        raise UnknownName(unknown_name("chapter", name, names))

    def find(self, name: str) -> Exercise | Chapter:
        """The exercise or chapter that a typed name means. UnknownName, with similar names, if there is none."""
        if found := self._exercise(name) or self._chapter(name):
            return found
        names = [word for chapter in self.chapters for word in (chapter.id, chapter.title)]
        names += [exercise.name for exercise in self.exercises]
        raise UnknownName(unknown_name("exercise or chapter", name, names))

    def _exercise(self, name: str) -> Exercise | None:
        """The exercise of that name. UnknownName for one that only the instructor can grade."""
        for exercise in self.exercises:
            if exercise.name == name:
                return exercise
        if same := match_name(name, [exercise.name for exercise in self.exercises]):
            return self.exercise(same)
        for chapter in self.chapters:
            if hidden := match_name(name, chapter.hidden):
                advice = f"write it in exercises/{chapter.name}.py and hand it in"
                raise UnknownName(f"{hidden} has no tests here, because only your instructor grades it; {advice}")
        return None

    def _chapter(self, name: str) -> Chapter | None:
        for chapter in self.chapters:
            if name in (chapter.id, chapter.name):
                return chapter
        wanted = normalise(name)
        for chapter in self.chapters:
            names = (chapter.id, chapter.name, chapter.title, str(chapter.number), f"ch{chapter.number}")
            if wanted in map(normalise, names):
                return chapter
        return None

    def chosen(self, names: Iterable[str]) -> list[Exercise]:
        """The exercises with these names, or in chapters with these names, in the course's order; else all."""
        found = {item.id if isinstance(item, Chapter) else item.name for item in map(self.find, names)}
        return [exercise for exercise in self.exercises if not found or found & {exercise.name, exercise.chapter}]


def suites_of(chapter: str) -> list[Path]:
    """The files with a chapter's graded tests."""
    return sorted(TESTS.glob(f"test_{chapter}_*.py"))


@cache
def tests_in(suite: Path) -> dict[str, tuple[str, float]]:
    """The graded tests that are written in one file, each with its exercise and its weight there."""
    found = _MARKED_TEST.findall(suite.read_text(encoding="utf-8"))
    return {test: (exercise, float(weight or 1)) for exercise, weight, test in found}


def is_handout() -> bool:
    """Whether this is a handout, the folder that learners get, and not the whole kit."""
    return REFERENCE.is_dir() and not SOLUTIONS.is_dir()


@cache
def load_syllabus(path: Path = EXERCISES / "syllabus.toml") -> Syllabus:
    """Read the syllabus once; every part of the kit shares the result."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    return Syllabus(tuple(_chapter(entry) for entry in data["chapter"]))


def _check(entry: dict, texts: tuple[str, ...], lists: tuple[str, ...]) -> None:
    """Raise TypeError or KeyError unless these entries have the right types."""
    for key in texts:
        if not isinstance(entry[key], str):
            raise TypeError(f"{key} must be a text")
    for key in lists:
        if not isinstance(entry.get(key, []), list) or not all(isinstance(word, str) for word in entry.get(key, [])):
            raise TypeError(f"{key} must be a list of texts")


def _chapter(entry: dict) -> Chapter:
    _check(entry, ("id", "name", "title", "about"), ("forbids", "hidden"))
    if not re.fullmatch(r"ch[0-9]{1,4}", entry["id"]):
        raise TypeError("the id of a chapter must look like ch03")
    for item in entry.get("exercise", ()):
        _check(item, ("name", "promise", "why", "unlocks"), ("forbids", "hints"))
        if type(item["points"]) not in (int, float) or not 0 <= item["points"] < 1_000_000:
            raise TypeError(f"the points of {item['name']} must be a number")
    shared = tuple(entry.get("forbids", ()))
    exercises = []
    for item in entry.get("exercise", ()):
        own = tuple(item.get("forbids", ()))
        words = (item["promise"], item["why"], item["unlocks"], tuple(item["hints"]), shared + own, own)
        gradient = item.get("gradient", False)
        exercises.append(Exercise(item["name"], entry["id"], entry["name"], item["points"], *words, gradient))
    hidden = tuple(entry.get("hidden", ()))
    return Chapter(
        entry["id"],
        entry["name"],
        entry["title"],
        entry["about"],
        tuple(exercises),
        shared,
        hidden,
        float(entry.get("hours", 0)),
    )


def neighbours(exercise: Exercise) -> set[str]:
    """The other exercises of the chapter."""
    return {other.name for other in load_syllabus().chapter(exercise.chapter).exercises} - {exercise.name}


def earlier_in_chapter(exercise: Exercise) -> set[str]:
    """The exercises of the chapter that come before this one."""
    names = [other.name for other in load_syllabus().chapter(exercise.chapter).exercises]
    return set(names[: names.index(exercise.name)])
