"""Runs the graded tests of an exercise or chapter, in a server that is started for this."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grader.cli.arguments import AnyName, InWorker
from grader.console.output import command_line, make_console, print_error, print_wrapped
from grader.course.excerpt import excerpt_of, find_problem
from grader.course.source import SourceProblem
from grader.course.status import current_scores, is_passed, locate, next_step, read_course, short_path
from grader.course.syllabus import Chapter, Exercise, is_handout, suites_of
from grader.processes.client import AnyServer, NoServer
from grader.processes.job import CheckJob, retry_sentence
from grader.verdict.summary import Verdict
from rich.text import Text

PASSED, NOT_YET, UNUSABLE = 0, 1, 2


def check(name: AnyName = None, worker: InWorker = False) -> int:
    """Test an exercise, a chapter, or your next exercise.

    Earlier chapters use the reference solution. In its own chapter, an exercise uses your code where that passes its
    tests, and the reference solution elsewhere.

    Exit status: 0 if everything passed, 1 if not, 2 if it cannot be tested."""
    step = next_step()
    if not name and step is None:
        make_console().print("You have passed every exercise. `pytest` tests them all again.")
        return PASSED
    found = step.exercise if step and not name else read_course().find(name or "")
    exercises = found.exercises if isinstance(found, Chapter) else (found,)
    suites = suites_of(found.id if isinstance(found, Chapter) else found.chapter)
    if not exercises or not suites:
        reason = f"{found.name} is not part of this handout, so there are no tests for it"
        print_error(reason if is_handout() else f"there are no tests for {found.name} yet")
        return UNUSABLE
    location = locate(found)
    if not location.file.exists():
        print_error(location.problem or f"there is no file {location.file}")
        return UNUSABLE
    problem = find_problem(location.file)
    if problem is not None:
        _print_file_problem(location.file, problem, found)
        return NOT_YET
    known = {exercise.name for exercise in exercises if is_passed(exercise, current_scores())}
    outcomes = run_tests(found, worker)
    if outcomes is None:
        return UNUSABLE
    missing = [exercise.name for exercise in exercises if exercise.name not in outcomes]
    if missing:
        print_error(f"no test ran for {', '.join(missing)}")
    if isinstance(found, Exercise) and found.name in known and outcomes.get(found.name) == "passed":
        print_wrapped(make_console(), f"{found.name} still works. {found.why}", style="green")
        print_wrapped(make_console(), found.unlocks)
    return PASSED if all(outcomes.get(exercise.name) == "passed" for exercise in exercises) else NOT_YET


def _print_file_problem(file: Path, problem: SourceProblem, found: Exercise | Chapter) -> None:
    """What is wrong in a file that is not valid Python: no test can run, and no points change."""
    console = make_console()
    line = f", line {problem.line}" if problem.line else ""
    print_wrapped(console, f"{short_path(file)}{line}: {problem.reason}", style="red")
    marked = excerpt_of(file, problem)
    for text in ["", *marked] if marked else []:
        console.print(Text(text), soft_wrap=True)
    console.print("\nFix this first, then run again:\n")
    console.print(command_line(f"headway check {found.id if isinstance(found, Chapter) else found.name}"))


def run_tests(found: Exercise | Chapter, in_worker: bool = False) -> dict[str, str] | None:
    """The outcome of each exercise; None, after a sentence, if there is no verdict."""
    columns, name = shutil.get_terminal_size().columns, found.id if isinstance(found, Chapter) else found.name
    colour = make_console().color_system is not None
    job = CheckJob(name, os.getcwd(), columns if columns >= 40 else 80, colour, in_worker, cold=in_worker)
    try:
        with contextlib.closing(AnyServer()) as server:
            return _print_run(server.answers(job))
    except NoServer as problem:
        print_error(str(problem))
        return None


def _print_run(messages: Iterator[dict[str, Any]]) -> dict[str, str] | None:
    outcomes: dict[str, str] | None = None
    for message in messages:
        match message:
            case {"text": text}:
                sys.stdout.write(text)
                sys.stdout.flush()
            case {"again": why}:
                print_wrapped(make_console(), f"\n\n{retry_sentence(why)}", style="yellow")
            case {"restarted": sentence} | {"trouble": sentence}:
                print_error(sentence)
            case {"verdict": data}:
                outcomes = Verdict.from_data(data).outcomes
    return outcomes
