"""Kernels: which program reads and writes what, and what is computed."""

from __future__ import annotations

from typing import Any

import torch
from grader.chapters.ch21_kernels.graphics_card import BANDWIDTH, FLOAT16
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import expect_pair, make_bars, make_chart, make_grid, random_tensor
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import Mismatch
from torch import Tensor

READ, WRITTEN = ("not read", "read"), ("not written", "written")
N, BLOCK = 10, 4  # of add_kernel
M, K, COLUMNS, TILE, STEP = 6, 7, 9, 4, 2  # of matrix products
T, D, QUERIES = 10, 4, 4  # of attention
TARGETS = (1, -100, 4)
INTENSITIES = tuple(range(10, 401, 10))  # operations a byte


def run_kernel(kernel, grid, arguments, constants):
    """For `bring`: the tensors after a launch; then program, kind, tensor, places and bytes of each read and write."""
    from grader.execution.simulated_gpu import launch

    arguments = [each.clone() if isinstance(each, torch.Tensor) else each for each in arguments]
    traffic = launch(kernel, grid, *arguments, **constants)
    accesses = [(list(each.program), each.kind, each.name, each.at, each.bytes) for each in traffic.accesses]
    return [each for each in arguments if isinstance(each, torch.Tensor)], accesses


class Launch:
    """One launch of a kernel of the reference or the learner."""

    def __init__(self, side: Implementation, name: str, grid: tuple[int, ...], *given: Any, **constants: Any) -> None:
        ran = side.bring(run_kernel)(getattr(side, name), grid, list(given), constants)
        self.tensors, self._accesses = expect_pair(ran, "the tensors and the accesses of a launch")

    def count(self, kind: str, name: str, size: int, *program: int) -> Tensor:
        """Return how often each number of a tensor is read or written, by all programs or by one."""
        counts = torch.zeros(size)
        for each, done, of, at, _ in self._accesses:
            if (done, of) == (kind, name) and (not program or tuple(each) == program):
                counts += torch.bincount(at, minlength=size)
        return counts

    def bytes_read(self, name: str) -> int:
        return sum(size for _, done, of, _, size in self._accesses if (done, of) == ("load", name))


def add_kernel(side: Implementation) -> list[Panel]:
    x, y = random_tensor(0, N), random_tensor(1, N)
    ran = Launch(side, "add_kernel", (3,), x, y, torch.zeros(N), N, BLOCK=BLOCK)
    programs, axes = [f"program {i}" for i in range(3)], ("", "place")
    panels: list[Panel] = []
    for title, kind, name, words in (("read of x", "load", "x", READ), ("write of out", "store", "out", WRITTEN)):
        counts = torch.stack([ran.count(kind, name, N, i) for i in range(3)])
        panels.append(make_grid(f"what the programs {title}", counts, programs, N, axes, words=_words(counts, words)))
    return panels


def _words(counts: Tensor, words: tuple[str, str]) -> tuple[str, str] | None:
    return words if counts.max() <= 1 else None


def softmax_kernel(side: Implementation) -> list[Panel]:
    """Rows of 5 numbers that begin 8 places after each other."""
    rows, columns, stride = 3, 5, 8
    x = 1.5 * random_tensor(3, rows, stride)
    ran = Launch(side, "softmax_kernel", (rows,), x, torch.zeros(rows, stride), columns, stride, BLOCK=8)
    read = ran.count("load", "x", rows * stride).view(rows, stride)
    return [
        make_grid("how often each number of x is read", read, rows, stride, ("row", "place")),
        make_grid("out", ran.tensors[1][:, :columns], rows, columns, ("row", "column")),
    ]


def rms_norm_kernel(side: Implementation) -> list[Panel]:
    rows, columns = 3, 6
    x = random_tensor(4, rows, columns) * torch.tensor([[0.1], [1.0], [10.0]])
    given = (x, torch.ones(columns), torch.zeros(rows, columns), columns, 1e-6)
    ran = Launch(side, "rms_norm_kernel", (rows,), *given, BLOCK=8)
    return [
        make_grid("x", x, rows, columns, ("row", "column"), given=True),
        make_grid("out, with weights of 1", ran.tensors[2], rows, columns, ("row", "column")),
    ]


def long_softmax_kernel(side: Implementation) -> list[Panel]:
    rows, columns = 2, 10
    x = 1.5 * random_tensor(5, rows, columns)
    ran = Launch(side, "long_softmax_kernel", (rows,), x, torch.zeros(rows, columns), columns, BLOCK=BLOCK)
    read = ran.count("load", "x", rows * columns).view(rows, columns)
    return [
        make_grid("how often each number of x is read", read, rows, columns, ("row", "column")),
        make_grid("out", ran.tensors[1], rows, columns, ("row", "column")),
    ]


