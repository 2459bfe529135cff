"""The verdict of a run as plain data: made in a process with torch, printed by one without torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from grader.course.syllabus import load_syllabus
from grader.verdict.results import Diagnosis, ExerciseResult, Failure, TestResult


@dataclass(frozen=True)
class Verdict:
    results: list[ExerciseResult]
    broken: dict[str, Failure] = field(default_factory=dict)  # chapters that do not import
    newly_passed: list[str] = field(default_factory=list)  # exercises passed in this run for the first time
    notes: list[str] = field(default_factory=list)  # sentences for the end of the output

    @property
    def outcomes(self) -> dict[str, str]:
        return {result.exercise.name: result.outcome for result in self.results}

    def result(self, name: str) -> ExerciseResult | None:
        return next((result for result in self.results if result.exercise.name == name), None)

    def as_data(self) -> dict[str, Any]:
        """As plain data for JSON; an exercise is given by its name."""
        return asdict(self) | {
            "results": [asdict(result) | {"exercise": result.exercise.name} for result in self.results]
        }

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Verdict:
        broken = {module: Failure(**words) for module, words in data["broken"].items()}
        return cls([_result(entry) for entry in data["results"]], broken, data["newly_passed"], data["notes"])


def _result(data: dict[str, Any]) -> ExerciseResult:
    tests = [
        TestResult(**test | {"details": Failure(**test["details"]) if test["details"] else None})
        for test in data["tests"]
    ]
    diagnosis = Diagnosis.from_data(data["diagnosis"]) if data["diagnosis"] else None
    return ExerciseResult(
        **data | {"exercise": load_syllabus().exercise(data["exercise"]), "tests": tests, "diagnosis": diagnosis}
    )
