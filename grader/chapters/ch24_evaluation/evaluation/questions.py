"""The questions, and how a model reads them.

A question of facts or arithmetic is asked, and a choice is an answer to it. A text of grammar or stories goes on with a
choice. All choices of a question have about the same length, and each place has the right one equally often.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

FOLDER = Path(__file__).parent / "questions"
SUBJECTS = ("facts", "arithmetic", "grammar", "stories")
ASKED = ("facts", "arithmetic")


@dataclass(frozen=True)
class Question:
    subject: str
    group: str  # questions of one template, or about one fact
    text: str
    choices: tuple[str, ...]
    right: int  # the place of the right choice
    source: str  # how its author knows it

    @property
    def prompt(self) -> str:
        return f"Question: {self.text}\nAnswer:" if self.subject in ASKED else self.text

    @property
    def continuations(self) -> list[str]:
        """The choices as they follow the prompt."""
        return [f" {choice}" for choice in self.choices]

    @property
    def guess(self) -> float:
        """The probability that a guess is right."""
        return 1 / len(self.choices)

    @cached_property
    def key(self) -> str:
        """A short hash of what a model reads."""
        return hashlib.sha256("\0".join((self.prompt, *self.continuations)).encode()).hexdigest()[:16]


def load_questions(subjects: Collection[str] = SUBJECTS) -> list[Question]:
    """All questions of these subjects. They are mixed, always in the same order: the first ones are a fair sample."""
    read = {subject: tomllib.loads((FOLDER / f"{subject}.toml").read_text(encoding="utf-8")) for subject in subjects}
    found = (
        Question(subject, **one | {"choices": tuple(one["choices"])})
        for subject in read
        for one in read[subject]["question"]
    )
    return sorted(found, key=lambda question: question.key)
