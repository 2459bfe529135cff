"""The course as data: chapters, exercises, points and hints, read from exercises/syllabus.toml; and which of them a
user means by a typed name, or by a subject of subjects.toml."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from grader.files import UserProblem

ROOT = Path(__file__).resolve().parents[2]
EXERCISES = ROOT / "exercises"
SOLUTIONS = ROOT / "solutions"
TESTS = ROOT / "tests"
REFERENCE = ROOT / "reference"  # in a handout, instead of solutions/: the sealed reference

_CHAPTER_NUMBER = re.compile(r"(?:ch|chap|chapter)? ?(\d{1,4})")
# the marks of graded tests as the suites write them: a learner waits while they are found, and the syntax trees of a
# chapter's suites would take a tenth of a second
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
    minutes: int = 0  # about so many; 0 where the syllabus does not say
    difficulty: str = ""  # "easy", "medium" or "hard"

    @property
    def effort(self) -> str:
        """Such as "25 minutes, easy"; empty where the syllabus does not say."""
        return ", ".join(filter(None, (f"{self.minutes} minutes" if self.minutes else "", self.difficulty)))

    @property
    def short_name(self) -> str:
        """What is typed for it."""
        return self.name


@dataclass(frozen=True)
class Chapter:
    id: str
    name: str
    title: str
    about: str
    exercises: tuple[Exercise, ...] = field(default=())
    forbids: tuple[str, ...] = ()  # in each of its exercises
    hidden: tuple[str, ...] = ()  # in a handout: exercises that only the instructor can grade
    reading: int = 0  # about so many minutes for the lesson

    @property
    def short_name(self) -> str:
        """What is typed for it."""
        return self.id

    @property
    def number(self) -> int:
        return int(self.id.removeprefix("ch"))

    @property
    def points(self) -> float:
        return sum(exercise.points for exercise in self.exercises)

    @property
    def hours(self) -> int:
        """About so many for the lesson and the exercises; 0 without exercises."""
        minutes = sum(exercise.minutes for exercise in self.exercises)
        return round((self.reading + minutes) / 60) if minutes else 0


@dataclass(frozen=True)
class Syllabus:
    chapters: tuple[Chapter, ...]

    @cached_property
    def exercises(self) -> tuple[Exercise, ...]:
        return tuple(exercise for chapter in self.chapters for exercise in chapter.exercises)

    @property
    def hours(self) -> int:
        return sum(chapter.hours for chapter in self.chapters)

    def exercise(self, name: str) -> Exercise:
        """The exercise that a typed name means; UnknownName, with similar names, if it does not exist."""
        found = self._meant(name)
        if isinstance(found, Exercise):
            return found
        if found:
            names = ", ".join(exercise.name for exercise in found.exercises)
            what = f"a chapter ({found.id} {found.title})"
            raise UnknownName(f"{name!r} is {what}, and an exercise is needed here: {names}")
        raise UnknownName(unknown_name("exercise", name, [exercise.name for exercise in self.exercises]))

    def chapter(self, name: str) -> Chapter:
        """The chapter called "ch03", "3", "chapter 3" or "ch03_attention.py", or with this title."""
        found = self._meant(name)
        if isinstance(found, Chapter):
            return found
        if found:
            what = f"an exercise of {found.chapter}"
            raise UnknownName(f"{name!r} is {what}, and a chapter is needed here: {found.chapter}")
        names = [word for chapter in self.chapters for word in (chapter.id, chapter.name, chapter.title)]
        raise UnknownName(unknown_name("chapter", name, names))

    def find(self, name: str) -> Exercise | Chapter:
        """The exercise or chapter that a typed name means. UnknownName, with similar names, if there is none."""
        if found := self._meant(name):
            return found
        raise UnknownName(unknown_name("exercise or chapter", name, self._by_name))

    def find_all(self, words: Iterable[str]) -> list[Exercise | Chapter]:
        """The exercises and chapters that typed words mean, one name after the other. A name may have several words:
        `softmax chapter 3`."""
        rest = [name.strip() for word in words for name in word.split(",") if name.strip() or not word.strip()]
        found: dict[str, Exercise | Chapter] = {}
        while rest:
            lengths = range(len(rest), 0, -1)
            most = next((length for length in lengths if self._meant(" ".join(rest[:length]))), 1)
            meant = self.find(" ".join(rest[:most]))
            found[meant.name], rest = meant, rest[most:]
        return list(found.values())

    @cached_property
    def _by_name(self) -> dict[str, Exercise | Chapter]:
        named: dict[str, Exercise | Chapter] = {exercise.name: exercise for exercise in self.exercises}
        return named | {name: each for each in self.chapters for name in (each.id, each.name, each.title)}

    def _meant(self, typed: str) -> Exercise | Chapter | None:
        """UnknownName for an exercise that only the instructor can grade, and for the number of no chapter."""
        if name := typed if typed in self._by_name else match_name(typed, self._by_name):
            return self._by_name[name]
        stem = bare_name(typed).removeprefix("test_")
        number = _CHAPTER_NUMBER.fullmatch(normalise(stem))
        for chapter in self.chapters:
            if number and int(number[1]) == chapter.number or stem.startswith(f"{chapter.name}_"):
                return chapter
            if hidden := match_name(typed, chapter.hidden):
                advice = f"write it in exercises/{chapter.name}.py and hand it in"
                raise UnknownName(f"{hidden} has no tests here, because only your instructor grades it; {advice}")
        if number:
            raise UnknownName(f"there is no chapter {int(number[1])}; the chapters are {_spans(self.chapters)}")
        return None

    def chosen(self, names: Iterable[str]) -> list[Exercise]:
        """The exercises with these names, or in chapters with these names, in the course's order; else all."""
        found = {item.short_name for item in self.find_all(names)}
        return [exercise for exercise in self.exercises if not found or found & {exercise.name, exercise.chapter}]


