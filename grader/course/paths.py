"""Ways through the course, read from exercises/paths.toml, and the one that the learner has chosen.

A path is a course of its own: some chapters and exercises, in an order of its own. Everything else stays open.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from grader.course.source import SourceProblem
from grader.course.syllabus import EXERCISES, Chapter, Exercise, Syllabus, UnknownName, load_syllabus
from grader.files import problem, write_whole

FILE = EXERCISES / "paths.toml"
CHOSEN = EXERCISES / ".headway" / "path.txt"
DEFAULT = "chosen"  # in the file: the path of those who have chosen none; a handout may have one
WHOLE_COURSE = "all"  # the name that chooses no path


@dataclass(frozen=True)
class LearningPath:
    name: str
    goal: str  # what the learner can do at its end
    afterwards: str  # a sentence with the command that uses it all
    course: Syllabus  # the chapters of the path, with the exercises that are on it
    read_first: tuple[Chapter, ...] = ()  # not on the path, but their lessons explain what it needs


@cache
def load_paths() -> dict[str, LearningPath]:
    """The paths by name; those of which this handout lacks a part are left out. SourceProblem for a damaged file."""
    entries = {name: entry for name, entry in _parsed().items() if isinstance(entry, dict)}
    return {name: path for name, entry in entries.items() if (path := _path(name, entry))}


def chosen_path() -> LearningPath | None:
    """The path that the learner has chosen, else the default of the file; None for the whole course."""
    if not FILE.is_file():
        return None
    try:
        name = CHOSEN.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        name = str(_parsed().get(DEFAULT, ""))
    return load_paths().get(name)


def choose_path(name: str) -> None:
    """Save the choice. SourceProblem if it cannot be saved."""
    try:
        write_whole(CHOSEN, f"{name}\n")
    except OSError as error:
        raise SourceProblem("the path was not chosen: " + problem(error, f"write {CHOSEN.name}")) from error


@cache
def _parsed() -> dict[str, Any]:
    try:
        return tomllib.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}
    except (OSError, ValueError, RecursionError) as error:
        advice = f"`git checkout exercises/{FILE.name}` restores it"
        raise SourceProblem(f"exercises/{FILE.name} cannot be read: {error}; {advice}") from error


def _path(name: str, entry: dict[str, Any]) -> LearningPath | None:
    """None if the course here lacks a part of it."""
    course = load_syllabus()
    hidden = {each for chapter in course.chapters for each in chapter.hidden}
    try:
        steps = [course.find(step) for step in entry["steps"] if step not in hidden]
        read_first = tuple(chapter for chapter in course.chapters if chapter.id in entry.get("read_first", ()))
        goal, afterwards = str(entry["goal"]), str(entry.get("afterwards", ""))
    except UnknownName:
        return None
    except (KeyError, TypeError, AttributeError) as error:
        raise SourceProblem(f"exercises/{FILE.name}: the path {name} needs a goal and a list of steps") from error
    chosen: dict[str, list[Exercise]] = {}
    for step in steps:
        exercises = step.exercises if isinstance(step, Chapter) else (step,)
        if not exercises:
            return None
        chosen.setdefault(exercises[0].chapter, []).extend(exercises)
    chapters = tuple(_part(course.chapter(chapter), tuple(exercises)) for chapter, exercises in chosen.items())
    return LearningPath(name, goal, afterwards, Syllabus(chapters), read_first)


def _part(chapter: Chapter, exercises: tuple[Exercise, ...]) -> Chapter:
    """The chapter with these exercises, and their share of its reading time."""
    all_minutes = sum(exercise.minutes for exercise in chapter.exercises) or 1
    share = sum(exercise.minutes for exercise in exercises) / all_minutes
    return replace(chapter, exercises=exercises, reading=round(chapter.reading * share))
