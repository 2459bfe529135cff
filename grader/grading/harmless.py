"""What strangers wrote (names, messages, printed lines), without anything that would command a terminal or hide from the eye."""

from __future__ import annotations

import re
from dataclasses import replace

from ..door.errors import readable
from ..results import Diagnosis, ExerciseResult, Failure, TestResult

LONG = 20_000  # characters of one text; what a learner is shown of a failure is a fraction of that
_JOINERS = re.compile("([\u200c\u200d])")  # invisible, and part of how Persian and Indic names are spelled


def text(words: str, length: int = LONG) -> str:
    """The text, its lines kept."""
    if len(words) <= length and words.replace("\n", "").replace("\t", "").isprintable():
        return words
    return readable(words.replace("\r\n", "\n"), length)


def line(words: str, length: int = 500) -> str:
    """The text in one line: a name, a file's name, a sentence."""
    if len(words) <= length and words.isprintable() and words == " ".join(words.split()):
        return words
    parts = _JOINERS.split(words)
    shown = [part if number % 2 else text(re.sub(r"\s", " ", part), length) for number, part in enumerate(parts)]
    return " ".join("".join(shown).split())


def result(found: ExerciseResult) -> ExerciseResult:
    """A result whose words may be shown anywhere; a failed test always has details."""
    diagnosis = found.diagnosis and Diagnosis(line(found.diagnosis.id), text(found.diagnosis.says), text(found.diagnosis.hint))
    return replace(found, tests=[_test(test) for test in found.tests], diagnosis=diagnosis, forbidden=[line(sentence) for sentence in found.forbidden])


def failure(words: Failure) -> Failure:
    return Failure(**{name: [text(entry) for entry in value] if name == "called" else text(value) for name, value in vars(words).items()})


def _test(test: TestResult) -> TestResult:
    message, explanation, promise = text(test.message), text(test.explanation), text(test.promise)
    details = failure(test.details) if test.details else None
    if details is None and test.outcome not in ("passed", "todo"):
        details = Failure(promise, message=message, explanation=explanation)
    return TestResult(line(test.name), test.outcome, test.seconds, test.weight, promise, message, explanation, details)
