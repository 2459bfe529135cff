"""What the answers say: shares with intervals, which models are told from one that guesses, and two models compared.

Questions of one group resemble each other: who knows one of them often knows the others. So an interval draws whole
groups, and a test of two models exchanges the signs of whole groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from grader.chapters.ch24_evaluation.evaluation.answering import Answers
from grader.chapters.ch24_evaluation.evaluation.questions import SUBJECTS, Question
from grader.counts import format_count

LEVEL = 0.95
FEWEST_GROUPS = 10  # for an interval: with fewer, a bootstrap interval is too narrow
MAX_CHANCE = 0.05  # a smaller p counts as a difference
SMALL_DIFFERENCE = 0.05  # that is asked for if two models are equally good
ALL, BETTER, UNCLEAR, WORSE, FEW = "all", "better", "unclear", "worse", "too few"
SAYS = {  # the model and the subjects
    BETTER: "{} does better than a model that guesses: {}.",
    WORSE: "{} is wrong more often than a model that guesses: {}.",
    UNCLEAR: "These questions cannot tell {} from a model that guesses: {}.",
    FEW: "{} can read too few questions for an interval: {}.",
}
COLUMNS = ("model", "subject", "count", "right", "interval", "guess", "better?")


@dataclass(frozen=True)
class Result:
    """The answers of one model to the questions that it can read."""

    model: str
    questions: list[Question]
    chosen: list[int]
    left_out: int  # questions that it cannot read

    @classmethod
    def of(cls, answers: Answers, readable: Sequence[Question], kind: str, left_out: int) -> Result:
        scores = [answers.by_key[question.key][kind] for question in readable]
        return cls(answers.model, list(readable), [each.index(max(each)) for each in scores], left_out)

    @property
    def right(self) -> list[float]:
        return [float(place == question.right) for place, question in zip(self.chosen, self.questions)]


@dataclass(frozen=True)
class Row:
    """A model and a subject."""

    model: str
    subject: str
    count: int
    share: float
    interval: tuple[float, float] | None  # None with too few groups
    guess: float  # the share that guessing would give
    verdict: str

    @property
    def cells(self) -> tuple[str, ...]:
        ends = "-" if self.interval is None else f"{percent(self.interval[0])} to {percent(self.interval[1])} %"
        shares = f"{percent(self.share)} %", ends, f"{percent(self.guess)} %"
        return (self.model, self.subject, str(self.count), *shares, self.verdict)


def percent(share: float) -> str:
    return f"{100 * share:.0f}"


def rows(parts: Any, result: Result) -> list[Row]:
    """One for each subject, after one for all questions if there are several."""
    subjects = sorted({one.subject for one in result.questions}, key=SUBJECTS.index)
    return [_row(parts, result, subject) for subject in [ALL, *subjects][len(subjects) == 1 :]]


def _row(parts: Any, result: Result, subject: str) -> Row:
    pairs = [pair for pair in zip(result.questions, result.right) if subject in (ALL, pair[0].subject)]
    right, groups = [right for _, right in pairs], [one.group for one, _ in pairs]
    guesses = [one.guess for one, _ in pairs]
    share, guess = math.fsum(right) / len(right), math.fsum(guesses) / len(guesses)
    if len(set(groups)) < FEWEST_GROUPS:
        return Row(result.model, subject, len(pairs), share, None, guess, FEW)
    interval = low, high = interval_of(parts, right, groups)
    if 0 < share < 1:
        low, high = interval_of(parts, [one - by_chance + guess for one, by_chance in zip(right, guesses)], groups)
    verdict = BETTER if low > guess else WORSE if high < guess else UNCLEAR
    return Row(result.model, subject, len(pairs), share, interval, guess, verdict)


def interval_of(parts: Any, values: Sequence[float], groups: Sequence[str]) -> tuple[float, float]:
    """The learner's interval. If all answers are right, or all wrong, every resample is alike; then it is the exact one
    of a probability, for as many answers as there are groups."""
    if set(values) in ({0.0}, {1.0}):
        edge = ((1 - LEVEL) / 2) ** (1 / len(set(groups)))
        return (edge, 1.0) if values[0] else (0.0, 1 - edge)
    generator = torch.Generator().manual_seed(0)
    return parts.bootstrap_interval(values, LEVEL, generator=generator, clusters=groups)  # type: ignore[no-any-return]


def sentences(result: Result, shown: Sequence[Row]) -> Iterator[str]:
    """Which subjects show that this model does not guess, and what it could not read."""
    for verdict, says in SAYS.items():
        subjects = [row.subject for row in shown if (row.model, row.verdict) == (result.model, verdict)]
        if subjects:
            yield says.format(result.model, ", ".join("all questions" if one == ALL else one for one in subjects))
    if result.left_out:
        cannot = f"{result.model} cannot read {format_count(result.left_out, 'question')}"
        yield f"{cannot}, because of unknown words or their length; they are left out."


def compare(parts: Any, one: Result, other: Result) -> list[str]:
    """A paired test on the questions that both can read: the answer, and the numbers behind it."""
    of_one, of_other = (dict(zip((q.key for q in each.questions), each.right)) for each in (one, other))
    both = [question for question in one.questions if question.key in of_other]
    if not both:
        return ["There is no question that both models can read, so they cannot be compared."]
    a, b = ([answers[question.key] for question in both] for answers in (of_one, of_other))
    groups: dict[str, list[int]] = {}
    for place, question in enumerate(both):
        groups.setdefault(question.group, []).append(place)
    totals = ([math.fsum(values[place] for place in places) for places in groups.values()] for values in (a, b))
    p = parts.paired_test(*totals, generator=torch.Generator().manual_seed(0))
    shares = math.fsum(a) / len(a), math.fsum(b) / len(b)
    better, worse = (one.model, other.model) if shares[0] > shares[1] else (other.model, one.model)
    only = sum(x > y for x, y in zip(a, b)), sum(y > x for x, y in zip(a, b))
    difference = abs(shares[0] - shares[1]) or SMALL_DIFFERENCE
    needed = parts.questions_needed(min(*shares, 1 - difference), difference)
    return [
        f"{better} is better than {worse} at these questions."
        if p < MAX_CHANCE
        else f"These questions cannot tell whether {one.model} or {other.model} is better.",
        f"On {format_count(len(both), 'question')} that both can read, {one.model} is right in {percent(shares[0])} % "
        f"and {other.model} in {percent(shares[1])} %.",
        f"They differ at {format_count(sum(only), 'question')}: {only[0]} times only {one.model} is right, "
        f"{only[1]} times only {other.model}. p is {'less than 0.001' if p < 0.001 else f'{p:.2g}'}.",
        f"If each model got separate questions, {needed:,} for each would find a difference of "
        f"{100 * difference:.1f} percentage points in 80 of 100 tests. The same questions for both usually need fewer.",
    ]
