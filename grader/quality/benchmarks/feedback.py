"""feedback: measures the time from a save to the verdict, with the watch's own parts, and compares it with a cold `python -m pytest` of the same tests.

The clock starts before a chapter's file is written and stops when the verdict arrives; then the verdict is checked. First comes the main
exercise of each chapter, warm and cold in turn; then every exercise, correct and with a known mistake, which the diagnosis must name. As a learner
does, it saves one exercise several times and reads each verdict before the next save; the first save after a change of exercise counts apart. The limit
that a verdict could reach is the tests' own time, as each verdict reports it: the learner's code, the comparisons, and what the tests compute.
"""

from __future__ import annotations

import argparse
import os
import queue
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from grader.course.known_mistakes import misconceptions
from grader.course.syllabus import EXERCISES, ROOT, Exercise, UnknownName, load_syllabus
from grader.quality.benchmarks.figures import format_seconds, machine, median_or_nan, print_figure, table
from grader.quality.benchmarks.workplace import copied_kit, environment, is_a_copy, run_in_copy, solved_chapter, without_markers
from grader.verdict.replay import text_with_mistake
from grader.verdict.summary import Verdict
from grader.watch.runs import Runs
from grader.watch.saves import SaveWatcher

TRAINING = {"train_step", "accumulated_step", "AdamW", "fit"}  # their tests train a model: steps of an optimizer, one after another
GOAL_RATIO = 15  # times as fast as a cold pytest
GOAL_MEDIAN, GOAL_SLOWEST, GOAL_FIRST = 0.1, 0.25, 0.08  # seconds: right code, right code that does not train, and the first failing line
PATIENCE = 120.0
READING = 0.3  # seconds between a verdict and the next save; learners take longer


class WrongVerdict(Exception):
    """The timed run gave a wrong verdict."""


@dataclass
class Times:
    """Times of one exercise in one state of its file. Processor time covers the whole run, until its process has ended."""

    exercise: Exercise
    tests: int = 0
    warm: list[float] = field(default_factory=list)
    warm_processor: list[float] = field(default_factory=list)
    tests_own: list[float] = field(default_factory=list)  # seconds that the tests themselves took
    first_line: list[float] = field(default_factory=list)  # seconds to the first failing line
    cold: list[float] = field(default_factory=list)
    cold_processor: list[float] = field(default_factory=list)
    named: bool = False  # whether the diagnosis named the mistake

    @property
    def ratio(self) -> float:
        return median_or_nan(self.cold) / median_or_nan(self.warm)


