"""One attention layer with all its numbers, and how scores grow with the width of a head (lesson 3).

The weights of the walk are random and rounded to one decimal, so that a reader can follow with pencil and paper.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import torch
from grader.chapters.small_models import ATTENDING
from grader.console.output import ProgressReporter
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from grader.teaching.terminal_drawing import Block, causal, grid, line
from grader.teaching.walks.parts import MixedChapters

REQUIRED_EXERCISES = ("TokenEmbedding", *ATTENDING, "MultiHeadAttention")

WORDS = ["the", "dog", "barked", "loudly"]
T, D, H = len(WORDS), 4, 2
D_HEAD = D // H


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
    embedding, layer = parts.TokenEmbedding(T, D), parts.MultiHeadAttention(D, H, bias=False)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in (embedding, layer):
            for _, parameter in sorted(module.named_parameters()):
                parameter.copy_(torch.randn(parameter.shape, generator=generator).round(decimals=1))
        layer.eval()
        x = embedding(torch.arange(T)[None])  # (1, T, D)
        q, k, v = (parts.split_heads(linear(x), H) for linear in (layer.W_q, layer.W_k, layer.W_v))
        mask = parts.causal_mask(T)
        scores = q @ k.mT / math.sqrt(D_HEAD)
        _, open_weights = parts.scaled_dot_product_attention(q, k, v)
        mixed, weights = parts.scaled_dot_product_attention(q, k, v, mask)
        merged = parts.merge_heads(mixed)
        output = layer.W_out(merged)
        whole = layer(x, mask=mask)
    results = {"x": x, "q": q, "k": k, "v": v, "scores": scores, "open_weights": open_weights, "weights": weights}
    results |= {"mixed": mixed, "merged": merged, "output": output}
    return SimpleNamespace(
        **{name: tensor[0].tolist() for name, tensor in results.items()},  # with heads: first by head
        masked_scores=scores[0, 0].masked_fill(~mask, -math.inf).tolist(),  # of head 0
        linear={name: getattr(layer, name).weight.detach().T.tolist() for name in ("W_q", "W_k", "W_v", "W_out")},
        difference=(output - whole).abs().max().item(),  # between these steps and one call of the layer
    )


def describe(n: SimpleNamespace) -> dict[str, Any]:
    inputs, indented = [f"  in {i}" for i in range(D)], [f"  {word}" for word in WORDS]
    columns = [name for head in range(H) for name in (f"h{head}", "")]
    qkv: Block = []
    for name, heads in (("q", n.q), ("k", n.k), ("v", n.v)):
        side_by_side = [[value for head in heads for value in head[t]] for t in range(T)]
        qkv += line(name) + grid(side_by_side, indented, columns)
    weights: Block = []
    for head in range(H):
        weights += line(f"head {head}") + grid(causal(n.weights[head]), indented, WORDS)
    return {
        "x_grid": grid(n.x, WORDS),
        "maps": {name: grid(matrix, inputs) for name, matrix in n.linear.items()},
        "qkv_grids": qkv,
        "query_sum": _sum_of(n.x[1], [row[0] for row in n.linear["W_q"]]),
        "score_grid": grid(n.scores[0], WORDS, WORDS),
        "score_sum": _sum_of(n.q[0][2], n.k[0][1]),
        "root": math.sqrt(D_HEAD),
        "open_grid": grid(n.open_weights[0], WORDS, WORDS),
        "to_later": 1 - n.open_weights[0][0][0],
        "masked_grid": grid(n.masked_scores, WORDS, WORDS),
        "weight_grids": weights,
        "mixed_grid": grid(n.mixed[0], WORDS),
        "mixed_sum": _sum_of(n.weights[0][2][:3], [row[0] for row in n.v[0]]),
        "merged_grid": grid(n.merged, WORDS, columns),
        "output_grid": grid(n.output, indented),
        "same": n.difference < 1e-5,
    }


def _sum_of(left: list[float], right: list[float]) -> str:
    """Write a dot product out: `0.50 * -1.10 + ...`."""
    return " + ".join(f"{a:.2f} * {b:.2f}" for a, b in zip(left, right))


# ---- lesson 3


def report_scores(chapters: ChapterPackage, seed: int) -> Report:
    """Lesson 3: how the width of a head changes its scores and weights, with and without the division by √d_head.

    Queries and keys are independent standard normal numbers. Each query is compared with four keys of its own.
    """
    softmax = chapters.module("ch03_attention").softmax
    queries, keys, part = 20_000, 4, 2_000  # drawn in parts, for the memory

    def draw_scores(width: int) -> torch.Tensor:
        generator, scores = torch.Generator().manual_seed(seed), []
        for _ in range(queries // part):
            q = torch.randn(part, 1, width, generator=generator)
            scores.append((q * torch.randn(part, keys, width, generator=generator)).sum(-1))
        return torch.cat(scores)

    def largest(scores: torch.Tensor) -> float:
        return softmax(scores, -1).amax(-1).mean().item()

    rows = []
    for width in (16, 64, 768):
        scores = draw_scores(width)
        rows.append([width, scores.std().item(), largest(scores), largest(scores / math.sqrt(width))])
    columns = ("standard deviation of the raw scores", "largest of four weights, raw", "after dividing by √d_head")
    yield result_table(f"{queries:,} random queries", ("d_head", *columns), rows, ".2f")
    wrong = draw_scores(64) / math.sqrt(768)
    yield (
        f"Heads of width 64, divided by √768: standard deviation {wrong.std():.2f}, "
        f"largest weight {largest(wrong):.2f} on average."
    )
