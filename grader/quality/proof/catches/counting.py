"""Counts at how many seeds an exercise's own tests catch a known mistake. Counts are stored, so that an interrupted run continues where it stopped.

A mistake that fails a test which runs identically at every seed is caught at every seed, and needs no further runs. A test counts as such when
it fails on the common or the pinned examples, and its calls and their answers are the same, bit for bit, at several seeds.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grader.course.known_mistakes import misconceptions
from grader.course.syllabus import Exercise, load_syllabus
from grader.processes.job import Job
from grader.processes.report import Report
from grader.quality.devcheck.pool import run_jobs
from grader.quality.devcheck.stored import load, store, stored_file
from grader.quality.devcheck.subjects import solution_of
from grader.quality.proof.mutants import suites
from grader.quality.proof.mutants.suites import PROCESSOR_SECONDS, SuiteRunner, trial_of
from grader.runner.checks import raise_first_mismatch
from grader.runner.graded_tests import GradedTest
from grader.verdict.examples import run_own_examples, run_pinned, seed_examples
from grader.verdict.replay import text_with_mistake
from grader.verdict.trial import Trial
from hypothesis.errors import HypothesisException

COMPARED_SEEDS = (0, 1, 2**40 + 1)  # a test that runs identically at these counts as identical at all seeds
ENDS_ENOUGH = 5  # if a mistake loops or dies at so many seeds in a row, this holds for every seed
PIECE = 6  # mistakes in one job


@dataclass(frozen=True)
class Mistake:
    """A known mistake as a chapter's text."""

    id: str
    text: str


@dataclass(frozen=True)
class Counted:
    """At how many of `seeds` seeds a mistake was caught. `by`: the test that catches it identically at every seed, or ""."""

    id: str
    seeds: int
    caught: int
    by: str
    missed: list[int]
    tests: dict[str, int]  # the test that caught it first → at how many seeds

    @property
    def rate(self) -> float:
        return 1.0 if self.by else self.caught / self.seeds


@dataclass(frozen=True)
class CountJob(Job):
    exercise: str
    mistakes: tuple[Mistake, ...]
    first: int  # seed
    end: int  # one more than the last seed


def known_mistakes(exercise: Exercise, only: list[str] | None = None) -> list[Mistake]:
    """The exercise's known mistakes, or those with these names."""
    return [
        Mistake(known.id, text_with_mistake(exercise.module, known))
        for known in misconceptions(exercise.module, exercise.name)
        if not only or known.id in only
    ]


def count_all(everything: dict[Exercise, list[Mistake]], seeds: range, fresh: bool = False, processes: int = 2) -> Iterator[tuple[Exercise, list[Counted]]]:
    """Each exercise with some of its counted mistakes, in the order in which the jobs end; stored counts are used if nothing they depend on has changed."""
    pieces: list[CountJob] = []
    by_name = {exercise.name: exercise for exercise in everything}
    for exercise, mistakes in everything.items():
        before = [None if fresh else load(_stored_file(exercise.name, mistake, seeds), lambda data: Counted(**data)) for mistake in mistakes]
        if done := [each for each in before if each]:
            yield exercise, done
        left = [mistake for mistake, each in zip(mistakes, before) if each is None]
        pieces += [CountJob(exercise.name, tuple(left[start : start + PIECE]), seeds.start, seeds.stop) for start in range(0, len(left), PIECE)]
    for piece, result in run_jobs(pieces, processes):
        for mistake, data in zip(piece.mistakes, result):
            store(_stored_file(piece.exercise, mistake, seeds), data)
        yield by_name[piece.exercise], [Counted(**data) for data in result]


def _stored_file(exercise: str, mistake: Mistake, seeds: range) -> Path:
    return stored_file("catches", exercise, mistake, seeds, *(Path(path).read_bytes() for path in (__file__, suites.__file__)))


# ---- in the process of a job


def count_catches(job: CountJob, report: Report) -> int:
    """Send the counts of the job's mistakes."""
    return _Counting(report).finish(job)


