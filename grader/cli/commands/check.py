"""Runs the graded tests of an exercise or chapter, in a server that is started for this."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from grader.chapters import find_files, module_name
from grader.cli.arguments import AnyNames, InWorker, option
from grader.console.output import command_line, make_console, print_error, print_wrapped
from grader.course.source import SourceProblem, excerpt_of, find_problem
from grader.course.status import all_passed, current_scores, is_passed, locate, next_step, read_course, short_path
from grader.course.syllabus import EXERCISES, Chapter, Exercise, is_handout, suites_of
from grader.processes.client import AnyServer, NoServer
from grader.processes.job import CheckJob, retry_sentence
from grader.verdict.results import DATA_MARK, Verdict
from rich.text import Text

PASSED, NOT_YET, UNUSABLE = 0, 1, 2

ForTutor = Annotated[bool, option("Print the verdict as data too, on a last line.", "--data", hidden=True)]


def check(names: AnyNames = None, worker: InWorker = False, data: ForTutor = False) -> int:
    """Test exercises, chapters, or your next exercise.

    Earlier chapters use the reference solution. In its own chapter, an exercise uses your code where that passes its
    tests, and the reference solution elsewhere.

    Exit status: 0 if everything passed, 1 if not, 2 if it cannot be tested."""
    step = next_step()
    if not names and step is None:
        make_console().print(f"{all_passed()} `pytest` tests them all again.")
        return PASSED
    chosen = [step.exercise] if step and not names else read_course().find_all(names or ())
    names = [found.short_name for found in chosen]
    exercises = read_course().chosen(names)
    for found in chosen:
        chapter = found if isinstance(found, Chapter) else read_course().chapter(found.chapter)
        if not chapter.exercises or not suites_of(chapter.id):
            reason = f"{found.name} is not part of this handout, so there are no tests for it"
            print_error(reason if is_handout() else f"there are no tests for {found.name} yet")
            return UNUSABLE
        location = locate(found)
        if not location.file.exists():
            print_error(location.problem or f"there is no file {location.file}")
            return UNUSABLE
        problem = find_problem(location.file)
        if problem is not None:
            print_file_problem(location.file, problem, f"headway check {' '.join(names)}")
            return NOT_YET
    known = {exercise.name for exercise in exercises if is_passed(exercise, current_scores())}
    verdict = run_tests(names, worker)
    if verdict is None:
        return UNUSABLE
    outcomes = verdict.outcomes
    missing = [exercise.name for exercise in exercises if exercise.name not in outcomes]
    if missing:
        print_error(f"no test ran for {', '.join(missing)}")
    passed = [exercise for exercise in exercises if outcomes.get(exercise.name) == "passed"]
    if chosen == passed and known == {passed[0].name}:  # an exercise alone
        print_wrapped(make_console(), f"{passed[0].name} still works. {passed[0].why}", style="green")
        print_wrapped(make_console(), passed[0].unlocks)
    for sentence in _check_again(passed):
        print_wrapped(make_console(), sentence)
    if data:
        sys.stdout.write(DATA_MARK + json.dumps(verdict.as_data()))
    return PASSED if passed == exercises else NOT_YET


def _check_again(passed: list[Exercise]) -> Iterator[str]:
    """What chapters say about exercises that have passed and that they run in another way too."""
    for file in find_files("check_again.py"):
        if names := [exercise.name for exercise in passed if exercise.module == file.parent.name]:
            yield from import_module(module_name(file)).check_again(names, EXERCISES / f"{file.parent.name}.py")


def print_file_problem(file: Path, problem: SourceProblem, command: str) -> None:
    """What is wrong in a file that is not valid Python: no test can run, and no points change."""
    console = make_console()
    line = f", line {problem.line}" if problem.line else ""
    print_wrapped(console, f"{short_path(file)}{line}: {problem.reason}", style="red")
    marked = excerpt_of(file, problem)
    for text in ["", *marked] if marked else []:
        console.print(Text(text), soft_wrap=True)
    console.print("\nFix this first, then run again:\n")
    console.print(command_line(command))


def run_tests(names: list[str], in_worker: bool = False, target: str = "", show: bool = True) -> Verdict | None:
    """The verdict on these exercises, of the learner's folder or of another one; None, after a sentence, if there is
    none. `show` its page."""
    size, colour = shutil.get_terminal_size(), make_console().color_system is not None
    columns, lines = size.columns if size.columns >= 40 else 80, size.lines if sys.stdout.isatty() else 0
    job = CheckJob(",".join(names), os.getcwd(), columns, lines, colour, in_worker, cold=in_worker, target=target)
    try:
        with contextlib.closing(AnyServer()) as server:
            return _print_run(server.answers(job), show)
    except NoServer as problem:
        print_error(str(problem))
        return None


def _print_run(messages: Iterator[dict[str, Any]], show: bool) -> Verdict | None:
    """The last verdict. The first one is enough if nothing is shown, or if the learner ends the search after it."""
    verdict: Verdict | None = None
    try:
        for message in messages:
            match message:
                case {"text": text} if show:
                    sys.stdout.write(text)
                    sys.stdout.flush()
                case {"again": why} if show:
                    print_wrapped(make_console(), f"\n\n{retry_sentence(why)}", style="yellow")
                case {"restarted": sentence} | {"trouble": sentence}:
                    print_error(sentence)
                case {"verdict": data}:
                    verdict = Verdict.from_data(data)
                    if not show:
                        break
    except KeyboardInterrupt:
        if verdict is None:
            raise
        print()
    return verdict
