"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

from types import ModuleType

import torch
from grader.teaching.drawing import CURVES, FAINT, LINE, Colour, card, paint, write

SUMS, VALUES = [1.0, 2.0, 3.0, 6.0], [4.0, 8.0, 0.0, 2.0]  # of the four keys of the worked example
LEFT, UNIT, ROWS = 92, 34, (150, 276, 412)  # where the value 0 is, the width of 1, the height of each row


def ch14_diagram(chapter: ModuleType) -> str:
    """Draw the merging of two strips as a balance: each circle has the area e^lse and is at its output."""
    scores, values = (
        torch.tensor(SUMS, dtype=torch.float64).log()[:, None],
        torch.tensor(VALUES, dtype=torch.float64)[:, None],
    )
    query = torch.ones(1, 1, dtype=torch.float64)
    strips = [chapter.attention_with_lse(query, scores[part], values[part]) for part in (slice(0, 2), slice(2, 4))]
    merged = chapter.merge_attention(*strips[0], *strips[1])
    circles = [
        [(*one, CURVES[number // 2]) for number, one in enumerate(zip(VALUES, SUMS))],
        [(float(output), float(lse.exp()), CURVES[number]) for number, (output, lse) in enumerate(strips)],
        [(float(merged[0]), float(merged[1].exp()), CURVES[2])],
    ]
    marks = [
        write(20, 58, "area: e^lse, with lse (..., Tq)", colour=FAINT, size=15),
        write(20, 80, "place: output (..., Tq, d_v)", colour=FAINT, size=15),
        *(_line(LEFT, y, LEFT + 8 * UNIT, y, LINE, 1) for y in ROWS),
    ]
    for upper, lower, y in ((0, 1, ROWS[0]), (1, 2, ROWS[1])):
        for number, (place, total, colour) in enumerate(circles[upper]):
            target = circles[lower][number * len(circles[lower]) // len(circles[upper])]
            end = ROWS[lower] - _radius(target[1])
            marks.append(_line(_x(place), y + _radius(total), _x(target[0]), end, colour, 1.5))
    for row, y in zip(circles, ROWS):
        for place, total, colour in row:
            marks.append(f'<circle cx="{_x(place):.1f}" cy="{y}" r="{_radius(total):.1f}" {paint(colour)}/>')
    for number, (row, y) in enumerate(zip(circles, ROWS)):
        marks.append(write(20, y + 5, ("keys", "strips", "all")[number], size=15))
        for place, total, _ in row:
            label, radius = f"{total:.0f} at {place:.3g}", _radius(total)
            if number == 0:
                marks.append(write(round(_x(place), 1), y - 27, label, anchor="middle", size=15, bold=True))
            else:
                marks.append(write(round(_x(place) + radius + 6, 1), y - 10, label, size=15, bold=True))
    mean = sum(float(output) for output, _ in strips) / 2
    marks.append(f'<circle cx="{_x(mean):.1f}" cy="{ROWS[2]}" r="7" {paint(None, FAINT)} stroke-width="2"/>')
    marks.append(write(round(_x(mean) + 14, 1), ROWS[2] + 22, f"average {mean:.3g}: wrong", colour=FAINT, size=15))
    return card(marks, 440, ROWS[2] + 50, "Merging two strips is a balance")


def _x(value: float) -> float:
    return LEFT + UNIT * value


def _radius(total: float) -> float:
    return 7.5 * total**0.5


def _line(x1: float, y1: float, x2: float, y2: float, colour: Colour, width: float) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} {paint(None, colour)} stroke-width="{width}"/>'
