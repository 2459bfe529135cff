"""What a new token changes in the keys of the others, in models with random weights."""

from __future__ import annotations

import torch
from grader.chapters.small_models import scaled_normal_
from grader.execution.chapter_package import ChapterPackage
from grader.teaching.measurements import Report, result_table
from torch import Tensor


@torch.no_grad()
def report_changed_past(chapters: ChapterPackage, seed: int) -> Report:
    """Lesson 10: by how much the keys of the same tokens change when a token is added at the end, or the first removed.

    A GPT of two layers has random weights, from N(0, 1/fan_in). With RoPE the keys are those before rotation. 0 means
    equal.
    """
    models, attention = chapters.module("ch07_models"), chapters.module("ch03_attention")
    V, D, heads, layers, positions = 50, 64, 4, 2, 8
    ids = torch.randint(V, (64, positions + 1), generator=torch.Generator().manual_seed(seed))

    def keys(ids: Tensor, encoding: str, causal: bool) -> list[Tensor]:
        """Return the keys of each layer, (B, T, D), before heads and rotation."""
        torch.manual_seed(seed)
        model = models.GPT(models.GPTConfig(V, positions + 1, D, heads, layers, positions=encoding)).eval()
        scaled_normal_(model)
        found: list[Tensor] = []
        for block in model.blocks:
            if not causal:  # the same weights in a layer that hides nothing
                unmasked = attention.MultiHeadAttention(D, heads).eval()
                unmasked.load_state_dict(block.attn.state_dict())
                block.attn = unmasked
            block.attn.W_k.register_forward_hook(lambda module, inputs, output: found.append(output))
        model(ids)
        return found

    added = (ids[:, :-1], ids, slice(None), slice(-1))  # the tokens before and after, the same tokens in both
    removed = (ids, ids[:, 1:], slice(1, None), slice(None))
    rows = []
    for name, encoding, causal, (before, after, old_part, new_part) in (
        ("a token is added at the end, causal mask", "learned", True, added),
        ("a token is added at the end, no causal mask", "learned", False, added),
        ("the first token is removed, learned positions", "learned", True, removed),
        ("the first token is removed, RoPE", "rope", True, removed),
    ):
        row = [name]
        for old, new in zip(keys(before, encoding, causal), keys(after, encoding, causal)):
            old, new = old[:, old_part], new[:, new_part]
            change = (new - old).square().mean().sqrt() / old.std()
            row.append("0" if change < 1e-5 else f"{change:.2f}")
        rows.append(row)
    columns = ("change", *(f"layer {n + 1}" for n in range(layers)))
    yield result_table("change of the keys, divided by their standard deviation", columns, rows)
