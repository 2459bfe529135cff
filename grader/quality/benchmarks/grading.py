"""grading: a class through the dispatcher and its server, against one `python -m pytest --target DIR --worker` process for each submission.

First submissions of one exercise and of the whole course, as many at once both ways; then what the dispatcher adds to the tests' own time; then
a class that is generated, through everything that `headway grade` does, with time and memory by hundreds.
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
from grader.quality.benchmarks.feedback import Untrue
from grader.quality.benchmarks.figures import machine, middle, ratio, shown, table
from grader.quality.benchmarks.processes import called, family, memory, processor
from grader.quality.benchmarks.workplace import copied_kit, environment, inside, is_a_copy, solved, without_marks
from grader.verdict.diagnosis import text_with_mistake
from grader.verdict.summary import Verdict

GOAL_RATIO, GOAL_OVERHEAD, GOAL_SECONDS = 40, 0.15, 20
ONE = "softmax"


@dataclass(frozen=True)
class Rate:
    """So many submissions, in so many seconds on the clock and of the processors, for each."""

    count: int
    seconds: float
    processor: float


def measure(options: argparse.Namespace) -> None:
    """Everything, printed as it comes."""
    print(f"grading: {machine()}\n{options.jobs} at once; \"processor\" is user and system time of all processes, which a load beside it changes less\n")
    with tempfile.TemporaryDirectory(prefix="headway-bench-") as place:
        rows: list[list[str]] = []
        lines: list[str] = []
        if options.one:
            one = [load_syllabus().exercise(ONE)]
            rows.append(_compared(Path(place), "one exercise", one, options.one, options, lines))
        if options.whole:
            rows.append(_compared(Path(place), "whole course", list(load_syllabus().exercises), options.whole, options, lines))
        heads = ["submission", "tests", "pytest each", "processor", "judged each", "processor", "a minute", "times", "by processor"]
        if rows:
            print(f"{table(heads, rows, words=1)}\n")
        for line in lines:
            ratio(line)
        if options.submissions:
            _class(Path(place) / "class", options)


# ---- against pytest


def _compared(place: Path, name: str, exercises: list[Exercise], count: int, options: argparse.Namespace, lines: list[str]) -> list[str]:
    """A row of the table; what is to be said below it goes to `lines`."""
    folder = place / name.split()[0]
    modules = sorted({exercise.module for exercise in exercises})
    for number in range(count):
        for module in modules:
            _write(folder / f"{number:03}", module, solved(module) + f"\n# {number}\n")
    handed_in = read_submissions(folder)
    with _ready([exercise.name for exercise in exercises]) as (dispatcher, started):
        dispatcher.grade(handed_in[0])
        warm = _timed(dispatcher, handed_in, options.jobs)
        alone = [_alone(dispatcher, submission) for submission in handed_in[: min(5, count)]]
    tests = sum(len(found.tests) for found in alone[0][1].results)
    cold = _cold([folder / f"{number:03}" for number in range(min(options.cold, count))], exercises, options.jobs)
    own = middle([_own(verdict) for _, verdict in alone])
    added = middle([seconds / _own(verdict) - 1 for seconds, verdict in alone])
    quicker, by_processor = cold.seconds / warm.seconds, cold.processor / warm.processor
    if len(exercises) == 1:
        goal = f"the goal is {GOAL_RATIO}: {_met(quicker >= GOAL_RATIO)}"
        lines.append(f"Grading, {name}: {quicker:.0f} times as quick as a pytest process each; {goal}. The dispatcher was ready after {shown(started)}.")
    else:
        lines.append(f"Grading, {name}: {quicker:.1f} times as quick as a pytest process each.")
        lines.append(f"The tests' own time is {shown(own)}, and the dispatcher adds {added:.1%}; the goal is {GOAL_OVERHEAD:.0%}: {_met(added < GOAL_OVERHEAD)}.")
        seconds = middle([seconds for seconds, _ in alone])
        took = f"{shown(seconds)} ({shown(warm.processor)} of a processor)"
        lines.append(f"A submission of the whole course, alone: {took}; the goal is {GOAL_SECONDS} s: {_met(seconds < GOAL_SECONDS)}.")
    figures = [shown(cold.seconds), shown(cold.processor), shown(warm.seconds), shown(warm.processor), f"{60 / warm.seconds:.1f}"]
    return [name, str(tests), *figures, f"{quicker:.1f}", f"{by_processor:.1f}"]


class _ready:
    """A dispatcher that has its suites loaded, and the seconds until then."""

    def __init__(self, names: list[str]) -> None:
        self.dispatcher = Dispatcher(available(), names, 0)

    def __enter__(self) -> tuple[Dispatcher, float]:
        began = time.perf_counter()
        self.dispatcher.grade(Submission("nobody", {}))
        return self.dispatcher, time.perf_counter() - began

    def __exit__(self, *_: object) -> None:
        self.dispatcher.close()


def _timed(dispatcher: Dispatcher, handed_in: list[Submission], at_once: int) -> Rate:
    before, began = _processor(dispatcher), time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        for verdict in pool.map(dispatcher.grade, handed_in):
            _true(verdict)
    seconds = time.perf_counter() - began
    time.sleep(0.1)  # until the last one's processes are put away
    return Rate(len(handed_in), seconds / len(handed_in), (_processor(dispatcher) - before) / len(handed_in))


def _alone(dispatcher: Dispatcher, submission: Submission) -> tuple[float, Verdict]:
    began = time.perf_counter()
    verdict = _true(dispatcher.grade(submission))
    return time.perf_counter() - began, verdict


def _true(verdict: Verdict | str) -> Verdict:
    if isinstance(verdict, str) or set(verdict.outcomes.values()) != {"passed"}:
        raise Untrue(f"the verdict on right code should be that it passes, and is {verdict if isinstance(verdict, str) else verdict.outcomes}")
    return verdict


def _own(verdict: Verdict) -> float:
    return sum(test.seconds for result in verdict.results for test in result.tests)


def _cold(folders: list[Path], exercises: list[Exercise], at_once: int) -> Rate:
    named = ["--exercise", exercises[0].name] if len(exercises) == 1 else []

    def one(folder: Path) -> None:
        command = [sys.executable, "-m", "pytest", "-q", "--target", str(folder), "--worker", *named]
        done = subprocess.run(command, cwd=ROOT, env=environment(ROOT), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            raise Untrue(f"pytest ends with status {done.returncode}:\n{done.stdout.decode(errors='replace')}")

    before, began = os.times(), time.perf_counter()
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(one, folders))
    after = os.times()
    seconds, processor = time.perf_counter() - began, after.children_user + after.children_system - before.children_user - before.children_system
    return Rate(len(folders), seconds / len(folders), processor / len(folders))


# ---- a class


def _class(folder: Path, options: argparse.Namespace) -> None:
    """So many people with right code, known mistakes and stubs of one exercise: graded, written down and exported."""
    exercise = load_syllabus().exercise(ONE)
    stub = replace_definition(solved(exercise.module), ONE, f"def {ONE}(x, dim=-1):\n    raise NotImplementedError\n")
    mistakes = [without_marks(text_with_mistake(exercise.module, found)) for found in misconceptions(exercise.module, ONE)]
    kinds = [solved(exercise.module), *mistakes, stub]
    for number in range(options.submissions):
        _write(folder / "in" / f"person {number:04}", exercise.module, f"{kinds[number % len(kinds)]}\n# {number}\n")
    handed_in, rows, held, dispatcher = read_submissions(folder / "in"), [], [], Dispatcher(available(), [ONE], 0)
    step = 100 if options.submissions >= 200 else max(1, options.submissions // 2)
    began = last = time.perf_counter()

    def told(done: int, of: int, name: str) -> None:
        nonlocal last
        if done == 1:
            last = time.perf_counter()  # the dispatcher is there
        if done and (done % step == 0 or done == of):
            now, of_judge = time.perf_counter(), _pid(dispatcher)
            held.append([memory(pid)[0] for pid in (os.getpid(), of_judge, called(list(family(of_judge)), "grader.execution.zygote"))])
            rows.append([str(done), shown(now - last), *(f"{megabytes:.0f} MB" for megabytes in held[-1])])
            last = now

    try:
        with Gradebook(folder / "out") as book:
            graded = grade_class(handed_in, book, [exercise], 0, Rules(), folder / "out", dispatcher, options.jobs, told)
    finally:
        dispatcher.close()
    if graded.graded_now != options.submissions or graded.ungraded:
        raise Untrue(f"{graded.graded_now} of {options.submissions} were judged, and {len(graded.ungraded)} could not be")
    seconds = time.perf_counter() - began
    print(f"\n{table(['judged', f'these {step}', 'grader', 'dispatcher', 'zygote'], rows, words=0)}\n")
    ratio(f"A class of {options.submissions}, {ONE} alone, with the gradebook, the exports and the report: {shown(seconds)}.")
    grown = [last - first for first, last in zip(held[0], held[-1])]
    ratio("From the first {} of them to the last, memory grew by {:.0f} MB in the grader, {:.0f} MB in the dispatcher, {:.0f} MB in the zygote.".format(step, *grown))


def _write(folder: Path, module: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(text, encoding="utf-8")


# ---- the dispatcher's processes


def _pid(dispatcher: Dispatcher) -> int:
    """Of the dispatcher's process, once it is there."""
    assert dispatcher.shared is not None
    return dispatcher.shared.process.pid


