"""The course as data: chapters, exercises, points and hints, read from exercises/syllabus.toml."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXERCISES = ROOT / "exercises"
SOLUTIONS = ROOT / "solutions"
TESTS = ROOT / "tests"
REFERENCE = ROOT / "reference"  # in a handout, instead of solutions/: the sealed reference


class UnknownName(ValueError):
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

    @property
    def number(self) -> int:
        return int(self.id.removeprefix("ch"))

    @property
    def points(self) -> float:
        return sum(exercise.points for exercise in self.exercises)


@dataclass(frozen=True)
class Syllabus:
    chapters: tuple[Chapter, ...]

    @property
    def exercises(self) -> tuple[Exercise, ...]:
        return tuple(exercise for chapter in self.chapters for exercise in chapter.exercises)

    def exercise(self, name: str) -> Exercise:
        """The exercise of that name; UnknownName, with similar names, if it does not exist."""
        for exercise in self.exercises:
            if exercise.name == name:
                return exercise
        for chapter in self.chapters:
            if name in chapter.hidden:
                raise UnknownName(f"{name} has no tests here, because only your instructor grades it; write it in exercises/{chapter.name}.py and hand it in")
        raise UnknownName(_unknown("exercise", name, [exercise.name for exercise in self.exercises]))

    def chapter(self, name: str) -> Chapter:
        """The chapter called "ch03", "3" or "ch03_attention"."""
        wanted = name.strip().lower()
        for chapter in self.chapters:
            if wanted in (chapter.id, chapter.name.lower(), str(chapter.number), f"ch{chapter.number}"):
                return chapter
        raise UnknownName(_unknown("chapter", name, [c.name for c in self.chapters] + [c.id for c in self.chapters]))

    def find(self, name: str) -> Exercise | Chapter:
        """An exercise or a chapter, whichever has that name."""
        for look in (self.exercise, self.chapter):
            try:
                return look(name)
            except UnknownName:
                if any(name in chapter.hidden for chapter in self.chapters):
                    raise
        names = [exercise.name for exercise in self.exercises] + [chapter.id for chapter in self.chapters]
        raise UnknownName(_unknown("exercise or chapter", name, names))

    def chosen(self, names: Iterable[str]) -> list[Exercise]:
        """The exercises with these names, or in chapters with these names, in the course's order; without names all exercises."""
        found = [self.find(name) for name in names]
        wanted = {exercise.name for item in found for exercise in (item.exercises if isinstance(item, Chapter) else (item,))}
        return [exercise for exercise in self.exercises if not found or exercise.name in wanted]


def _unknown(kind: str, name: str, known: list[str]) -> str:
    folded = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), folded, n=2, cutoff=0.5)
    offer = " or ".join(folded[word] for word in near)
    return f"there is no {kind} called {name!r}" + (f"; did you mean {offer}?" if offer else "; `headway list` lists them all")


def suites_of(chapter: str) -> list[Path]:
    """The files with a chapter's graded tests."""
    return sorted(TESTS.glob(f"test_{chapter}_*.py"))


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
    exercises = tuple(
        Exercise(
            name=item["name"],
            chapter=entry["id"],
            module=entry["name"],
            points=item["points"],
            promise=item["promise"],
            why=item["why"],
            unlocks=item["unlocks"],
            hints=tuple(item["hints"]),
            forbids=shared + tuple(item.get("forbids", ())),
            own_forbids=tuple(item.get("forbids", ())),
            gradient=item.get("gradient", False),
        )
        for item in entry.get("exercise", ())
    )
    return Chapter(entry["id"], entry["name"], entry["title"], entry["about"], exercises, shared, tuple(entry.get("hidden", ())))
