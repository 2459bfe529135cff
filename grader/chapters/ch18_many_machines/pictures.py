"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

import math
from types import ModuleType

import torch
from grader.execution.simulated_group import Group, run_ranks
from grader.teaching.drawing import EMPTY, FAINT, FLOW, INK, LEARNED, box, card, paint, write
from torch import Tensor

RANKS = 3
START = torch.tensor([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0], [100.0, 200.0, 300.0]])
PLACES = ((145, 46), (233, 132), (57, 132))  # the middle of each rank's numbers, in a panel
CELL, TALL = 38, 26


class Noting:
    """A group that keeps what its rank sends."""

    def __init__(self, group: Group) -> None:
        self.group, self.rank, self.size = group, group.rank, group.size
        self.sent: list[float] = []

    def send(self, t: Tensor, to: int) -> None:
        self.sent.append(float(t))
        self.group.send(t, to)

    def receive(self, shape: tuple[int, ...], source: int) -> Tensor:
        return self.group.receive(shape, source)


def ch18_ring(chapter: ModuleType) -> str:
    """Draw three ranks as a ring: what each sends in the four steps of ring_all_reduce, and what it has afterwards."""

    def run(group: Group) -> list[float]:
        noting = Noting(group)
        total = chapter.ring_all_reduce(START[group.rank].clone(), noting)
        assert torch.equal(total, START.sum(0))
        return noting.sent

    sent, _ = run_ranks(run, RANKS)
    numbers, done, marks = START.tolist(), START.sum(0).tolist(), []
    for step in range(2 * (RANKS - 1)):
        adds = step < RANKS - 1
        left, top = 15 + 300 * (step % 2), 50 + 190 * (step // 2)
        changed = []
        for rank in range(RANKS):  # the part that a rank sends in this step, and what its neighbour does with it
            part = (rank - step) % RANKS if adds else (rank + 1 - (step - RANKS + 1)) % RANKS
            changed.append(((rank + 1) % RANKS, part, sent[rank][step]))
        for to, part, number in changed:
            numbers[to][part] = numbers[to][part] + number if adds else number
        marks.append(write(left + 5, top + 16, f"step {step + 1}", bold=True))
        marks.append(write(left + 5, top + 34, "adds" if adds else "replaces", colour=FAINT))
        new = {(to, part) for to, part, _ in changed}
        marks += _ring(left, top, numbers, done, new, sent, step)
    x, y = 20, 50 + 2 * 190 + 8
    marks += [box(x, y, 22, 16, LEARNED[0]), write(x + 30, y + 13, "a finished sum")]
    marks.append(f'<rect x="{x + 160}" y="{y}" width="22" height="16" {_edge()}/>')
    marks.append(write(x + 190, y + 13, "changed in this step"))
    return card(marks, 625, y + 34, "A sum around a ring of three ranks")


def _ring(
    left: float,
    top: float,
    numbers: list[list[float]],
    done: list[float],
    new: set[tuple[int, int]],
    sent: list[list[float]],
    step: int,
) -> list[str]:
    """Draw one step: each rank's three numbers after it, and arrows with the numbers that were sent."""
    marks, edges = [], []
    for rank, (x, y) in enumerate(PLACES):
        for part, number in enumerate(numbers[rank]):
            at = left + x + (part - RANKS / 2) * CELL, top + y
            marks.append(box(*at, CELL, TALL, LEARNED[0] if number == done[part] else EMPTY))
            marks.append(write(at[0] + CELL / 2, at[1] + 18, f"{number:g}", "middle", INK))
            if (rank, part) in new:
                edges.append(f'<rect x="{at[0]:g}" y="{at[1]:g}" width="{CELL}" height="{TALL}" rx="3" {_edge()}/>')
        marks.append(write(left + x, top + y + (-8 if rank == 0 else TALL + 16), f"rank {rank}", "middle", FAINT))
    arrows = (((190, 78), (226, 126)), ((172, 145), (118, 145)), ((64, 126), (100, 78)))
    labels = ((222, 98, "start"), (145, 138, "middle"), (68, 98, "end"))
    for rank, (start, end) in enumerate(arrows):
        marks += _arrow(left, top, start, end)
        x, y, anchor = labels[rank]
        marks.append(write(left + x, top + y, f"{sent[rank][step]:g}", anchor, INK, bold=True))
    return [*marks, *edges]


def _edge() -> str:
    return paint(None, LEARNED[1]) + ' stroke-width="2.5"'


def _arrow(left: float, top: float, start: tuple[float, float], end: tuple[float, float]) -> list[str]:
    angle = math.atan2(end[1] - start[1], end[0] - start[0])
    corners = [(0, 0), (-10, 5), (-10, -5)]
    cos, sin = math.cos(angle), math.sin(angle)
    turned = [(end[0] + x * cos - y * sin, end[1] + x * sin + y * cos) for x, y in corners]
    head = " ".join(f"{left + x:.1f},{top + y:.1f}" for x, y in turned)
    ends = f'x1="{left + start[0]:g}" y1="{top + start[1]:g}" x2="{left + end[0]:g}" y2="{top + end[1]:g}"'
    return [f'<line {ends} {paint(None, FLOW)} stroke-width="1.5"/>', f'<polygon points="{head}" {paint(FLOW)}/>']
