"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from grader.teaching.drawing import BLUES, BOTH_SIGNS, EMPTY, FAINT, LINE, Colour, card, paint, write

CELL, LEFT, GAP = 15, 24, 24  # px
NEW, AGAIN, MASKED = BLUES[12], BOTH_SIGNS[6], EMPTY
PROMPT, PASSES = 5, 3


def ch10_diagram(chapter: ModuleType) -> str:
    """Draw the scores of each pass that writes three tokens after five, without and with a cache."""
    marks: list[str] = []
    totals: list[int] = []
    for cached, top in ((False, 78), (True, 278)):
        x, total, past = LEFT, 0, 0
        for number in range(PASSES):
            length = PROMPT + number
            rows = length - past if cached else length
            marks += _scores(chapter, x, top, rows, length, length - 1 if number and not cached else 0)
            below = top + CELL * rows + 18
            marks += [write(x, below, f"pass {number + 1}:", colour=FAINT), write(x, below + 18, f"{rows} x {length}")]
            x += CELL * length + GAP
            total += rows * length
            past = length
        totals.append(total)
        name = "With a cache: (T, P + T)" if cached else "Without a cache: (T, T)"
        marks += [write(20, top - 14, name, bold=True), write(370, top - 14, f"{total} scores", anchor="end")]
    for x, colour, text in ((24, NEW, "new"), (104, AGAIN, "computed again"), (254, MASKED, "masked")):
        marks += [_cell(x, 412, colour), write(x + 22, 425, text)]
    return card(marks, 390, 444, "Scores of three passes, after 5 tokens")


def _scores(chapter: ModuleType, x: float, y: float, rows: int, columns: int, known: int) -> Iterator[str]:
    """Draw a table of scores, a row for each query; the first `known` rows were computed in an earlier pass."""
    for row, allowed in enumerate(chapter.causal_mask(rows, columns).tolist()):
        for column, may_attend in enumerate(allowed):
            colour = MASKED if not may_attend else AGAIN if row < known else NEW
            yield _cell(x + CELL * column, y + CELL * row, colour)


def _cell(x: float, y: float, colour: Colour) -> str:
    return f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" {paint(colour, LINE)}/>'
