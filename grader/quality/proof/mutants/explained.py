"""The mutants that nothing catches and nothing should: for each, why it does what the exercise promises all the same.

They are written down by chapter in `explained/chNN_name.toml`, line by line of the reference:

    [[equivalent]]
    exercise = "causal_mask"
    line = "everything = torch.ones(q_len, k_len, dtype=torch.bool)"
    edits = ["torch.bool -> torch.uint8"]
    why = "one sentence"
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from grader.course.syllabus import Chapter, Exercise
from grader.quality.devcheck.subjects import solution_of
from grader.quality.devcheck.table import Mutants
from grader.quality.proof.mutants.edits import mutants
from grader.quality.proof.mutants.kept import Met, kept

FOLDER = Path(__file__).parent / "explained"

Key = tuple[str, str, str]  # exercise, line, edit


@dataclass(frozen=True)
class Judged:
    """An exercise's mutants, told apart."""

    total: int
    caught: int
    equivalent: list[Met]
    unexplained: list[Met]
    stale: list[str]  # sentences about explanations that explain nothing

    @property
    def fine(self) -> bool:
        return not self.unexplained and not self.stale


def explanations(module: str) -> dict[Key, str]:
    """Why each of these mutants of a chapter may survive."""
    path = FOLDER / f"{module}.toml"
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", []) if path.is_file() else []
    return {(entry["exercise"], entry["line"], edit): entry["why"] for entry in entries for edit in entry["edits"]}


def strangers(chapter: Chapter, known: dict[Key, str]) -> list[str]:
    """Sentences about explanations for exercises that the chapter does not have."""
    names = {exercise.name for exercise in chapter.exercises}
    return [f"explained/{chapter.name}.toml explains a change of {name}, which is no exercise of this chapter" for name in sorted({key[0] for key in known} - names)]


def judge(exercise: Exercise, met: list[Met], known: dict[Key, str]) -> Judged:
    """Which survivors are explained, and which explanations have no survivor."""
    by_key = {each.mutant.key: each for each in met}
    survivors = [each for each in met if not each.caught]
    stale = []
    for key in known:
        if key[0] != exercise.name:
            continue
        if key not in by_key:
            stale.append(f"{exercise.name}: explained/{exercise.module}.toml explains `{key[2]}` in `{key[1]}`, and there is no such change; take it out")
        elif by_key[key].caught:
            stale.append(f"{exercise.name}: explained/{exercise.module}.toml explains `{key[2]}` in `{key[1]}`, which {by_key[key].by} catches; take it out")
    equivalent = [each for each in survivors if known.get(each.mutant.key, "").strip()]
    unexplained = [each for each in survivors if not known.get(each.mutant.key, "").strip()]
    return Judged(len(met), len(met) - len(survivors), equivalent, unexplained, stale)


def last_found(exercise: Exercise) -> Mutants | None:
    """How the exercise's mutants ended when they were last tried; None where that was never, or with other sources."""
    met = kept(exercise, mutants(solution_of(exercise), exercise.name))
    if met is None:
        return None
    judged = judge(exercise, met, explanations(exercise.module))
    return Mutants(judged.total, judged.caught, len(judged.equivalent))
