"""The measurements of lesson 18's labs. They count and compute; no clock is read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import torch
from grader.chapters.ch18_many_machines.counting import CountedGroup
from grader.chapters.ch18_many_machines.one_block import Block, make_block, run_block_in_parts
from grader.chapters.ch18_many_machines.one_step import WAYS, train_one_step
from grader.chapters.ch18_many_machines.pipeline import bubble, most_kept, pass_time, time_steps, total_time
from grader.chapters.small_models import names_of, small_gpt
from grader.execution.chapter_package import ChapterPackage
from grader.execution.simulated_group import Group, run_ranks
from grader.files import UserProblem
from grader.teaching.measurements import Report, result_table
from torch import Tensor

FLOAT32_BYTES = 4  # of every number that is kept or sent
D, HEADS, T, BLOCK_RANKS = 32, 4, 12, 4  # of the block whose bytes are counted
COUNTED_ROWS = (1, 2, 4, 8, 16, 32)  # of T tokens each
LARGE_D, LARGE_LAYERS, LARGE_VOCABULARY, LARGE_T = 4096, 32, 32_000, 2048  # a model of 7 billion parameters
TOKENS = (1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576)  # in the batch of all ranks

VOCABULARY, ROWS, SMALL_RANKS = 64, 8, (1, 2, 4, 8)
LARGE_RANKS = (1, 8, 64, 512)

MICRO_BATCHES = (1, 2, 4, 8, 16, 32, 64)

SLOWER = (1.0, 1.25, 1.5, 2.0, 4.0)
BLOCKS, STRAGGLER_MICRO = 24, 16
STEPS = 200  # with random pauses


def _check(option: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise UserProblem(f"--{option} must be from {least} to {most}, not {value}")


def report_machines_bytes(
    chapters: ChapterPackage, seed: int, *, bandwidth: tuple[int, ...] = (10, 50, 400), speed: int = 200, ranks: int = 8
) -> Report:
    """Lesson 18: what data parallelism and tensor parallelism send, and when that costs more than it saves.

    The bytes of one block are counted, those of a model of 7 billion parameters follow from the same formulas. Every
    number has 4 bytes, a token costs 6 operations for each parameter, and no message is sent while a rank computes.
    `bandwidth` is in gigabytes per second, `speed` in 10^12 operations per second.
    """
    for link in bandwidth:
        _check("bandwidth", link, 1, 10**6)
    _check("speed", speed, 1, 10**6)
    _check("ranks", ranks, 1, 10**6)
    chapter_names = ("ch03_attention", "ch05_layers", "ch18_many_machines")
    parts = names_of(*map(chapters.module, chapter_names))
    torch.manual_seed(seed)
    block, rows = make_block(parts, D, HEADS), []
    for count in COUNTED_ROWS:
        [part, *_] = run_block_in_parts(parts, block, torch.randn(count, T, D), BLOCK_RANKS)
        rows.append([count * T, f"{_gradient_bytes(parts, block):,.0f}", f"{part.sent:,.0f}"])
    columns = ("tokens in the batch", "data parallel", "tensor parallel")
    yield result_table(f"Bytes that a rank sends for one block, {BLOCK_RANKS} ranks", columns, rows)

    ring, parameters = 2 * (ranks - 1) / ranks, 12 * LARGE_LAYERS * LARGE_D**2
    rows = []
    for tokens in TOKENS:
        alone = 6 * parameters * tokens / (speed * 1e12)
        data, tensor = (FLOAT32_BYTES * ring * numbers for numbers in (parameters, 4 * LARGE_LAYERS * tokens * LARGE_D))
        gains = [alone / (alone / ranks + sent / (link * 1e9)) for link, sent in product(bandwidth, (data, tensor))]
        rows.append([f"{tokens:,}", *gains])
    headings = [f"{way}, {link}" for link in bandwidth for way in ("data", "tensor")]
    yield result_table(f"Speed of {ranks} ranks, relative to one; by GB/s", ("tokens", *headings), rows, ".2f")


def _gradient_bytes(parts: Any, block: Block) -> float:
    """What average_gradients sends for this block."""

    def average(group: Group) -> float:
        counted = CountedGroup(group)
        parts.average_gradients(block, counted)
        return counted.ring_bytes()

    return run_ranks(average, BLOCK_RANKS)[0][0]


def report_machines_memory(chapters: ChapterPackage, seed: int) -> Report:
    """Lesson 18: what a rank keeps and sends in three ways of training, a small GPT and one of 7 billion parameters.

    The small GPT does one step, and its bytes are counted. The large one is counted without its numbers. Every number
    has 4 bytes. The memory for activations is not in the tables.
    """
    names = ("ch07_models", "ch08_training", "ch18_many_machines")
    parts = names_of(*map(chapters.module, names))
    model = small_gpt(parts, VOCABULARY, seed)
    ids = torch.randint(VOCABULARY, (ROWS, T + 1), generator=torch.Generator().manual_seed(seed))
    kept: list[list[Any]] = []
    sent: list[list[Any]] = []
    for size in SMALL_RANKS:
        firsts = [train_one_step(parts, way, model, ids, size)[0] for way in WAYS]
        kept.append([str(size), *(f"{rank.kept:,}" for rank in firsts)])
        sent.append([str(size), *(rank.sent for rank in firsts)])
    count = sum(parameter.numel() for parameter in model.parameters())
    yield result_table(f"Bytes that a rank keeps: a GPT of {count:,}", ("ranks", *WAYS), kept)
    yield result_table("Bytes that a rank sends in one step", ("ranks", *WAYS), sent, ",.0f")

    with torch.device("meta"):
        sizes = {"d_model": LARGE_D, "n_heads": 32, "n_layers": LARGE_LAYERS, "max_len": LARGE_T}
        large = parts.GPT(parts.GPTConfig(vocab_size=LARGE_VOCABULARY, **sizes))
    count = sum(parameter.numel() for parameter in large.parameters())
    kept, sent = [], []
    for size in LARGE_RANKS:
        shares = (16.0, 8 + 8 / size, 16 / size)  # weights and gradients have 4 bytes each, the state has 8
        moved = (8 * (size - 1) / size, 12 * (size - 1) / size, 12 * (size - 1) / size)
        kept.append([size, *(share * count / 1e9 for share in shares)])
        sent.append([size, *(share * count / 1e9 for share in moved)])
    title = f"Gigabytes that a rank keeps: a GPT of {count / 1e9:.1f} billion"
    yield result_table(title, ("ranks", *WAYS), kept, ".1f")
    yield result_table("Gigabytes that a rank sends in one step", ("ranks", *WAYS), sent, ".1f")


def report_machines_bubble(chapters: ChapterPackage, seed: int, *, stages: int = 4, cost: int = 1) -> Report:
    """Lesson 18: the bubble of a pipeline against the number of micro-batches, from pipeline_schedule.

    A backward pass takes twice as long as a forward pass. In the second table a batch of 64 rows is cut into
    micro-batches: a forward pass takes as many units of time as it has rows, and every pass costs `cost` units more.
    """
    _check("stages", stages, 1, 1000)
    _check("cost", cost, 0, 10**6)
    schedule = chapters.module("ch18_many_machines").pipeline_schedule
    rows: list[list[Any]] = []
    times: list[list[Any]] = []
    for count in MICRO_BATCHES:
        both = [schedule(stages, count, kind) for kind in ("gpipe", "1f1b")]
        shares = [bubble(time_steps(each, pass_time)) for each in both]
        kept = [max(map(most_kept, each)) for each in both]
        rows.append([count, (stages - 1) / (count + stages - 1), *shares, *kept])
        each_row = MICRO_BATCHES[-1] / count
        times.append([count, each_row])
        for extra in (0, cost):

            def duration(stage: int, kind: str, micro: int, size: float = each_row, extra: int = extra) -> float:
                return pass_time(stage, kind, micro) * size + extra

            times[-1].append(total_time(time_steps(both[1], duration)))
    columns: tuple[str, ...] = ("micro-batches", "formula", "gpipe", "1f1b", "gpipe keeps", "1f1b keeps")
    yield result_table(f"The bubble of {stages} stages", columns, rows, ".1%")
    columns = ("micro-batches", "rows in each", "time", f"with a cost of {cost} a pass")
    yield result_table(f"Time for {MICRO_BATCHES[-1]} rows with 1f1b", columns, times, ".0f")


def report_machines_straggler(
    chapters: ChapterPackage, seed: int, *, ranks: int = 4, percent: int = 10, times: int = 3
) -> Report:
    """Lesson 18: what a slow rank costs in data parallelism, tensor parallelism and a pipeline.

    Messages take no time, a backward pass takes twice as long as a forward pass, and the pipeline has 16 micro-batches.
    1 is the time of a step on equally fast ranks without a bubble. The last column of the first table: each rank gets
    work in proportion to its speed. In the second table each rank's part of a block takes `times` as long with a
    chance of `percent`; the numbers are means of 200 steps.
    """
    _check("ranks", ranks, 1, BLOCKS)
    _check("percent", percent, 0, 100)
    _check("times", times, 1, 10**6)
    schedule = chapters.module("ch18_many_machines").pipeline_schedule(ranks, STRAGGLER_MICRO)
    work = 3 * STRAGGLER_MICRO  # of one stage

    rows = []
    for slower in SLOWER:
        factors = [slower] + [1.0] * (ranks - 1)

        def duration(stage: int, kind: str, micro: int, factors: Sequence[float] = factors) -> float:
            return factors[stage] * pass_time(stage, kind, micro)

        by_barrier = waiting_times(torch.tensor(factors)[:, None].expand(ranks, 2 * BLOCKS))
        piped = total_time(time_steps(schedule, duration)) / work
        fair = ranks / (ranks - 1 + 1 / slower)
        rows.append([f"{slower:g}", *by_barrier, piped, fair])
    columns: tuple[str, ...] = ("times slower", "data", "tensor", "pipeline", "work by speed")
    yield result_table(f"Time of a step if rank 0 of {ranks} is always slower", columns, rows, ".2f")

    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return 1.0 + (times - 1) * (torch.rand(*shape, generator=generator) < percent / 100)

    paused = torch.zeros(3, dtype=torch.float64)
    for _ in range(STEPS):
        pauses = draw(ranks, STRAGGLER_MICRO, 2, BLOCKS // ranks).mean(-1).tolist()

        def with_pauses(stage: int, kind: str, micro: int, pauses: list = pauses) -> float:
            return pauses[stage][micro][kind == "backward"] * pass_time(stage, kind, micro)

        piped = total_time(time_steps(schedule, with_pauses)) / work
        paused += torch.tensor([*waiting_times(draw(ranks, 2 * BLOCKS)), piped], dtype=torch.float64) / STEPS
    even = (1.0, 1.0, total_time(time_steps(schedule, pass_time)) / work)
    found = zip(("data", "tensor", "pipeline"), even, paused.tolist())
    rows = [[way, before, time, time / before] for way, before, time in found]
    columns = ("way", "without pauses", "with pauses", "times as long")
    yield result_table(f"{percent} % of all parts take {times} times as long", columns, rows, ".2f")


def waiting_times(times: Tensor) -> tuple[float, float]:
    """The time of a step whose parts take so long, (ranks, parts), relative to 1 for each part.

    With data parallelism the ranks wait for each other once, at the end; with tensor parallelism after every part.
    """
    return times.mean(dim=1).max().item(), times.amax(dim=0).mean().item()
