"""The same picture of both sides: the reference, and the learner's present code, right or wrong."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable

from grader.course.source import SourceProblem, is_written
from grader.course.syllabus import Exercise
from grader.execution.errors import ChapterBroken, ExtendDeadline, HostDied, LearnerError, OutOfTime, Todo
from grader.execution.proxy import Implementation
from grader.execution.target import Target, resolve
from grader.execution.worker import WorkerPool
from grader.teaching.show.catalog import find_subject
from grader.teaching.show.difference import count_differences, pair_panels
from grader.teaching.show.panels import Pair, Panel, Picture
from grader.verdict import comparing
from grader.verdict.explanation import explain_failure
from grader.verdict.trial import CALL_SECONDS, Trial
from grader.verdict.value_text import format_value

DrawPanels = Callable[[Implementation], list[Panel]]


def make_picture(
    exercise: Exercise, target: Target | None = None, in_worker: bool = False, pool: WorkerPool | None = None, extend_deadline: ExtendDeadline = lambda _: None
) -> Picture:
    """Compute the exercise's picture on both sides. If the learner's side fails, the picture says why. UnknownName if there is no picture."""
    found = find_subject(exercise.name)
    trial = Trial(target or resolve(None), in_worker, pool=pool or WorkerPool(), extend_deadline=extend_deadline)
    try:
        return _compare_sides(found.about, found.look, found.draw, exercise, trial)
    finally:
        trial.close()
        trial.pool.close()


def _compare_sides(about: str, look: str, draw: DrawPanels, exercise: Exercise, trial: Trial) -> Picture:
    trial.begin_test(exercise, "the picture")
    problem: BaseException | None = None
    try:
        with _without_output():
            trial.begin_example()
            trial.boundary(exercise.chapter).begin(trial.example_seed)  # whatever it calls, and however it is cut off: it is drawn
    except (Todo, ChapterBroken, OutOfTime, HostDied) as trouble:
        problem = trouble
    trial.extend_deadline(CALL_SECONDS)
    reference = draw(trial.reference(exercise.chapter))
    yours: list[Panel] = []
    if problem is None:
        try:
            with _without_output():
                yours = draw(trial.learner(exercise.chapter))
        except (Todo, ChapterBroken, OutOfTime, HostDied, Exception) as trouble:
            problem = trouble
    if problem is not None:
        return Picture(exercise.name, about, look, _explain_missing_picture(exercise, problem, trial), [Pair(panel) for panel in reference])
    pairs = [pair_panels(ours, theirs) for ours, theirs in zip(reference, yours)]
    return Picture(exercise.name, about, look, _describe_agreement(pairs), pairs, agrees=all(pair.differs is None and not pair.note for pair in pairs))


@contextlib.contextmanager
def _without_output():
    """Discard what the learner's code prints."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def _describe_agreement(pairs: list[Pair]) -> str:
    apart = [count_differences(pair) for pair in pairs]
    different, every = sum(some for some, _ in apart), sum(count for _, count in apart)
    if any(pair.note for pair in pairs):
        return "Your result does not have the size of the reference's result."
    if not different:
        return "In this picture your result and the reference's agree."
    return f"Your result differs from the reference's in {different} of {every} numbers."


def _is_written(exercise: Exercise, target: Target) -> bool:
    try:
        return is_written(target.source(exercise.module).text, exercise.name)
    except (SourceProblem, ChapterBroken):
        return False


def _explain_missing_picture(exercise: Exercise, problem: BaseException, trial: Trial) -> str:
    """Explain in a sentence or two why there is no picture of the learner's side."""
    if isinstance(problem, Todo):
        missing = str(problem)
        if missing and not missing.startswith(f"{exercise.name} in ") and _is_written(exercise, trial.target):
            return f"Your result cannot be drawn yet, because {missing}. This shows the reference's result."
        return "Your code is not implemented yet. This shows the reference's result."
    boundary = None if isinstance(problem, ChapterBroken) else trial.current_boundary
    call = boundary.calls[-1] if boundary and boundary.calls else None
    if isinstance(problem, ChapterBroken | OutOfTime | HostDied | LearnerError | comparing.Mismatch):
        words = explain_failure(problem, "", boundary, comparing.current)
        sentence, where = words.message, words.where
    else:
        returned = re.sub(r"\s+", " ", format_value(call.result))[:120] if call else ""
        sentence, where = (f"{call.what} returned {returned}, which cannot be drawn." if call else "What it returned cannot be drawn."), ""
    if isinstance(problem, ChapterBroken):
        sentence = f"{exercise.module}.py does not import. {sentence}"
    return f"Your result cannot be drawn, so this shows the reference's. {sentence}" + (f" ({where})" if where else "")
