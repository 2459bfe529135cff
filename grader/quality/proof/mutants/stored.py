"""The results of mutants, stored so that unchanged mutants are not tried again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from grader.course.syllabus import Exercise
from grader.quality.devcheck.stored import load, store, stored_file
from grader.quality.proof.mutants.edits import Mutant

SURVIVED = "survived"


@dataclass(frozen=True)
class MutantResult:
    """The result of a mutant: the test that caught it with its outcome, or SURVIVED."""

    mutant: Mutant
    by: str
    outcome: str

    @property
    def caught(self) -> bool:
        return self.outcome != SURVIVED


def load_results(exercise: Exercise, mutants: list[Mutant]) -> list[MutantResult] | None:
    """The results of these mutants when they were last tried; None if they were not tried, or something has changed since."""
    return load(_stored_file(exercise, mutants), lambda data: [MutantResult(mutant, by, outcome) for mutant, (by, outcome) in zip(mutants, data, strict=True)])


def store_results(exercise: Exercise, mutants: list[Mutant], results: list[MutantResult]) -> None:
    store(_stored_file(exercise, mutants), [(result.by, result.outcome) for result in results])


def _stored_file(exercise: Exercise, mutants: list[Mutant]) -> Path:
    return stored_file("mutants", exercise.name, mutants, *(Path(__file__).with_name(name).read_bytes() for name in ("running.py", "suites.py")))
