"""Whole courses run through the suites, at any seed, in process or in a worker, by an engine that has torch and the suites loaded once.

It is the engine that grades classes (grader.classroom.judging.server): each run is a process of its own there, as many at once as are asked for.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass

from grader.classroom.judging.job import GradeJob
from grader.course.syllabus import Exercise, UnknownName, load_syllabus
from grader.execution.sandbox.isolation import available
from grader.processes.client import Address, Engine, NoEngine
from grader.processes.job import read
from grader.quality.benchmarks.workplace import copied_kit, inside
from grader.verdict.results import ExerciseResult
from grader.verdict.summary import Verdict

SECONDS = 600.0  # for one run
ASKS = 5  # times that an engine is asked which may just be very busy


@dataclass(frozen=True)
class Course:
    """Somebody's chapters, and how they are to be run."""

    style: str
    sources: dict[str, str]  # chapter → text
    seed: int
    in_worker: bool
    whole: bool = False

    def __str__(self) -> str:
        return f"{self.style}, seed {self.seed}, {'in a worker' if self.in_worker else 'in process'}"


Found = Verdict | str  # the verdict, or a sentence that says why there is none


@contextmanager
def engine() -> Iterator[Address]:
    process = Engine(str(available()), module="grader.classroom.judging.server")
    try:
        yield process.address()
    finally:
        process.end()


def run_all(courses: list[Course], exercises: list[Exercise], at_once: int, done: Callable[[Course, Found], None]) -> None:
    """Run each; `done` is told of each, one after another, as they end."""
    names, waiting = [exercise.name for exercise in exercises], iter(courses)
    with engine() as address, ThreadPoolExecutor(at_once) as pool:
        at_work: dict[Future[Found], Course] = {}
        while True:
            while len(at_work) < at_once and (course := next(waiting, None)):
                at_work[pool.submit(_ask, address, course, names)] = course
            if not at_work:
                return
            for future in wait(at_work, return_when=FIRST_COMPLETED).done:
                done(at_work.pop(future), future.result())


def _ask(address: Address, course: Course, names: list[str]) -> Found:
    job = GradeJob(course.sources, {}, names, course.seed, SECONDS, course.in_worker, course.whole)
    for attempt in range(ASKS):
        try:
            sock = address.ask(job)
            break
        except NoEngine:
            if attempt == ASKS - 1:
                return "the engine did not answer"
    with sock:
        for message in read(sock):
            match message:
                case {"verdict": dict() as data}:
                    return Verdict.from_data(data)
                case {"trouble": str() as sentence}:
                    return sentence
                case {"again": str() as why}:
                    return f"its process ended: {why}"
    return "the engine broke off"


def shortfall(result: ExerciseResult) -> str:
    """Why an exercise has not all of its points, in a line or two; empty where it has."""
    if result.outcome == "passed" and result.earned == result.exercise.points:
        return ""
    if result.forbidden:
        return "; ".join(result.forbidden)
    tests = [f"{test.name} ({test.outcome}): {' '.join(test.message.split())[:300]}" for test in result.tests if test.outcome != "passed"]
    return f"{result.earned:g} of {result.exercise.points:g} points; {'; '.join(tests)}"


# ---- what the commands share


def parser(name: str, says: str, seeds: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m grader.quality.proof {name}", description=says.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=seeds, metavar="N", help=f"how many seeds ({seeds})")
    parser.add_argument("--from", dest="first", type=int, default=0, metavar="SEED", help="the first seed (0)")
    parser.add_argument("--exercise", action="append", metavar="NAME", help="only this exercise or chapter; may be given again")
    parser.add_argument("--jobs", "-j", type=int, default=2, metavar="N", help="how many runs at once (2)")
    return parser


def parsed(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """The options; `exercises` are those to be run."""
    options = parser.parse_args(arguments)
    try:
        options.exercises = load_syllabus().chosen(options.exercise or ())
    except UnknownName as problem:
        parser.error(str(problem))
    options.seeds = range(options.first, options.first + max(1, options.seeds))
    return options


def in_a_copy(name: str, arguments: list[str]) -> int:
    """Run a proof in a copy of the kit, so that nobody's edit gets between its runs."""
    with copied_kit() as root:
        return inside(root, f"grader.quality.proof.{name}", arguments)
