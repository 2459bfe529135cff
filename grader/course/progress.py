"""The learner's progress: exercises/progress.txt with the points of each exercise, and the last hint that was shown.

The file may be committed and merged. It has the result of the last run of each exercise, so the tests create it again.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grader.course.syllabus import EXERCISES, Exercise, load_syllabus
from grader.files import problem, write_whole

FILE = "progress.txt"
MAX_POINTS = 1e9  # more are a typing error in the file
HEADER = "# Points by exercise, as of the last test run. If you delete this file, `pytest` writes it again.\n"

_ENTRY = re.compile(r"\s*(\w+)\s+(\d+(?:\.\d+)?)\s*/\s*(\d+(?:\.\d+)?)\s*")


@dataclass(frozen=True)
class Score:
    earned: float
    points: float

    @property
    def passed(self) -> bool:
        return self.points > 0 and self.earned >= self.points

    @property
    def share(self) -> float:
        return self.earned / self.points if self.points else 0.0

    def __str__(self) -> str:
        """For the learner; the file has the exact points."""
        return f"{format_points(self.earned)}/{format_points(self.points)}"


def format_points(points: float) -> str:
    """Points with at most two decimals: 8, 7.5, 2.67; rounded down, so that full points always mean passed."""
    return f"{math.floor(points * 100 + 1e-6) / 100:g}"


def load_scores(folder: Path = EXERCISES) -> dict[str, Score]:
    """The saved score of each exercise, scaled to today's points; other lines of the file are ignored."""
    today = _current_points()
    scores = {}
    for name, score in _read(folder).items():
        points = today.get(name, score.points)
        scores[name] = Score(points if score.passed else score.share * points, points)
    return scores


def record_scores(results: Mapping[str, float | tuple[float, float]], folder: Path = EXERCISES) -> str | None:
    """Save the points earned: exercise -> earned, or (earned, points). A sentence if the file cannot be written.

    An exercise without points has no line, so a run in a fresh clone writes nothing.
    """
    scores, today = load_scores(folder), _current_points()
    for name, result in results.items():
        earned, points = result if isinstance(result, tuple) else (result, today.get(name, 0.0))
        if earned > 0 and points > 0:
            scores[name] = Score(min(float(earned), float(points)), float(points))
        else:
            scores.pop(name, None)
    path = folder / FILE
    saved = sorted(scores.items())
    lines = [f"{name} {format_points(score.earned)}/{format_points(score.points)}\n" for name, score in saved]
    try:
        if (lines or path.exists()) and _text_of(path) != (text := HEADER + "".join(lines)):
            write_whole(path, text)
    except OSError as error:
        return "your progress was not saved: " + problem(error, f"write {path.parent.name}/{FILE}")
    return None


def load_hint_levels(folder: Path = EXERCISES) -> dict[str, int]:
    """The last hint level shown for each exercise; empty if the file is missing or damaged."""
    try:
        data = json.loads((folder / ".headway" / "hints.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(data, dict):
        return {}
    return {name: level for name, level in data.items() if type(level) is int and level > 0}


def save_hint_level(name: str, level: int, folder: Path = EXERCISES) -> str | None:
    """Save the level shown; returns a sentence if the file cannot be written."""
    try:
        levels = json.dumps(load_hint_levels(folder) | {name: level}, indent=0, sort_keys=True)
        write_whole(folder / ".headway" / "hints.json", levels + "\n")
    except OSError as error:
        return "`headway hint` will show this hint again: " + problem(error, f"write {folder.name}/.headway/hints.json")
    return None


# ---- hints: each says more than the one before


@dataclass(frozen=True)
class Hint:
    exercise: str
    number: int
    total: int
    text: str
    problem: str | None = None  # a sentence, if the level could not be saved

    @property
    def title(self) -> str:
        return f"{self.exercise}, hint {self.number} of {self.total}"

    @property
    def is_last(self) -> bool:
        return self.number == self.total


def reveal_hint(exercise: Exercise, level: int | None = None) -> Hint | None:
    """The hint of that level, or the next one (after the last, the last again). Saves the level; None without hints."""
    if not exercise.hints:
        return None
    seen, last = load_hint_levels().get(exercise.name, 0), len(exercise.hints)
    number = max(1, min(level or seen + 1, last))
    problem = save_hint_level(exercise.name, number) if number > seen else None
    return Hint(exercise.name, number, last, exercise.hints[number - 1], problem)


def shown_hints(exercise: Exercise) -> list[Hint]:
    """The hints of this exercise that the learner has seen."""
    total, seen = len(exercise.hints), load_hint_levels().get(exercise.name, 0)
    return [Hint(exercise.name, number, total, text) for number, text in enumerate(exercise.hints[:seen], start=1)]


# ---- the file of points


def _read(folder: Path) -> dict[str, Score]:
    scores: dict[str, Score] = {}
    for line in _text_of(folder / FILE).splitlines():
        if match := _ENTRY.fullmatch(line):
            name, points = match[1], float(match[3])
            score = Score(min(float(match[2]), points), points)
            if 0 < points < MAX_POINTS and (name not in scores or score.share > scores[name].share):
                scores[name] = score
    return scores


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _current_points() -> dict[str, float]:
    return {exercise.name: float(exercise.points) for exercise in load_syllabus().exercises}
