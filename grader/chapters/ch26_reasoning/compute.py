"""Lab compute: short answers, answers that think first, votes and a verifier, for the same number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from grader.chapters.ch17_fine_tuning.tuning.base import draw_answers
from grader.chapters.ch26_reasoning.reasoning.adder import (
    Adder,
    make_optimizer,
    new_adder,
    share_right,
    step_on_answers,
)
from grader.chapters.ch26_reasoning.reasoning.sums import Sum, decode, encode, sums
from grader.chapters.small_models import names_of
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table

CHAPTERS = ("ch08_training", "ch09_sampling", "ch16_published_model", "ch17_fine_tuning", "ch26_reasoning")
DIGITS, QUESTIONS = 3, 96
SCRATCHPAD = 4 * DIGITS
RESULT = DIGITS + 3  # tokens of `>`, the result and the end, at most
CHECK_STEPS, ENOUGH = 50, 0.3
BUDGETS = tuple((SCRATCHPAD + RESULT) * count for count in (1, 2, 4, 8, 16))

Choice = Callable[[Sum, Sequence[int | None]], int | None]


def draw_results(adder: Adder, asked: Sequence[Sum], count: int, thinks: bool, seed: int) -> list[list[int | None]]:
    """`count` results for each sum; None where an answer has none. The first token of the answer is written for the
    model, so that it thinks, or does not: the last digit of a number, or the end of thinking."""
    begun = torch.tensor([encode(one.question + (str(one.a % 10) if thinks else ">")) for one in asked])
    most = RESULT - 1 + (SCRATCHPAD if thinks else 0)
    drawn = draw_answers(adder, begun, count, most, 1.0, torch.Generator().manual_seed(seed))
    found: list[int | None] = []
    for text, ended in zip(drawn.texts(decode), drawn.ended):
        _, mark, result = f"{'' if thinks else '>'}{text}".rpartition(">")
        found.append(int(result) if ended and mark and result.isdigit() else None)
    return [found[at : at + count] for at in range(0, len(found), count)]


def nines_agree(one: Sum, result: int) -> bool:
    """Casting out nines, a verifier that costs nothing: the remainders by 9 agree. One wrong result in nine passes."""
    return (one.a + one.b) % 9 == result % 9


def choices(parts: Any) -> dict[str, Choice]:
    return {
        "first": lambda one, results: results[0],
        "vote": lambda one, results: parts.majority_vote(results),
        "verifier": lambda one, results: parts.best_of(results, lambda result: float(nines_agree(one, result))),
    }


def share_chosen(asked: Sequence[Sum], results: Sequence[Sequence[int | None]], choose: Choice) -> float:
    return sum(choose(one, some) == one.a + one.b for one, some in zip(asked, results)) / len(asked)


def trained_adder(parts: Any, seed: int, steps: int, each_step: Callable[[], None]) -> Adder:
    """A model that has learned from right answers until ENOUGH of its drawn answers are right, or for so many steps."""
    adder = new_adder(parts, seed)
    optimizer = make_optimizer(adder)
    for step in range(steps):
        step_on_answers(adder, optimizer, seed, step, step / steps)
        each_step()
        if (step + 1) % CHECK_STEPS == 0 and share_right(adder, seed, step, DIGITS) >= ENOUGH:
            break
    return adder


def report_reasoning_compute(chapters: ChapterPackage, seed: int, *, steps: int = 1500) -> Iterator[Table | str]:
    """Lesson 26: what tokens at answering time buy: thinking first, votes, or a verifier.

    A model learns sums of one to four digits, with and without a scratchpad, until 30 % of its answers to sums of
    three digits are right. Then it answers 96 held-out ones at temperature 1. Each row has the same number of tokens
    for a question: "short" is the number of answers without a scratchpad, of 6 tokens, and "thinking" that of answers
    with one, of 18. The verifier compares remainders by 9, which one wrong result in nine passes.
    """
    parts = names_of(*map(chapters.module, CHAPTERS))
    with show_progress("training", steps) as step:
        adder = trained_adder(parts, seed, steps, step)
    asked = list(islice(sums(parts, f"{seed} compute", DIGITS, held_out=True), QUESTIONS))
    drawn = {
        thinks: draw_results(adder, asked, BUDGETS[-1] // _tokens(thinks), thinks, seed) for thinks in (False, True)
    }
    rows = []
    for budget in BUDGETS:
        row = [str(budget)]
        for thinks, results in drawn.items():
            count = budget // _tokens(thinks)
            some = [one[:count] for one in results]
            shares = (share_chosen(asked, some, choices(parts)[name]) for name in ("vote", "verifier"))
            row += [str(count), *(f"{share:.0%}" for share in shares)]
        rows.append(row)
    columns = ("tokens", "short", "vote", "verifier", "thinking", "vote", "verifier")
    yield result_table(f"Right of {QUESTIONS} held-out questions", columns, rows)
    singles = [share_chosen(asked, results, choices(parts)["first"]) for results in drawn.values()]
    yield f"A single answer: {singles[0]:.0%} right without thinking, {singles[1]:.0%} with a scratchpad."


def _tokens(thinks: bool) -> int:
    return RESULT + (SCRATCHPAD if thinks else 0)