class _Counting(SuiteRunner):
    def answer(self, job: CountJob) -> list[dict[str, Any]]:
        exercise = load_syllabus().exercise(job.exercise)
        seconds = self.times(exercise, solution_of(exercise))
        limit = PROCESSOR_SECONDS + math.ceil(3 * sum(seconds.values()))
        best: Counter[str] = Counter()  # by test: those that catch most in the least time run first
        found = []
        for mistake in job.mistakes:
            tests = sorted(seconds, key=lambda test: -(best[test.name] + 0.5) / seconds[test])
            counted = self._count(exercise, mistake, tests, range(job.first, job.end), limit)
            best.update(name for name in (counted.by, *counted.tests) if name)
            found.append(asdict(counted))
        return found

    def _count(self, exercise: Exercise, mistake: Mistake, tests: list[GradedTest], seeds: range, limit: int) -> Counted:
        work = functools.partial(self._test_that_catches_always, exercise, mistake.text, tests)
        if (by := next(self.lines_of_fork(work, limit), "")) not in ("", "timeout", "died"):
            return Counted(mistake.id, 0, 0, by, [], {})
        caught: Counter[str] = Counter()
        missed: list[int] = []
        left, ends = list(seeds), 0
        while left and ends < ENDS_ENOUGH:
            for line in self.lines_of_fork(functools.partial(self._try_seeds, exercise, mistake.text, tests, left), limit):
                ends = ends + 1 if line in ("timeout", "died") else 0
                if line:
                    caught[line] += 1
                else:
                    missed.append(left[0])
                left = left[1:]
        by = max(caught, key=lambda name: caught[name]) if left else ""
        return Counted(mistake.id, len(seeds) - len(left), sum(caught.values()), by, missed, dict(caught))

    def _try_seeds(self, exercise: Exercise, text: str, tests: list[GradedTest], seeds: list[int], report_line: Callable[[str], None]) -> None:
        """Report for each seed the first test that fails, or an empty line. The test that failed last runs first."""
        tests = list(tests)
        for seed in seeds:
            self.set_trial(trial_of(exercise, text, seed))
            caught = next((test for test in tests if not self._passes(test)), None)
            if caught:
                tests.remove(caught)
                tests.insert(0, caught)
            self.judge.run.trial.close()
            report_line(caught.name if caught else "")

    def _passes(self, test: GradedTest, own: bool = True) -> bool:
        """Does the test pass in the trial? Hypothesis stops at the first failure."""
        if not hasattr(test.function, "hypothesis"):
            return self.run_test(test) == "passed"
        function, trial = test.function, self.judge.run.trial
        handle = function.hypothesis  # type: ignore[attr-defined]
        sides = {"learner": trial.learner, "reference": trial.reference}
        arguments = {side: sides[side](test.exercise.chapter) for side in test.sides}
        whole = handle.inner_test
        seed_examples(function, test.name, trial.seed_of(test.exercise.name))
        handle.inner_test = _ended_by_failure(whole, trial)
        trial.begin_test(test.exercise, test.name)
        try:
            function(**arguments)
            run_pinned(function, arguments)
            if own:
                run_own_examples(function, arguments, trial)
            return True
        except BaseException:
            return False
        finally:
            handle.inner_test = whole

    def _test_that_catches_always(self, exercise: Exercise, text: str, tests: list[GradedTest], report_line: Callable[[str], None]) -> None:
        """Report a test that fails on examples that do not depend on the seed."""
        for test in tests:
            first, *others = (self._transcript(exercise, text, test, seed) for seed in COMPARED_SEEDS)
            if first and all(other == first for other in others):
                return report_line(test.name)
        report_line("")

    def _transcript(self, exercise: Exercise, text: str, test: GradedTest, seed: int) -> bytes:
        """A fingerprint of the test's calls on both sides and of their answers; empty if the test passes."""
        self.set_trial(trial_of(exercise, text, seed))
        passed = self._passes(test, own=False)
        digest = hashlib.sha256()
        for exchange in self.judge.run.trial.transcript():
            digest.update(repr((exchange.op, exchange.tree, exchange.reply)).encode())
            for buffer in (*exchange.buffers, *exchange.out):
                digest.update(buffer)
        self.judge.run.trial.close()
        return b"" if passed else digest.digest()


class _Failed(BaseException):
    """An example failed; this stops hypothesis from running it again."""


def _ended_by_failure(function: Callable, trial: Trial) -> Callable:
    @functools.wraps(function)
    def example(*args: Any, **kwargs: Any) -> None:
        try:
            trial.begin_example()
            with raise_first_mismatch():
                function(*args, **kwargs)
        except HypothesisException:
            raise
        except Exception:
            raise _Failed from None

    return example
