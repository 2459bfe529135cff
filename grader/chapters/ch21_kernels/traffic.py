"""Lab traffic: what the size of the tiles changes in a matrix product."""

from __future__ import annotations

import math

import torch
from grader.chapters.ch21_kernels.graphics_card import BANDWIDTH, FLOAT16, PROCESSORS
from grader.execution.chapter_package import ChapterPackage
from grader.execution.simulated_gpu import launch
from grader.files import UserProblem
from grader.teaching.measurements import Report, result_table

SIZE, TILES = 64, (4, 8, 16, 32, 64)  # of the counted product, and its tiles
EDGES = (63, 64, 65)
LARGE_TILES = (16, 32, 64, 128, 256)
FLOAT16_BYTES, FLOAT32_BYTES = 2, 4


def report_kernels_traffic(chapters: ChapterPackage, seed: int, *, size: int = 4096) -> Report:
    """Lesson 21: how the size of the tiles changes what a matrix product reads, computes and needs.

    The first two tables count on the simulated GPU, with square matrices of float32. The third one computes a product
    of `size` by `size` in float16 on a GPU with 108 processors, 312 * 10^12 operations and 1,555 gigabytes a second:
    every processor has one program at a time, and no cache helps.
    """
    if not 256 <= size <= 10**6:
        raise UserProblem(f"--size must be from 256 to 1000000, not {size}")
    kernels = chapters.module("ch21_kernels")

    def multiply(count: int, tile: int) -> tuple[int, int]:
        """The bytes that are read, and the operations."""
        a, b = torch.randn(2, count, count, generator=torch.Generator().manual_seed(seed))
        grid = (math.ceil(count / tile),) * 2
        sizes = {"BM": tile, "BN": tile, "BK": min(tile, 16)}
        done = launch(kernels.matmul_kernel, grid, a, b, torch.zeros(count, count), count, count, count, **sizes)
        return done.bytes_read, done.products

    rows = []
    for tile in TILES:
        read, _ = multiply(SIZE, tile)
        formula = FLOAT32_BYTES * SIZE**3 * (1 / tile + 1 / tile)
        rows.append([f"{tile} x {tile}", (SIZE // tile) ** 2, f"{read:,}", f"{formula:,.0f}", read / (8 * SIZE**2)])
    columns: tuple[str, ...] = ("tile", "programs", "bytes read", "formula", "times each number")
    yield result_table(f"A product of {SIZE} x {SIZE}", columns, rows, ".0f")

    rows = []
    for count in EDGES:
        read, products = multiply(count, 32)
        rows.append([f"{count} x {count}", math.ceil(count / 32) ** 2, f"{read:,}", products / (2 * count**3)])
    columns = ("product", "programs", "bytes read", "operations, of those needed")
    yield result_table("Tiles of 32 x 32 at the edge", columns, rows, ".2f")

    rows = []
    for tile in LARGE_TILES:
        programs = math.ceil(size / tile) ** 2
        moved = FLOAT16_BYTES * size**3 * (2 / tile)
        rounds = math.ceil(programs / PROCESSORS)
        busy = programs / (rounds * PROCESSORS)
        moving, computing = 1e3 * moved / BANDWIDTH, 1e3 * 2 * size**3 / FLOAT16 / busy
        sums = FLOAT32_BYTES * tile**2 / 1024
        rows.append([f"{tile} x {tile}", f"{programs:,}", moving, computing, f"{busy:.0%}", f"{sums:.0f}"])
    columns = ("tile", "programs", "moving, ms", "computing, ms", "busy", "KB of sums")
    yield result_table(f"A product of {size:,} x {size:,} in float16, computed", columns, rows, ".2f")
