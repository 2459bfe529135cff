"""The same picture of both sides: the reference, and the learner's present code, right or wrong."""

from __future__ import annotations

import contextlib
import io
import re

from grader.course.source import SourceProblem, is_written
from grader.course.syllabus import Exercise, earlier_in_chapter, load_syllabus
from grader.execution.errors import ChapterBroken, HostDied, LearnerError, OutOfTime, Todo
from grader.execution.target import Target, replaceable_beside
from grader.teaching.show import find_subject
from grader.teaching.show.panels import Pair, Panel, Picture, count_differences, pair_panels
from grader.verdict import comparing
from grader.verdict.explanation import explain_failure
from grader.verdict.trial import CALL_SECONDS, Trial
from grader.verdict.value_text import format_value

MAX_RESULT_CHARACTERS = 120


def make_picture(exercise: Exercise, trial: Trial, yours_alone: bool = False) -> Picture:
    """Compute the exercise's picture on both sides, or on the learner's alone; UnknownName if it has none.

    If the learner's side fails, the picture says why.
    """
    subject = find_subject(exercise.name)
    trial.begin_test(exercise, "the picture")
    trial.replaced = _earlier_stubs(exercise, trial.target)
    problem: BaseException | None = None
    try:
        with _without_output():
            trial.begin_example()
            trial.boundary(exercise.chapter).begin(trial.example_seed)
    except (Todo, ChapterBroken, OutOfTime, HostDied) as error:  # the picture shows it
        problem = error
    trial.extend_deadline(CALL_SECONDS)
    reference = [] if yours_alone else subject.function(trial.reference(exercise.chapter))
    yours: list[Panel] = []
    if problem is None:
        try:
            with _without_output():
                yours = subject.function(trial.learner(exercise.chapter))
        except (Todo, ChapterBroken, OutOfTime, HostDied, Exception) as error:
            problem = error
    if problem is not None:
        verdict = _explain_missing_picture(exercise, problem, trial, yours_alone)
        return Picture(exercise.name, subject.about, subject.look, verdict, [Pair(panel) for panel in reference])
    if yours_alone:
        pairs = [Pair(panel, heading="yours") for panel in yours]
        return Picture(exercise.name, subject.about, subject.look, "This is your result.", pairs)
    pairs = [pair_panels(ours, theirs) for ours, theirs in zip(reference, yours)]
    agrees = all(pair.differs is None and not pair.note for pair in pairs)
    return Picture(exercise.name, subject.about, subject.look, _describe_agreement(pairs), pairs, agrees)


@contextlib.contextmanager
def _without_output():
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def _describe_agreement(pairs: list[Pair]) -> str:
    counts = [count_differences(pair) for pair in pairs]
    different, every = (sum(numbers) for numbers in zip(*counts))
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


def _earlier_stubs(exercise: Exercise, target: Target) -> tuple[str, ...]:
    """The earlier exercises of the chapter that are not written: the picture uses the reference's, as a test does."""
    earlier = map(load_syllabus().exercise, earlier_in_chapter(exercise))
    return replaceable_beside(exercise, [each.name for each in earlier if not _is_written(each, target)])


def _explain_missing_picture(exercise: Exercise, problem: BaseException, trial: Trial, yours_alone: bool) -> str:
    """Explain in a sentence or two why there is no picture of the learner's side."""
    instead = "" if yours_alone else " This shows the reference's result."
    if isinstance(problem, Todo):
        missing = str(problem)
        if missing and not missing.startswith(f"{exercise.name} in ") and _is_written(exercise, trial.target):
            return f"Your result cannot be drawn yet, because {missing}.{instead}"
        return f"Your code is not implemented yet.{instead}"
    boundary = None if isinstance(problem, ChapterBroken) else trial.current_boundary
    call = boundary.calls[-1] if boundary and boundary.calls else None
    where = ""
    if isinstance(problem, ChapterBroken | OutOfTime | HostDied | LearnerError | comparing.Mismatch):
        explanation = explain_failure(problem, "", boundary, comparing.current)
        sentence, where = explanation.message, explanation.where
    elif call:
        returned = re.sub(r"\s+", " ", format_value(call.result))[:MAX_RESULT_CHARACTERS]
        sentence = f"{call.what} returned {returned}, which cannot be drawn."
    else:
        sentence = "What it returned cannot be drawn."
    if isinstance(problem, ChapterBroken):
        sentence = f"{exercise.module}.py does not import. {sentence}"
    place = f" ({where})" if where else ""
    so = "" if yours_alone else ", so this shows the reference's"
    return f"Your result cannot be drawn{so}. {sentence}{place}"
