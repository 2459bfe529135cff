"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

from types import ModuleType

from grader.teaching.drawing import CURVES, EMPTY, FAINT, box, card, text_on, write

TOKENS, SEATS = (6, 2, 3, 1, 4, 2, 5, 1), 3  # the tokens that each request needs
LEFT, STEP, TALL = 74, 23, 30  # where step 0 begins, the width of a step, the height of a seat


def ch15_diagram(chapter: ModuleType) -> str:
    """Draw which request has which seat at each step, with fixed batches and with continuous batching."""
    plans: list[list[list[int]]] = [[], chapter.continuous_batches([(0, need) for need in TOKENS], SEATS)]
    for first in range(0, len(TOKENS), SEATS):
        batch = [(0, need) for need in TOKENS[first : first + SEATS]]
        plans[0] += [[first + number for number in step] for step in chapter.continuous_batches(batch, SEATS)]
    names = ("One batch after the other", "Continuous batching")
    marks = [write(20, 58, "each column is one pass, with ids (B, T)", colour=FAINT, size=15)]
    top = 96
    for name, plan in zip(names, plans):
        marks.append(write(20, top - 4, f"{name}: {len(plan)} passes", size=15, bold=True))
        for seat in range(SEATS):
            y = top + 8 + TALL * seat
            marks.append(write(LEFT - 8, y + 20, f"seat {seat}", anchor="end", size=15))
            marks.append(box(LEFT, y, STEP * len(plan), TALL, EMPTY))
        for number, (seat, start) in _seats(plan).items():
            x, y, colour = LEFT + STEP * start, top + 8 + TALL * seat, CURVES[number % len(CURVES)]
            wide = STEP * TOKENS[number]
            marks.append(box(x, y, wide, TALL, colour))
            label = write(
                x + wide / 2, y + 20, str(number), anchor="middle", colour=text_on(colour), size=15, bold=True
            )
            marks.append(label)
        top += SEATS * TALL + 62
    return card(marks, 440, top - 34, f"{len(TOKENS)} requests, {SEATS} seats")


def _seats(plan: list[list[int]]) -> dict[int, tuple[int, int]]:
    """Return the seat of each request and the step at which it begins; a new request takes the first empty seat."""
    places: dict[int, tuple[int, int]] = {}
    for step, seated in enumerate(plan):
        taken = {places[number][0] for number in seated if number in places}
        empty = [seat for seat in range(SEATS) if seat not in taken]
        for number in seated:
            if number not in places:
                places[number] = (empty.pop(0), step)
    return places
