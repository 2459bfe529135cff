"""What a model is asked, right answers, and how a program grades an answer.

Whether a question is held out depends on its prompt alone, so that no question is both trained on and tested.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from grader.files import UserProblem
from grader.models.stories.cast import PEOPLE
from grader.models.stories.corpus import story

NAMES = (
    "Anna Ben Carla David Elena Felix Grace Hugo Irene Jonas Karim Laura Maria Nadia Oscar Paula Robert Sara Tomas "
    "Vera Walter Yara Zoe Adam Bella Chris Diana Emil Frida George Helen Ivan Julia Kate Leon Mona Nina Omar Peter "
    "Rosa Simon Tina Victor Wendy Alex Bruno Clara Daniel Eva Frank Gina Henry Ida Jack Karin Lucas Mark Noah Olga Paul"
).split()


class TuneProblem(UserProblem):
    """The tuning cannot begin or go on; the message is a sentence."""

    exit_status = 1


@dataclass(frozen=True)
class Question:
    prompt: str
    answer: str  # a right one
    expected: Any  # what an answer is graded by


class Task(Protocol):
    title: str  # "It is asked ..."
    most_tokens: int  # of an answer, with its end token
    prompts: int  # of a batch in the phase of rewards
    group: int  # answers to each of them

    def ask(self, draw: random.Random) -> Question: ...

    def grade(self, parts: Any, question: Question, answer: str, ended: bool) -> float:
        """1.0 if the answer is right, and 0.0 if not; `ended` if it ends by itself."""
        ...


class Sums:
    title = "for sums of two numbers with three digits; the last number of an answer is graded"
    most_tokens, prompts, group = 40, 8, 8

    def ask(self, draw: random.Random) -> Question:
        a, b = draw.randint(100, 999), draw.randint(100, 999)
        return Question(f"What is {a} + {b}?", str(a + b), a + b)

    def grade(self, parts: Any, question: Question, answer: str, ended: bool) -> float:
        return float(parts.grade_answer(answer, question.expected))


class Json:
    title = "to write sentences as JSON; an answer is right if it is the right JSON and nothing else"
    most_tokens, prompts, group = 40, 4, 8

    def ask(self, draw: random.Random) -> Question:
        person = {"name": draw.choice(NAMES), "age": draw.randint(10, 99)}
        sentence = f"{person['name']} is {person['age']} years old."
        return Question(f"Write as JSON: {sentence}", json.dumps(person), person)

    def grade(self, parts: Any, question: Question, answer: str, ended: bool) -> float:
        try:
            return float(ended and json.loads(answer) == question.expected)
        except (ValueError, RecursionError):
            return 0.0


class Endings:
    title = "to continue a story's first sentence; an answer is right if it is one sentence with the same person's name"
    most_tokens, prompts, group = 24, 8, 8

    def ask(self, draw: random.Random) -> Question:
        while True:
            first, *others = _SENTENCE_END.split(story(0, draw.getrandbits(30)))
            person = next((person.name for person in PEOPLE if person.name in _words(first)), None)
            answers = [one for one in others if person in _words(one) and '"' not in one]
            if answers:
                return Question(first, draw.choice(answers), person)

    def grade(self, parts: Any, question: Question, answer: str, ended: bool) -> float:
        one_sentence = re.fullmatch(r"[^.!?]+[.!?]", answer.strip()) is not None
        return float(ended and one_sentence and question.expected in _words(answer))


_SENTENCE_END = re.compile(r"(?<=[.!?]) ")


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


TASKS: dict[str, dict[str, Task]] = {  # the kind of the base: name: task
    "published": {"sums": Sums(), "format": Json()},
    "stories": {"format": Endings()},
}


def questions(task: Task, parts: Any, seed: str, held_out: bool) -> Iterator[Question]:
    """Endless questions that are held out, or that are not."""
    draw = random.Random(seed)
    while True:
        question = task.ask(draw)
        if bool(parts.is_validation(question.prompt)) == held_out:
            yield question
