"""Chapter 4 in the terse style: as short as it can be read."""

import torch
from torch import Tensor

from .ch03_attention import MultiHeadAttention, causal_mask, merge_heads, scaled_dot_product_attention, split_heads


def rope_angles(positions: Tensor, d_head: int, base: float = 10000.0) -> Tensor:
    if d_head % 2:
        raise ValueError(f"RoPE turns pairs of features, and d_head {d_head} is odd")
    return (positions.float()[:, None] * base ** (-torch.arange(0, d_head, 2, device=positions.device) / d_head)).float()


def apply_rope(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
    a, y = rope_angles(positions, x.size(-1), base), x.to(torch.promote_types(x.dtype, torch.float32))
    z = torch.complex(y[..., ::2], y[..., 1::2]) * torch.polar(torch.ones_like(a), a)  # a pair is a complex number, a turn a product
    return torch.view_as_real(z).flatten(-2).to(x.dtype)


def alibi_slopes(n_heads: int) -> Tensor:
    p = 1 << n_heads.bit_length() - 1
    return 2 ** torch.cat([-8 / p * torch.arange(1, p + 1), -4 / p * torch.arange(1, 2 * p, 2)])[:n_heads].float()


def alibi_bias(n_heads: int, q_len: int, k_len: int) -> Tensor:
    return alibi_slopes(n_heads)[:, None, None] * -(torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).abs()


class CausalSelfAttention(MultiHeadAttention):
    def __init__(self, d_model: int, n_heads: int, positions: str = "none", bias: bool = True, dropout: float = 0.0):
        super().__init__(d_model, n_heads, bias, dropout)
        if positions not in ("none", "rope", "alibi"):
            raise ValueError(f"unknown positions {positions!r}")
        if positions == "rope" and (d := d_model // n_heads) % 2:
            raise ValueError(f"RoPE turns pairs of features, and d_head {d} is odd")
        self.positions = positions

    def forward(self, x: Tensor, return_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        n, h = x.size(1), self.n_heads
        q, k, v = (split_heads(f(x), h) for f in (self.W_q, self.W_k, self.W_v))
        if self.positions == "rope":
            q, k = (apply_rope(t, torch.arange(n, device=x.device)) for t in (q, k))
        bias = alibi_bias(h, n, n).to(x) if self.positions == "alibi" else None
        w = self.dropout(scaled_dot_product_attention(q, k, v, causal_mask(n).to(x.device), bias)[1])
        y = self.W_out(merge_heads(w @ v))
        return (y, w) if return_weights else y
