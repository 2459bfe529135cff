"""Attention strip by strip: the running maximum and sum of one query, the way back, and the memory that it saves.

The queries, keys and values of a short sentence are random. One query is followed from the first strip of keys to the last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from grader.teaching.drawing.charts import curves
from grader.teaching.drawing.svg import stack_pictures
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import ProgressReporter
from grader.teaching.walks.walk_page import WalkPage
from grader.verdict.memory import StorageWatch
from torch import Tensor

REQUIRED_EXERCISES = ("softmax", "scaled_dot_product_attention", "attention_with_lse", "merge_attention", "tiled_attention", "tiled_attention_backward")
NEXT_STEP = "Next: `headway measure memory` counts longer texts, windows, and what training keeps with checkpoints."

SENTENCE = ("the", "crane", "sees", "a", "fish", "and", "dives", "deep")
BLOCK = 2
WIDTH, VALUE_WIDTH = 4, 2
QUERY = len(SENTENCE) - 1  # the last word sees all others
SHARP = 1.7  # the scale of queries and keys: larger scores make some keys count far more than others
BLOCKS = (1, 2, 3, 8, 20)
LENGTHS = (64, 128, 256, 512, 1024)
STRIP = 32  # keys in a strip where memory is counted


@dataclass(frozen=True)
class Strip:
    """One strip of keys, as the query meets it."""

    words: list[str]
    scores: list[float]
    largest: float  # so far
    total: float  # the sum of e^(score - largest) so far
    lse: float
    output: list[float]  # so far


@dataclass(frozen=True)
class Numbers:
    strips: list[Strip]
    whole: list[float]  # the query's output over all keys at once
    unscaled: list[float]  # the output if the old sum is not multiplied when the largest score changes
    apart: dict[int, float]  # by block: the largest difference of any output from attention over all keys
    average: float  # grad_out · output of the query
    averages: list[float]  # the sum of weights · grad_weights over each strip; together they are the average
    gradients_apart: float  # the largest difference of any gradient from autograd's
    memory: list[tuple[int, int, int]]  # length, entries at one moment: plain attention, tiled attention


def measure(parts: Parts, seed: int, report_progress: ProgressReporter) -> Numbers:
    """Follow one query through the strips, compare output and gradients with chapter 3's attention, and count memory."""
    generator = torch.Generator().manual_seed(seed)
    T = len(SENTENCE)
    q, k = (SHARP * torch.randn(T, WIDTH, generator=generator, dtype=torch.float64) for _ in range(2))
    v, grad_out = (torch.randn(T, VALUE_WIDTH, generator=generator, dtype=torch.float64) for _ in range(2))
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    whole, _ = parts.scaled_dot_product_attention(*leaves)
    expected = torch.autograd.grad((whole * grad_out).sum(), leaves)
    with torch.no_grad():
        strips, unscaled = _follow(parts, q[QUERY:], k, v)
        apart = {block: (parts.tiled_attention(q, k, v, block)[0] - whole).abs().max().item() for block in BLOCKS}
        output, lse = parts.tiled_attention(q, k, v, BLOCK)
        found = parts.tiled_attention_backward(q, k, v, output, lse, grad_out, BLOCK)
        weights = torch.exp(q[QUERY] @ k.T / math.sqrt(WIDTH) - lse[QUERY])
        shares = weights * (v @ grad_out[QUERY])
        memory = _count_memory(parts, report_progress)
    return Numbers(
        strips=strips,
        whole=whole[QUERY].tolist(),
        unscaled=unscaled,
        apart=apart,
        average=(grad_out[QUERY] * output[QUERY]).sum().item(),
        averages=[part.sum().item() for part in shares.split(BLOCK)],
        gradients_apart=max((got - wanted).abs().max().item() for got, wanted in zip(found, expected)),
        memory=memory,
    )


def _follow(parts: Parts, query: Tensor, k: Tensor, v: Tensor) -> tuple[list[Strip], list[float]]:
    """Merge the strips one after the other; also compute the output that a missing rescaling would give."""
    output, lse = torch.zeros(1, VALUE_WIDTH, dtype=torch.float64), torch.full((1,), -math.inf, dtype=torch.float64)
    scores = (query @ k.T / math.sqrt(WIDTH))[0]
    strips, wrong_sum, wrong_output = [], 0.0, torch.zeros(VALUE_WIDTH, dtype=torch.float64)
    for start in range(0, len(SENTENCE), BLOCK):
        end = start + BLOCK
        pair = parts.attention_with_lse(query, k[start:end], v[start:end])
        output, lse = parts.merge_attention(output, lse, *pair)
        largest = scores[:end].max()
        strips.append(Strip(list(SENTENCE[start:end]), scores[start:end].tolist(), largest.item(), math.exp(lse.item() - largest.item()), lse.item(), output[0].tolist()))
        exps = torch.exp(scores[start:end] - largest)
        wrong_sum, wrong_output = wrong_sum + exps.sum().item(), wrong_output + exps @ v[start:end]
    return strips, (wrong_output / wrong_sum).tolist()


