"""Tries mutants on the suites of their exercises until the first test fails, each in a process forked from one that has loaded everything."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from grader.course.syllabus import Exercise, load_syllabus
from grader.processes.job import Job
from grader.processes.report import Report
from grader.quality.devcheck.pool import run_jobs
from grader.quality.devcheck.subjects import solution_of
from grader.quality.proof.mutants.edits import Mutant
from grader.quality.proof.mutants.stored import SURVIVED, MutantResult, load_results, store_results
from grader.quality.proof.mutants.suites import PROCESSOR_SECONDS, SuiteRunner, trial_of
from grader.runner.graded_tests import GradedTest

PIECE = 30  # mutants in one job


@dataclass(frozen=True)
class MutantsJob(Job):
    exercise: str
    mutants: tuple[Mutant, ...]


def try_all(everything: dict[Exercise, list[Mutant]], fresh: bool = False, processes: int | None = None) -> Iterator[tuple[Exercise, list[MutantResult]]]:
    """Each exercise with the results of its mutants, in the order in which they end; stored results are used if nothing they depend on has changed."""
    left: dict[str, int] = {}
    results: dict[str, list[MutantResult]] = {}
    pieces: list[MutantsJob] = []
    by_name = {exercise.name: exercise for exercise in everything}
    for exercise, mutants in everything.items():
        stored = None if fresh else load_results(exercise, mutants)
        if stored is not None:
            yield exercise, stored
            continue
        cut = [MutantsJob(exercise.name, tuple(mutants[start : start + PIECE])) for start in range(0, len(mutants), PIECE)]
        left[exercise.name], results[exercise.name] = len(cut), []
        pieces += cut
    for piece, result in run_jobs(pieces, processes or os.cpu_count() or 1):
        results[piece.exercise] += [MutantResult(mutant, by, outcome) for mutant, (by, outcome) in zip(piece.mutants, result, strict=True)]
        left[piece.exercise] -= 1
        if not left[piece.exercise]:
            exercise = by_name[piece.exercise]
            order = {mutant.key: place for place, mutant in enumerate(everything[exercise])}
            found = sorted(results[piece.exercise], key=lambda each: order[each.mutant.key])
            store_results(exercise, everything[exercise], found)
            yield exercise, found


# ---- in the process of a job


def try_mutants(job: MutantsJob, report: Report) -> int:
    """Send the test that catches each mutant of the job, and its outcome."""
    return _Trying(report).finish(job)


class _Trying(SuiteRunner):
    def answer(self, job: MutantsJob) -> list[tuple[str, str]]:
        exercise = load_syllabus().exercise(job.exercise)
        text = solution_of(exercise)
        seconds = self.times(exercise, text)
        limit = PROCESSOR_SECONDS + math.ceil(3 * sum(seconds.values()))
        caught: Counter[str] = Counter()  # by test: those that catch most in the least time run first
        found = []
        for mutant in job.mutants:
            tests = sorted(seconds, key=lambda test: -(caught[test.name] + 0.5) / seconds[test])
            first, *_ = self.lines_of_fork(partial(self._first_failure, exercise, mutant.in_chapter(text), tests), limit)
            by, outcome = json.loads(first) if first.startswith("[") else ("", first)
            caught[by] += 1
            found.append((by, outcome))
        return found

    def _first_failure(self, exercise: Exercise, text: str, tests: list[GradedTest], report_line: Callable[[str], None]) -> None:
        self.set_trial(trial_of(exercise, text))
        for test in tests:
            if (outcome := self.run_test(test)) != "passed":
                return report_line(json.dumps([test.name, outcome]))
        report_line(json.dumps(["", SURVIVED]))
