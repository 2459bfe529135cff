"""Asks a model all questions, and keeps its answers: `checkpoints/evaluation/answers/`, a file a model.

A file is named by a hash of the model's numbers, and an answer by a hash of what the model has read. So a model that
was trained further is asked again, and a run goes on where another one was interrupted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.chapters.ch24_evaluation.evaluation.questions import Question
from grader.chapters.ch24_evaluation.evaluation.subjects import Asked
from grader.files import problem, short_path, write_whole
from grader.models import checkpoint
from grader.models.checkpoint import CheckpointProblem
from grader.models.file_values import finite, list_of
from grader.models.own_parts import explaining_crashes
from grader.teaching.walks.parts import hidden_prints

KINDS = ("byte", "token", "sum")
SCORES = list_of(finite())
SAVE_SECONDS = 10.0  # between two writings of the file

Scores = dict[str, list[float]]  # by kind


def folder() -> Path:
    return checkpoint.CHECKPOINTS / "evaluation"


@dataclass
class Answers:
    """What one model has answered so far."""

    path: Path
    model: str
    by_key: dict[str, Scores]
    note: str | None = None  # about a damaged file

    @classmethod
    def of(cls, asked: Asked) -> Answers:
        path = folder() / "answers" / f"{asked.fingerprint}.json"
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return cls(path, asked.name, {key: dict(scores) for key, scores in data["answers"].items()})
        except FileNotFoundError:
            return cls(path, asked.name, {})
        except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
            damaged = f"{short_path(path)} is damaged, so {asked.name} answers all questions again."
            return cls(path, asked.name, {}, damaged)

    def has(self, question: Question) -> bool:
        """Whether the file has a usable answer to it."""
        stored, count = self.by_key.get(question.key, {}), len(question.choices)
        return all(SCORES.accepts(stored.get(kind)) and len(stored[kind]) == count for kind in KINDS)

    def save(self) -> None:
        write(self.path, json.dumps({"model": self.model, "answers": self.by_key}) + "\n")


def write(path: Path, text: str) -> None:
    """CheckpointProblem if that is not possible."""
    try:
        write_whole(path, text)
    except OSError as error:
        raise CheckpointProblem(problem(error, f"write {short_path(path)}")) from None


def ask(
    asked: Asked, parts: Any, questions: Sequence[Question], answers: Answers,
    advance: Callable[[], None] = lambda: None, interrupted: Callable[[], bool] = lambda: False,
) -> bool:  # fmt: skip
    """Let the model answer what it has not answered yet, and save; return whether it got to the end."""
    saved = time.monotonic()
    try:
        for question in questions:
            if interrupted():
                return False
            if not answers.has(question):
                answers.by_key[question.key] = score(asked, parts, question)
            if time.monotonic() - saved > SAVE_SECONDS:
                answers.save()
                saved = time.monotonic()
            advance()
        return True
    finally:
        answers.save()


def score(asked: Asked, parts: Any, question: Question) -> Scores:
    """The learner's score of each choice, by each kind."""
    texts = question.prompt, question.continuations
    with explaining_crashes(parts), hidden_prints():
        return {kind: list(map(float, parts.score_choices(asked, asked, *texts, kind))) for kind in KINDS}
