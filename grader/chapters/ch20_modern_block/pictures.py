"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

import math
from types import ModuleType

import torch
from grader.counts import format_count
from grader.teaching.drawing import CURVES, FAINT, FLOW, INK, LEARNED, box, card, curves, paint, shade, write
from torch import Tensor

D, HEADS, LATENT, ROPE = 16, 4, 6, 2  # of the latent attention that is drawn
CELL = 12
PAIRS, FACTOR, TRAINED = 32, 4.0, 4096  # of the head whose positions are stretched


def ch20_modern_block(chapter: ModuleType) -> str:
    """Draw what one step and several of newton_schulz make of each singular value between 0.001 and 1."""
    values = [10 ** (i / 160 - 3) for i in range(481)]
    lines: dict[str, list[tuple[float, float]]] = {}
    for steps in (1, 3, 5):
        drawn = []
        for value in values:  # beside another one that makes the norm 1
            matrix = torch.diag(torch.tensor([value, math.sqrt(max(1 - value**2, 0.0))], dtype=torch.float64))
            drawn.append((value, float(chapter.newton_schulz(matrix, steps)[0, 0])))
        lines[format_count(steps, "step")] = drawn
    title, looks = "Singular values under newton_schulz", [(2, 2), (1, 1), (0, 0)]
    return curves(lines, title, x_name="singular value before", y_name="after", log_x=True, looks=looks)


def ch20_yarn(chapter: ModuleType) -> str:
    """Draw how much slower each pair of features turns with yarn_angles, over its full turns in the trained length."""
    one = torch.tensor([1])
    (plain, _), (stretched, _) = (chapter.yarn_angles(one, 2 * PAIRS, factor, TRAINED) for factor in (1.0, FACTOR))
    turns = (TRAINED * plain[0] / (2 * math.pi)).tolist()
    shares = (stretched / plain)[0].tolist()
    low, high = 1 / FACTOR, 1.0
    lines = {
        "each pair": list(zip(turns, shares)),
        "yarn_angles": list(zip(turns, shares)),
        "32 turns (fast)": [(32.0, low), (32.0, high)],
        "1 turn (slow)": [(1.0, low), (1.0, high)],
    }
    title = "New speed of each pair of features, for texts four times as long"
    x_name, y_name = "full turns in the 4,096 trained positions", "new speed / old speed"
    looks = [(0, 0), (0, 0), (1, 1), (2, 2)]
    return curves(lines, title, x_name=x_name, y_name=y_name, log_x=True, looks=looks, dots=["each pair"])


def ch20_latent(chapter: ModuleType) -> str:
    """Draw what LatentAttention caches of one position, and the keys and values of all heads that are made of it."""
    draws = torch.Generator().manual_seed(0)
    attention = chapter.LatentAttention(D, HEADS, LATENT, ROPE)
    for weight in attention.parameters():
        if weight.dim() == 2:
            weight.data = torch.randn(weight.shape, generator=draws) / math.sqrt(weight.size(1))
    x = torch.randn(1, 1, D, generator=draws)
    c = attention.norm(attention.W_down(x))
    shared = chapter.apply_rope(attention.W_rope(x), torch.tensor([3]))[0, 0]
    keys, values = ((chapter.split_heads(part(c), HEADS))[0, :, 0] for part in (attention.W_up_k, attention.W_up_v))
    latent, head = c[0, 0], D // HEADS
    marks, left, top, gap = [], 20, 86, 74
    c_at, shared_at = left + 260, left + 400
    marks.append(write(left, top + 11, "in the cache", bold=True))
    for at, vector, name in ((c_at, latent, "c"), (shared_at, shared, "rotated key")):
        marks += _cells(at, top, vector)
        marks.append(write(at + CELL * len(vector) / 2, top - 8, name, "middle", FAINT))
    step = (ROPE + 2 * head + 3) * CELL + 2
    for number in range(HEADS):
        at, y = left + number * step, top + gap
        key_at, rotated_at, value_at = at, at + head * CELL + 3, at + (head + ROPE + 1) * CELL
        marks.append(write(at, y + 16, f"head {number}", bold=True))
        for place, vector, name in ((key_at, keys[number], "key"), (value_at, values[number], "value")):
            marks.append(write(place, y + 36, name, colour=FAINT))
            marks += _cells(place, y + 42, vector)
        marks += _cells(rotated_at, y + 42, shared)
        start, end = (c_at + LATENT * CELL / 2, top + CELL + 4), (at + (head + ROPE) * CELL / 2, y + 2)
        ends = f'x1="{start[0]:g}" y1="{start[1]:g}" x2="{end[0]:g}" y2="{end[1]:g}"'
        marks.append(f'<line {ends} {paint(None, FLOW)} stroke-width="1.2"/>')
    made = f"{HEADS} · ({head} + {head}) are made of c"
    said = f"{LATENT} + {ROPE} numbers are kept; {made}; all heads share the rotated key"
    y = top + gap + 82
    marks.append(write(left, y, said, colour=FAINT))
    wide = 4 * step - 2 * CELL
    marks.append(write(left, y + 38, "DeepSeek-V3, numbers in the cache for a position and a layer:", bold=True))
    bars = (("keys and values of 128 heads", 2 * 128 * 128, CURVES[1]), ("c and the rotated key", 512 + 64, LEARNED[1]))
    for row, (name, count, colour) in enumerate(bars):
        at = y + 52 + 44 * row
        marks.append(f'<rect x="{left}" y="{at}" width="{wide * count / 32768:.1f}" height="16" {paint(colour)}/>')
        marks.append(write(left, at + 32, f"{name}: {count:,}", colour=INK))
    return card(marks, left + wide + 40, y + 152, "Latent attention: one vector, and what is made of it")


def _cells(x: float, y: float, vector: Tensor) -> list[str]:
    """Draw a vector as a row of coloured squares, orange below zero and indigo above, in a frame."""
    marks = []
    for i, value in enumerate(vector.tolist()):
        place = f'x="{x + i * CELL:g}" y="{y:g}" width="{CELL}" height="{CELL}"'
        marks.append(f"<rect {place} {paint(shade(round(value, 3), -2.0, 2.0))}/>")
    return [*marks, box(x, y, len(vector) * CELL, CELL, None)]
