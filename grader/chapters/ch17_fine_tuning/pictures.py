"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

import math
from types import ModuleType

import torch
from grader.teaching.drawing import FAINT, INK, box, card, curves, paint, shade, write
from torch import Tensor, nn

WIDTH, RANK, STEPS = 12, 2, 300


def ch17_fine_tuning(chapter: ModuleType) -> str:
    """Draw the objective of one token for both signs of the advantage, and what it would be without clipping."""
    ratios = [i / 20 for i in range(5, 36)]
    lines: dict[str, list[tuple[float, float]]] = {}
    for advantage in (1.0, -1.0):
        drawn = []
        for ratio in ratios:
            log_probs, mask = torch.tensor([[math.log(ratio)]]), torch.ones(1, 1, dtype=torch.bool)
            loss = chapter.policy_loss(log_probs, torch.zeros(1, 1), torch.tensor([advantage]), mask)
            drawn.append((ratio, -float(loss)))
        lines[f"advantage {advantage:g}"] = drawn
        lines[f"{advantage:g}, not clipped"] = [(ratio, ratio * advantage) for ratio in ratios]
    title = "The objective of one token, clipped at 0.8 and 1.2"
    looks = [(0, 0), (0, 2), (1, 0), (1, 2)]
    return curves(lines, title, x_name="ratio", y_name="objective", looks=looks)


def ch17_lora(chapter: ModuleType) -> str:
    """Draw a frozen weight, the two thin matrices of a trained adapter, their product, and the merged weight."""
    draws = torch.Generator().manual_seed(0)
    layer = nn.Linear(WIDTH, WIDTH, bias=False)
    layer.weight.data = torch.randn(WIDTH, WIDTH, generator=draws) / 3
    change = torch.randn(WIDTH, RANK, generator=draws) @ torch.randn(RANK, WIDTH, generator=draws) / 3
    wanted = layer.weight + change
    adapter = chapter.LoRALinear(layer, RANK, float(RANK))
    adapter.A.data = torch.randn(RANK, WIDTH, generator=draws) / math.sqrt(WIDTH)
    with torch.enable_grad():
        for _ in range(STEPS):
            loss = (adapter(torch.eye(WIDTH)).T - wanted).square().mean()
            for thin, gradient in zip((adapter.A, adapter.B), torch.autograd.grad(loss, (adapter.A, adapter.B))):
                thin.data -= 4 * gradient
    cell, left, top = 13, 20, 116
    side = cell * WIDTH
    b_at = left + side + 44
    product_at = b_at + RANK * cell + 10
    merged_at = product_at + side + 44
    whole = [
        (left, top, adapter.linear.weight, "W, frozen", f"{WIDTH} · {WIDTH} = {WIDTH**2} numbers"),
        (b_at, top, adapter.B, "B", ""),
        (product_at, top - RANK * cell - 10, adapter.A, "", ""),
        (product_at, top, adapter.B @ adapter.A, "", "B A, the change"),
        (merged_at, top, adapter.merged().weight, "merged", "one matrix, as fast as W"),
    ]
    marks = []
    for x, y, values, above, below in whole:
        marks += [*_cells(x, y, cell, values)]
        middle = x + cell * values.size(1) / 2
        if above:
            marks.append(write(middle, y - 10, above, "middle", INK))
        if below:
            marks.append(write(middle, y + cell * values.size(0) + 20, below, "middle", FAINT))
    marks.append(write(product_at + side + 10, top - RANK * cell / 2 - 5, "A", "start", INK))
    for x, sign in ((left + side + 22, "+"), (product_at + side + 22, "=")):
        marks.append(write(x, top + side / 2 + 6, sign, "middle", INK, 20))
    said = f"A and B, trained: {RANK} · ({WIDTH} + {WIDTH}) = {2 * RANK * WIDTH} numbers"
    marks.append(write(left, top + side + 54, said, colour=INK))
    more = "SmolLM2's query layer: 331,776 numbers in W, 9,216 in A and B of rank 8"
    marks.append(write(left, top + side + 76, more, colour=FAINT))
    return card(marks, merged_at + side + left, top + side + 94, "An adapter of rank 2 beside a layer")


def _cells(x: float, y: float, cell: int, values: Tensor) -> list[str]:
    """Draw a matrix as coloured squares, orange below zero and indigo above, in a frame."""
    largest, marks = 1.2, []
    for r, row in enumerate(values.tolist()):
        for c, value in enumerate(row):
            place = f'x="{x + c * cell:g}" y="{y + r * cell:g}" width="{cell}" height="{cell}"'
            marks.append(f"<rect {place} {paint(shade(round(value, 3), -largest, largest))}/>")
    return [*marks, box(x, y, values.size(1) * cell, values.size(0) * cell, None)]
