"""Stores the results of mutants by the content they depend on, so that unchanged mutants are not tried again."""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from grader.course.syllabus import ROOT, Exercise
from grader.files import write_whole
from grader.quality.devcheck.fingerprint import fingerprint
from grader.quality.proof.mutants.edits import Mutant

FOLDER = ROOT / ".headway" / "mutants"
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
    try:
        return [MutantResult(mutant, by, outcome) for mutant, (by, outcome) in zip(mutants, json.loads(_file(exercise, mutants).read_text("utf-8")), strict=True)]
    except (OSError, ValueError, TypeError):
        return None


def store_results(exercise: Exercise, mutants: list[Mutant], results: list[MutantResult]) -> None:
    with contextlib.suppress(OSError):  # without stored results the next run only takes longer
        write_whole(_file(exercise, mutants), json.dumps([(result.by, result.outcome) for result in results]))


def _file(exercise: Exercise, mutants: list[Mutant]) -> Path:
    digest = hashlib.sha256(fingerprint(exercise).encode())
    for mutant in mutants:
        digest.update(repr(mutant).encode())
    for name in ("running.py", "suites.py"):
        digest.update(Path(__file__).with_name(name).read_bytes())
    return FOLDER / f"{exercise.name}-{digest.hexdigest()[:32]}.json"
