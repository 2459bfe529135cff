"""What strangers wrote (names, messages, printed lines), without anything that would command a terminal or hide from the eye.

The one way to make it so, for the gradebook, every export, the report and the terminal. Escape sequences of terminals are left out. Every other
invisible command is spelt out, like ⟨U+202E⟩: control characters, marks that turn the direction of writing around, halves of surrogate pairs,
and what nobody has assigned. No character is left that XML forbids. What is harmless already stays as it is.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from typing import Any

from grader.verdict.results import Diagnosis, ExerciseResult, Failure, TestResult

LONG = 20_000  # characters of one text; what a learner is shown of a failure is a fraction of that
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])?")
_JOINERS = "\u200c\u200d"  # invisible, and part of how Persian, Indic names and emoji are spelled; they turn nothing around


def text(words: str, length: int = LONG) -> str:
    """The text, its lines kept."""
    words = words if len(words) <= length else words[:length] + " …"
    if words.isprintable():
        return words
    words = _ESCAPES.sub("", words).replace("\r\n", "\n")
    return "".join(character if _plain(character) else f"⟨U+{ord(character):04X}⟩" for character in words)


def line(words: str, length: int = 500) -> str:
    """The text in one line: a name, a sentence."""
    return " ".join(text(re.sub(r"\s", " ", words), length).split())


def shown(words: str, longest: int = 60) -> str:
    """A name or a path of theirs within a sentence of ours."""
    words = line(words, 4 * longest)
    return words if len(words) <= longest else f"{words[: longest - 3]}..."


def _plain(character: str) -> bool:
    return character.isprintable() or character in "\n\t" or character in _JOINERS or unicodedata.category(character) == "Zs"


def result(found: ExerciseResult) -> ExerciseResult:
    """A result whose words may be shown anywhere; a failed test always has details."""
    diagnosis = found.diagnosis and Diagnosis(line(found.diagnosis.id), text(found.diagnosis.says), text(found.diagnosis.hint))
    return replace(found, tests=[_test(test) for test in found.tests], diagnosis=diagnosis, forbidden=[line(sentence) for sentence in found.forbidden])


def failure(words: Failure) -> Failure:
    said: dict[str, Any] = {name: [text(entry) for entry in value] if name == "called" else text(value) for name, value in vars(words).items()}
    return Failure(**said)


def _test(test: TestResult) -> TestResult:
    message, explanation, promise = text(test.message), text(test.explanation), text(test.promise)
    details = failure(test.details) if test.details else None
    if details is None and test.outcome not in ("passed", "todo"):
        details = Failure(promise, message=message, explanation=explanation)
    return TestResult(line(test.name), test.outcome, test.seconds, test.weight, promise, message, explanation, details)
