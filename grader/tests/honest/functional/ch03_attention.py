"""Written in the functional style: small pure functions, with modules as thin shells around them."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    if x.numel() == 0:
        return x
    peak = x.detach().amax(dim, keepdim=True)
    powers = torch.exp(x - torch.where(peak == -math.inf, 0.0, peak))
    total = powers.sum(dim, keepdim=True)
    return powers / torch.where(total == 0, 1.0, total)


def causal_mask(q_len: int, k_len: int | None = None) -> Tensor:
    keys = q_len if k_len is None else k_len
    return torch.arange(keys) <= torch.arange(keys - q_len, keys)[:, None]


def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    return ids.ne(pad_id)[:, None, None, :]


def attention_weights(q: Tensor, k: Tensor, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    scores = q @ k.mT / math.sqrt(q.size(-1))
    biased = scores if bias is None else scores + bias.to(scores.dtype)
    return softmax(biased if mask is None else torch.where(mask, biased, -math.inf))


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    weights = attention_weights(q, k, mask, bias)
    return weights @ v, weights


def head_width(d_model: int, n_heads: int) -> int:
    if n_heads < 1 or d_model % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {d_model}")
    return d_model // n_heads


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    return x.unflatten(-1, (n_heads, head_width(x.size(-1), n_heads))).transpose(-3, -2)


def merge_heads(x: Tensor) -> Tensor:
    return x.transpose(-3, -2).flatten(-2)


class SelfAttentionHead(nn.Module):
    def __init__(self, d_model: int, d_head: int):
        super().__init__()
        self.qkv = nn.Linear(d_model, 3 * d_head, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return scaled_dot_product_attention(*self.qkv(x).chunk(3, dim=-1))[0]


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, bias: bool = True, dropout: float = 0.0):
        super().__init__()
        head_width(d_model, n_heads)
        self.n_heads = n_heads
        self.W_q, self.W_k, self.W_v, self.W_out = (nn.Linear(d_model, d_model, bias=bias) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        source = x if context is None else context
        q, k, v = (split_heads(W(seen), self.n_heads) for W, seen in ((self.W_q, x), (self.W_k, source), (self.W_v, source)))
        weights = self.dropout(attention_weights(q, k, mask))
        output = self.W_out(merge_heads(weights @ v))
        return (output, weights) if return_weights else output


class FusedSelfAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, max_len: int, bias: bool = True, dropout: float = 0.0):
        super().__init__()
        head_width(d_model, n_heads)
        self.n_heads = n_heads
        self.c_attn = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.c_proj = nn.Linear(d_model, d_model, bias=bias)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", causal_mask(max_len), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        length, max_len = x.size(1), self.mask.size(0)
        if length > max_len:
            raise ValueError(f"the input has {length} positions, but max_len is {max_len}")
        q, k, v = (split_heads(part, self.n_heads) for part in self.c_attn(x).chunk(3, dim=-1))
        weights = self.dropout(attention_weights(q, k, self.mask[:length, :length]))
        return self.c_proj(merge_heads(weights @ v))


def with_numbers_of(new: nn.Module, old: nn.Module, numbers: dict[str, Tensor]) -> nn.Module:
    """`new`, brought to the dtype, device, mode and dropout of `old`, with copies of `numbers` in it."""
    moved = new.to(next(old.parameters())).train(old.training)
    moved.dropout = copy.deepcopy(old.dropout)
    moved.load_state_dict(numbers)
    return moved


def kinds_of(linear: nn.Linear) -> tuple[str, ...]:
    return ("weight",) if linear.bias is None else ("weight", "bias")


def fuse_qkv(attention: MultiHeadAttention, max_len: int) -> FusedSelfAttention:
    kinds = kinds_of(attention.W_q)
    parts = (attention.W_q, attention.W_k, attention.W_v)
    stacked = {f"c_attn.{kind}": torch.cat([getattr(part, kind) for part in parts]) for kind in kinds}
    output = {f"c_proj.{kind}": getattr(attention.W_out, kind) for kind in kinds}
    new = FusedSelfAttention(attention.W_q.in_features, attention.n_heads, max_len, bias="bias" in kinds)
    return with_numbers_of(new, attention, stacked | output)


def split_qkv(fused: FusedSelfAttention) -> MultiHeadAttention:
    kinds = kinds_of(fused.c_attn)
    parts = {
        f"{name}.{kind}": part for kind in kinds for name, part in zip(("W_q", "W_k", "W_v"), getattr(fused.c_attn, kind).chunk(3))
    }
    output = {f"W_out.{kind}": getattr(fused.c_proj, kind) for kind in kinds}
    new = MultiHeadAttention(fused.c_attn.in_features, fused.n_heads, bias="bias" in kinds)
    return with_numbers_of(new, fused, parts | output)