class Watched:
    """Saves a chapter and waits for the verdict, like a learner with an open watch."""

    def __init__(self) -> None:
        self.messages: queue.Queue = queue.Queue()
        self.name = ""
        self.failed: dict[str, tuple[str, ...]] = {}  # exercise → the tests that failed in its last verdict
        self.first_line = float("nan")  # seconds from the last save to the first failing line
        self.runs = Runs(lambda number, message: self.messages.put((number, message)))
        self.saves = SaveWatcher(EXERCISES, self._saved, lambda word: print(word, file=sys.stderr))

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.saves.close()
        self.runs.close()

    def _saved(self, names: set[str]) -> None:
        self.runs.start(self.name, self.failed.get(self.name, ()))

    def save(self, exercise: Exercise, text: str) -> tuple[Verdict, float, float]:
        """Save `text`; return the verdict, the seconds until it came, and the processor time of the run."""
        self.name = exercise.name
        before = self._processor()
        began = time.perf_counter()
        (EXERCISES / f"{exercise.module}.py").write_text(text, encoding="utf-8")
        verdict = Verdict.from_data(self._wait_for("verdict", began))
        seconds = time.perf_counter() - began
        if failures := [test.name for result in verdict.results for test in result.failures]:
            self.failed[exercise.name] = tuple(failures)  # also after right code: learners make the same mistake again, and correct it again
        self._wait_for("done")
        time.sleep(READING)  # also until the server has reaped the run's process, whose time then counts as the server's
        return verdict, seconds, self._processor() - before

    def _wait_for(self, wanted: str, began: float = 0.0):
        while True:
            try:
                number, message = self.messages.get(timeout=PATIENCE)
            except queue.Empty:
                raise WrongVerdict(f"{self.name}: no {wanted} within {PATIENCE:g} s") from None
            if number == self.runs.number and ("trouble" in message or "again" in message):
                raise WrongVerdict(f"{self.name}: {message}")
            if number == self.runs.number and "failed" in message:
                self.first_line = time.perf_counter() - began
            if number == self.runs.number and wanted in message:
                return message[wanted]

    def _processor(self) -> float:
        """Processor seconds of all runs of the server that have ended, from /proc."""
        if self.runs.server is None:
            return float("nan")
        try:
            fields = Path(f"/proc/{self.runs.server.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return float("nan")
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def cold(exercise: Exercise) -> tuple[float, float]:
    """Seconds of `python -m pytest --exercise NAME` from its start to its end, and its processor time."""
    before = os.times()
    began = time.perf_counter()
    command = [sys.executable, "-m", "pytest", "-q", "--exercise", exercise.name]
    done = subprocess.run(command, cwd=ROOT, env=environment(ROOT), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    seconds = time.perf_counter() - began
    after = os.times()
    if done.returncode:
        raise WrongVerdict(f"{exercise.name}: pytest ends with status {done.returncode}:\n{done.stdout.decode(errors='replace')}")
    return seconds, after.children_user + after.children_system - before.children_user - before.children_system


def measure_correct_code(watched: Watched, times: Times) -> None:
    """Measure one save of correct code."""
    text = solved_chapter(times.exercise.module)
    result, seconds, processor = _expect(watched, times.exercise, text, "passed")
    times.tests = len(result.tests)
    times.warm.append(seconds)
    times.warm_processor.append(processor)
    times.tests_own.append(sum(test.seconds for test in result.tests))


def measure_mistake(watched: Watched, times: Times) -> None:
    """Measure one save of the first mistake in the exercise's catalogue."""
    exercise = times.exercise
    mistake = misconceptions(exercise.module, exercise.name)[0]
    result, seconds, processor = _expect(watched, exercise, without_markers(text_with_mistake(exercise.module, mistake)), "failed")
    times.named = result.diagnosis is not None and result.diagnosis.id == mistake.id
    times.warm.append(seconds)
    times.warm_processor.append(processor)
    times.first_line.append(watched.first_line)


def _expect(watched: Watched, exercise: Exercise, text: str, outcome: str):
    verdict, seconds, processor = watched.save(exercise, text)
    result = verdict.result(exercise.name)
    if result is None or result.outcome != outcome or result.partial:
        raise WrongVerdict(f"{exercise.name}: the verdict should be {outcome!r}, but is {result.outcome if result else 'missing'!r}")
    return result, seconds, processor


def main_exercises(chosen: list[Exercise]) -> list[Exercise]:
    """The exercise with the most points in each chapter, of the chosen ones."""
    chapters = dict.fromkeys(exercise.chapter for exercise in chosen)
    return [max((e for e in chosen if e.chapter == chapter), key=lambda e: e.points) for chapter in chapters]


def measure(chosen: list[Exercise], runs: int) -> None:
    """Measure everything, and print each result when it is complete."""
    print(f"feedback: {machine()}\nmedians of {runs}; \"processor\" is user and system time of the whole run, which depends less on other load\n")
    with Watched() as watched:
        starting, first, later = Times(chosen[0]), Times(chosen[0]), Times(chosen[0])
        measure_correct_code(watched, starting)
        measure_correct_code(watched, first)
        for _ in range(runs):
            measure_correct_code(watched, later)
        print_figure(
            f"The watch's start takes {format_seconds(starting.warm[0])}, with a first verdict; the first save after it {format_seconds(first.warm[0])}, "
            f"a later one {format_seconds(median_or_nan(later.warm))} ({chosen[0].name})."
        )
        print()
        chapters = [Times(exercise) for exercise in main_exercises(chosen)]
        for times in chapters:
            measure_correct_code(watched, Times(times.exercise))
            for _ in range(runs):
                measure_correct_code(watched, times)
                seconds, processor = cold(times.exercise)
                times.cold.append(seconds)
                times.cold_processor.append(processor)
        print_results(by_chapter(chapters))
        changed, correct, mistaken = ([Times(exercise) for exercise in chosen] for _ in range(3))
        for switching, passing, failing in zip(changed, correct, mistaken):
            measure_correct_code(watched, switching)
            for _ in range(runs):
                measure_correct_code(watched, passing)
                measure_mistake(watched, failing)
        print()
        print_results(by_exercise(correct, mistaken))
        print_figure(f"The first save after a change of exercise, right code: {_median_and_slowest(changed)}.")


def print_results(results: tuple[str, list[str]]) -> None:
    """Print a table, and below it the sentences that describe it."""
    rows, sentences = results
    print(f"{rows}\n")
    for sentence in sentences:
        print_figure(sentence)


def by_chapter(chapters: list[Times]) -> tuple[str, list[str]]:
    rows = [
        [
            t.exercise.chapter, t.exercise.name, str(t.tests), format_seconds(median_or_nan(t.cold)), format_seconds(median_or_nan(t.warm)), f"{t.ratio:.1f}",
            format_seconds(median_or_nan(t.cold_processor)), format_seconds(median_or_nan(t.warm_processor)),
        ]
        for t in chapters
    ]  # fmt: skip
    heads = ["chapter", "exercise", "tests", "cold", "save to verdict", "ratio", "processor cold", "processor warm"]
    reached = median_or_nan([times.ratio for times in chapters])
    compared = f"{reached:.1f} times as fast as a cold pytest; the goal is {GOAL_RATIO}: {_met(reached >= GOAL_RATIO)}"
    return table(heads, rows, words=2), [f"From a save to the verdict, in the median chapter: {compared}."]


def by_exercise(correct: list[Times], mistaken: list[Times]) -> tuple[str, list[str]]:
    rows = [
        [
            passing.exercise.chapter, passing.exercise.name, "trains" if passing.exercise.name in TRAINING else "", str(passing.tests),
            *(format_seconds(median_or_nan(seconds)) for seconds in (passing.warm, passing.warm_processor, passing.tests_own)),
            *(format_seconds(median_or_nan(seconds)) for seconds in (failing.first_line, failing.warm, failing.warm_processor)), "yes" if failing.named else "no",
        ]
        for passing, failing in zip(correct, mistaken)
    ]  # fmt: skip
    heads = ["chapter", "exercise", "", "tests", "right", "processor", "tests' own", "first line", "mistaken", "processor", "named"]
    late = sorted((t for t in correct if median_or_nan(t.warm) > GOAL_SLOWEST and t.exercise.name not in TRAINING), key=lambda t: -median_or_nan(t.warm))
    named = sum(times.named for times in mistaken)
    middle, first = median_or_nan([median_or_nan(t.warm) for t in correct]), median_or_nan([median_or_nan(t.first_line) for t in mistaken])
    own = median_or_nan([median_or_nan(t.warm_processor) / median_or_nan(t.tests_own) - 1 for t in correct])
    under = f"Under {format_seconds(GOAL_SLOWEST)} for every exercise that does not train: {_met(not late)}"
    return table(heads, rows, words=3), [
        f"Right code: {_median_and_slowest(correct)}; the goal for the median is {format_seconds(GOAL_MEDIAN)}: {_met(middle < GOAL_MEDIAN)}.",
        f"A run takes {own:.0%} more processor time than its tests, in the median exercise.",
        under + (f"; not for {', '.join(t.exercise.name for t in late)}." if late else "."),
        f"The first failing line: {format_seconds(first)} in the median exercise; the goal is {format_seconds(GOAL_FIRST)}: {_met(first < GOAL_FIRST)}.",
        f"With a known mistake: {_median_and_slowest(mistaken)}; {named} of {len(mistaken)} mistakes named.",
    ]


def _median_and_slowest(times: list[Times]) -> str:
    seconds = [median_or_nan(each.warm) for each in times]
    return f"{format_seconds(median_or_nan(seconds))} in the median exercise, {format_seconds(max(seconds))} in the slowest"


def _met(goal: bool) -> str:
    return "met" if goal else "not met"


def parsed(arguments: list[str]) -> tuple[list[Exercise], int]:
    parser = argparse.ArgumentParser(prog="python -m grader.quality.benchmarks feedback", description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="how often each is measured (5)")
    parser.add_argument("--exercise", action="append", metavar="NAME", help="only this one; may be repeated")
    options = parser.parse_args(arguments)
    syllabus = load_syllabus()
    try:
        chosen = {syllabus.exercise(name).name for name in options.exercise or ()}
    except UnknownName as problem:
        parser.error(str(problem))
    return [exercise for exercise in syllabus.exercises if not chosen or exercise.name in chosen], max(1, options.runs)


def run(arguments: list[str]) -> int:
    parsed(arguments)  # report wrong arguments before copying anything
    with copied_kit() as root:
        return run_in_copy(root, "grader.quality.benchmarks.feedback", arguments)


if __name__ == "__main__":
    if not is_a_copy():
        sys.exit("feedback overwrites the exercises of its kit; run `python -m grader.quality.benchmarks feedback`, which makes a copy first")
    try:
        measure(*parsed(sys.argv[1:]))
    except WrongVerdict as problem:
        sys.exit(f"feedback: {problem}")
