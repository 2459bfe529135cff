"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

from types import ModuleType

import torch
from grader.teaching.drawing import CURVES, FAINT, LINE, card, curves, paint, write
from torch import Tensor

BARS, WIDE, AXIS, SIGNED = (
    92,
    160,
    318,
    52,
)  # left end and width of probability 1; the gradients' zero and their width, px


def ch08_training(chapter: ModuleType) -> str:
    warmup, total, peak, floor = 100, 1000, 1.0, 0.1
    cosine = [(step, chapter.warmup_cosine(step, warmup, total, peak, floor)) for step in range(0, total + 201, 10)]
    straight = [(0, 0.0), (warmup, peak), (total, floor), (total + 200, floor)]
    lines, title = {"warmup_cosine": cosine, "straight lines": straight}, "The learning rate, as a share of its peak"
    return curves(lines, title, x_name="step", y_name="learning rate / peak")


def ch08_diagram(chapter: ModuleType) -> str:
    """Draw four probabilities before and after one step against the gradient of the lesson's loss."""
    target = torch.tensor([[1]])
    with torch.enable_grad():
        logits = torch.tensor([[[2.0, 1, 0, -1]]], dtype=torch.float64, requires_grad=True)
        loss = chapter.cross_entropy(logits, target)
        loss.backward()
    after = logits.detach() - logits.grad
    before, gradient = logits.detach().softmax(-1)[0, 0].tolist(), logits.grad[0, 0].tolist()
    new, new_loss = after.softmax(-1)[0, 0].tolist(), chapter.cross_entropy(after, target)
    blue, orange, green = CURVES[:3]
    marks = [write(20, 56, "One position of the logits (B, T, V)", colour=FAINT)]
    marks += [write(BARS, 86, "probability"), write(AXIS, 86, "gradient", anchor="middle")]
    marks += [f'<line x1="{AXIS}" y1="96" x2="{AXIS}" y2="330" {paint(None, LINE)}/>']
    for word, name in enumerate(("1st", "2nd", "3rd", "4th")):
        y = 102 + 58 * word
        marks += [write(20, y + 26, name, bold=word == 1)]
        for row, (share, colour) in enumerate(((before[word], blue), (new[word], green))):
            marks += [f'<rect x="{BARS}" y="{y + 23 * row}" width="{WIDE * share:.1f}" height="18" {paint(colour)}/>']
            marks += [write(BARS + WIDE * share + 6, y + 23 * row + 14, f"{share:.3f}")]
        slope = gradient[word]
        left = AXIS + min(0.0, SIGNED * slope)
        marks += [f'<rect x="{left:.1f}" y="{y + 4}" width="{SIGNED * abs(slope):.1f}" height="14" {paint(orange)}/>']
        marks += [write(AXIS, y + 38, f"{slope:.3f}", anchor="middle")]
    for x, colour, text in (
        (20, blue, f"before: loss {_rounded(loss)}"),
        (200, green, f"after: loss {_rounded(new_loss)}"),
    ):
        marks += [f'<rect x="{x}" y="348" width="14" height="14" {paint(colour)}/>', write(x + 22, 360, text)]
    return card(marks, 390, 380, "One step: the 2nd word came next")


def _rounded(loss: Tensor) -> str:
    return f"{loss.item():.3f}"