def _spans(chapters: Iterable[Chapter]) -> str:
    """Such as "ch00 to ch09, ch12": the numbers of a course may have gaps."""
    spans: list[list[Chapter]] = []
    for chapter in chapters:
        if spans and chapter.number == spans[-1][-1].number + 1:
            spans[-1].append(chapter)
        else:
            spans.append([chapter])
    return ", ".join(" to ".join(dict.fromkeys((span[0].id, span[-1].id))) for span in spans)


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
    if type(entry.get("reading", 0)) is not int:
        raise TypeError("the minutes of reading must be a whole number")
    for item in entry.get("exercise", ()):
        _check(item, ("name", "promise", "why", "unlocks"), ("forbids", "hints"))
        if type(item["points"]) not in (int, float) or not 0 <= item["points"] < 1_000_000:
            raise TypeError(f"the points of {item['name']} must be a number")
        if type(item.get("minutes", 0)) is not int or not isinstance(item.get("difficulty", ""), str):
            raise TypeError(f"{item['name']} needs minutes as a whole number and a difficulty as a text")
    shared = tuple(entry.get("forbids", ()))
    exercises = []
    for item in entry.get("exercise", ()):
        own = tuple(item.get("forbids", ()))
        words = (item["promise"], item["why"], item["unlocks"], tuple(item["hints"]), shared + own, own)
        rest = (item.get("gradient", False), item.get("minutes", 0), item.get("difficulty", ""))
        exercises.append(Exercise(item["name"], entry["id"], entry["name"], item["points"], *words, *rest))
    hidden = tuple(entry.get("hidden", ()))
    return Chapter(
        entry["id"],
        entry["name"],
        entry["title"],
        entry["about"],
        tuple(exercises),
        shared,
        hidden,
        entry.get("reading", 0),
    )


