"""Answers to held-out questions, the interval around the share of right ones, and a test of two evaluations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import torch
from grader.chapters.ch17_fine_tuning.tuning.base import Base, draw_answers
from grader.chapters.ch17_fine_tuning.tuning.tasks import Question, Task, questions
from grader.counts import format_count

HELD_OUT_QUESTIONS = 96
FEWEST_QUESTIONS = 8  # that a test has, and that the speed is measured with
BATCH_ROWS = 32
MAX_CHANCE = 0.05  # a smaller probability of chance counts as learning


@dataclass(frozen=True)
class Evaluation:
    """The answers to the held-out questions, each time the same questions in the same order."""

    right: list[bool]
    samples: list[tuple[str, str]]  # the first prompts and their answers

    def __add__(self, other: Evaluation) -> Evaluation:
        """This, and the answers to further questions."""
        return Evaluation(self.right + other.right, self.samples)

    def first(self, count: int) -> Evaluation:
        """Only the answers to the first questions."""
        return Evaluation(self.right[:count], self.samples[:count])

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Evaluation:
        return cls([bool(one) for one in data["right"]], [(prompt, text) for prompt, text in data["samples"]])


def held_out_questions(base: Base, task: Task) -> list[Question]:
    """Different held-out questions: always the same ones, whatever the seed of a tuning."""
    found: dict[str, Question] = {}
    for question in questions(task, base.parts, "evaluation", held_out=True):
        found.setdefault(question.prompt, question)
        if len(found) == HELD_OUT_QUESTIONS:
            return list(found.values())
    raise AssertionError("unreachable")


def evaluate(
    base: Base,
    task: Task,
    asked: Sequence[Question],
    stopped: Callable[[], bool] = lambda: False,
    is_late: Callable[[int], bool] = lambda answered: False,
) -> Evaluation | None:
    """Let the model answer these questions with its likeliest tokens; None if it was stopped on the way. `is_late` is
    called after each token, with the number of questions that are answered. If it returns True, the result has only the
    first questions, up to the first one without an answer."""
    answers: dict[int, tuple[str, bool]] = {}
    for places in _batches(base, asked):
        if stopped():
            return None
        prompts = torch.tensor([base.prompt_ids(asked[place].prompt) for place in places])
        before = len(answers)
        drawn = draw_answers(
            base, prompts, 1, task.most_tokens, temperature=0.0, stopped=lambda ended, n=before: is_late(n + ended)
        )
        whole = drawn.are_whole(task.most_tokens)
        for place, text, ended in zip(places, drawn.texts(base.decode), drawn.ended):
            if ended or whole:
                answers[place] = text, task.grade(base.parts, asked[place], text, ended) == 1.0
        if is_late(len(answers)):
            break
    made = list(takewhile(answers.__contains__, range(len(asked))))
    return Evaluation([answers[place][1] for place in made], [(asked[k].prompt, answers[k][0]) for k in made[:3]])


def _batches(base: Base, asked: Sequence[Question]) -> Iterator[list[int]]:
    """The places of questions whose prompts have the same length. The first questions come first, and at least two
    batches, if there are enough: so a test that is stopped has half of the answers, or a few."""
    most = min(BATCH_ROWS, max((len(asked) + 1) // 2, FEWEST_QUESTIONS))
    for first in range(0, len(asked), most):
        by_length: dict[int, list[int]] = {}
        for place in range(first, min(first + most, len(asked))):
            by_length.setdefault(len(base.prompt_ids(asked[place].prompt)), []).append(place)
        yield from by_length.values()


def wilson_interval(right: int, count: int) -> tuple[float, float]:
    """Where the true share is in 95 of 100 such tests, by Wilson's formula."""
    z = 1.96  # of a normal distribution, 95 % is so many standard deviations around the mean
    share, extra = right / count, z * z / count
    middle = (share + extra / 2) / (1 + extra)
    half = z * math.sqrt(share * (1 - share) / count + extra / (4 * count)) / (1 + extra)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def chance_of_difference(became_right: int, became_wrong: int) -> float:
    """How probable a difference at least so large is if each changed answer is as likely to become right as wrong
    (the exact sign test, two-sided)."""
    changed, larger = became_right + became_wrong, max(became_right, became_wrong)
    tail = sum(math.comb(changed, k) for k in range(larger, changed + 1)) / 2**changed
    return min(2 * tail, 1.0)


def describe_shares(results: Sequence[tuple[str, Evaluation]]) -> list[str]:
    """A line for each evaluation."""
    lines = []
    for name, result in results:
        right, count = sum(result.right), len(result.right)
        low, high = wilson_interval(right, count)
        lines.append(
            f"{name:<20} {right:>3} of {count}  {100 * right / count:>3.0f} %  ({100 * low:.0f} to {100 * high:.0f} %)"
        )
    return lines


def count_changes(before: Evaluation, after: Evaluation) -> tuple[int, int]:
    """How many answers became right, and how many became wrong."""
    pairs = list(zip(before.right, after.right, strict=True))
    return sum(new and not old for old, new in pairs), sum(old and not new for old, new in pairs)


def has_learned(before: Evaluation, after: Evaluation) -> bool:
    became_right, became_wrong = count_changes(before, after)
    return became_right > became_wrong and chance_of_difference(became_right, became_wrong) < MAX_CHANCE


def describe_difference(phase: str, before: Evaluation, after: Evaluation) -> str:
    """One paragraph: which answers changed, and whether that may be chance."""
    became_right, became_wrong = count_changes(before, after)
    if not became_right + became_wrong:
        return f"{phase}: no answer changed between right and wrong, so these questions show no learning."
    chance = chance_of_difference(became_right, became_wrong)
    changed = f"{phase}: {format_count(became_right, 'answer')} became right, and {became_wrong} became wrong."
    odds = "less than 0.001" if chance < 0.001 else f"{chance:.3f}" if chance < MAX_CHANCE else f"{chance:.2f}"
    probability = f"If nothing was learned, the probability of such a difference is {odds}"
    if chance >= MAX_CHANCE:
        return f"{changed} {probability}: this shows no learning."
    return f"{changed} {probability}: the model has {'learned' if became_right > became_wrong else 'become worse'}."
