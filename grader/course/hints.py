"""Hints of an exercise: each says more than the one before; the level shown last is saved."""

from __future__ import annotations

from dataclasses import dataclass

from grader.course.progress import load_hint_levels, save_hint_level
from grader.course.syllabus import Exercise


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
    """The hint of that level, or the next one (after the last, the last again); None if the exercise has no hints. Saves the level."""
    if not exercise.hints:
        return None
    seen, last = load_hint_levels().get(exercise.name, 0), len(exercise.hints)
    number = max(1, min(level or seen + 1, last))
    problem = save_hint_level(exercise.name, number) if number > seen else None
    return Hint(exercise.name, number, last, exercise.hints[number - 1], problem)
