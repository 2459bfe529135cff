"""What a published model computes on the way to its next token: what each block would say, and where heads look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from grader.models.published.opening import Published
from torch import Tensor

SHOWN_TOKENS = 3


@dataclass(frozen=True)
class Likely:
    """A token that could come next."""

    id: int
    text: str
    probability: float


@dataclass(frozen=True)
class Inside:
    """For the last token of a text."""

    layers: list[list[Likely]]  # the likeliest next tokens if the model stopped here: the embeddings, then each block
    attention: Tensor  # the weights of each head: (n_layers, H, T)


@torch.no_grad()
def look_inside(published: Published, ids: list[int]) -> Inside:
    """One pass over the whole text, block by block, without caches."""
    model = published.model
    x = model.token_emb(torch.tensor([ids]))  # (1, T, D)
    layers, attention = [_likeliest(published, x)], []
    for block in model.blocks:
        attention.append(attention_weights(published, block.attn, block.ln1(x), first=len(ids) - 1)[0, :, 0])
        x = block(x)
        layers.append(_likeliest(published, x))
    return Inside(layers, torch.stack(attention))


def show_token(published: Published, i: int) -> str:
    """How a token is shown alone: a space or a line end is visible."""
    special = published.tokenizer.decode([i])
    return repr(special)[1:-1].replace(" ", "·") or "''"


def _likeliest(published: Published, x: Tensor) -> list[Likely]:
    chances = torch.softmax(published.model.lm_head(published.model.ln_f(x[0, -1])).float(), -1)
    best = chances.topk(SHOWN_TOKENS)
    return [
        Likely(i, show_token(published, i), chance) for i, chance in zip(best.indices.tolist(), best.values.tolist())
    ]


def attention_weights(published: Published, attention: Any, x: Tensor, first: int = 0) -> Tensor:
    """The weights of a LlamaAttention on the normalised stream x, (B, T, D), for the positions from `first` on:
    (B, H, T - first, T)."""
    parts, sizes, where = published.own.parts, published.sizes, torch.arange(x.size(1))
    q = parts.apply_rope(parts.split_heads(attention.W_q(x), sizes.n_heads), where, sizes.base)[:, :, first:]
    k = parts.apply_rope(parts.split_heads(attention.W_k(x), sizes.n_kv_heads), where, sizes.base)
    k = k.repeat_interleave(sizes.n_heads // sizes.n_kv_heads, dim=1)  # (B, H, T, d)
    return parts.scaled_dot_product_attention(q, k, k, parts.causal_mask(q.size(2), k.size(2)))[1]
