"""One graded run in this process, with the notebook's object instead of the definition in the chapter's file."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
from typing import TYPE_CHECKING

from grader.course.source import SourceProblem, parse, read_source
from grader.course.stubs import reference_stub
from grader.course.syllabus import EXERCISES, Chapter, Exercise
from grader.execution.overrides import DefinitionOverride
from grader.notebook.process_state import restore_state
from grader.verdict.summary import Verdict

if TYPE_CHECKING:
    from grader.execution.target import Target

_one_at_a_time = threading.Lock()


class NotRun(Exception):
    """There is no verdict; the message says why, in one sentence."""


class Stopped(KeyboardInterrupt):
    """The learner pressed the stop button; a notebook shows one line instead of a traceback."""

    def _render_traceback_(self) -> list[str]:
        return ["The check was stopped."]


def run(found: Exercise | Chapter, override: DefinitionOverride | None) -> Verdict:
    """The verdict of the graded tests of an exercise or a chapter; NotRun if there is no verdict."""
    if not _one_at_a_time.acquire(blocking=False):
        raise NotRun("Another check is still running. Wait until it has finished, then run this one again.")
    try:
        with restore_state():
            return _run(found, override)
    except KeyboardInterrupt:
        raise Stopped from None
    finally:
        _one_at_a_time.release()


def _run(found: Exercise | Chapter, override: DefinitionOverride | None) -> Verdict:
    from grader.execution.target import resolve
    from grader.reproduction.files import FOLDER
    from grader.runner.graded_tests import NoTests
    from grader.runner.judging import judge_of
    from grader.verdict.recordings import course_recordings
    from grader.verdict.trial import Trial

    exercises = found.exercises if isinstance(found, Chapter) else (found,)
    notes: list[str] = []
    target = target_of(override, notes) if override else resolve(None)
    with contextlib.closing(judge_of(Trial(target), course_recordings(), chosen=True, scripts=FOLDER)) as judge:
        try:
            tests = [test for exercise in exercises for test in judge.tests_of(exercise)]
        except NoTests as problem:
            raise NotRun(f"{found.name} could not be tested: {problem}") from None
        if not tests:
            raise NotRun(f"There are no tests for {found.name} yet.")
        judge.run_tests(tests)
        judge.run.conclude()
        judge.record_states()
        verdict = judge.run.verdict()
    verdict.notes.extend(notes)
    if "IPython" in sys.modules:
        for result in verdict.results:  # in a cell, a command begins with an exclamation mark
            result.script = re.sub("^headway ", "!headway ", result.script)
    return verdict


def target_of(override: DefinitionOverride, notes: list[str]) -> Target:
    """The learner's folder with the given object; if its chapter cannot be read, the stub provides the chapter's other names."""
    from grader.execution.target import Target

    path, texts = EXERCISES / f"{override.module}.py", {}
    try:
        parse(read_source(path), f"exercises/{path.name}")
    except SourceProblem as problem:
        texts[override.module] = reference_stub(override.module)
        if path.exists():
            notes.append(f"{problem}. So your notebook was tested without this file.")
    return Target("exercises", EXERCISES, texts, override=override)
