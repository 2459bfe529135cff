"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

import math
from types import ModuleType

import torch
from grader.teaching.drawing import FAINT, box, card, heatmap, shade, text_on, write
from torch import Tensor

TEXT = ("the", "crane", "saw", "a", "frog", ".", "it", "flew", "away", ".")
FACTORS = {".": 0.2}  # by which a state is multiplied at these words
OTHER_FACTOR = 0.9

COLOURS = ("grey", "green", "white")
CRANE, FROG = (0.6, 0.8), (0.8, -0.6)
PAIRS = ((CRANE, "grey"), (FROG, "green"), (CRANE, "white"))
WIDE, TALL, GAP, LEFT, TOP = 54, 32, 74, 92, 112


def ch22_recurrent(chapter: ModuleType) -> str:
    """Draw what is left of each word of a text at each later one: the exponentials of segment_sums."""
    log_decay = torch.tensor([math.log(FACTORS.get(word, OTHER_FACTOR)) for word in TEXT], dtype=torch.float64)
    left = chapter.segment_sums(log_decay).exp()
    left = left.masked_fill(left == 0, math.nan)  # later words stay empty
    title = "What is left of each word: factor 0.9 at a word, 0.2 at a full stop"
    return heatmap(left, TEXT, TEXT, title, row_name="read at", column_name="what is left of")


def ch22_replace(chapter: ModuleType) -> str:
    """Draw the state before the crane turns white, and afterwards: with a sum, and with the delta rule."""
    keys = torch.tensor([key for key, _ in PAIRS], dtype=torch.float64)[None, None]
    values = torch.eye(len(COLOURS), dtype=torch.float64)[[COLOURS.index(colour) for _, colour in PAIRS]][None, None]
    whole, nothing = torch.ones(1, 1, len(PAIRS)).double(), torch.zeros(1, 1, len(PAIRS)).double()
    two = [each[:, :, :2] for each in (keys, keys, values, whole)]
    states = {
        "crane grey, frog green": chapter.delta_rule(*two)[1],
        "crane white, added": chapter.decayed_attention_chunked(keys, keys, values, nothing, 2)[1],
        "crane white, delta rule": chapter.delta_rule(keys, keys, values, whole)[1],
    }
    marks = [write(20, TOP + TALL - 2, "state"), write(20, TOP + 3 * TALL + 8, "crane asks")]
    for place, (name, state) in enumerate(states.items()):
        x = LEFT + 12 + place * (len(COLOURS) * WIDE + GAP - 20)
        middle = x + len(COLOURS) * WIDE / 2
        marks.append(write(middle, TOP - 38, name, "middle", bold=True))
        for column, colour in enumerate(COLOURS):
            marks.append(write(x + (column + 0.5) * WIDE, TOP - 10, colour, "middle", FAINT))
        marks += _cells(x, TOP, state[0, 0])
        marks += _cells(x, TOP + 2 * TALL + 24, (keys[0, 0, :1] @ state[0, 0]))
    width = LEFT + 3 * (len(COLOURS) * WIDE + GAP - 20)
    return card(marks, width, TOP + 3 * TALL + 44, "The crane turns white: adding a pair, and replacing one")


def _cells(x: float, y: float, values: Tensor) -> list[str]:
    marks = []
    for r, row in enumerate(values.tolist()):
        for c, value in enumerate(row):
            fill, left, top = shade(round(value, 3), -1.0, 1.0), x + c * WIDE, y + r * TALL
            number = f"{round(value, 2) + 0.0:g}"
            marks += [box(left, top, WIDE, TALL, fill)]
            marks.append(write(left + WIDE / 2, top + TALL / 2 + 4, number, "middle", text_on(fill)))
    return marks
