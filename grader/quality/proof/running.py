"""Runs whole courses through the suites, at any seed, in process or in a worker. The server that grades classes runs each in a separate process."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass

from grader.classroom.judging.job import GradeJob
from grader.course.syllabus import Exercise, UnknownName, load_syllabus
from grader.execution.sandbox.isolation import available
from grader.processes.client import NoServer, ServerProcess
from grader.quality.benchmarks.workplace import copied_kit, run_in_copy
from grader.verdict.results import ExerciseResult
from grader.verdict.summary import Verdict

SECONDS = 600.0  # for one run
TRIES = 5  # connection attempts: a very busy server may refuse some


@dataclass(frozen=True)
class Course:
    """One person's chapters, and how to run them."""

    style: str
    sources: dict[str, str]  # chapter → text
    seed: int
    in_worker: bool
    whole: bool = False

    def __str__(self) -> str:
        return f"{self.style}, seed {self.seed}, {'in a worker' if self.in_worker else 'in process'}"


Found = Verdict | str  # the verdict, or a sentence that says why it is missing


@contextmanager
def grading_server() -> Iterator[ServerProcess]:
    server = ServerProcess(str(available()), module="grader.classroom.judging.server")
    try:
        server.address()
        yield server
    finally:
        server.end()


def run_all(courses: list[Course], exercises: list[Exercise], at_once: int, done: Callable[[Course, Found], None]) -> None:
    """Run each course; call `done` with each result, one after another, in the order in which they end."""
    names, waiting = [exercise.name for exercise in exercises], iter(courses)
    with grading_server() as server, ThreadPoolExecutor(at_once) as pool:
        running: dict[Future[Found], Course] = {}
        while True:
            while len(running) < at_once and (course := next(waiting, None)):
                running[pool.submit(_run_course, server, course, names)] = course
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                done(running.pop(future), future.result())


def _run_course(server: ServerProcess, course: Course, names: list[str]) -> Found:
    job = GradeJob(course.sources, {}, names, course.seed, SECONDS, course.in_worker, course.whole)
    try:
        for message in server.answers(job, TRIES):
            match message:
                case {"verdict": dict() as data}:
                    return Verdict.from_data(data)
                case {"trouble": str() as sentence}:
                    return sentence
                case {"again": str() as why}:
                    return f"its process ended: {why}"
    except NoServer:
        return "the server did not answer"
    return "the server broke off"


def shortfall(result: ExerciseResult) -> str:
    """Why an exercise did not get all of its points, in a line or two; empty if it did."""
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
    parser.add_argument("--exercise", action="append", metavar="NAME", help="only this exercise or chapter; may be repeated")
    parser.add_argument("--jobs", "-j", type=int, default=2, metavar="N", help="how many runs at once (2)")
    return parser


def parsed(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """The options; `exercises` are those to run."""
    options = parser.parse_args(arguments)
    try:
        options.exercises = load_syllabus().chosen(options.exercise or ())
    except UnknownName as problem:
        parser.error(str(problem))
    options.seeds = range(options.first, options.first + max(1, options.seeds))
    return options


def in_a_copy(name: str, arguments: list[str]) -> int:
    """Run a proof in a copy of the kit, so that edits made meanwhile do not affect it."""
    with copied_kit() as root:
        return run_in_copy(root, f"grader.quality.proof.{name}", arguments)
