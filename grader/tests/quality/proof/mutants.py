"""mutants: checks that the suite catches every small change of the reference, or that it is explained.

The changes are made mechanically (`mutator.py`) and tried, each in a worker, until the first failure. A survivor that
breaks no promise is explained in `tests/mutants/chNN_name.toml`, with the line of the reference that it is about:

    [[equivalent]]
    exercise = "causal_mask"
    line = "everything = torch.ones(q_len, k_len, dtype=torch.bool)"
    edits = ["torch.bool -> torch.uint8"]
    why = "one sentence"
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass

from grader.course.syllabus import TESTS, Chapter, Exercise, load_syllabus
from grader.tests.quality.benchmarks.figures import table
from grader.tests.quality.devcheck.subjects import Subject, solution_of
from grader.tests.quality.devcheck.trying import Tried, TryJob
from grader.tests.quality.proof.mutator import Mutant, mutants
from grader.tests.quality.proof.running import parsed, parser, results_of, seconds_since

MINUTES = 60

JOB_MUTANTS = 30

Key = tuple[str, str, str]  # exercise, line, edit


@dataclass(frozen=True)
class MutantResult:
    mutant: Mutant
    by: str  # the test that catches it, or ""
    outcome: str  # of this test


@dataclass(frozen=True)
class Classified:
    """An exercise's mutants by their result."""

    total: int
    caught: int
    equivalent: list[Mutant]
    unexplained: list[Mutant]
    stale: list[str]  # sentences about explanations without a survivor

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        return self.total, self.caught, len(self.equivalent), len(self.unexplained)


def explanations(module: str) -> dict[Key, str]:
    """The explanation of each explained mutant of a chapter."""
    path = TESTS / "mutants" / f"{module}.toml"
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", []) if path.is_file() else []
    return {(entry["exercise"], entry["line"], edit): entry["why"] for entry in entries for edit in entry["edits"]}


def misplaced_explanations(chapter: Chapter) -> list[str]:
    """Sentences about explanations for exercises that the chapter does not have."""
    unknown = {key[0] for key in explanations(chapter.name)} - {exercise.name for exercise in chapter.exercises}
    where = f"tests/mutants/{chapter.name}.toml"
    return [f"{where} explains a change of {name}, but this chapter has no such exercise" for name in sorted(unknown)]


def classify(exercise: Exercise, results: list[MutantResult], known: dict[Key, str]) -> Classified:
    """Separate explained from unexplained survivors, and find explanations without a survivor."""
    caught_by = {each.mutant.key: each.by for each in results}
    survivors = [each.mutant for each in results if not each.by]
    stale = []
    for key in known:
        if key[0] == exercise.name and caught_by.get(key) != "":
            why = f"which {caught_by[key]} catches" if key in caught_by else "but there is no such change"
            explained = f"tests/mutants/{exercise.module}.toml explains `{key[2]}` in `{key[1]}`"
            stale.append(f"{exercise.name}: {explained}, {why}; delete this explanation")
    equivalent = [mutant for mutant in survivors if known.get(mutant.key, "").strip()]
    unexplained = [mutant for mutant in survivors if not known.get(mutant.key, "").strip()]
    return Classified(len(results), len(results) - len(survivors), equivalent, unexplained, stale)


def jobs_of(exercise: Exercise, changes: list[Mutant]) -> list[TryJob]:
    text = solution_of(exercise)
    subjects = [Subject("mutant", f"{each.line}: {each.edit}", each.in_chapter(text)) for each in changes]
    pieces = [tuple(subjects[start : start + JOB_MUTANTS]) for start in range(0, len(subjects), JOB_MUTANTS)]
    return [TryJob(exercise.name, True, 0, piece, until_failure=True) for piece in pieces]


def results(changes: list[Mutant], tried: list[Tried]) -> list[MutantResult]:
    """The test that catches each mutant, and its outcome there."""
    found = []
    for mutant, each in zip(changes, tried, strict=True):
        by, *_ = [*each.failed_tests, ""]
        found.append(MutantResult(mutant, by, each.outcomes.get(by, "survived")))
    return found


def run(arguments: list[str]) -> int:
    """Print the numbers of each exercise. Returns 0 if every survivor is explained."""
    options = parser("mutants", __doc__)
    options.add_argument("names", nargs="*", metavar="NAME", help="exercises or chapters (default: all)")
    chosen = parsed(options, arguments)
    found = try_mutants({each: mutants(solution_of(each), each.name) for each in chosen.exercises}, chosen)
    classified = {each: classify(each, found[each], explanations(each.module)) for each in chosen.exercises}
    rows: list[list[str]] = []
    stale = [sentence for row in classified.values() for sentence in row.stale]
    for chapter in load_syllabus().chapters:
        if of_chapter := {each: row for each, row in classified.items() if each.chapter == chapter.id}:
            stale += misplaced_explanations(chapter)
            rows.append([f"**{chapter.id} {chapter.title}**", *map(str, _sums(of_chapter.values()))])
            rows += [[f"`{exercise.name}`", *map(str, row.numbers)] for exercise, row in of_chapter.items()]
    print(table(["exercise", "mutants", "caught", "equivalent", "unexplained"], rows, words=1))
    for exercise, row in classified.items():
        for mutant in row.unexplained:
            print(f"✗ {exercise.name}, line {mutant.number}: nothing catches `{mutant.edit}` in\n    {mutant.line}")
    for sentence in stale:
        print(f"✗ {sentence}")
    total, caught, equivalent, unexplained = _sums(classified.values())
    numbers = f"{caught} of {total} caught, {equivalent} equivalent, {unexplained} unexplained"
    print(f"mutants: {numbers}, in {seconds_since(chosen)}")
    if unexplained:
        print("Add the test that is missing; or, if the mutant keeps every promise, explain why in tests/mutants/.")
    return int(bool(unexplained or stale))


def try_mutants(
    everything: dict[Exercise, list[Mutant]], options: argparse.Namespace
) -> dict[Exercise, list[MutantResult]]:
    """The result of each mutant."""
    jobs = [job for exercise, changes in everything.items() for job in jobs_of(exercise, changes)]
    by_job = {(job.exercise, job.subjects[0].name): tried for job, tried in results_of(jobs, options)}
    found = {}
    for exercise, changes in everything.items():
        tried = [by_job[job.exercise, job.subjects[0].name] for job in jobs_of(exercise, changes)]
        found[exercise] = results(changes, [each for piece in tried for each in piece])
    return found


def _sums(rows: Iterable[Classified]) -> list[int]:
    return [sum(numbers) for numbers in zip(*(row.numbers for row in rows))]
