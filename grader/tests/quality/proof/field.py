"""field: what the kit says about wrong implementations that were written from the stubs and lessons alone.

`grader/tests/field/chNN.toml` contains them, most with one fault, some with two. Each attempt has its `faults` in
words, and under `known`, for each fault, the known mistakes that are true of it: several where several describe it,
none where no known mistake does. A diagnosis that names any other mistake is false. Attempts without any such mistake
are counted by themselves: they should be caught, and get no name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from grader.course.syllabus import ROOT
from grader.tests.quality.benchmarks.figures import table
from grader.tests.quality.devcheck.subjects import Subject, solution_of
from grader.tests.quality.devcheck.trying import Tried, TryJob
from grader.tests.quality.proof.running import parsed, parser, results_of

MINUTES = 20

FOLDER = ROOT / "grader" / "tests" / "field"
GOAL_ONE_FAULT, GOAL_TWO_FAULTS = 0.92, 0.60  # shares of the attempts with a name


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
    false: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, attempt: Attempt, tried: Tried) -> None:
        names = set(tried.names)
        self.tried += 1
        self.caught += tried.outcome != "passed"
        self.named += bool(names & attempt.true_names)
        self.named_all += all(names.intersection(mistakes) for mistakes in attempt.known)
        if tried.outcome == "passed":
            self.problems.append(f"{attempt.name} passes all tests")
        if wrong := sorted(names - attempt.true_names):
            self.false += 1
            self.problems.append(f"{attempt.name} is named falsely: {', '.join(wrong)}")
        elif not names and attempt.true_names:
            true = ", ".join(sorted(attempt.true_names))
            self.problems.append(f"{attempt.name} is not named; true would be {true}")


def attempts(folder: Path = FOLDER) -> Iterator[Attempt]:
    """All attempts, chapter by chapter."""
    counts: dict[str, int] = {}
    for path in sorted(folder.glob("ch*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["attempt"]:
            number = counts[entry["exercise"]] = counts.get(entry["exercise"], 0) + 1
            yield Attempt(f"{entry['exercise']} {number}", **entry)


def run(arguments: list[str]) -> int:
    options = parsed(parser("field", __doc__), arguments)
    chosen: dict[str, list[Attempt]] = {exercise.name: [] for exercise in options.exercises}
    for attempt in attempts():
        if attempt.exercise in chosen:
            chosen[attempt.exercise].append(attempt)
    if lacking := [name for name, found in chosen.items() if not found]:
        where = FOLDER.relative_to(ROOT).as_posix()
        advice = "They are best written by a person who has not read the tests."
        print(f"No attempts in {where}: {', '.join(lacking)}. {advice}")
    jobs = []
    for exercise in options.exercises:
        solution = solution_of(exercise)
        found = [Subject("attempt", each.name, f"{solution}\n\n{each.code}") for each in chosen[exercise.name]]
        jobs += [TryJob(exercise.name, False, 0, tuple(found))] if found else []
    rows = {1: Row(), 2: Row(), 0: Row()}
    for job, results in results_of(jobs, options):
        for attempt, tried in zip(chosen[job.exercise], results, strict=True):
            rows[attempt.row].add(attempt, tried)
    for sentence in sorted(sentence for row in rows.values() for sentence in row.problems):
        print(f"  {sentence}")
    words = {1: "one fault", 2: "two faults", 0: "no known mistake describes it"}
    head = ["", "tried", "caught", "named", "every fault named", "named falsely"]
    lines = []
    for key, row in rows.items():
        named = (str(row.named), str(row.named_all)) if key else ("–", "–")
        lines.append([words[key], str(row.tried), str(row.caught), *named, str(row.false)])
    print(table(head, lines, words=1))
    goals = ((rows[1], GOAL_ONE_FAULT), (rows[2], GOAL_TWO_FAULTS))
    met = all(row.named >= goal * row.tried for row, goal in goals)
    return int(not met or any(row.caught < row.tried or row.false for row in rows.values()))
