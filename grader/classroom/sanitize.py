"""Sanitizes text from submissions (names, messages, printed lines) before it is stored or displayed.

The gradebook, every export, the report and the terminal use this module. It removes terminal escape sequences. It
writes every other invisible character as a code, like ⟨U+202E⟩: control characters, marks that change the direction
of writing, halves of surrogate pairs, and unassigned characters. Other text stays unchanged.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from grader.verdict.results import REASONS, Diagnosis, ExerciseResult, Failure, TestResult

MAX_TEXT_LENGTH = 20_000  # characters of one text; a failure as a learner sees it is far shorter
MAX_LINE_LENGTH = 500  # characters of one sentence
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])?")
_JOINERS = "\u200c\u200d"  # invisible, but part of the spelling of Persian and Indic names and of emoji


def text(words: str, length: int = MAX_TEXT_LENGTH) -> str:
    """The text, with its line breaks."""
    words = words if len(words) <= length else words[:length] + " …"
    if words.isprintable():
        return words
    words = _ESCAPES.sub("", words).replace("\r\n", "\n")
    return "".join(character if _is_plain(character) else f"⟨U+{ord(character):04X}⟩" for character in words)


def line(words: str, length: int = MAX_LINE_LENGTH) -> str:
    """The text in one line, for names and sentences."""
    return " ".join(text(re.sub(r"\s", " ", words), length).split())


def shorten(words: str, longest: int = 60) -> str:
    """A name or a path in one line, shortened, for use in a sentence."""
    words = line(words, 4 * longest)
    return words if len(words) <= longest else f"{words[: longest - 3]}..."


def list_names(names: Sequence[str], most: int = 10) -> str:
    """The first names for a sentence, and how many there are more."""
    shown = [shorten(name) for name in names[:most]]
    return ", ".join(shown if len(names) <= most else [*shown, f"and {len(names) - most} more"])


def _is_plain(character: str) -> bool:
    is_space = character in "\n\t" or unicodedata.category(character) == "Zs"
    return character.isprintable() or is_space or character in _JOINERS


def result(found: ExerciseResult) -> ExerciseResult:
    """The result with sanitized texts; a failed test always has details."""
    tests = [_sanitize_test(test) for test in found.tests]
    diagnosis = found.diagnosis and _sanitize_diagnosis(found.diagnosis)
    return replace(found, tests=tests, diagnosis=diagnosis, forbidden=[line(sentence) for sentence in found.forbidden])


def _sanitize_diagnosis(known: Diagnosis) -> Diagnosis:
    also = known.also and _sanitize_diagnosis(known.also)
    return Diagnosis(line(known.id), text(known.says), text(known.hint), [line(test) for test in known.explains], also)


def failure(words: Failure) -> Failure:
    flags = {"reached": bool(words.reached), "was_late": bool(words.was_late)}
    others: dict[str, Any] = {"called": [text(call) for call in words.called], **flags}
    texts: dict[str, Any] = {name: text(value) for name, value in vars(words).items() if name not in others}
    return Failure(**texts, **others)


def _sanitize_test(test: TestResult) -> TestResult:
    texts: dict[str, Any] = {name: text(getattr(test, name)) for name in ("promise", "message", "explanation")}
    details = failure(test.details) if test.details else None
    if details is None and test.outcome not in ("passed", "todo"):
        details = Failure(**texts)
    replaced = {line(name): why for name, why in test.replaced.items() if why in REASONS}
    return replace(
        test, name=line(test.name), details=details, leads=bool(test.leads), replaced=replaced,
        follows=line(test.follows), seed=int(test.seed), **texts,
    )  # fmt: skip
