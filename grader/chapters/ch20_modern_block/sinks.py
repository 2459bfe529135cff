"""The attention sink of a published model, SmolLM2."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from grader.chapters.ch16_published_model.labs import TEXT, ids_of, open_published
from grader.chapters.ch16_published_model.published.opening import Published, attention_weights
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table
from torch import Tensor

SINK_BLOCKS, LEFT_OUT = range(12, 30), 50  # of SmolLM2, and tokens at the beginning of the text


def report_published_sinks(chapters: ChapterPackage, seed: int) -> Iterator[Table | str]:
    """Lesson 20: how much of their weight SmolLM2's heads give to the first token of a text.

    The shares are means over the heads of a block and over all queries but the first, which has no choice. The text is
    read once from its beginning, and once without its first 50 tokens.
    """
    published = open_published(chapters)
    ids = ids_of(published, TEXT)
    texts = (ids, ids[:, LEFT_OUT:])
    with show_progress("reading", len(texts)) as step:
        found = [weight_on_first_token(published, text, step) for text in texts]
    rows = [[str(block), *(f"{share:.0%}" for share in shares)] for block, shares in enumerate(zip(*found))]
    columns = ("block", "whole text", f"without {LEFT_OUT} tokens")
    yield result_table(f"The weight on the first token of {ids.size(1)}", columns, rows)
    for name, shares in zip(columns[1:], found):
        some = [shares[block] for block in SINK_BLOCKS]
        yield f"Blocks {SINK_BLOCKS[0]} to {SINK_BLOCKS[-1]}, {name}: {min(some):.0%} to {max(some):.0%}."
    equal = sum(1 / (place + 1) for place in range(1, ids.size(1))) / (ids.size(1) - 1)
    yield f"With equal weights it would be {equal:.0%}."


@torch.no_grad()
def weight_on_first_token(published: Published, ids: Tensor, step: Callable[[], None]) -> list[float]:
    """The share of each block's attention that the queries after the first one give to the first token."""
    x, shares = published.model.token_emb(ids), []
    for block in published.model.blocks:
        shares.append(attention_weights(published, block.attn, block.ln1(x))[:, :, 1:, 0].mean().item())
        x = block(x)
    step()
    return shares
