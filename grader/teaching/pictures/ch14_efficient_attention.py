"""The picture of lesson 14."""

from __future__ import annotations

from types import ModuleType

from grader.teaching.drawing.palette import BLUES, FAINT, Colour
from grader.teaching.drawing.svg import box, card, write

POSITIONS, BLOCK, WINDOW = 8, 2, 3
CELL, LEFT, TOP, APART = 30, 66, 96, 96
STRIPS = (BLUES[6], BLUES[10], BLUES[14], BLUES[18])  # one colour for each strip
SEEN, COMPUTED = BLUES[16], BLUES[3]


def draw(chapter: ModuleType) -> str:
    """The strips of causal attention, and the keys that the chunks of a window need with those that they see."""
    causal, band = chapter.causal_mask(POSITIONS), chapter.sliding_window_mask(POSITIONS, WINDOW)
    second = LEFT + POSITIONS * CELL + APART
    marks = _table(LEFT, f"causal, strips of {BLOCK} keys")
    for query in range(POSITIONS):
        for key in range(POSITIONS):
            marks.append(_cell(LEFT, query, key, STRIPS[key // BLOCK] if causal[query, key] else COMPUTED))
    marks += _table(second, f"a window of {WINDOW}, chunks of {WINDOW} queries")
    for query in range(POSITIONS):
        start = query // WINDOW * WINDOW  # of the query's chunk
        first, last = max(0, start - WINDOW + 1), min(start + WINDOW, POSITIONS)
        marks += [_cell(second, query, key, SEEN if band[query, key] else COMPUTED) for key in range(first, last)]
    end = TOP + POSITIONS * CELL + 30
    marks += [box(LEFT + 62 * i, end, 16, 16, colour) for i, colour in enumerate(STRIPS)]
    marks += [write(LEFT + 62 * i + 22, end + 13, f"{i + 1}.") for i in range(len(STRIPS))]
    for x, fill, meaning in ((second, SEEN, "computed and seen"), (second + 166, COMPUTED, "computed, masked")):
        marks += [box(x, end, 16, 16, fill), write(x + 24, end + 13, meaning)]
    return card(marks, second + POSITIONS * CELL + 84, end + 36, "Which scores exist at a time")


def _table(left: float, title: str) -> list[str]:
    middle, below = left + POSITIONS * CELL / 2, TOP + POSITIONS * CELL / 2
    names = [write(left - 10, TOP + CELL * (i + 0.5) + 4, str(i), anchor="end", colour=FAINT) for i in range(POSITIONS)]
    names += [write(left + CELL * (i + 0.5), TOP - 10, str(i), anchor="middle", colour=FAINT) for i in range(POSITIONS)]
    return [write(middle, TOP - 34, title, anchor="middle", bold=True), write(left - 34, below, "query", anchor="middle", colour=FAINT, turned=True), *names]


def _cell(left: float, query: int, key: int, fill: Colour) -> str:
    return box(left + CELL * key, TOP + CELL * query, CELL, CELL, fill)
