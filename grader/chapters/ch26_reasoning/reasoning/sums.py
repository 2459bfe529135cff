"""Sums of two numbers as text: `57+68=`, and answers with and without a scratchpad.

An answer is what is thought, then `>`, then the result, then the end: `78055612>125.` The scratchpad has four digits
for each place, from the last place to the first: the digits of both numbers, the carry from the place before, and the
digit of the sum. Here 7 + 8 + 0 ends in 5, and 5 + 6 + 1 ends in 2. Without a scratchpad, the same answer is `>125.`

A model that has seen both kinds of answers uses both. Whether a question is held out depends on its text alone, so that
no question is both trained on and tested.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

SYMBOLS = "0123456789+=>."
END_THINK, END = SYMBOLS.index(">"), SYMBOLS.index(".")
DIGITS = 3  # of the numbers in most right answers
NEW_DIGITS = DIGITS + 1  # of those in the questions for rewards
NEW_SHARE = 0.2  # of the right answers, with NEW_DIGITS digits
STRAIGHT_SHARE = 0.2  # of the right answers, without a scratchpad
USUAL_TOKENS = 4 * NEW_DIGITS + 1 + (NEW_DIGITS + 1) + 1  # of an answer with a scratchpad and its end, at most
MOST_TOKENS = 36  # of any answer


class Sum(NamedTuple):
    a: int
    b: int
    digits: int  # of both numbers

    @property
    def question(self) -> str:
        return f"{self.a}+{self.b}="

    @property
    def scratchpad(self) -> str:
        written, carry = [], 0
        for x, y in zip(reversed(str(self.a)), reversed(str(self.b))):
            total = int(x) + int(y) + carry
            written.append(f"{x}{y}{carry}{total % 10}")
            carry = total // 10
        return "".join(written)

    def answer(self, thinks: bool) -> str:
        """A right answer, with its end."""
        return f"{self.scratchpad if thinks else ''}>{self.a + self.b}."


def encode(text: str) -> list[int]:
    return [SYMBOLS.index(symbol) for symbol in text]


def decode(ids: Sequence[int]) -> str:
    return "".join(SYMBOLS[i] for i in ids)


def sums(parts: Any, seed: str, digits: int | None = None, held_out: bool = False) -> Iterator[Sum]:
    """Endless sums that are held out, or that are not. Without `digits`, those of the right answers: most have one to
    DIGITS digits, and one in five has NEW_DIGITS."""
    draw = random.Random(seed)
    while True:
        length = digits or (NEW_DIGITS if draw.random() < NEW_SHARE else draw.randint(1, DIGITS))
        least = 10 ** (length - 1) if length > 1 else 0
        one = Sum(draw.randrange(least, 10**length), draw.randrange(least, 10**length), length)
        if length == 1 or bool(parts.is_validation(one.question)) == held_out:
            yield one


def grade(parts: Any, one: Sum, text: str, ended: bool) -> float:
    """1.0 if the answer ends by itself and its result is right, and 0.0 if not."""
    _, mark, result = text.rpartition(">")
    return float(parts.grade_answer(result, one.a + one.b)) if ended and mark else 0.0
