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

from grader.chapters.stories.corpus import story
from grader.files import UserProblem

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
    answer_steps: int  # of the phase of right answers: few, so that rewards have something left to teach
    answers_rate: float  # the learning rates of both phases, after a warmup
    rewards_rate: float
    enough: tuple[int, int | None]  # steps of both phases that taught it in lesson 17; None: rewards taught nothing
    prompts: int  # of a batch in the phase of rewards
    group: int  # answers to each of them

    def ask(self, draw: random.Random) -> Question: ...

    def grade(self, parts: Any, question: Question, answer: str, ended: bool) -> float:
        """1.0 if the answer is right, and 0.0 if not; `ended` if it ends by itself."""
        ...


class Sums:
    title = "for sums of two numbers with three digits; the last number of an answer is graded"
    most_tokens, prompts, group = 40, 8, 8
    answer_steps, answers_rate, rewards_rate = 20, 1e-3, 1e-4
    enough: tuple[int, int | None] = (20, 15)

    def ask(self, draw: random.Random) -> Question:
        a, b = draw.randint(100, 999), draw.randint(100, 999)
        return Question(f"What is {a} + {b}?", str(a + b), a + b)

    def grade(self, parts: Any, question: Question, answer: str, ended: bool) -> float:
        return float(parts.grade_answer(answer, question.expected))


class Json:
    title = "to write sentences as JSON; an answer is right if it is the right JSON and nothing else"
    most_tokens, prompts, group = 40, 4, 8
    answer_steps, answers_rate, rewards_rate = 4, 1e-3, 1e-4
    enough: tuple[int, int | None] = (4, None)

    def ask(self, draw: random.Random) -> Question:
        person = {"name": draw.choice(NAMES), "age": draw.randint(10, 99)}
        sentence = f"{person['name']} is {person['age']} years old."
        return Question(f"Write as JSON: {sentence}", json.dumps(person), person)

    def grade(self, parts: Any, question: Question, answer: str, ended: bool) -> float:
        try:
            return float(ended and json.loads(answer) == question.expected)
        except (ValueError, RecursionError):
            return 0.0


class SevenWords:
    title = "to continue a story's first sentence; an answer is right if it is one sentence of seven words"
    most_tokens, prompts, group = 24, 8, 8
    answer_steps, answers_rate, rewards_rate = 60, 5e-3, 1e-3
    enough: tuple[int, int | None] = (60, 60)

    def ask(self, draw: random.Random) -> Question:
        while True:
            first, *others = _SENTENCE_END.split(story(0, draw.getrandbits(30)))
            if answers := [sentence for sentence in others if self._is_right(sentence)]:
                return Question(first, draw.choice(answers), None)

    def grade(self, parts: Any, question: Question, answer: str, ended: bool) -> float:
        return float(ended and self._is_right(answer))

    @staticmethod
    def _is_right(text: str) -> bool:
        return re.fullmatch(r"[^.!?]+[.!?]", text.strip()) is not None and len(re.findall(r"\w+", text)) == 7


_SENTENCE_END = re.compile(r"(?<=[.!?]) ")


TASKS: dict[str, dict[str, Task]] = {  # the kind of the base: name: task
    "published": {"sums": Sums(), "format": Json()},
    "stories": {"format": SevenWords()},
}


def questions(task: Task, parts: Any, seed: str, held_out: bool) -> Iterator[Question]:
    """Endless questions that are held out, or that are not."""
    draw = random.Random(seed)
    while True:
        question = task.ask(draw)
        if bool(parts.is_validation(question.prompt)) == held_out:
            yield question
