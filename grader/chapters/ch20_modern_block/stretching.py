"""How RoPE reads texts that are longer than those of its training: as it is, with slower turns, and with YaRN."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from grader.chapters.ch20_modern_block.small_model import PEAK, Stories, read_stories, train
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import result_table
from rich.table import Table
from torch import Tensor, nn

HEADS, WIDTH = 2, 64
TIMES_TRAINED_LENGTH = 4
LATER_LR = 1e-3  # of the few steps on long rows

Angles = Callable[[Tensor], tuple[Tensor, float]]  # positions (T,) -> angles (T, d_head / 2), and a scale


class StretchedAttention(nn.Module):
    """A trained CausalSelfAttention with other angles."""

    def __init__(self, parts: Any, trained: nn.Module, angles: Angles) -> None:
        super().__init__()
        self.parts, self.trained, self.angles = parts, trained, angles

    def forward(self, x: Tensor) -> Tensor:
        parts, trained, T = self.parts, self.trained, x.size(1)
        q, k, v = (parts.split_heads(W(x), HEADS) for W in (trained.W_q, trained.W_k, trained.W_v))
        angles, scale = self.angles(torch.arange(T))
        q, k = (rotated(each, angles, scale) for each in (q, k))
        mixed, _ = parts.scaled_dot_product_attention(q, k, v, parts.causal_mask(T))
        return trained.W_out(parts.merge_heads(mixed))


def rotated(x: Tensor, angles: Tensor, scale: float) -> Tensor:
    """apply_rope with these angles, and everything `scale` times as long."""
    cos, sin = (scale * angles.cos()).to(x), (scale * angles.sin()).to(x)
    a, b = x[..., ::2], x[..., 1::2]  # the two features of each pair
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


def ways(parts: Any, length: int) -> dict[str, Angles]:
    d_head = WIDTH // HEADS
    yarn = partial(parts.yarn_angles, d_head=d_head, factor=TIMES_TRAINED_LENGTH, trained_length=length)
    return {
        "plain RoPE": lambda positions: (parts.rope_angles(positions, d_head), 1.0),
        "all frequencies divided": lambda positions: (parts.rope_angles(positions, d_head) / TIMES_TRAINED_LENGTH, 1.0),
        "YaRN": yarn,
        "YaRN, fast = 4": partial(yarn, fast=4.0),
        "YaRN, fast = 4, no scale": lambda positions: (yarn(positions, fast=4.0)[0], 1.0),
    }


def stretched(parts: Any, model: nn.Module, angles: Angles) -> nn.Module:
    model = copy.deepcopy(model)
    for block in model.blocks:
        block.attn = StretchedAttention(parts, block.attn, angles)
    return model


@torch.no_grad()
def losses(stories: Stories, model: nn.Module, length: int, count: int) -> list[float]:
    """The mean held-out loss in the trained positions, in as many behind them, and in the rest of the long rows."""
    long = TIMES_TRAINED_LENGTH * length
    rows = min(count, (len(stories.held_out) - 1) // long)  # of long rows there may be fewer
    ids = stories.held_out[: rows * long + 1]
    inputs, targets = ids[:-1].view(-1, long), ids[1:].view(-1, long)
    logits = torch.cat([model(part)[0] for part in inputs.split(8)])
    found = nn.functional.cross_entropy(logits.transpose(1, 2), targets, reduction="none").mean(0)
    return [float(found[start:end].mean()) for start, end in ((0, length), (length, 2 * length), (2 * length, long))]


def report_yarn_lengths(
    chapters: ChapterPackage, seed: int, *, length: int = 64, steps: int = 300, later: int = 20, texts: int = 64
) -> Iterator[Table | str]:
    """Lesson 20: the loss of a small RoPE model on texts that are four times as long as in its training.

    A GPT with two blocks has read rows of 64 tokens from the stories. It is measured on held-out rows of 256 tokens,
    with its own angles, with all frequencies divided by 4, and with yarn_angles. Then each is trained for 20 more
    steps, on rows of 256 tokens.
    """
    with show_progress("training", steps + 5 * later) as step:
        stories = read_stories(chapters, seed)
        parts = stories.parts
        torch.manual_seed(seed)
        config = parts.GPTConfig(stories.vocab_size, length, d_model=WIDTH, n_heads=HEADS, n_layers=2, positions="rope")
        model = parts.GPT(config)
        train(stories, model, parts.AdamW(model.parameters(), lr=PEAK, betas=(0.9, 0.98)), steps, length, seed, step)
        before, after, longest = [], [], TIMES_TRAINED_LENGTH * length
        for name, angles in ways(parts, length).items():
            long = stretched(parts, model, angles)
            before.append([name, *losses(stories, long, length, texts)])
            optimizer = parts.AdamW(long.parameters(), lr=LATER_LR, betas=(0.9, 0.98))
            train(stories, long, optimizer, later, longest, seed, step)
            after.append([name, *losses(stories, long, length, texts)])
    columns = ("", *(f"{a}-{b - 1}" for a, b in ((0, length), (length, 2 * length), (2 * length, longest))))
    for title, found in (("As it is", before), (f"After {later} steps on long rows", after)):
        rows = [[name, *(f"{loss:.2f}" for loss in row)] for name, *row in found]
        yield result_table(f"{title}: loss by position", columns, rows)
