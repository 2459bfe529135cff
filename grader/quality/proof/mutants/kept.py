"""What mutants met, kept by the content it depends on: what has not changed since is not tried again."""

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
class Met:
    """How a mutant ended: by which test and with what outcome, or SURVIVED."""

    mutant: Mutant
    by: str
    outcome: str

    @property
    def caught(self) -> bool:
        return self.outcome != SURVIVED


def kept(exercise: Exercise, mutants: list[Mutant]) -> list[Met] | None:
    """What these mutants met when they were last tried; None where they were not, or something has changed since."""
    try:
        return [Met(mutant, by, outcome) for mutant, (by, outcome) in zip(mutants, json.loads(_file(exercise, mutants).read_text("utf-8")), strict=True)]
    except (OSError, ValueError, TypeError):
        return None


def keep(exercise: Exercise, mutants: list[Mutant], found: list[Met]) -> None:
    with contextlib.suppress(OSError):  # what cannot be kept costs time, and nothing else
        write_whole(_file(exercise, mutants), json.dumps([(met.by, met.outcome) for met in found]))


def _file(exercise: Exercise, mutants: list[Mutant]) -> Path:
    digest = hashlib.sha256(fingerprint(exercise).encode())
    for mutant in mutants:
        digest.update(repr(mutant).encode())
    for name in ("running.py", "suites.py"):
        digest.update(Path(__file__).with_name(name).read_bytes())
    return FOLDER / f"{exercise.name}-{digest.hexdigest()[:32]}.json"
