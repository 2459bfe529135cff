"""Attention strip by strip: a walk along one query, and the memory that attention takes (lesson 14)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from grader.console.output import ProgressReporter
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from grader.teaching.terminal_drawing import table
from grader.teaching.walks.parts import MixedChapters
from grader.verdict.memory import StorageWatch
from torch import Tensor, nn

REQUIRED_EXERCISES = (
    "softmax", "scaled_dot_product_attention", "attention_with_lse", "merge_attention", "tiled_attention",
    "tiled_attention_backward",
)  # fmt: skip

SENTENCE = ("the", "crane", "sees", "a", "fish", "and", "dives", "deep")
BLOCK = 2
WIDTH, VALUE_WIDTH = 4, 2
QUERY = len(SENTENCE) - 1  # the last word sees all others
SCORE_SCALE = 1.7  # of queries and keys: larger scores make some keys count far more than others
BLOCK_SIZES = (1, 2, 3, 8, 20)
LENGTHS = (64, 128, 256, 512, 1024)
STRIP = 32  # keys in a strip where memory is counted


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    generator = torch.Generator().manual_seed(seed)

    def random(width: int) -> Tensor:
        return torch.randn(len(SENTENCE), width, generator=generator, dtype=torch.float64)

    q, k = (SCORE_SCALE * random(WIDTH) for _ in range(2))
    v, grad_out = (random(VALUE_WIDTH) for _ in range(2))
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    whole, _ = parts.scaled_dot_product_attention(*leaves)
    expected = torch.autograd.grad((whole * grad_out).sum(), leaves)
    with torch.no_grad():
        strips, unscaled = _follow(parts, q[QUERY:], k, v)
        apart = {size: (parts.tiled_attention(q, k, v, size)[0] - whole).abs().max().item() for size in BLOCK_SIZES}
        output, lse = parts.tiled_attention(q, k, v, BLOCK)
        found = parts.tiled_attention_backward(q, k, v, output, lse, grad_out, BLOCK)
        weights = torch.exp(q[QUERY] @ k.T / math.sqrt(WIDTH) - lse[QUERY])
        products = weights * (v @ grad_out[QUERY])
        memory = _count_memory(parts)
    return SimpleNamespace(
        strips=strips,
        whole=whole[QUERY].tolist(),  # the query's output over all keys at once
        unscaled=unscaled,  # the output if the old sum is not multiplied when the largest score changes
        apart=apart,  # by block size: the largest difference of any output from attention over all keys
        average=(grad_out[QUERY] * output[QUERY]).sum().item(),
        averages=[part.sum().item() for part in products.split(BLOCK)],  # together they are the average
        gradients_apart=max((got - wanted).abs().max().item() for got, wanted in zip(found, expected)),
        memory=memory,  # length, entries at one moment: plain attention, tiled attention
    )


def _follow(parts: MixedChapters, query: Tensor, k: Tensor, v: Tensor) -> tuple[list[SimpleNamespace], list[float]]:
    output, lse = torch.zeros(1, VALUE_WIDTH).double(), torch.full((1,), -math.inf).double()
    scores = (query @ k.T / math.sqrt(WIDTH))[0]
    strips, wrong_sum, wrong_output = [], 0.0, torch.zeros(VALUE_WIDTH).double()
    for start in range(0, len(SENTENCE), BLOCK):
        part = slice(start, start + BLOCK)
        pair = parts.attention_with_lse(query, k[part], v[part])
        output, lse = parts.merge_attention(output, lse, *pair)
        largest = scores[: part.stop].max().item()
        so_far = {"largest": largest, "total": math.exp(lse.item() - largest), "lse": lse.item()}
        so_far["output"] = output[0].tolist()
        strips.append(SimpleNamespace(words=" ".join(SENTENCE[part]), scores=scores[part].tolist(), **so_far))
        exps = torch.exp(scores[part] - largest)
        wrong_sum, wrong_output = wrong_sum + exps.sum().item(), wrong_output + exps @ v[part]
    return strips, (wrong_output / wrong_sum).tolist()


def _count_memory(parts: MixedChapters) -> list[tuple[int, int, int]]:
    found = []
    for length in LENGTHS:
        qkv = [torch.randn(1, 1, length, 16) for _ in range(3)]
        plain = peak_entries(parts.scaled_dot_product_attention, *qkv)
        found.append((length, plain, peak_entries(parts.tiled_attention, *qkv, STRIP)))
    return found


def describe(n: SimpleNamespace) -> dict[str, Any]:
    strips = [[s.words, _row(s.scores), f"{s.largest:.2f}", s.total, s.lse, _row(s.output)] for s in n.strips]
    rises = sum(later.largest > earlier.largest for earlier, later in zip(n.strips, n.strips[1:]))
    memory = [[length, f"{plain:,}", f"{tiled:,}", f"{plain / tiled:.1f}x"] for length, plain, tiled in n.memory]
    (_, plain, tiled), (_, longer_plain, longer_tiled) = n.memory[-2:]
    whole, words = _row(n.whole), ["strip", *(s.words for s in n.strips), "all"]
    return {
        "text": " ".join(SENTENCE),
        "words": len(SENTENCE),
        "strip_table": table(strips, ["strip", "scores", "largest", "sum", "lse", "output so far"], ".3f"),
        "output_table": table([["all keys at once", whole], ["after the last strip", _row(n.strips[-1].output)]]),
        "difference_table": table([["difference", *n.apart.values()]], ["block", *map(str, n.apart)], ".0e"),
        "rises": rises,
        "times": "time" if rises == 1 else "times",
        "unscaled_table": table([["right", whole], ["the old sum is not multiplied", _row(n.unscaled)]]),
        "average_table": table([["part", *n.averages, sum(n.averages)]], words, ".4f"),
        "memory_table": table(memory, ["positions", "plain", "tiled", "less"], left=0),
        "plain_growth": longer_plain / plain,
        "tiled_growth": longer_tiled / tiled,
    }


def _row(values: list[float]) -> str:
    return "  ".join(f"{value:.2f}" for value in values)


# ---- lesson 14


def peak_entries(function: Callable[..., object], *args: object) -> int:
    """Return the entries of all new tensors that exist at one moment, at most, while `function(*args)` runs."""
    with torch.no_grad(), StorageWatch(args) as seen:
        function(*args)
    return seen.peak


def kept_entries(function: Callable[..., Tensor], *args: object) -> int:
    """Return the entries that wait for the backward pass after `function(*args)`, without arguments and result."""
    with StorageWatch(args) as seen:
        result = function(*args)
        return seen.alive - result.numel()


def report_memory(chapters: ChapterPackage, seed: int) -> Report:
    """Lesson 14: how much memory attention takes as texts grow, and what training keeps for the backward pass.

    One head of width 64, in strips of 64 keys and with a window of 64 keys. Entries are counted, not bytes, with the
    watch that the tests use: all new tensors that exist at one moment. The numbers are the same on every machine.
    """
    efficient, attention = chapters.module("ch14_efficient_attention"), chapters.module("ch03_attention")
    new_block, width = chapters.module("ch06_blocks").PreNormBlock, 64

    def plain(*qkv: Tensor) -> Tensor:
        return attention.scaled_dot_product_attention(*qkv)[0]

    def run_blocks(x: Tensor, *model: nn.Module) -> Tensor:
        return functools.reduce(lambda x, block: block(x), model, x)

    def run_checkpointed(x: Tensor, *model: nn.Module) -> Tensor:
        return functools.reduce(lambda x, block: efficient.checkpointed(block, x), model, x)

    peaks, kept, stacks = [], [], []
    for length in (256, 1024, 4096):
        generator = torch.Generator().manual_seed(seed)
        qkv = [torch.randn(1, 1, length, width, generator=generator).requires_grad_() for _ in range(3)]
        fast = [peak_entries(way, *qkv, 64) for way in (efficient.tiled_attention, efficient.windowed_attention)]
        peaks.append([f"{length:,}", *map("{:,}".format, (peak_entries(plain, *qkv), *fast))])
        waiting = [kept_entries(plain, *qkv), kept_entries(efficient.efficient_attention, *qkv, 64)]
        kept.append([f"{length:,} positions", *map("{:,}".format, waiting)])
    for layers in (2, 4, 8):
        torch.manual_seed(seed)
        model = [new_block(width, 4) for _ in range(layers)]
        x = torch.randn(2, 32, width)
        waiting = [kept_entries(run, x, *model) for run in (run_blocks, run_checkpointed)]
        stacks.append([layers, *map("{:,}".format, waiting)])
    title = "entries of all new tensors at one moment, one head of width 64"
    yield result_table(title, ("positions", "plain", "tiled", "windowed"), peaks)
    title = "entries kept for the backward pass"
    yield result_table(title, ("positions", "plain attention", "efficient attention"), kept)
    columns = ("blocks", "kept, plain", "kept, each block checkpointed")
    yield result_table(f"{title}, blocks of width 64", columns, stacks)
