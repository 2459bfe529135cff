"""Explains the mutants that nothing catches and nothing should: each entry says why the changed exercise still keeps every promise.

The explanations are in `explained/chNN_name.toml`, with the line of the reference that each is about:

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
from grader.quality.proof.mutants.stored import MutantResult, load_results

FOLDER = Path(__file__).parent / "explained"

Key = tuple[str, str, str]  # exercise, line, edit


@dataclass(frozen=True)
class Classified:
    """An exercise's mutants by their result."""

    total: int
    caught: int
    equivalent: list[MutantResult]
    unexplained: list[MutantResult]
    stale: list[str]  # sentences about explanations without a survivor

    @property
    def fine(self) -> bool:
        return not self.unexplained and not self.stale


def explanations(module: str) -> dict[Key, str]:
    """The explanation of each explained mutant of a chapter."""
    path = FOLDER / f"{module}.toml"
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", []) if path.is_file() else []
    return {(entry["exercise"], entry["line"], edit): entry["why"] for entry in entries for edit in entry["edits"]}


def misplaced_explanations(chapter: Chapter, known: dict[Key, str]) -> list[str]:
    """Sentences about explanations for exercises that the chapter does not have."""
    names = {exercise.name for exercise in chapter.exercises}
    return [f"explained/{chapter.name}.toml explains a change of {name}, but this chapter has no such exercise" for name in sorted({key[0] for key in known} - names)]


def classify(exercise: Exercise, results: list[MutantResult], known: dict[Key, str]) -> Classified:
    """Separate explained from unexplained survivors, and find explanations without a survivor."""
    by_key = {each.mutant.key: each for each in results}
    survivors = [each for each in results if not each.caught]
    stale = []
    for key in known:
        if key[0] != exercise.name:
            continue
        if key not in by_key:
            stale.append(f"{exercise.name}: explained/{exercise.module}.toml explains `{key[2]}` in `{key[1]}`, but there is no such change; delete this explanation")
        elif by_key[key].caught:
            stale.append(f"{exercise.name}: explained/{exercise.module}.toml explains `{key[2]}` in `{key[1]}`, which {by_key[key].by} catches; delete this explanation")
    equivalent = [each for each in survivors if known.get(each.mutant.key, "").strip()]
    unexplained = [each for each in survivors if not known.get(each.mutant.key, "").strip()]
    return Classified(len(results), len(results) - len(survivors), equivalent, unexplained, stale)


def last_found(exercise: Exercise) -> Mutants | None:
    """The results of the exercise's mutants when they were last tried; None if they have not been tried with the present sources."""
    results = load_results(exercise, mutants(solution_of(exercise), exercise.name))
    if results is None:
        return None
    classified = classify(exercise, results, explanations(exercise.module))
    return Mutants(classified.total, classified.caught, len(classified.equivalent))
