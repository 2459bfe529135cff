"""Lab fusion: the bytes of separate operations, and of one kernel that does all of them."""

from __future__ import annotations

from typing import Any

import torch
from grader.chapters.ch21_kernels.graphics_card import BANDWIDTH
from grader.chapters.ch21_kernels.separate import add_softmax_kernel, softmax_in_steps
from grader.execution.chapter_package import ChapterPackage
from grader.execution.simulated_gpu import Traffic, launch
from grader.files import UserProblem
from grader.teaching.measurements import Report, result_table
from torch import Tensor

ROWS, FLOAT32_BYTES = 16, 4
LARGE_ROWS, LARGE_COLUMNS = 8192, 8192  # whose time is computed


def report_kernels_fusion(chapters: ChapterPackage, seed: int, *, columns: int = 1000) -> Report:
    """Lesson 21: the bytes that a softmax moves as five operations, and as one kernel.

    The first table has 16 rows of `columns` numbers in float32, on the simulated GPU. The second one has whole
    computations: how often each number of the table is read and written, and the least time for 8,192 rows of 8,192
    numbers on a GPU that moves 1,555 gigabytes a second.
    """
    if not 1 <= columns <= 16_384:
        raise UserProblem(f"--columns must be from 1 to 16384, not {columns}")
    kernels = chapters.module("ch21_kernels")
    x, y = torch.randn(2, ROWS, columns, generator=torch.Generator().manual_seed(seed))
    block = 1 << (columns - 1).bit_length()
    out, steps = softmax_in_steps(x, block)
    rows: list[list[Any]] = [[name, each.bytes_read, each.bytes_written] for name, each in steps.items()]
    rows.append(["all five", *(sum(column) for column in zip(*(row[1:] for row in rows)))])
    fused = softmax(kernels, x, block)
    rows.append(["one kernel", fused.bytes_read, fused.bytes_written])
    cells = [[name, f"{read:,}", f"{written:,}"] for name, read, written in rows]
    yield result_table(f"Bytes of a softmax, {ROWS} rows of {columns}", ("operation", "read", "written"), cells)

    five = (rows[-2][1], rows[-2][2])
    added = launch(kernels.add_kernel, (ROWS,), x, y, torch.zeros_like(x), x.numel(), BLOCK=block)
    together = launch(add_softmax_kernel, (ROWS,), x, y, torch.zeros_like(x), columns, BLOCK=block)
    small = max(block // 8, 1)
    long = launch(kernels.long_softmax_kernel, (ROWS,), x, torch.zeros_like(x), columns, BLOCK=small)
    whole = {
        "softmax, five kernels": five,
        "softmax, one kernel": bytes_of(fused),
        "softmax, blocks of an eighth": bytes_of(long),
        "add, then softmax": tuple(map(sum, zip(bytes_of(added), bytes_of(fused)))),
        "add and softmax, one kernel": bytes_of(together),
    }
    found = []
    for name, (read, written) in whole.items():
        numbers = FLOAT32_BYTES * x.numel()
        moved = (read + written) / numbers * FLOAT32_BYTES * LARGE_ROWS * LARGE_COLUMNS
        found.append([name, read / numbers, written / numbers, 1e3 * moved / BANDWIDTH])
    titles = ("computation", "reads", "writes", "milliseconds")
    yield result_table("How often each number is read and written", titles, found, ".2f")


def softmax(kernels: Any, x: Tensor, block: int) -> Traffic:
    rows, columns = x.shape
    return launch(kernels.softmax_kernel, (rows,), x, torch.zeros_like(x), columns, columns, BLOCK=block)


def bytes_of(traffic: Traffic) -> tuple[int, int]:
    return traffic.bytes_read, traffic.bytes_written
