"""Chapter 3 in the terse style: as short as it can be read."""

from __future__ import annotations

from math import inf

import torch
from torch import Tensor, nn


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    e = (x - x.detach().amax(dim, keepdim=True).clamp(min=torch.finfo(x.dtype).min)).exp()
    return e / e.sum(dim, keepdim=True).clamp(min=1)  # the largest is e^0, so only a slice of -inf sums to less than 1


def causal_mask(q_len: int, k_len: int | None = None) -> Tensor:
    return torch.ones(q_len, k := q_len if k_len is None else k_len, dtype=torch.bool).tril(k - q_len)


def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    return (ids != pad_id)[:, None, None]


def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
    s = q @ k.mT / q.size(-1) ** 0.5
    if bias is not None:
        s += bias
    if mask is not None:
        s.masked_fill_(~mask, -inf)
    return (w := softmax(s)) @ v, w


def check(d: int, h: int) -> None:
    if h < 1 or d % h:
        raise ValueError(f"{h} heads do not divide a width of {d}")


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    check(x.size(-1), n_heads)
    return x.unflatten(-1, (n_heads, -1)).transpose(-2, -3)


def merge_heads(x: Tensor) -> Tensor:
    return x.transpose(-2, -3).flatten(-2)


class SelfAttentionHead(nn.Module):
    def __init__(self, d_model: int, d_head: int):
        super().__init__()
        self.qkv = nn.Linear(d_model, 3 * d_head, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return scaled_dot_product_attention(*self.qkv(x).chunk(3, -1))[0]


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, bias: bool = True, dropout: float = 0.0):
        super().__init__()
        check(d_model, n_heads)
        self.n_heads, self.dropout = n_heads, nn.Dropout(dropout)
        self.W_q, self.W_k, self.W_v, self.W_out = (nn.Linear(d_model, d_model, bias) for _ in range(4))

    def forward(self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None, return_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        c = x if context is None else context
        q, k, v = (split_heads(t, self.n_heads) for t in (self.W_q(x), self.W_k(c), self.W_v(c)))
        w = self.dropout(scaled_dot_product_attention(q, k, v, mask)[1])
        y = self.W_out(merge_heads(w @ v))
        return (y, w) if return_weights else y


class FusedSelfAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, max_len: int, bias: bool = True, dropout: float = 0.0):
        super().__init__()
        check(d_model, n_heads)
        self.n_heads, self.dropout = n_heads, nn.Dropout(dropout)
        self.c_attn, self.c_proj = nn.Linear(d_model, 3 * d_model, bias), nn.Linear(d_model, d_model, bias)
        self.register_buffer("mask", causal_mask(max_len), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if (n := x.size(1)) > len(self.mask):
            raise ValueError(f"{n} positions are more than max_len {len(self.mask)}")
        q, k, v = (split_heads(t, self.n_heads) for t in self.c_attn(x).chunk(3, -1))
        return self.c_proj(merge_heads(self.dropout(scaled_dot_product_attention(q, k, v, self.mask[:n, :n])[1]) @ v))


def like(new: nn.Module, old: nn.Module, w: Tensor, numbers: dict[str, Tensor]) -> nn.Module:
    new.to(w).train(old.training).load_state_dict(numbers)
    return new


def fuse_qkv(attention: MultiHeadAttention, max_len: int) -> FusedSelfAttention:
    a, w, b = attention.state_dict(), attention.W_q.weight, attention.W_q.bias is not None
    numbers = {f"c_{to}.{s}": torch.cat([a[f"W_{c}.{s}"] for c in of]) for to, of in (("attn", "qkv"), ("proj", ["out"])) for s in ("weight", "bias")[: 1 + b]}
    return like(FusedSelfAttention(len(w), attention.n_heads, max_len, b, attention.dropout.p), attention, w, numbers)


def split_qkv(fused: FusedSelfAttention) -> MultiHeadAttention:
    f, w, b = fused.state_dict(), fused.c_proj.weight, fused.c_proj.bias is not None
    numbers = {f"W_{c}.{s}": t for s in ("weight", "bias")[: 1 + b] for c, t in zip(("q", "k", "v", "out"), (*f[f"c_attn.{s}"].chunk(3), f[f"c_proj.{s}"]))}
    return like(MultiHeadAttention(len(w), fused.n_heads, b, fused.dropout.p), fused, w, numbers)
