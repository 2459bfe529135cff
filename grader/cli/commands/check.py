"""Runs the graded tests of an exercise or chapter: in the server of a running watch, or else in this process."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from grader.console.output import command_line, make_console, print_error, print_wrapped
from grader.course.excerpt import excerpt_of, find_problem
from grader.course.source import SourceProblem
from grader.course.status import current_scores, is_passed, locate, next_step, read_course, short_path
from grader.course.syllabus import ROOT, Chapter, Exercise, is_handout, suites_of
from grader.processes.client import NoServer, ServerLost, ask_running_server
from grader.processes.job import CheckJob, retry_sentence
from grader.verdict.summary import Verdict
from rich.text import Text

if TYPE_CHECKING:
    import pytest

QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # the kit is already imported when pytest starts here
PASSED, NOT_YET, UNUSABLE, INTERRUPTED = 0, 1, 2, 130
_INTERRUPTED, _INTERNAL_ERROR, _USAGE_ERROR = 2, 3, 4  # of pytest.ExitCode, which costs half a second to import


def check(name: str | None) -> int:
    """Test an exercise, a chapter, or the next exercise: 0 when all of it passes, 1 when not yet, 2 when it could not be tested."""
    course = read_course()
    if name is None:
        step = next_step()
        if step is None:
            make_console().print("You have passed every exercise. `pytest` tests them all again.")
            return PASSED
        found: Exercise | Chapter = step.exercise
    else:
        found = course.find(name)
    exercises = found.exercises if isinstance(found, Chapter) else (found,)
    suites = suites_of(found.id if isinstance(found, Chapter) else found.chapter)
    if not exercises or not suites:
        print_error(f"{found.name} is not part of this handout, so there are no tests for it" if is_handout() else f"there are no tests for {found.name} yet")
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
    outcomes, status = run_tests(suites, found)
    if status in (INTERRUPTED, UNUSABLE):
        return status
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


def run_tests(suites: list[Path], found: Exercise | Chapter) -> tuple[dict[str, str], int]:
    """The outcome of each exercise, and the exit status of `headway check`."""
    try:
        outcomes, status = _run_in_server(found)
    except ServerLost as problem:
        print_error(f"{problem}; testing again without the server")
        outcomes, status = _run_in_pytest(suites, found, "--worker")
    except NoServer:
        outcomes, status = _run_in_pytest(suites, found)
    if status == _INTERRUPTED:
        return outcomes, INTERRUPTED if outcomes else UNUSABLE
    if status in (_INTERNAL_ERROR, _USAGE_ERROR):
        return outcomes, UNUSABLE
    return outcomes, NOT_YET if status else PASSED


def _run_in_server(found: Exercise | Chapter) -> tuple[dict[str, str], int]:
    """Run in the server, in a tenth of the time; NoServer if none runs, ServerLost if it ends early."""
    if os.environ.get("PYTEST_ADDOPTS"):
        raise NoServer("")  # the learner wants special options of pytest
    columns = shutil.get_terminal_size().columns
    job = CheckJob(found.id if isinstance(found, Chapter) else found.name, os.getcwd(), columns if columns >= 40 else 80, make_console().color_system is not None)
    outcomes: dict[str, str] = {}
    for message in ask_running_server(job):
        match message:
            case {"text": text}:
                sys.stdout.write(text)
                sys.stdout.flush()
            case {"again": why}:
                print_wrapped(make_console(), f"\n\n{retry_sentence(why)}", style="yellow")
            case {"verdict": data}:
                outcomes = Verdict.from_data(data).outcomes
            case {"done": status}:
                return outcomes, status
            case {"trouble": sentence}:
                raise ServerLost(sentence)
    return outcomes, _INTERNAL_ERROR


def _run_in_pytest(suites: list[Path], found: Exercise | Chapter, *options: str) -> tuple[dict[str, str], int]:
    import pytest

    chosen = ["--chapter", found.id] if isinstance(found, Chapter) else ["--exercise", found.name]
    with tempfile.TemporaryDirectory(prefix="headway-") as folder:
        results = Path(folder) / "results.json"
        arguments = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "no:cacheprovider", *QUIET, "--results", str(results)]
        quiet = [] if os.environ.get("PYTEST_ADDOPTS") else ["-q"]  # no header; the learner's own options may ask for one
        status = int(pytest.main([*arguments, *quiet, *options, *chosen, *map(str, suites)], plugins=[_ChosenTestsOnly()]))
        try:
            data = json.loads(results.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            data = {"exercises": []}
    return {exercise["name"]: exercise["outcome"] for exercise in data["exercises"]}, status


class _ChosenTestsOnly:
    """A plugin of pytest: the last line does not count the tests of other exercises as "deselected", because only this one was asked for."""

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.stats.pop("deselected", None)
