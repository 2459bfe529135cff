"""`field`: what the kit says about wrong implementations that were written from the stubs and lessons alone, most with one fault, some with two.

`grader/tests/field/chNN.toml` contains them. Each attempt has its `faults` in words, and under `known`, for each fault, the known mistakes that are
true of it: several where several describe it, none where no known mistake does. A diagnosis that names any other mistake is false. Attempts without
any such mistake are counted by themselves: they should be caught, and get no name.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from grader.course.syllabus import ROOT, load_syllabus
from grader.quality.benchmarks.figures import machine, table
from grader.quality.devcheck.pool import PoolBroken, try_all
from grader.quality.devcheck.subjects import Subject, solution_of
from grader.quality.devcheck.trying import Tried, TryJob
from grader.quality.proof.running import parsed, parser

FOLDER = ROOT / "grader" / "tests" / "field"
NAMED_OF_SINGLE, NAMED_OF_DOUBLE = 0.92, 0.60  # the goals


@dataclass(frozen=True)
class Attempt:
    name: str  # "softmax 3": the third attempt at softmax
    exercise: str
    code: str
    faults: list[str]
    known: list[list[str]]  # for each fault, the known mistakes that are true of it

    @property
    def true_names(self) -> set[str]:
        return {mistake for mistakes in self.known for mistake in mistakes}

    @property
    def row(self) -> int:
        """The row of the table: the number of faults, or 0 if no known mistake describes any of them."""
        return len(self.faults) if self.true_names else 0


@dataclass
class Row:
    """Counts of the attempts of one row."""

    tried: int = 0
    caught: int = 0
    named: int = 0
    named_all: int = 0  # every fault is named
    problems: list[str] = field(default_factory=list)  # a sentence each

    def add(self, attempt: Attempt, tried: Tried) -> None:
        names = set(tried.names)
        self.tried += 1
        self.named += bool(names & attempt.true_names)
        self.named_all += all(names.intersection(mistakes) for mistakes in attempt.known)
        if tried.outcome == "passed":
            self.problems.append(f"{attempt.name} passes all tests")
        else:
            self.caught += 1
        if wrong := sorted(names - attempt.true_names):
            self.problems.append(f"{attempt.name} is named falsely: {', '.join(wrong)}")
        elif not names and attempt.true_names:
            self.problems.append(f"{attempt.name} is not named; true would be {', '.join(sorted(attempt.true_names))}")

    @property
    def false(self) -> int:
        return sum("falsely" in problem for problem in self.problems)


def attempts(folder: Path = FOLDER) -> Iterator[Attempt]:
    """All attempts, chapter by chapter."""
    counts: dict[str, int] = {}
    for path in sorted(folder.glob("ch*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["attempt"]:
            number = counts[entry["exercise"]] = counts.get(entry["exercise"], 0) + 1
            yield Attempt(f"{entry['exercise']} {number}", **entry)


def prove(options: argparse.Namespace) -> int:
    print(f"field: {machine()}", flush=True)
    chosen: dict[str, list[Attempt]] = {exercise.name: [] for exercise in options.exercises}
    for attempt in attempts():
        if attempt.exercise in chosen:
            chosen[attempt.exercise].append(attempt)
    if lacking := [name for name, found in chosen.items() if not found]:
        print(f"No attempts in {FOLDER.relative_to(ROOT)}: {', '.join(lacking)}. They are best written by a person who has not read the tests.")
    jobs = []
    for name, found in chosen.items():
        solution = solution_of(load_syllabus().exercise(name))
        jobs.append(TryJob(name, False, 0, tuple(Subject("attempt", attempt.name, f"{solution}\n\n{attempt.code}") for attempt in found)))
    rows = {1: Row(), 2: Row(), 0: Row()}
    try:
        for job, results in try_all([job for job in jobs if job.subjects], processes=options.jobs):
            for attempt, tried in zip(chosen[job.exercise], results, strict=True):
                rows[attempt.row].add(attempt, tried)
    except PoolBroken as problem:
        print(f"the attempts cannot be tried: {problem}")
        return 1
    for row in rows.values():
        for sentence in sorted(row.problems):
            print(f"  {sentence}")
    words = {1: "one fault", 2: "two faults", 0: "no known mistake describes it"}
    head = ["", "tried", "caught", "named", "every fault named", "named falsely"]
    lines = [[words[key], str(row.tried), str(row.caught), *((str(row.named), str(row.named_all)) if key else ("–", "–")), str(row.false)] for key, row in rows.items()]
    print(table(head, lines, words=1))
    single, double = rows[1], rows[2]
    goals = single.named >= NAMED_OF_SINGLE * single.tried and double.named >= NAMED_OF_DOUBLE * double.tried
    return 0 if goals and all(row.caught == row.tried and not row.false for row in rows.values()) else 1


def run(arguments: list[str]) -> int:
    return prove(parsed(parser("field", __doc__, seeds=1), arguments))
