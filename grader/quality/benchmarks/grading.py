"""grading: grades a class with the dispatcher and its server, and compares it with one `python -m pytest --target DIR --worker` process for each submission.

First come submissions of one exercise and of the whole course, with the same number at a time both ways; then what the dispatcher adds to the tests'
own time; then a generated class, with everything that `headway grade` does, and its time and memory after every hundred submissions.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from grader.classroom.grade import grade_class
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.intake.submissions import Submission, read_submissions
from grader.classroom.judging.dispatch import Dispatcher
from grader.classroom.judging.rules import Rules
from grader.course.known_mistakes import misconceptions
from grader.course.source import replace_definition
from grader.course.syllabus import ROOT, Exercise, load_syllabus
from grader.execution.sandbox.isolation import available
from grader.quality.benchmarks.feedback import WrongVerdict
from grader.quality.benchmarks.figures import format_seconds, machine, median_or_nan, print_figure, table
from grader.quality.benchmarks.processes import descendants, find_process, memory, processor
from grader.quality.benchmarks.workplace import copied_kit, environment, is_a_copy, run_in_copy, solved_chapter, without_markers
from grader.verdict.replay import text_with_mistake
from grader.verdict.summary import Verdict

GOAL_RATE, GOAL_START = 25, 2  # submissions of one exercise in a second, on two processors; seconds until the first can be graded
GOAL_OVERHEAD, GOAL_SECONDS = 0.15, 12  # over the tests' own time; processor seconds of a submission of the whole course
ONE = "softmax"


@dataclass(frozen=True)
class Rate:
    """The number of submissions, and the seconds and processor seconds that each took."""

    count: int
    seconds: float
    processor: float


def measure(options: argparse.Namespace) -> None:
    """Measure everything, and print each result when it is complete."""
    print(f"grading: {machine()}\n{options.jobs} at once; \"processor\" is user and system time of all processes, which depends less on other load\n")
    with tempfile.TemporaryDirectory(prefix="headway-bench-") as place:
        rows: list[list[str]] = []
        lines: list[str] = []
        if options.one:
            one = [load_syllabus().exercise(ONE)]
            rows.append(_compare(Path(place), "one exercise", one, options.one, options, lines))
        if options.whole:
            rows.append(_compare(Path(place), "whole course", list(load_syllabus().exercises), options.whole, options, lines))
        heads = ["submission", "tests", "pytest each", "processor", "graded each", "processor", "a minute", "times", "by processor"]
        if rows:
            print(f"{table(heads, rows, words=1)}\n")
        for line in lines:
            print_figure(line)
        if options.submissions:
            _class(Path(place) / "class", options)


# ---- against pytest


def _compare(place: Path, name: str, exercises: list[Exercise], count: int, options: argparse.Namespace, lines: list[str]) -> list[str]:
    """A row of the table; the sentences for below it are added to `lines`."""
    folder = place / name.split()[0]
    modules = sorted({exercise.module for exercise in exercises})
    for number in range(count):
        for module in modules:
            _write(folder / f"{number:03}", module, solved_chapter(module) + f"\n# {number}\n")
    handed_in = read_submissions(folder)
    with _ready_dispatcher([exercise.name for exercise in exercises]) as (dispatcher, started):
        dispatcher.grade(handed_in[0])
        warm = _grade_all(dispatcher, handed_in, options.jobs)
        alone = [_grade_one(dispatcher, submission) for submission in handed_in[: min(5, count)]]
    tests = sum(len(found.tests) for found in alone[0][1].results)
    cold = _grade_with_pytest([folder / f"{number:03}" for number in range(min(options.cold, count))], exercises, options.jobs)
    own = median_or_nan([_seconds_of_tests(verdict) for _, verdict in alone])
    added = median_or_nan([seconds / _seconds_of_tests(verdict) - 1 for seconds, verdict in alone])
    faster, by_processor = cold.seconds / warm.seconds, cold.processor / warm.processor
    if len(exercises) == 1:
        lines.append(f"Grading, {name}: {faster:.0f} times as fast as a pytest process each.")
        lines.append(f"That is {1 / warm.seconds:.1f} submissions a second; the goal, on two processors, is {GOAL_RATE}: {_met(1 / warm.seconds >= GOAL_RATE)}.")
        lines.append(f"The dispatcher was ready after {format_seconds(started)}; the goal is {GOAL_START} s: {_met(started <= GOAL_START)}.")
    else:
        lines.append(f"Grading, {name}: {faster:.1f} times as fast as a pytest process each.")
        lines.append(f"The tests take {format_seconds(own)}, and the dispatcher adds {added:.1%}; the goal is {GOAL_OVERHEAD:.0%}: {_met(added < GOAL_OVERHEAD)}.")
        seconds = median_or_nan([seconds for seconds, _ in alone])
        took = f"{format_seconds(seconds)} ({format_seconds(warm.processor)} of a processor)"
        lines.append(f"A submission of the whole course, alone: {took}; the goal is {GOAL_SECONDS} s of one: {_met(warm.processor < GOAL_SECONDS)}.")
    figures = [format_seconds(cold.seconds), format_seconds(cold.processor), format_seconds(warm.seconds), format_seconds(warm.processor), f"{60 / warm.seconds:.1f}"]
    return [name, str(tests), *figures, f"{faster:.1f}", f"{by_processor:.1f}"]


class _ready_dispatcher:
    """A dispatcher that has loaded its suites, and the seconds that this took."""

    def __init__(self, names: list[str]) -> None:
        self.dispatcher = Dispatcher(available(), names, 0)

    def __enter__(self) -> tuple[Dispatcher, float]:
        began = time.perf_counter()
        self.dispatcher.grade(Submission("warm up", {}))
        return self.dispatcher, time.perf_counter() - began

    def __exit__(self, *_: object) -> None:
        self.dispatcher.close()


def _grade_all(dispatcher: Dispatcher, handed_in: list[Submission], at_once: int) -> Rate:
    before, began = _processor(dispatcher), time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        for verdict in pool.map(dispatcher.grade, handed_in):
            _expect_passed(verdict)
    seconds = time.perf_counter() - began
    time.sleep(0.1)  # until the processes of the last one are reaped
    return Rate(len(handed_in), seconds / len(handed_in), (_processor(dispatcher) - before) / len(handed_in))


def _grade_one(dispatcher: Dispatcher, submission: Submission) -> tuple[float, Verdict]:
    began = time.perf_counter()
    verdict = _expect_passed(dispatcher.grade(submission))
    return time.perf_counter() - began, verdict


def _expect_passed(verdict: Verdict | str) -> Verdict:
    if isinstance(verdict, str) or set(verdict.outcomes.values()) != {"passed"}:
        raise WrongVerdict(f"the verdict on correct code should be that it passes, but is {verdict if isinstance(verdict, str) else verdict.outcomes}")
    return verdict


def _seconds_of_tests(verdict: Verdict) -> float:
    return sum(test.seconds for result in verdict.results for test in result.tests)


def _grade_with_pytest(folders: list[Path], exercises: list[Exercise], at_once: int) -> Rate:
    named = ["--exercise", exercises[0].name] if len(exercises) == 1 else []

    def one(folder: Path) -> None:
        command = [sys.executable, "-m", "pytest", "-q", "--target", str(folder), "--worker", *named]
        done = subprocess.run(command, cwd=ROOT, env=environment(ROOT), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            raise WrongVerdict(f"pytest ends with status {done.returncode}:\n{done.stdout.decode(errors='replace')}")

    before, began = os.times(), time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(one, folders))
    after = os.times()
    seconds, processor = time.perf_counter() - began, after.children_user + after.children_system - before.children_user - before.children_system
    return Rate(len(folders), seconds / len(folders), processor / len(folders))


# ---- a class


def _class(folder: Path, options: argparse.Namespace) -> None:
    """Grade, record and export a class of people with correct code, known mistakes and stubs of one exercise."""
    exercise = load_syllabus().exercise(ONE)
    stub = replace_definition(solved_chapter(exercise.module), ONE, f"def {ONE}(x, dim=-1):\n    raise NotImplementedError\n")
    mistakes = [without_markers(text_with_mistake(exercise.module, found)) for found in misconceptions(exercise.module, ONE)]
    kinds = [solved_chapter(exercise.module), *mistakes, stub]
    for number in range(options.submissions):
        _write(folder / "in" / f"person {number:04}", exercise.module, f"{kinds[number % len(kinds)]}\n# {number}\n")
    handed_in, rows, megabytes_used, dispatcher = read_submissions(folder / "in"), [], [], Dispatcher(available(), [ONE], 0)
    step = 100 if options.submissions >= 200 else max(1, options.submissions // 2)
    began = last = time.perf_counter()

    def record_progress(done: int, of: int, name: str) -> None:
        nonlocal last
        if done == 1:
            last = time.perf_counter()  # now the dispatcher is ready
        if done and (done % step == 0 or done == of):
            now, server_pid = time.perf_counter(), _pid(dispatcher)
            megabytes_used.append([memory(pid)[0] for pid in (os.getpid(), server_pid, find_process(list(descendants(server_pid)), "grader.execution.zygote"))])
            rows.append([str(done), format_seconds(now - last), *(f"{megabytes:.0f} MB" for megabytes in megabytes_used[-1])])
            last = now

    try:
        with Gradebook(folder / "out") as book:
            graded = grade_class(handed_in, book, [exercise], 0, Rules(), folder / "out", dispatcher, options.jobs, record_progress)
    finally:
        dispatcher.close()
    if graded.graded_now != options.submissions or graded.ungraded:
        raise WrongVerdict(f"{graded.graded_now} of {options.submissions} were graded, and {len(graded.ungraded)} could not be")
    seconds = time.perf_counter() - began
    print(f"\n{table(['graded', f'these {step}', 'grader', 'dispatcher', 'zygote'], rows, words=0)}\n")
    print_figure(f"A class of {options.submissions} with {ONE} only, including the gradebook, the exports and the report: {format_seconds(seconds)}.")
    grown = [last - first for first, last in zip(megabytes_used[0], megabytes_used[-1])]
    growth = "{:.0f} MB in the grader, {:.0f} MB in the dispatcher, {:.0f} MB in the zygote".format(*grown)
    print_figure(f"From the first {step} of them to the last, memory grew by {growth}.")


def _write(folder: Path, module: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(text, encoding="utf-8")


# ---- the dispatcher's processes


def _pid(dispatcher: Dispatcher) -> int:
    """The dispatcher's server process, after its start."""
    assert dispatcher.shared is not None
    return dispatcher.shared.process.pid


