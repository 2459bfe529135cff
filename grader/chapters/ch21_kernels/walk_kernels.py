"""A small matrix product, program by program, and what fused and tiled kernels save. `headway walk kernels`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from grader.chapters.ch21_kernels.accesses import count_accesses, program_order
from grader.chapters.ch21_kernels.graphics_card import BANDWIDTH, FLOAT16, FLOAT32
from grader.chapters.ch21_kernels.separate import softmax_in_steps
from grader.chapters.ch21_kernels.simulated_cache import count_misses, tile_reads
from grader.console.output import ProgressReporter
from grader.execution.simulated_gpu import Access, Traffic, launch
from grader.teaching.terminal_drawing import Block, table
from grader.teaching.walks.parts import MixedChapters
from torch import Tensor

REQUIRED_EXERCISES = ("softmax_kernel", "matmul_kernel", "grouped_place", "attention_kernel", "roofline")
M, K, N = 4, 6, 4
SIZES = (("a", M * K), ("b", K * N))  # in numbers
TILE, STEP = 2, 2  # BM and BN, and BK
SEEDS = 5  # launches, each with another order
LARGE, LARGE_TILES = 32, (4, 8, 16, 32)
ROWS, COLUMNS, BLOCK = 8, 100, 128
SIDE, STEPS, TOGETHER, CACHE, GROUPS = 16, 4, 16, 32, (1, 2, 4, 8, 16)
T, D, QUERIES = 64, 16, 16  # of attention, and the size of its blocks


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    a, b = torch.randint(-3, 4, (M, K)).float(), torch.randint(-3, 4, (K, N)).float()
    launches = [multiply(parts, a, b, TILE, STEP, seed + n) for n in range(SEEDS)]
    c, traffic = launches[0]
    order = program_order(traffic)
    tiles = {}
    with report_progress("multiplying in larger tiles", len(LARGE_TILES)) as step:
        for tile in LARGE_TILES:
            done = multiply(parts, torch.randn(LARGE, LARGE), torch.randn(LARGE, LARGE), tile, 4, seed)[1]
            tiles[tile] = (len(program_order(done)), done.bytes_read, done.products)
            step()
    x = torch.randn(ROWS, COLUMNS)
    apart, steps = softmax_in_steps(x, BLOCK)
    fused = torch.zeros_like(x)
    once = launch(parts.softmax_kernel, (ROWS,), x, fused, COLUMNS, COLUMNS, seed=seed, BLOCK=BLOCK)
    q, k, v = torch.randn(3, 1, T, D)
    out, lse = torch.zeros(1, T, D), torch.zeros(1, T)
    blocks, sizes = T // QUERIES, {"D": D, "BQ": QUERIES, "BK": QUERIES}
    attention = launch(parts.attention_kernel, (blocks, 1), q, k, v, out, lse, T, D**-0.5, seed=seed, **sizes)
    keys_read = [count_accesses(attention, "load", "k", T * D, (i, 0)).sum().item() for i in range(blocks)]
    scores = (q @ k.transpose(1, 2) * D**-0.5).masked_fill(~torch.ones(T, T).tril().bool(), -float("inf"))
    return SimpleNamespace(
        order=order,
        steps={program: [each for each in traffic.accesses if each.program == program] for program in order},
        differs=max(float((result - a @ b).abs().max()) for result, _ in launches),
        others=[program_order(each) for _, each in launches[1:]],
        read=traffic.bytes_read,
        written=traffic.bytes_written,
        products=traffic.products,
        counts=[count for name, size in SIZES for count in count_accesses(traffic, "load", name, size).tolist()],
        tiles=tiles,
        softmax_differs=float((fused - apart).abs().max()),
        separate={name: (each.bytes_read, each.bytes_written) for name, each in steps.items()},
        once=(once.bytes_read, once.bytes_written),
        places={group: [parts.grouped_place(p, SIDE, SIDE, group) for p in range(TOGETHER)] for group in GROUPS},
        misses={group: misses(parts, group) for group in GROUPS},
        attention_differs=float((out - scores.softmax(-1) @ v).abs().max()),
        keys=[int(count) // D for count in keys_read],
        attention_bytes=attention.bytes_read + attention.bytes_written,
        roofs=[(name, f, b, *parts.roofline(f, b, peak, BANDWIDTH)) for name, f, b, peak in WORK],
    )


def multiply(parts: Any, a: Tensor, b: Tensor, tile: int, step: int, seed: int) -> tuple[Tensor, Traffic]:
    (m, k), n = a.shape, b.size(1)
    c = torch.zeros(m, n)
    sizes = {"BM": tile, "BN": tile, "BK": step}
    return c, launch(parts.matmul_kernel, (-(-m // tile), -(-n // tile)), a, b, c, m, n, k, seed=seed, **sizes)


def misses(parts: Any, group: int) -> int:
    return count_misses(tile_reads(parts.grouped_place, SIDE, SIDE, STEPS, group, TOGETHER), CACHE)


# what is computed, its operations, the bytes that it moves at least, and the operations a second that are possible
WORK = (
    ("matrix product, 4,096", 2 * 4096.0**3, 2 * 3 * 4096.0**2, FLOAT16),
    ("softmax, 4,096 x 4,096", 5 * 4096.0**2, 4 * 2 * 4096.0**2, FLOAT32),
    ("a token of 7 billion", 2 * 7e9, 2 * 7e9, FLOAT16),
    ("256 tokens at once", 256 * 2 * 7e9, 2 * 7e9, FLOAT16),
)  # fmt: skip


# ---- what the template shows


def describe(n: SimpleNamespace) -> dict[str, Any]:
    five = tuple(map(sum, zip(*n.separate.values())))
    separate = [*n.separate.items(), ("all five", five), ("softmax_kernel", n.once)]
    tiles = [[f"{tile} x {tile}", *(f"{count:,}" for count in counts)] for tile, counts in n.tiles.items()]
    orders = [[group, *touched(places), n.misses[group]] for group, places in n.places.items()]
    keys = [[i, f"{i * QUERIES} to {(i + 1) * QUERIES - 1}", count] for i, count in enumerate(n.keys)]
    roofs = [[name, f"{f:.1e}", f"{b:.1e}", f"{1e3 * s:.3f}", limit] for name, f, b, s, limit in n.roofs]
    each = set(n.counts)
    return {
        "program_tables": _program_tables(n.steps),
        "order_text": _programs(n.order),
        "other_order": _programs(n.others[-1]),
        "same_result": n.differs < 1e-4,
        "each_is_read": f"{min(each):g}" if len(each) == 1 else f"{min(each):g} to {max(each):g}",
        "by_number": 4 * 2 * M * N * K,
        "formula": 4 * M * N * K * (1 / TILE + 1 / TILE),
        "tile_table": table(tiles, ["tile", "programs", "bytes read", "operations"]),
        "same_softmax": n.softmax_differs < 1e-6,
        "softmax_table": table([[name, f"{r:,}", f"{w:,}"] for name, (r, w) in separate], ["", "read", "written"]),
        "saved": sum(five) / sum(n.once),
        "order_table": table(orders, ["group", "rows of a", "columns of b", "misses"], left=0),
        "cache_reads": 2 * SIDE**2 * STEPS,
        "key_table": table(keys, ["program", "queries", "keys read"], left=0),
        "score_bytes": 4 * T * T,
        "roof_table": table(roofs, ["", "operations", "bytes", "ms", "waits for"]),
    }


def touched(places: list[tuple[int, int]]) -> tuple[int, int]:
    """How many different rows and columns of tiles these programs have."""
    return len({row for row, _ in places}), len({column for _, column in places})


def _programs(order: list[tuple[int, ...]]) -> str:
    return ", ".join(map(str, order))


def _program_tables(steps: dict[tuple[int, ...], list[Access]]) -> Block:
    rows = []
    for program in sorted(steps):
        for number, access in enumerate(steps[program]):
            verb = "reads" if access.kind == "load" else "writes"
            at = ", ".join(map(str, access.at.tolist()))
            rows.append([str(program) if number == 0 else "", f"{verb} {access.name}", at])
    return table(rows, ["program", "", "places"], left=3)
