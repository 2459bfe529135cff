"""One attention layer with all its numbers, before masking and after.

The weights are random and rounded to one decimal, so that a reader can follow with pencil and paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from grader.teaching.drawing.charts import heatmap
from grader.teaching.drawing.svg import stack_pictures
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import ProgressReporter
from grader.teaching.walks.small_models import ATTENDING
from grader.teaching.walks.walk_page import WalkPage, shape

REQUIRED_EXERCISES = ("TokenEmbedding", *ATTENDING, "MultiHeadAttention")
NEXT_STEP = "Next: `headway walk qkv-training` shows what one step of training does to such weights. `--seed 1` gives this walk other numbers."

WORDS = ["the", "dog", "barked", "loudly"]
D, H = 4, 2
D_HEAD = D // H
Matrix = list[list[float]]


@dataclass(frozen=True)
class Numbers:
    x: Matrix
    weight: dict[str, Matrix]  # W_q, W_k, W_v, W_out, each as (in, out): x times it
    q: list[Matrix]  # by head
    k: list[Matrix]
    v: list[Matrix]
    scores: list[Matrix]  # by head, divided by sqrt(d_head) already
    open_weights: list[Matrix]  # without a mask
    masked_scores: Matrix  # of head 0
    weights: list[Matrix]  # after masking
    mixed: list[Matrix]  # by head: the values, mixed
    merged: Matrix
    output: Matrix
    difference: float  # between these steps and one call of the layer


def measure(parts: Parts, seed: int, report_progress: ProgressReporter) -> Numbers:
    """Compute the layer step by step, and once as a whole."""
    embedding, layer = parts.TokenEmbedding(len(WORDS), D), parts.MultiHeadAttention(D, H, bias=False)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in (embedding, layer):
            for _, parameter in sorted(module.named_parameters()):
                parameter.copy_(torch.randn(parameter.shape, generator=generator).round(decimals=1))
        layer.eval()
        x = embedding(torch.arange(len(WORDS))[None])  # (1, T, D)
        q, k, v = (parts.split_heads(map_(x), H) for map_ in (layer.W_q, layer.W_k, layer.W_v))
        mask = parts.causal_mask(len(WORDS))
        scores = q @ k.mT / math.sqrt(D_HEAD)
        _, open_weights = parts.scaled_dot_product_attention(q, k, v)
        mixed, weights = parts.scaled_dot_product_attention(q, k, v, mask)
        merged = parts.merge_heads(mixed)
        output = layer.W_out(merged)
        whole = layer(x, mask=mask)
    return Numbers(
        x=x[0].tolist(),
        weight={name: getattr(layer, name).weight.detach().T.tolist() for name in ("W_q", "W_k", "W_v", "W_out")},
        q=q[0].tolist(),
        k=k[0].tolist(),
        v=v[0].tolist(),
        scores=scores[0].tolist(),
        open_weights=open_weights[0].tolist(),
        masked_scores=scores[0, 0].masked_fill(~mask, -math.inf).tolist(),
        weights=weights[0].tolist(),
        mixed=mixed[0].tolist(),
        merged=merged[0].tolist(),
        output=output[0].tolist(),
        difference=(output - whole).abs().max().item(),
    )


def print_walk(page: WalkPage, n: Numbers) -> None:
    """From the words' vectors to the layer's output, one matrix after the other."""
    T = len(WORDS)
    page.say(
        f"{T} words, {D} numbers each, {H} heads of {D_HEAD}. The weights are random, rounded to one decimal, and there are no biases, so "
        "you can follow with pencil and paper."
    )

    page.step("The input: x", shape((1, T, D)))
    page.grid(n.x, WORDS)
    page.say("One row for each word. No row depends on another word yet.")

    page.step("Three maps make queries, keys, values", shape((D, D)))
    for name, what in (("W_q", "queries: what a word looks for"), ("W_k", "keys: what it can be found by"), ("W_v", "values: what it passes on")):
        page.line(f"{name}: {what}")
        page.grid(n.weight[name], [f"  in {i}" for i in range(D)])
    page.say("(Each matrix is shown as x is multiplied by it; nn.Linear stores the transpose.)")

    page.step("x times the maps, cut into heads", shape((1, H, T, D_HEAD)))
    heading = [name for h in range(H) for name in (f"h{h}", "")]
    for name, heads in (("q", n.q), ("k", n.k), ("v", n.v)):
        page.line(name)
        page.grid([[value for head in heads for value in head[t]] for t in range(T)], [f"  {word}" for word in WORDS], heading)
    first, column = n.x[1], [row[0] for row in n.weight["W_q"]]
    page.say("To check one, the first number of q for 'dog' is row 'dog' of x times the first column of W_q:")
    page.line(f"{_sum_of(first, column)} = {n.q[0][1][0]:.2f}")

    page.step("Compare each query with every key", shape((1, H, T, T)))
    page.say(f"Head 0: q times the transpose of k, divided by the square root of {D_HEAD}. A row is the word of the query, a column the word of the key.")
    page.grid(n.scores[0], WORDS, WORDS)
    page.say("Query 'barked', key 'dog':")
    page.line(f"({_sum_of(n.q[0][2], n.k[0][1])}) / {math.sqrt(D_HEAD):.2f} = {n.scores[0][2][1]:.2f}")

    page.step("The softmax, before masking", shape((1, H, T, T)))
    page.grid(n.open_weights[0], WORDS, WORDS)
    page.say(
        f"Each row sums to 1. But 'the' gives {1 - n.open_weights[0][0][0]:.0%} of its attention to words that come after it. When the model "
        "generates text, these words do not exist yet."
    )

    page.step("The mask", shape((T, T)))
    page.grid(n.masked_scores, WORDS, WORDS)
    page.say("The scores of later words become -inf. This must happen before the softmax.")

    page.step("The softmax, after masking", shape((1, H, T, T)))
    for h in range(H):
        page.line(f"head {h}")
        page.grid(_past(n.weights[h]), [f"  {word}" for word in WORDS], WORDS)
    page.say(
        "e to the power of -inf is 0, and the rest of a row sums to 1 again. 'the' can only attend to itself. Head 1 has other maps and "
        "attends to other words."
    )

    page.step("Weighted sums of the values", shape((1, H, T, D_HEAD)))
    page.say("The weights of head 0 times its v:")
    page.grid(n.mixed[0], WORDS)
    page.say("The first number for 'barked':")
    page.line(f"{_sum_of(n.weights[0][2][:3], [row[0] for row in n.v[0]])} = {n.mixed[0][2][0]:.2f}")

    page.step("Heads merged", shape((1, T, D)))
    page.grid(n.merged, WORDS, heading)

    page.step("W_out combines the heads", shape((1, T, D)))
    page.line("W_out")
    page.grid(n.weight["W_out"], [f"  in {i}" for i in range(D)])
    page.line("the output")
    page.grid(n.output, [f"  {word}" for word in WORDS])
    same = "the same numbers" if n.difference < 1e-5 else f"other numbers, by up to {n.difference:.2g}"
    page.say(f"MultiHeadAttention does all these steps in one call and gives {same}.")


def _past(weights: Matrix) -> Matrix:
    """Return the weights of a causal layer with NaN for later words, which are then left empty."""
    return [[w if k <= q else math.nan for k, w in enumerate(row)] for q, row in enumerate(weights)]


def _sum_of(left: list[float], right: list[float]) -> str:
    """Write a dot product out: `0.50 * -1.10 + ...`."""
    return " + ".join(f"{a:.2f} * {b:.2f}" for a, b in zip(left, right))


def draw(n: Numbers) -> str:
    """The weights of head 0, before and after masking."""
    both = {"Before masking": n.open_weights[0], "After masking": _past(n.weights[0])}
    pictures = [heatmap(rows, WORDS, WORDS, title, row_name="query", column_name="key") for title, rows in both.items()]
    return stack_pictures(pictures, "The weights of head 0")
