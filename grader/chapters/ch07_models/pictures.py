"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import torch
from grader.teaching.drawing import BADGE, EMPTY, FAINT, FIXED, LEARNED, PLAIN, Colour, card, paint, write
from torch import nn

LEFT, WIDE, LABEL = 44, 176, 232  # the column of parts, and the labels at its right, px
TO_SCALE = 4.4  # px of height for a million parameters


def ch07_diagram(chapter: ModuleType) -> str:
    """Draw GPT-2's parts from its ids to its logits; the area of each is its number of parameters."""
    with torch.device("meta"):
        model = chapter.GPT(chapter.GPTConfig(50257, 1024, 768, 12, 12))
    y = 98.0
    marks = [write(LEFT + WIDE / 2, 66, "ids (B, T)", anchor="middle"), *_arrow(y - 24, y - 4)]
    tall = _height(model.token_emb)
    middle = y + tall / 2
    marks += [_part(LEFT, y, WIDE, tall, LEARNED), *_label(middle - 6, "token_emb", model.token_emb)]
    y += tall + 3
    tall = _height(model.pos_emb)
    marks += [_part(LEFT, y, WIDE, tall, LEARNED), write(LABEL, y + 6, f"pos_emb {_count(model.pos_emb):,}")]
    y += tall + 3
    for number, block in enumerate(model.blocks):
        tall = _height(block)
        share = WIDE * _count(block.attn) / _count(block)
        marks += [_part(LEFT, y, share, tall, FIXED), _part(LEFT + share, y, WIDE - share, tall, PLAIN)]
        if number == 0:
            marks += [write(LEFT + share / 2, y + 20, "attn", anchor="middle")]
            marks += [write(LEFT + (share + WIDE) / 2, y + 20, "ffn", anchor="middle")]
            marks += [write(LABEL, y + 20, f"a block {_count(block):,}")]
        elif number == 5:
            marks += _label(y + 12, "12 blocks", model.blocks)
        y += tall + 2
    marks += [_part(LEFT, y, WIDE, 2, LEARNED), write(LABEL, y + 7, f"ln_f {_count(model.ln_f):,}")]
    y += 24
    marks += [
        f'<rect x="{LEFT}" y="{y:g}" width="{WIDE}" height="26" {paint(EMPTY, LEARNED[1])} stroke-dasharray="4 3"/>'
    ]
    marks += [write(LEFT + WIDE / 2, y + 18, "lm_head", anchor="middle")]
    marks += [write(LABEL, y + 10, "0 of its own: it is"), write(LABEL, y + 28, "token_emb's matrix")]
    tie = f"{LEFT},{y + 13:g} 24,{y + 13:g} 24,{middle:g} {LEFT},{middle:g}"
    marks += [f'<polyline points="{tie}" {paint(None, LEARNED[1])} stroke-width="2" stroke-dasharray="4 3"/>']
    y += 26
    marks += [*_arrow(y + 4, y + 24), write(LEFT + WIDE / 2, y + 42, "logits (B, T, V)", anchor="middle")]
    return card(marks, 390, y + 58, "GPT-2 to scale: 124,439,808 numbers")


def _count(part: nn.Module) -> int:
    return sum(parameter.numel() for parameter in part.parameters())


def _height(part: nn.Module) -> float:
    return round(TO_SCALE * _count(part) / 1e6, 1)


def _part(x: float, y: float, wide: float, tall: float, look: tuple[Colour, Colour]) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{tall:g}" {paint(*look)}/>'


def _label(y: float, name: str, part: nn.Module) -> Iterator[str]:
    yield write(LABEL, y, name)
    yield write(LABEL, y + 18, f"{_count(part):,}", colour=FAINT)


def _arrow(top: float, bottom: float) -> Iterator[str]:
    x = LEFT + WIDE / 2
    yield f'<polyline points="{x:g},{top:g} {x:g},{bottom - 6:g}" {paint(None, BADGE)} stroke-width="2"/>'
    yield f'<polygon points="{x:g},{bottom:g} {x - 4:g},{bottom - 7:g} {x + 4:g},{bottom - 7:g}" {paint(BADGE)}/>'
