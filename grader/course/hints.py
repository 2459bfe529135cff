"""The next hint of an exercise: each says more than the one before, and what was shown is remembered."""

from __future__ import annotations

from dataclasses import dataclass

from grader.course.progress import load_hint_levels, save_hint_level
from grader.course.syllabus import Exercise


@dataclass(frozen=True)
class Hint:
    exercise: str
    number: int
    of: int
    text: str
    problem: str | None = None  # a sentence, where it could not be remembered

    @property
    def title(self) -> str:
        return f"{self.exercise}, hint {self.number} of {self.of}"

    @property
    def is_last(self) -> bool:
        return self.number == self.of


def reveal_hint(exercise: Exercise, level: int | None = None) -> Hint | None:
    """The hint of that level, or the next one (the last again, when all were seen); None where there are none."""
    if not exercise.hints:
        return None
    seen, last = load_hint_levels().get(exercise.name, 0), len(exercise.hints)
    number = max(1, min(level or seen + 1, last))
    problem = save_hint_level(exercise.name, number) if number > seen else None
    return Hint(exercise.name, number, last, exercise.hints[number - 1], problem)