def matmul_kernel(side: Implementation) -> list[Panel]:
    a, b, c = random_tensor(6, M, K), random_tensor(7, K, COLUMNS), torch.zeros(M, COLUMNS)
    ran = Launch(side, "matmul_kernel", (2, 3), a, b, c, M, COLUMNS, K, BM=TILE, BN=TILE, BK=STEP)
    programs = [(i, j) for i in range(2) for j in range(3)]
    writes = sum(n * ran.count("store", "c", M * COLUMNS, *place) for n, place in enumerate(programs, start=1))
    assert isinstance(writes, Tensor)
    reads = ran.count("load", "a", M * K, 1, 0).view(M, K), ran.count("load", "b", K * COLUMNS, 1, 0).view(K, COLUMNS)
    title, axes = "which program writes c, from 1 for (0, 0) to 6 for (1, 2)", ("row", "column")
    of_a, of_b = "what program (1, 0) reads of a", "what program (1, 0) reads of b"
    return [
        make_grid(title, writes.view(M, COLUMNS), M, COLUMNS, axes),
        make_grid(of_a, reads[0], M, K, ("row", "k"), words=_words(reads[0], READ)),
        make_grid(of_b, reads[1], K, COLUMNS, ("k", "column"), words=_words(reads[1], READ)),
        make_grid("c", ran.tensors[2], M, COLUMNS, axes),
    ]


def grouped_place(side: Implementation) -> list[Panel]:
    rows, columns = 5, 6
    panels: list[Panel] = []
    for group in (1, 2):
        table = torch.zeros(rows, columns)
        for program in range(rows * columns):
            row, column = map(int, expect_pair(side.grouped_place(program, rows, columns, group), "a row and a column"))
            if not (0 <= row < rows and 0 <= column < columns):
                tiles = f"{rows} rows and {columns} columns of tiles"
                raise Mismatch(f"program {program} is at row {row}, column {column} of {tiles}", (row, column))
            table[row, column] = program
        panels.append(make_grid(f"the program of each tile, group = {group}", table, rows, columns, ("row", "column")))
    return panels


def attention_kernel(side: Implementation) -> list[Panel]:
    q, k, v = (random_tensor(seed, 1, T, D) for seed in (8, 9, 10))
    programs = -(-T // QUERIES)
    given = (q, k, v, torch.zeros(1, T, D), torch.zeros(1, T), T, D**-0.5)
    ran = Launch(side, "attention_kernel", (programs, 1), *given, D=D, BQ=QUERIES, BK=QUERIES)
    read = torch.stack([ran.count("load", "k", T * D, i, 0).view(T, D).mean(1) for i in range(programs)])
    queries = [f"queries {i * QUERIES} to {min((i + 1) * QUERIES, T) - 1}" for i in range(programs)]
    return [
        make_grid("which keys each program reads", read, queries, T, ("", "key"), words=_words(read, READ)),
        make_bars("lse", T, ran.tensors[4][0], "log of the sum of exp"),
        make_grid("out", ran.tensors[3][0], T, D, ("query", "feature")),
    ]


def cross_entropy_kernel(side: Implementation) -> list[Panel]:
    rows, columns = len(TARGETS), 6
    logits, targets = 2 * random_tensor(11, rows, columns), torch.tensor(TARGETS)
    outputs = torch.zeros(rows), torch.zeros(rows, columns)
    ran = Launch(side, "cross_entropy_kernel", (rows,), logits, targets, *outputs, columns, BLOCK=8)
    labels = [f"target {target}" for target in TARGETS]
    return [
        make_bars("loss", labels, ran.tensors[2], "loss"),
        make_grid("gradient", ran.tensors[3], labels, columns, ("", "column")),
    ]


def int8_matmul_kernel(side: Implementation) -> list[Panel]:
    """The bytes of a product with 8-bit weights, beside those that float32 weights would have."""
    x, scale = random_tensor(12, M, K), 0.01 + random_tensor(13, COLUMNS).abs() / 100
    w = (50 * random_tensor(14, COLUMNS, K)).round().clamp(-127, 127).to(torch.int8)
    given = (x, w, scale, torch.zeros(M, COLUMNS), M, COLUMNS, K)
    ran = Launch(side, "int8_matmul_kernel", (2, 3), *given, BM=TILE, BN=TILE, BK=STEP)
    names = ["x", "w", "scale"]
    return [
        make_bars("bytes that are read", names, [ran.bytes_read(name) for name in names], "bytes"),
        make_grid("out", ran.tensors[3], M, COLUMNS, ("row", "column")),
    ]


def roofline(side: Implementation) -> list[Panel]:
    speeds = []
    for intensity in INTENSITIES:
        seconds, _ = expect_pair(side.roofline(intensity * 1e9, 1e9, FLOAT16, BANDWIDTH), "the seconds and the limit")
        speeds.append(intensity * 1e9 / seconds / 1e12)
    title, lines = "the most that an A100 can do", {"roofline": speeds}
    return [make_chart(title, INTENSITIES, lines, "operations a byte", "10^12 operations a second")]
