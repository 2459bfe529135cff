"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

import math
from types import ModuleType

import torch
from grader.teaching.drawing import CURVES, EMPTY, FAINT, INK, LEARNED, LINE, card, heatmap, paint, text_width, write

FIVE_WORDS = {"mat": 0.4, "rug": 0.3, "sofa": 0.15, "roof": 0.1, "moon": 0.05}  # with their probabilities
LEFT, WIDE, TALL = 24, 342, 34  # the strip of all probabilities, px
P = 0.75


def ch09_sampling(chapter: ModuleType) -> str:
    """Draw the lesson's five words at three temperatures, each without a filter and with three filters."""
    rows = {}
    for temperature in (0.5, 1.0, 2.0):
        logits = chapter.apply_temperature(torch.tensor(list(FIVE_WORDS.values())).log(), temperature)
        name = f"temperature {temperature:g}"
        rows[name] = logits
        rows[f"k = 2, {name}"] = chapter.top_k_filter(logits, 2)
        rows[f"p = 0.75, {name}"] = chapter.top_p_filter(logits, 0.75)
        rows[f"min_p = 0.3, {name}"] = chapter.min_p_filter(logits, 0.3)
    table = torch.stack([torch.softmax(row, -1).masked_fill(row == -math.inf, torch.nan) for row in rows.values()])
    return heatmap(table, list(rows), list(FIVE_WORDS), "The probability of each next word", column_name="word")


def ch09_diagram(chapter: ModuleType) -> str:
    """Draw the five words as shares of a strip at three temperatures, and which of them a nucleus of 0.75 keeps."""
    marks = [write(20, 56, "Softmax of one row of the logits (..., V)", colour=FAINT)]
    cut = LEFT + WIDE * P
    top = 84
    for number, temperature in enumerate((0.5, 1.0, 2.0)):
        y = top + 76 * number
        logits = chapter.apply_temperature(torch.tensor(list(FIVE_WORDS.values())).log(), temperature)
        kept = (chapter.top_p_filter(logits, P) > -math.inf).tolist()
        marks += [write(20, y + 8, f"temperature {temperature:g}", bold=True)]
        before = 0.0
        for word, share, stays in zip(FIVE_WORDS, logits.softmax(-1).tolist(), kept):
            x, width = LEFT + WIDE * before, WIDE * share
            look = (LEARNED[0], LEARNED[1]) if stays else (EMPTY, LINE)
            marks += [f'<rect x="{x:.1f}" y="{y + 18}" width="{width:.1f}" height="{TALL}" {paint(*look)}/>']
            if width > text_width(word, 13) + 2:
                marks += [write(round(x + width / 2, 1), y + 40, word, anchor="middle", colour=INK if stays else FAINT)]
            before += share
        for tick in (y + 10, y + 52):
            line = f'<line x1="{cut:g}" y1="{tick}" x2="{cut:g}" y2="{tick + 8}"'
            marks += [f'{line} {paint(None, CURVES[1])} stroke-width="2.4"/>']
    y = top + 76 * 3
    marks += [write(LEFT, y, "0", anchor="middle"), write(cut, y, "p = 0.75", anchor="middle")]
    marks += [write(LEFT + WIDE, y, "1", anchor="middle")]
    return card(marks, 390, y + 20, "One random number picks a word")
