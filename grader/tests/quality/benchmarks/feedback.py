"""feedback: measures the time from a save to the verdict.

The clock starts before a chapter's file is written and stops when the verdict arrives; then the verdict is checked.
Each exercise is saved correct and with a known mistake, which the diagnosis must name. As a learner does, the
benchmark saves one exercise several times and reads each verdict before the next save. The first save after a change
of exercise does not count.
"""

from __future__ import annotations

import argparse
import queue
import subprocess
import sys
import time
from dataclasses import dataclass, field
from statistics import median

from grader.course.known_mistakes import misconceptions
from grader.course.syllabus import EXERCISES, Chapter, Exercise, UnknownName, load_syllabus
from grader.tests.quality.benchmarks.figures import GrowingTable, format_seconds, machine, print_figure, print_goal
from grader.tests.quality.benchmarks.workplace import (
    copied_kit,
    is_a_copy,
    run_in_copy,
    solved_chapter,
    without_markers,
)
from grader.verdict.replay import text_with_mistake
from grader.verdict.results import ExerciseResult, Verdict
from grader.watch.loop import SaveWatcher
from grader.watch.runs import Runs

MINUTES = 30

GOAL_VERDICT_SECONDS, GOAL_FIRST_LINE_SECONDS, GOAL_TIMES_QUICKER = 0.1, 0.08, 15
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
        verdict, seconds = self.wait_for_verdict(exercise.name, exercise.module, text)
        if failures := [test.name for result in verdict.results for test in result.failures]:
            self.failed[exercise.name] = tuple(failures)  # also after right code: learners repeat a mistake
        result = verdict.result(exercise.name)
        if result is None or result.outcome != outcome or result.partial:
            found = result.outcome if result else "missing"
            raise WrongVerdict(f"{exercise.name}: the verdict should be {outcome!r}, but is {found!r}")
        return result, seconds

    def wait_for_verdict(self, name: str, module: str, text: str) -> tuple[Verdict, float]:
        """Save `text`; return the verdict on this exercise or chapter, and the seconds until it came."""
        self.name = name
        began = time.perf_counter()
        (EXERCISES / f"{module}.py").write_text(text, encoding="utf-8")
        verdict = Verdict.from_data(self._wait_for("verdict", began))
        seconds = time.perf_counter() - began
        self._wait_for("done", began)
        time.sleep(READING_SECONDS)
        return verdict, seconds

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
    longest, everything = max((exercise.name for exercise in chosen), key=len), list[Times]()
    table = GrowingTable(["chapter", "exercise", "right", "first line", "mistaken", "named"], "ch00", longest)
    with Watched() as watched:
        for exercise in chosen:
            each = measure_exercise(watched, exercise, runs)
            everything.append(each)
            seconds = [format_seconds(median(found)) for found in (each.right, each.first_line, each.mistaken)]
            table.add([exercise.chapter, exercise.name, *seconds, "yes" if each.named else "no"])
    print()
    right = [median(each.right) for each in everything]
    goal, met = f"{format_seconds(GOAL_VERDICT_SECONDS)} in the median", median(right) < GOAL_VERDICT_SECONDS
    print_goal(f"Right code: {_median_and_slowest(right)}", goal, met)
    first_line = median(median(each.first_line) for each in everything)
    sentence, goal = f"The first failing line: {format_seconds(first_line)}", format_seconds(GOAL_FIRST_LINE_SECONDS)
    print_goal(f"{sentence} in the median exercise", goal, first_line < GOAL_FIRST_LINE_SECONDS)
    named = f"{sum(each.named for each in everything)} of {len(everything)} mistakes named"
    mistaken = [median(each.mistaken) for each in everything]
    print_figure(f"With a known mistake: {_median_and_slowest(mistaken)}; {named}.")


def measure_chapters(chosen: list[Chapter], runs: int) -> None:
    """Measure all tests of each chapter on right code, in a cold pytest and after a save, and print the ratios."""
    print(f"feedback by chapter: {machine()}\nmedians of {runs}, with recorded examples\n", flush=True)
    ratios, table = [], GrowingTable(["chapter", "cold pytest", "after a save", "times quicker"], "ch00")
    with Watched() as watched:
        for chapter in chosen:
            arguments = chapter.id, chapter.name, solved_chapter(chapter.name)
            watched.wait_for_verdict(*arguments)
            cold, warm = [], []
            for _ in range(runs):
                cold.append(_cold_pytest(chapter))
                verdict, seconds = watched.wait_for_verdict(*arguments)
                warm.append(seconds)
                if any(result.failures for result in verdict.results):
                    raise WrongVerdict(f"{chapter.id}: the verdict should be 'passed'")
            ratios.append(median(cold) / median(warm))
            table.add([chapter.id, format_seconds(median(cold)), format_seconds(median(warm)), f"{ratios[-1]:.1f}"])
    print()
    found = f"{median(ratios):.1f} times a cold pytest in the median chapter, {min(ratios):.1f} in the least"
    print_goal(f"After a save: {found}", f"{GOAL_TIMES_QUICKER} times", median(ratios) >= GOAL_TIMES_QUICKER)


def _cold_pytest(chapter: Chapter) -> float:
    """Seconds of a pytest process that runs the chapter's tests."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-q", "--chapter", chapter.id]
    if subprocess.run(command, cwd=EXERCISES.parent, stdout=subprocess.DEVNULL).returncode:
        raise WrongVerdict(f"{chapter.id}: pytest should pass")
    return time.perf_counter() - began


def _median_and_slowest(seconds: list[float]) -> str:
    return f"{format_seconds(median(seconds))} in the median exercise, {format_seconds(max(seconds))} in the slowest"


def parsed(arguments: list[str]) -> argparse.Namespace:
    """The options; `chosen` are the exercises to measure."""
    description = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m grader.tests.quality.benchmarks feedback", description=description)
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="how often each is measured (5)")
    parser.add_argument("--exercise", action="append", metavar="NAME", help="only this one; may be repeated")
    help = "all tests of each chapter, compared with a cold pytest (make bench ONLY=feedback BY=chapter)"
    parser.add_argument("--by-chapter", action="store_true", help=help)
    options = parser.parse_args(arguments)
    options.runs = max(1, options.runs)
    try:
        options.chosen = load_syllabus().chosen(options.exercise or ())
    except UnknownName as problem:
        parser.error(str(problem))
    return options


def run(arguments: list[str]) -> int:
    parsed(arguments)  # report wrong arguments before copying anything
    with copied_kit() as root:
        return run_in_copy(root, "grader.tests.quality.benchmarks.feedback", arguments)


if __name__ == "__main__":
    if not is_a_copy():
        command = "python -m grader.tests.quality.benchmarks feedback"
        sys.exit(f"feedback overwrites exercises; run `{command}`, which makes a copy first")
    options = parsed(sys.argv[1:])
    try:
        if options.by_chapter:
            names = {exercise.chapter for exercise in options.chosen}
            measure_chapters([chapter for chapter in load_syllabus().chapters if chapter.id in names], options.runs)
        else:
            measure(options.chosen, options.runs)
    except WrongVerdict as problem:
        sys.exit(f"feedback: {problem}")