def _processor(dispatcher: Dispatcher) -> float:
    """Seconds that the dispatcher's family has used, with those of it that have ended."""
    return sum(map(processor, [_pid(dispatcher), *family(_pid(dispatcher))])) or float("nan")


# ---- the command


def _met(goal: bool) -> str:
    return "met" if goal else "not met"


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m grader.quality.benchmarks grading", description=__doc__.partition("\n")[0])
    parser.add_argument("--submissions", type=int, default=1000, metavar="N", help="people in the class that is generated (1000; 0 leaves it out)")
    parser.add_argument("--one", type=int, default=40, metavar="N", help="submissions of one exercise to compare (40; 0 leaves it out)")
    parser.add_argument("--whole", type=int, default=4, metavar="N", help="submissions of the whole course to compare (4; 0 leaves it out)")
    parser.add_argument("--cold", type=int, default=4, metavar="N", help="of each, how many pytest grades (4)")
    parser.add_argument("--jobs", "-j", type=int, default=os.cpu_count() or 1, metavar="N", help="how many at once (one a processor)")
    return parser.parse_args(arguments)


def run(arguments: list[str]) -> int:
    parsed(arguments)
    with copied_kit() as root:
        return inside(root, "grader.quality.benchmarks.grading", arguments)


if __name__ == "__main__":
    if not is_a_copy():
        sys.exit("the kit must not change while it is measured; `python -m grader.quality.benchmarks grading` makes a copy first")
    try:
        measure(parsed(sys.argv[1:]))
    except Untrue as problem:
        sys.exit(f"grading: {problem}")