def _processor(dispatcher: Dispatcher) -> float:
    """Processor seconds of the dispatcher's server and all its descendants, including those that have ended."""
    return sum(map(processor, [_pid(dispatcher), *descendants(_pid(dispatcher))])) or float("nan")


# ---- the command


def _met(goal: bool) -> str:
    return "met" if goal else "not met"


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m grader.quality.benchmarks grading", description=__doc__.partition("\n")[0])
    parser.add_argument("--submissions", type=int, default=1000, metavar="N", help="people in the generated class (1000; 0 skips it)")
    parser.add_argument("--one", type=int, default=40, metavar="N", help="submissions of one exercise to compare (40; 0 skips them)")
    parser.add_argument("--whole", type=int, default=4, metavar="N", help="submissions of the whole course to compare (4; 0 skips them)")
    parser.add_argument("--cold", type=int, default=4, metavar="N", help="how many of them pytest grades (4)")
    parser.add_argument("--jobs", "-j", type=int, default=os.cpu_count() or 1, metavar="N", help="how many at once (one per processor)")
    return parser.parse_args(arguments)


def run(arguments: list[str]) -> int:
    parsed(arguments)
    with copied_kit() as root:
        return run_in_copy(root, "grader.quality.benchmarks.grading", arguments)


if __name__ == "__main__":
    if not is_a_copy():
        sys.exit("the kit must not change while it is measured; run `python -m grader.quality.benchmarks grading`, which makes a copy first")
    try:
        measure(parsed(sys.argv[1:]))
    except WrongVerdict as problem:
        sys.exit(f"grading: {problem}")