def neighbours(exercise: Exercise) -> set[str]:
    """The other exercises of the chapter."""
    return {other.name for other in load_syllabus().chapter(exercise.chapter).exercises} - {exercise.name}


def earlier_in_chapter(exercise: Exercise) -> set[str]:
    """The exercises of the chapter that come before this one."""
    names = [other.name for other in load_syllabus().chapter(exercise.chapter).exercises]
    return set(names[: names.index(exercise.name)])


# ---- what people come for, across the chapters: subjects.toml


@cache
def load_subjects() -> dict[str, dict[str, list[str]]]:
    return tomllib.loads(Path(__file__).with_name("subjects.toml").read_text(encoding="utf-8"))


def find_exercises(words: Sequence[str]) -> list[Exercise]:
    """The exercises of the subject with this name, or else of these chapters and these exercises, in the order of the
    course; all without words. A handout may lack some of them. UnknownName, with similar names, for other words."""
    typed = " ".join(words)
    names = {each: name for name, fields in load_subjects().items() for each in (name, *fields["also"])}
    if found := match_name(typed, names):
        wanted = load_subjects()[names[found]]["exercises"]
        return [exercise for exercise in load_syllabus().exercises if exercise.name in wanted]
    try:
        return load_syllabus().chosen(words)
    except UnknownName:
        if not similar(typed, names):
            raise
        near = unknown_name("subject", typed, names)
        raise UnknownName(f"{near} The subjects are {', '.join(load_subjects())}") from None


# ---- what a typed name means: letter case, separators, a folder and the ending of a file do not matter

MIN_SIMILARITY = 0.6  # difflib's ratio, of a name that is offered
MAX_SIMILARITY_GAP = 0.2  # by how much less similar a second one may be

_AROUND = re.compile(r"""^["'`(]+|["'`]+$|\(\)$""")
_ENDING = re.compile(r"\.(py|md|html|ipynb)(:\d+)*$")  # with a line, as in exercises/ch03_attention.py:29


def bare_name(typed: str) -> str:
    """The name in a typed path or call: "ch03_attention" of exercises/ch03_attention.py:29, "softmax" of softmax()."""
    return _ENDING.sub("", re.split(r"[/\\]", _AROUND.sub("", typed.strip()).rstrip("/\\"))[-1])


def normalise(text: str) -> str:
    """Lower case, with one space for each run of spaces, hyphens and underscores."""
    return " ".join(re.split(r"[\s_-]+", text.strip().lower()))


def match_name(typed: str, names: Iterable[str]) -> str | None:
    """The name that equals the typed one; else the one that is equal apart from letter case and separators, and else
    the one that is equal without separators (multi_head_attention)."""
    known, name = list(names), normalise(bare_name(typed))
    if typed in known:
        return typed
    equal = (each for each in known if normalise(each) == name)
    squeezed = (each for each in known if name and normalise(each).replace(" ", "") == name.replace(" ", ""))
    return next(equal, None) or next(squeezed, None)


def unknown_name(kind: str, name: str, known: Iterable[str], listed_by: str = "headway list") -> str:
    """The sentence that there is no such name, with the names that are similar."""
    near = similar(name, known)
    advice = f"did you mean {' or '.join(near)}?" if near else f"`{listed_by}` lists them all"
    return f"there is no {kind} called {name!r}; {advice}"


def similar(typed: str, known: Iterable[str]) -> list[str]:
    """The most similar name, and a second one unless it is much less similar."""
    folded, word = {candidate.lower(): candidate for candidate in known}, bare_name(typed).lower()
    near = difflib.get_close_matches(word, folded, n=2, cutoff=MIN_SIMILARITY)
    ratios = [difflib.SequenceMatcher(None, other, word).ratio() for other in near]
    close = [other for other, ratio in zip(near, ratios, strict=True) if ratio >= ratios[0] - MAX_SIMILARITY_GAP]
    return [folded[other] for other in close]
