"""feedback: measures the time from a save to the verdict.

The clock starts before a chapter's file is written and stops when the verdict arrives; then the verdict is checked.
Each exercise is saved correct and with a known mistake, which the diagnosis must name. As a learner does, the
benchmark saves one exercise several times and reads each verdict before the next save. The first save after a change
of exercise does not count.
"""

from __future__ import annotations

import argparse
import queue
import sys
import time
from dataclasses import dataclass, field
from statistics import median

from grader.course.known_mistakes import misconceptions
from grader.course.syllabus import EXERCISES, Exercise, UnknownName, load_syllabus
from grader.quality.benchmarks.by_test import measure_tests
from grader.quality.benchmarks.figures import format_seconds, machine, print_figure, print_goal, table
from grader.quality.benchmarks.workplace import copied_kit, is_a_copy, run_in_copy, solved_chapter, without_markers
from grader.verdict.replay import text_with_mistake
from grader.verdict.results import ExerciseResult
from grader.verdict.summary import Verdict
from grader.watch.runs import Runs
from grader.watch.saves import SaveWatcher

GOAL_VERDICT_SECONDS, GOAL_FIRST_LINE_SECONDS = 0.1, 0.08
VERDICT_SECONDS = 120.0  # until a run counts as lost
READING_SECONDS = 0.3  # between a verdict and the next save; learners take longer


class WrongVerdict(Exception):
    """The timed run gave a wrong verdict."""


@dataclass
class Times:
    """Seconds of one exercise, a list entry for each save."""

    exercise: Exercise
    right: list[float] = field(default_factory=list)
    first_line: list[float] = field(default_factory=list)  # to the first failing line
    mistaken: list[float] = field(default_factory=list)
    named: bool = False  # whether the diagnosis named the mistake


class Watched:
    """Saves a chapter and waits for the verdict, like a learner with an open watch."""

    def __init__(self) -> None:
        self.messages: queue.Queue = queue.Queue()
        self.name = ""
        self.failed: dict[str, tuple[str, ...]] = {}  # exercise → the tests that failed in its last verdict
        self.first_line = float("nan")  # seconds from the last save to the first failing line
        self.runs = Runs(lambda number, message: self.messages.put((number, message)))
        self.saves = SaveWatcher(EXERCISES, self._saved)

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.saves.close()
        self.runs.close()

    def _saved(self, names: set[str]) -> None:
        self.runs.start(self.name, self.failed.get(self.name, ()))

    def save(self, exercise: Exercise, text: str, outcome: str) -> tuple[ExerciseResult, float]:
        """Save `text`; return the result, which must have this outcome, and the seconds until it came."""
        self.name = exercise.name
        began = time.perf_counter()
        (EXERCISES / f"{exercise.module}.py").write_text(text, encoding="utf-8")
        verdict = Verdict.from_data(self._wait_for("verdict", began))
        seconds = time.perf_counter() - began
        if failures := [test.name for result in verdict.results for test in result.failures]:
            self.failed[exercise.name] = tuple(failures)  # also after right code: learners repeat a mistake
        self._wait_for("done", began)
        time.sleep(READING_SECONDS)
        result = verdict.result(exercise.name)
        if result is None or result.outcome != outcome or result.partial:
            found = result.outcome if result else "missing"
            raise WrongVerdict(f"{exercise.name}: the verdict should be {outcome!r}, but is {found!r}")
        return result, seconds

    def _wait_for(self, wanted: str, began: float):
        while True:
            try:
                number, message = self.messages.get(timeout=VERDICT_SECONDS)
            except queue.Empty:
                raise WrongVerdict(f"{self.name}: no {wanted} within {VERDICT_SECONDS:g} s") from None
            if number != self.runs.number:
                continue
            if "trouble" in message or "again" in message:
                raise WrongVerdict(f"{self.name}: {message}")
            if "failed" in message:
                self.first_line = time.perf_counter() - began
            if wanted in message:
                return message[wanted]


def measure_exercise(watched: Watched, exercise: Exercise, runs: int) -> Times:
    right, mistake = solved_chapter(exercise.module), misconceptions(exercise.module, exercise.name)[0]
    wrong, times = without_markers(text_with_mistake(exercise.module, mistake)), Times(exercise)
    watched.save(exercise, right, "passed")
    for _ in range(runs):
        times.right.append(watched.save(exercise, right, "passed")[1])
        result, seconds = watched.save(exercise, wrong, "failed")
        times.named = result.diagnosis is not None and result.diagnosis.id == mistake.id
        times.mistaken.append(seconds)
        times.first_line.append(watched.first_line)
    return times


def measure(chosen: list[Exercise], runs: int) -> None:
    """Measure everything, and print it."""
    print(f"feedback: {machine()}\nmedians of {runs}\n", flush=True)
    with Watched() as watched:
        everything = [measure_exercise(watched, exercise, runs) for exercise in chosen]
    rows = []
    for each in everything:
        seconds = [format_seconds(median(found)) for found in (each.right, each.first_line, each.mistaken)]
        rows.append([each.exercise.chapter, each.exercise.name, *seconds, "yes" if each.named else "no"])
    print(f"{table(['chapter', 'exercise', 'right', 'first line', 'mistaken', 'named'], rows, words=2)}\n")
    right = [median(each.right) for each in everything]
    goal, met = f"{format_seconds(GOAL_VERDICT_SECONDS)} in the median", median(right) < GOAL_VERDICT_SECONDS
    print_goal(f"Right code: {_median_and_slowest(right)}", goal, met)
    first_line = median(median(each.first_line) for each in everything)
    sentence, goal = f"The first failing line: {format_seconds(first_line)}", format_seconds(GOAL_FIRST_LINE_SECONDS)
    print_goal(f"{sentence} in the median exercise", goal, first_line < GOAL_FIRST_LINE_SECONDS)
    named = f"{sum(each.named for each in everything)} of {len(everything)} mistakes named"
    mistaken = [median(each.mistaken) for each in everything]
    print_figure(f"With a known mistake: {_median_and_slowest(mistaken)}; {named}.")


def _median_and_slowest(seconds: list[float]) -> str:
    return f"{format_seconds(median(seconds))} in the median exercise, {format_seconds(max(seconds))} in the slowest"


def parsed(arguments: list[str]) -> tuple[list[Exercise], int, bool]:
    """The exercises to measure, how often, and whether each test by itself."""
    description = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m grader.quality.benchmarks feedback", description=description)
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="how often each is measured (5)")
    parser.add_argument("--exercise", action="append", metavar="NAME", help="only this one; may be repeated")
    help = "the processor time of each graded test instead, the slowest first (make bench ONLY=feedback BY=test)"
    parser.add_argument("--by-test", action="store_true", help=help)
    options = parser.parse_args(arguments)
    try:
        return load_syllabus().chosen(options.exercise or ()), max(1, options.runs), options.by_test
    except UnknownName as problem:
        parser.error(str(problem))


def run(arguments: list[str]) -> int:
    chosen, _, by_test = parsed(arguments)  # report wrong arguments before copying anything
    if by_test:  # saves nothing, so it needs no copy
        measure_tests(chosen)
        return 0
    with copied_kit() as root:
        return run_in_copy(root, "grader.quality.benchmarks.feedback", arguments)


if __name__ == "__main__":
    if not is_a_copy():
        command = "python -m grader.quality.benchmarks feedback"
        sys.exit(f"feedback overwrites exercises; run `{command}`, which makes a copy first")
    try:
        measure(*parsed(sys.argv[1:])[:2])
    except WrongVerdict as problem:
        sys.exit(f"feedback: {problem}")
