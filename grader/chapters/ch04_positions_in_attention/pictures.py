"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

import math
from types import ModuleType

import torch
from grader.teaching.drawing import CURVES, FAINT, LINE, card, curves, paint, write


def ch04_positions_in_attention(chapter: ModuleType) -> str:
    """Draw the weight of a key at each distance, relative to distance 0: three heads with ALiBi, one with RoPE."""
    farthest, d_head = 32, 8
    distances = torch.arange(farthest + 1)
    bias = chapter.alibi_bias(4, 1, farthest + 1)[:, 0].flip(-1)  # by distance, nearest first
    lines = {f"ALiBi, slope 1/{round(-1 / float(bias[head, 1]))}": bias[head] for head in (0, 1, 2)}
    vector = torch.ones(1, d_head)
    keys = chapter.apply_rope(vector.expand(farthest + 1, d_head), -distances)
    scores = (chapter.apply_rope(vector, torch.tensor([0])) @ keys.T)[0] / math.sqrt(d_head)
    lines["RoPE, 8 features"] = scores - scores[0]
    points = {name: [(int(d), math.exp(float(s))) for d, s in zip(distances, line)] for name, line in lines.items()}
    title, y_name = "The weight of a key by its distance", "weight relative to distance 0"
    return curves(points, title, x_name="distance from the query", y_name=y_name)


def ch04_rotations(chapter: ModuleType) -> str:
    """Draw the query (2, 1) and the key (1, 1) of the worked example, rotated for three pairs of positions."""
    query, key, unit, wide, top = torch.tensor([[2.0, 1.0]]), torch.tensor([[1.0, 1.0]]), 34, 190, 50
    marks: list[str] = []
    for number, (m, n) in enumerate(((3, 1), (7, 5), (102, 100))):
        x0, y0 = 20 + wide * (number + 0.5), top + 2.6 * unit
        for axis in ((2.5, 0), (0, 2.5)):
            across, down = axis[0] * unit, axis[1] * unit
            ends = f'x1="{x0 - across:g}" y1="{y0 - down:g}" x2="{x0 + across:g}" y2="{y0 + down:g}"'
            marks.append(f"<line {ends} {paint(None, LINE)}/>")
        arrows = [chapter.apply_rope(one, torch.tensor([at]))[0] for one, at in ((query, m), (key, n))]
        for arrow, colour in zip(arrows, CURVES):
            x, y = round(x0 + unit * float(arrow[0]), 1), round(y0 - unit * float(arrow[1]), 1)
            ends = f'x1="{x0:g}" y1="{y0:g}" x2="{x:g}" y2="{y:g}"'
            marks.append(f'<line {ends} {paint(None, colour)} stroke-width="3"/>')
            marks.append(f'<circle cx="{x:g}" cy="{y:g}" r="5" {paint(colour)}/>')
        score = float(arrows[0] @ arrows[1])
        marks.append(write(x0, y0 + 2.6 * unit + 18, f"query at {m}, key at {n}", "middle"))
        marks.append(write(x0, y0 + 2.6 * unit + 38, f"dot product {score:.2f}", "middle", FAINT))
    y = top + 5.2 * unit + 68
    for number, name in enumerate(("query (2, 1), rotated", "key (1, 1), rotated")):
        marks.append(f'<circle cx="{150 + 190 * number}" cy="{y - 4:g}" r="5" {paint(CURVES[number])}/>')
        marks.append(write(162 + 190 * number, y, name))
    title = "RoPE: other positions, the same distance, the same score"
    return card(marks, 40 + 3 * wide, y + 20, title)
