"""Which exercises pass their graded tests now: tested by the server if a watch has one running, otherwise in a separate process.

An exercise whose last verdict still applies is not tested again, so that a second walk starts at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader.course.source import SourceProblem, is_written, read_source
from grader.course.syllabus import EXERCISES, ROOT, Exercise, load_syllabus, suites_of
from grader.processes.client import NoServer, ServerLost, ask_running_server
from grader.processes.job import CheckJob
from grader.teaching.walks.progress_line import ProgressReporter
from grader.verdict.conditions import conditions
from grader.verdict.last_verdicts import fingerprint, load_verdicts
from grader.verdict.summary import Verdict

CERTAIN = ("passed", "failed", "todo")  # the same code has these outcomes again; other outcomes may depend on the machine


@dataclass
class ExerciseStatus:
    """How far the learner is with the exercises of a walk."""

    passed: set[str] = field(default_factory=set)
    failing: list[str] = field(default_factory=list)  # written but not passing
    broken: dict[str, str] = field(default_factory=dict)  # chapters that cannot be read or imported, with the reason
    untested: list[str] = field(default_factory=list)  # written, but the tests gave no outcome


def find_status(names: Sequence[str], report_progress: ProgressReporter) -> ExerciseStatus:
    """Test the exercises that are written. All of these names are in the syllabus."""
    status = ExerciseStatus()
    exercises = [load_syllabus().exercise(name) for name in names]
    written = [exercise for exercise in exercises if _is_written(exercise, status.broken)]
    outcomes = _known_outcomes(written)
    to_test = [exercise for exercise in written if exercise.name not in outcomes]
    if to_test:
        results, broken = _run_tests(to_test, report_progress)
        outcomes |= results
        status.broken |= {module: why for module, why in broken.items() if all(outcomes.get(e.name) == "error" for e in written if e.module == module)}
    for exercise in written:
        outcome = outcomes.get(exercise.name)
        if exercise.module in status.broken:
            continue
        if outcome == "passed":
            status.passed.add(exercise.name)
        elif outcome is None:
            status.untested.append(exercise.name)
        elif outcome != "todo":
            status.failing.append(exercise.name)
    return status


def _is_written(exercise: Exercise, broken: dict[str, str]) -> bool:
    """Return whether the exercise is written. If the file cannot be read, the reason goes into `broken`."""
    path = EXERCISES / f"{exercise.module}.py"
    if exercise.module in broken or not path.is_file():
        return False
    try:
        return is_written(read_source(path), exercise.name, path.name)
    except SourceProblem as problem:
        broken[exercise.module] = str(problem)
        return False


def _known_outcomes(exercises: list[Exercise]) -> dict[str, str]:
    """Return the outcomes of the last verdicts, where they would be the same again."""
    known = load_verdicts()
    last = [(exercise, known[exercise.name]) for exercise in exercises if exercise.name in known]
    return {e.name: v.outcome for e, v in last if v.outcome in CERTAIN and v.conditions == conditions() and v.code == fingerprint(e)}


# ---- testing


def _run_tests(exercises: list[Exercise], report_progress: ProgressReporter) -> tuple[dict[str, str], dict[str, str]]:
    """Return the outcome of each exercise, and the chapters that do not import."""
    outcomes: dict[str, str] = {}
    broken: dict[str, str] = {}
    count = len(exercises)
    with report_progress(f"testing {count} of your exercises", count) as step:
        in_worker = False
        try:
            for exercise in exercises:
                verdict = _test_with_server(exercise)
                outcomes |= verdict.outcomes
                broken |= {module: failure.message for module, failure in verdict.broken.items()}
                step()
            return outcomes, broken
        except ServerLost:
            in_worker = True
        except NoServer:
            pass
        rest = [exercise for exercise in exercises if exercise.name not in outcomes]
        results = _test_in_own_process(rest, in_worker) or _test_in_own_process(rest, in_worker=True)  # a worker protects the tests from code that ends its process
        for data in results:
            outcomes[data["name"]] = data["outcome"]
            messages = [test["message"] for test in data["tests"] if test["outcome"] == "error"]
            if messages and len(messages) == len(data["tests"]):
                broken.setdefault(load_syllabus().exercise(data["name"]).module, messages[0])
    return outcomes, broken


def _test_with_server(exercise: Exercise) -> Verdict:
    if os.environ.get("PYTEST_ADDOPTS"):
        raise NoServer("")  # the user's own pytest options would have no effect in the server
    verdict = None
    for message in ask_running_server(CheckJob(exercise.name, os.getcwd())):
        match message:
            case {"verdict": data}:
                verdict = Verdict.from_data(data)
            case {"trouble": sentence}:
                raise ServerLost(sentence)
            case {"done": _}:
                break
    if verdict is None:
        raise ServerLost("the server gave no verdict")
    return verdict


def _test_in_own_process(exercises: list[Exercise], in_worker: bool) -> list[dict]:
    """Run pytest on these exercises in a separate process and return its results; an empty list if the run did not finish."""
    chosen = [word for exercise in exercises for word in ("--exercise", exercise.name)]
    suites = sorted({str(suite) for exercise in exercises for suite in suites_of(exercise.chapter)})
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"} | {"PYTHONPATH": path}
    with tempfile.TemporaryDirectory(prefix="headway-") as folder:
        results = Path(folder) / "results.json"
        options = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "no:cacheprovider", "-q", *["--worker"][:in_worker], "--results", str(results)]
        command = [sys.executable, "-P", "-m", "pytest", *options, *chosen, *suites]
        subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return json.loads(results.read_text(encoding="utf-8"))["exercises"]
        except (OSError, ValueError):
            return []
