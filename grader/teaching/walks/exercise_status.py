"""Which exercises pass their graded tests now: tested by the server of a running watch, or by one of its own.

An exercise whose last verdict still applies is not tested again, so that a second walk starts at once.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from grader.course.source import SourceProblem, is_written, read_source
from grader.course.syllabus import EXERCISES, Exercise, load_syllabus
from grader.processes.client import AnyServer, NoServer
from grader.processes.job import CheckJob
from grader.teaching.walks.parts import list_names
from grader.teaching.walks.progress_line import ProgressReporter
from grader.verdict.conditions import run_conditions
from grader.verdict.last_verdicts import current_fingerprint, find_verdict, load_verdicts
from grader.verdict.summary import Verdict

MAX_LISTED_NAMES = 6  # names in a sentence; of more, the rest is counted
REPEATABLE_STATES = ("passed", "failed", "forbidden", "todo")  # of the same code; a timeout may depend on the machine


@dataclass
class ExerciseStatus:
    """How far the learner is with the exercises of a walk."""

    passed: set[str] = field(default_factory=set)
    failing: list[str] = field(default_factory=list)  # written but not passing
    broken: dict[str, str] = field(default_factory=dict)  # chapters that cannot be read or imported, with the reason
    untested: list[str] = field(default_factory=list)  # written, but the tests gave no outcome

    def sentences_about(self, learner: Sequence[str], reference: Sequence[str]) -> list[str]:
        """Whose code runs where these exercises are the learner's and the reference's, and what could not be used."""
        count = len(learner) + len(reference)
        failing = [name for name in self.failing if name in reference]
        verb = "fails its" if len(failing) == 1 else "fail their"
        why = f" ({list_names(failing, MAX_LISTED_NAMES)} {verb} tests)" if failing else ""
        if not reference:
            said = [f"Your own code: all {count} parts."]
        elif not learner:
            said = [f"Your own code: none of the {count} parts yet. The reference: all of them{why}."]
        else:
            others = list_names(reference, MAX_LISTED_NAMES)
            said = [f"Your own code: {len(learner)} of {count} parts. The reference: {others}{why}."]
        for module, reason in self.broken.items():
            said.append(f"{module}.py counts as not written yet: {reason.removesuffix('.')}.")
        if self.untested:
            said.append(
                f"The tests of {list_names(self.untested, MAX_LISTED_NAMES)} could not be run. To see "
                f"why, run `headway check {self.untested[0]}`."
            )
        return said


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
        usable = {exercise.module for exercise in written if outcomes.get(exercise.name) != "error"}
        status.broken |= {module: why for module, why in broken.items() if module not in usable}
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
    """Return the outcomes of the recorded verdicts, where they would be the same again."""
    known, conditions, found = load_verdicts(), run_conditions(), {}
    for exercise in exercises:
        if known.get(exercise.name):
            verdict = find_verdict(known, exercise.name, current_fingerprint(exercise), conditions)
            if verdict and verdict.asked and verdict.state in REPEATABLE_STATES:
                found[exercise.name] = verdict.state
    return found


# ---- testing


def _run_tests(exercises: list[Exercise], report_progress: ProgressReporter) -> tuple[dict[str, str], dict[str, str]]:
    """Return the outcome of each exercise that got a verdict, and the chapters that do not import."""
    outcomes: dict[str, str] = {}
    broken: dict[str, str] = {}
    what = f"testing {len(exercises)} of your exercises"
    with report_progress(what, len(exercises)) as step, contextlib.closing(AnyServer()) as server:
        for exercise in exercises:
            with contextlib.suppress(NoServer):
                for message in server.answers(CheckJob(exercise.name, os.getcwd())):
                    if "verdict" in message:
                        verdict = Verdict.from_data(message["verdict"])
                        outcomes |= verdict.outcomes
                        broken |= {module: failure.message for module, failure in verdict.broken.items()}
            step()
    return outcomes, broken
