"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

from types import ModuleType

import torch
from grader.chapters.ch21_kernels.accesses import count_accesses
from grader.chapters.ch21_kernels.graphics_card import BANDWIDTH, FLOAT16, FLOAT32
from grader.execution.simulated_gpu import launch
from grader.teaching.drawing import EMPTY, FAINT, FIXED, FLOW, INK, LEARNED, box, card, curves, write
from torch import Tensor

M, K, N, TILE, STEP = 4, 6, 4, 2, 2  # the matrix product of the lesson
PROGRAM = (0, 1)
CELL = 30

INTENSITIES = (0.1, 0.2, 0.5, 1, 2, 5, 10, 12.54, 20, 50, 100, 200, 200.65, 500, 1000, 2000, 5000)
TOKEN_WEIGHTS = 7e9


def ch21_tiles(chapter: ModuleType) -> str:
    """Draw a, b and c of a small matrix product, with what one program reads and writes."""
    a, b, c = torch.ones(M, K), torch.ones(K, N), torch.zeros(M, N)
    sizes = {"BM": TILE, "BN": TILE, "BK": STEP}
    traffic = launch(chapter.matmul_kernel, (M // TILE, N // TILE), a, b, c, M, N, K, **sizes)
    assert torch.equal(c, a @ b)
    own = [each for each in traffic.accesses if each.program == PROGRAM]
    first = {name: next(each.at for each in own if each.name == name).tolist() for name in ("a", "b")}
    read = {name: count_accesses(traffic, "load", name, size, PROGRAM) for name, size in (("a", M * K), ("b", K * N))}
    written = count_accesses(traffic, "store", "c", M * N, PROGRAM)
    left, top = 50, 80
    right, below = left + K * CELL + 40, top + K * CELL + 34
    marks = _matrix(left, below, read["a"].view(M, K), first["a"], "a (4, 6)")
    marks += _matrix(right, top, read["b"].view(K, N), first["b"], "b (6, 4)")
    marks += _matrix(right, below, written.view(M, N), [], "c (4, 4)", grid=True)
    x = right + N * CELL + 34
    legend = (
        (FIXED[0], "read in its first step"),
        (LEARNED[0], "read later"),
        (FLOW, "written at the end"),
        (EMPTY, "not touched"),
    )
    for number, (fill, text) in enumerate(legend):
        y = top + 26 * number
        marks += [box(x, y, 22, 16, fill), write(x + 30, y + 13, text)]
    marks.append(write(x, below + 17, "the other tiles of c are", colour=FAINT))
    marks.append(write(x, below + 35, "those of (0, 0), (1, 0), (1, 1)", colour=FAINT))
    return card(marks, x + 240, below + M * CELL + 24, f"What program {PROGRAM} of a matrix product reads and writes")


def _matrix(x: float, y: float, counts: Tensor, first: list[int], name: str, grid: bool = False) -> list[str]:
    """Draw a matrix: numbers that are touched have a colour, and those of the first step another one."""
    rows, columns = counts.shape
    marks = [write(x, y - 9, name, colour=FAINT)]
    for row in range(rows):
        for column in range(columns):
            place = row * columns + column
            touched = FLOW if grid else FIXED[0] if place in first else LEARNED[0]
            fill = touched if counts[row, column] else EMPTY
            at = x + column * CELL, y + row * CELL
            marks.append(box(*at, CELL, CELL, fill))
            if not (grid and counts[row, column]):
                marks.append(write(at[0] + CELL / 2, at[1] + CELL / 2 + 4, str(place), "middle", INK, size=12))
    return marks


def ch21_kernels(chapter: ModuleType) -> str:
    """Draw how many operations a second an A100 does at most, over the operations for each byte, and some examples."""

    def reached(flops: float, moved: float, peak: float) -> tuple[float, float]:
        seconds, _ = chapter.roofline(flops, moved, peak, BANDWIDTH)
        return flops / moved, flops / seconds / 1e12

    n = 4096.0
    lines = {
        "on tensor cores": [reached(x * 1e9, 1e9, FLOAT16) for x in INTENSITIES],
        "without them": [reached(x * 1e9, 1e9, FLOAT32) for x in INTENSITIES],
        "softmax, five kernels": [reached(5 * n**2, 8 * 4 * n**2, FLOAT32)],
        "softmax, one kernel": [reached(5 * n**2, 2 * 4 * n**2, FLOAT32)],
        "one token": [reached(2 * TOKEN_WEIGHTS, 2 * TOKEN_WEIGHTS, FLOAT16)],
        "64 tokens at once": [reached(64 * 2 * TOKEN_WEIGHTS, 2 * TOKEN_WEIGHTS, FLOAT16)],
        "matrix product": [reached(2 * n**3, 3 * 2 * n**2, FLOAT16)],
    }
    looks = ((0, 0), (1, 1), (2, 0), (3, 0), (4, 0), (5, 0), (0, 0))
    title = "What an A100 can do at most, in 10¹² operations a second"
    names = {"x_name": "operations for each byte", "y_name": "10¹² operations a second"}
    return curves(lines, title, **names, log=True, log_x=True, looks=looks, dots=list(lines)[2:])
