"""Measures each graded test on right code: processor time, examples and requests; `feedback --by-test` prints them."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from grader.course.syllabus import Exercise
from grader.execution.calls import Exchange
from grader.execution.example_requests import RecordedExample
from grader.execution.target import Target
from grader.quality.benchmarks.figures import machine, print_figure, table
from grader.quality.benchmarks.workplace import solved_chapter
from grader.runner.judging import judge_of
from grader.verdict.examples import use_headway_profile
from grader.verdict.recordings import course_recordings
from grader.verdict.trial import Trial

SLOWEST_EXERCISES = 10


@dataclass(frozen=True)
class Cost:
    """What one test costs in one run."""

    exercise: str
    test: str
    milliseconds: float  # of the processor
    examples: int
    requests: int  # to the tested code


class ExampleLogs(Trial):
    """A trial that keeps the log of requests of each example."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.logs: list[list[Exchange]] = []

    def begin_example(self, recorded: RecordedExample | None = None) -> bool:
        answered = super().begin_example(recorded)
        assert self.current_boundary is not None
        self.logs.append(self.current_boundary.log)
        return answered


def costs_of(exercise: Exercise) -> list[Cost]:
    """The cost of each of its tests, in a second run: the first one loads or makes the recordings."""
    for _ in range(2):
        gc.freeze()  # as the server of runs does: the collector does not visit what was there before
        costs = list(_run(exercise))
    return costs


def _run(exercise: Exercise) -> Iterator[Cost]:
    target = Target("submission", None, {exercise.module: solved_chapter(exercise.module)})
    trial = ExampleLogs(target, ahead=True)
    with contextlib.closing(judge_of(trial, course_recordings())) as judge:
        for test in judge.tests_of(exercise):
            trial.logs.clear()
            began = time.process_time()
            judge.run_tests([test])
            milliseconds = 1000 * (time.process_time() - began)
            yield Cost(exercise.name, test.name, milliseconds, len(trial.logs), sum(map(len, trial.logs)))


def measure_tests(chosen: list[Exercise]) -> None:
    """Measure the tests of these exercises, and print them, the slowest first."""
    conditions = "processor time in this process, with one thread, right code, recorded examples"
    print(f"feedback: {machine()}\n{conditions}\n", flush=True)
    use_headway_profile()
    torch.set_num_threads(1)
    costs = sorted((cost for exercise in chosen for cost in costs_of(exercise)), key=lambda cost: -cost.milliseconds)
    rows = [
        [cost.exercise, cost.test, f"{cost.milliseconds:.1f}", str(cost.examples), str(cost.requests)] for cost in costs
    ]
    print(f"{table(['exercise', 'test', 'ms', 'examples', 'requests'], rows, words=2)}\n")
    sums: dict[str, float] = {}
    for cost in costs:
        sums[cost.exercise] = sums.get(cost.exercise, 0.0) + cost.milliseconds
    slowest = sorted(sums, key=lambda name: -sums[name])[:SLOWEST_EXERCISES]
    print(f"{table(['exercise', 'ms of its tests'], [[name, f'{sums[name]:.0f}'] for name in slowest], words=1)}\n")
    total = sum(sums.values()) / 1000
    print_figure(f"The {len(costs)} tests of {len(sums)} exercises take {total:.2f} s of the processor.")