def _count_memory(parts: Parts, report_progress: ProgressReporter) -> list[tuple[int, int, int]]:
    found = []
    with report_progress("counting memory", len(LENGTHS)) as step:
        for length in LENGTHS:
            q, k, v = (torch.randn(1, 1, length, 16) for _ in range(3))
            peaks = []
            for call in (lambda q=q, k=k, v=v: parts.scaled_dot_product_attention(q, k, v), lambda q=q, k=k, v=v: parts.tiled_attention(q, k, v, STRIP)):
                with StorageWatch((q, k, v)) as seen:
                    call()
                peaks.append(seen.peak)
            found.append((length, peaks[0], peaks[1]))
            step()
    return found


def print_walk(page: WalkPage, n: Numbers) -> None:
    """The strips, the same answer, the mistake, the way back, the memory."""
    page.say(f"The last word of {' '.join(SENTENCE)!r} attends to all {len(SENTENCE)} words. Its query meets the keys in strips of {BLOCK}; each strip is forgotten.")

    page.step("Strip by strip")
    page.table(
        [[" ".join(s.words), _row(s.scores), f"{s.largest:.2f}", f"{s.total:.3f}", f"{s.lse:.3f}", _row(s.output)] for s in n.strips],
        ["strip", "scores", "largest", "sum", "lse", "output so far"],
    )
    page.say(
        "`largest` is the largest score so far, and `sum` adds up e^(score - largest). lse is the largest plus the logarithm of the sum. "
        "When a larger score comes, the old sum becomes smaller, because it is multiplied by e^(old largest - new largest)."
    )

    page.step("The same answer")
    page.table([["all keys at once", _row(n.whole)], ["after the last strip", _row(n.strips[-1].output)]])
    page.say("For all queries, the largest difference from attention over all keys at once:")
    page.table([["difference", *(f"{value:.0e}" for value in n.apart.values())]], ["block", *map(str, n.apart)])
    page.say("The differences are rounding. The block size changes the order of work, not the result.")

    page.step("What happens without rescaling")
    rises = sum(later.largest > earlier.largest for earlier, later in zip(n.strips, n.strips[1:]))
    page.table([["right", _row(n.whole)], ["the old sum is not multiplied", _row(n.unscaled)]])
    page.say(
        f"The largest score rose {rises} time{'s' * (rises != 1)} after the first strip. "
        + ("Each time the strips before it would count too much." if rises else "So nothing had to be multiplied here, and the mistake does not show.")
    )

    page.step("The way back")
    page.say("The gradient of softmax needs one sum over all keys: weights · grad_weights. Each strip has a part of it:")
    page.table([["part", *(f"{value:.4f}" for value in n.averages), f"{sum(n.averages):.4f}"]], ["strip", *(" ".join(s.words) for s in n.strips), "all"])
    page.say(
        f"grad_out · output of this query is {n.average:.4f}: the same number, known before the first strip. "
        f"The gradients of q, k and v differ from autograd's by at most {n.gradients_apart:.0e}."
    )

    page.step("The memory")
    page.say(f"All new tensors that exist at one moment, in entries, for one head of width 16 and strips of {STRIP} keys:")
    page.table([[length, f"{plain:,}", f"{tiled:,}", f"{plain / tiled:.1f}x"] for length, plain, tiled in n.memory], ["positions", "plain", "tiled", "less"], left=0)
    (_, a, b), (_, c, d) = n.memory[-2:]
    page.say(f"Twice the length takes {c / a:.1f} times the memory with plain attention, and {d / b:.1f} times with strips.")


def _row(values: list[float]) -> str:
    return "  ".join(f"{value:.2f}" for value in values)


def draw(n: Numbers) -> str:
    """lse and the largest score after each strip, and the memory by length."""
    after = {
        "lse so far": [(i + 1, strip.lse) for i, strip in enumerate(n.strips)],
        "largest score so far": [(i + 1, strip.largest) for i, strip in enumerate(n.strips)],
    }
    memory = {"plain": [(length, plain) for length, plain, _ in n.memory], "tiled": [(length, tiled) for length, _, tiled in n.memory]}
    pictures = [
        curves(after, "One query, strip by strip", x_name="strips", y_name="", dots=True),
        curves(memory, "Entries at one moment", x_name="positions", y_name="entries", log=True, dots=True),
    ]
    return stack_pictures(pictures, "Attention strip by strip")
