"""The code that runs in a walk or in a trained model: the learner's where its tests pass now, else the reference's.

First it finds out which exercises pass. An exercise whose last verdict still applies is not tested again, so that a
second walk starts at once. Then it opens the chapters. As in grading, a chapter of the learner's has the reference's
definitions of all exercises that did not pass. In addition, the reference's definitions of that chapter use the
learner's exercises, so that every passed exercise runs.
"""

from __future__ import annotations

import contextlib
import io
import os
import traceback
import warnings
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, redirect_stdout
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from grader.console.output import ProgressReporter
from grader.course.chapter_source import ChapterSource
from grader.course.source import SourceProblem, bindings_in, is_written, read_source
from grader.course.syllabus import EXERCISES, Chapter, Exercise, load_syllabus
from grader.execution.chapter_package import ChapterPackage, replacement_module
from grader.execution.target import Target, reference_definitions, reference_names, reference_of, uses
from grader.files import UserProblem
from grader.processes.client import AnyServer, NoServer
from grader.processes.job import CheckJob
from grader.verdict.last_verdicts import current_fingerprint, find_verdict, load_verdicts, run_conditions
from grader.verdict.results import Verdict, join_names

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


LEARNER = Target("exercises", EXERCISES)


def hidden_prints() -> AbstractContextManager:
    """A print that was left in an exercise must not appear on the page or in the text."""
    return redirect_stdout(io.StringIO())


class NotInHandout(UserProblem, ValueError):
    """A walk or a model needs exercises that this handout leaves out; the message is a sentence."""


class MixedChapters:
    """The mixed chapters. Each of their names is an attribute: `parts.GPT`, `parts.GPTConfig`."""

    def __init__(self, required: Sequence[str], passed: Collection[str], learner: Target = LEARNER) -> None:
        self.required = tuple(required)
        self.from_learner = {name for name in required if name in passed}
        self.broken: dict[str, str] = {}  # learner's chapters that do not import here, and why
        self.learner_texts: dict[str, str] = {}  # the learner's chapters that run here, by the file names of tracebacks
        self._learner = learner
        self._mixed: dict[str, ModuleType] = {}
        self._mix()

    def __getattr__(self, name: str) -> Any:
        for module in vars(self).get("_mixed", {}).values():
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(f"no chapter that this walk needs defines {name}")

    def chapter(self, name: str) -> ModuleType:
        """Return the mixed chapter named "ch07", "7" or "ch07_models"."""
        return self._mixed[load_syllabus().chapter(name).name]

    @property
    def from_reference(self) -> tuple[str, ...]:
        return tuple(name for name in self.required if name not in self.from_learner)

    def find_raising_exercise(self, problem: BaseException) -> str | None:
        """Return the learner's exercise whose code raised this exception, or None."""
        for frame in reversed(traceback.extract_tb(problem.__traceback__)):
            for name, first, last in _definition_lines(self.learner_texts.get(frame.filename, "")):
                if name in self.from_learner and first <= (frame.lineno or 0) <= last:
                    return name
        return None

    def close(self) -> None:
        self._package.close()

    # ---- mixing

    def _mix(self) -> None:
        """Import all chapters. If one of the learner's does not import, use the reference's code for all of it."""
        course = load_syllabus()
        last = max(course.exercise(name).module for name in self.required)
        self.learner_texts.clear()
        own = {chapter: self._own_in(chapter) for chapter in course.chapters if chapter.name <= last}
        pairs = [(chapter, reference_of(chapter.name)) for chapter in own]
        chapters = [(chapter, reference) for chapter, reference in pairs if reference is not None]
        sources = [source for chapter, reference in chapters for source in self._sources(chapter, reference)]
        self._package = ChapterPackage(sources, "walk")
        for chapter, _ in chapters:
            try:
                with hidden_prints(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    self._mixed[chapter.name] = module = self._package.module(chapter.name)
            except BaseException as problem:
                if isinstance(problem, KeyboardInterrupt) or not own[chapter]:
                    raise
                self.broken[chapter.name] = f"{chapter.name}.py does not import: {type(problem).__name__}: {problem}"
                self.from_learner -= own[chapter]
                self.close()
                self._mix()
                return
            if own[chapter]:
                others = self._package.module(replacement_module(chapter.name))
                vars(others).update({name: vars(module)[name] for name in own[chapter] & vars(module).keys()})

    def _own_in(self, chapter: Chapter) -> set[str]:
        return {exercise.name for exercise in chapter.exercises} & self.from_learner

    def _sources(self, chapter: Chapter, reference: ChapterSource) -> list[ChapterSource]:
        own = self._own_in(chapter)
        if not own:
            return [reference]
        exercises = {exercise.name for exercise in chapter.exercises}
        used = {name for each in own for module, name in uses(self._learner, chapter.name, each)}
        helpers = used - exercises  # of the learner's exercises, such as a config
        replaced = tuple(sorted(reference_names(reference).statements.keys() - own - helpers))
        source = replace(self._learner.source(chapter.name), replaced=replaced)
        self.learner_texts[source.filename] = source.text
        return [source, reference_definitions(reference, replaced)]


def _definition_lines(text: str) -> list[tuple[str, int, int]]:
    """Return every definition of a chapter with its first and last line."""
    found = bindings_in(text).items()
    return [(name, node.lineno, node.end_lineno or node.lineno) for name, nodes in found for node in nodes]


def list_names(names: Sequence[str], most: int) -> str:
    """At most so many names as part of a sentence."""
    if len(names) > most:
        return ", ".join(names[: most - 1]) + f" and {len(names) - most + 1} more"
    return join_names(names)
