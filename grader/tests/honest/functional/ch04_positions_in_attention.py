"""Written in the functional style: small pure functions, with modules as thin shells around them."""

from functools import partial

import torch
from torch import Tensor, nn

from .ch03_attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads


def rope_angles(positions: Tensor, d_head: int, base: float = 10000.0) -> Tensor:
    if d_head % 2:
        raise ValueError(f"RoPE turns pairs of features, and d_head is odd: {d_head}")
    exponents = torch.arange(0, d_head, 2, dtype=torch.float32, device=positions.device) / d_head
    return torch.outer(positions.float(), base**-exponents)


def apply_rope(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
    """A pair of features is a complex number, and turning it is multiplying by another one, of length 1."""
    angles = rope_angles(positions, x.size(-1), base)
    exact = x.to(torch.promote_types(x.dtype, torch.float32))
    arrows = torch.complex(exact[..., 0::2], exact[..., 1::2])
    turned = arrows * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).flatten(-2).to(x.dtype)


def power_slopes(n_heads: int) -> list[float]:
    """The slopes for a power of two."""
    return [2.0 ** (-8 * head / n_heads) for head in range(1, n_heads + 1)]


def alibi_slopes(n_heads: int) -> Tensor:
    below = 2 ** (n_heads.bit_length() - 1)
    return torch.tensor([*power_slopes(below), *power_slopes(2 * below)[::2]][:n_heads], dtype=torch.float32)


def alibi_bias(n_heads: int, q_len: int, k_len: int) -> Tensor:
    distance = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).abs()
    return -alibi_slopes(n_heads)[:, None, None] * distance


def checked_width(d_model: int, n_heads: int, positions: str) -> int:
    if positions not in ("none", "rope", "alibi"):
        raise ValueError(f'positions is {positions!r}, and should be "none", "rope" or "alibi"')
    if n_heads < 1 or d_model % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {d_model}")
    if positions == "rope" and d_model // n_heads % 2:
        raise ValueError(f"RoPE turns pairs of features, and d_head is odd: {d_model // n_heads}")
    return d_model // n_heads


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, positions: str = "none", bias: bool = True, dropout: float = 0.0):
        super().__init__()
        checked_width(d_model, n_heads, positions)
        self.n_heads, self.positions = n_heads, positions
        self.W_q, self.W_k, self.W_v, self.W_out = (nn.Linear(d_model, d_model, bias=bias) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, return_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        length = x.size(1)
        q, k, v = (split_heads(W(x), self.n_heads) for W in (self.W_q, self.W_k, self.W_v))
        turn = partial(apply_rope, positions=torch.arange(length, device=x.device)) if self.positions == "rope" else lambda heads: heads
        bias = alibi_bias(self.n_heads, length, length).to(x) if self.positions == "alibi" else None
        weights = self.dropout(scaled_dot_product_attention(turn(q), turn(k), v, causal_mask(length).to(x.device), bias)[1])
        output = self.W_out(merge_heads(weights @ v))
        return (output, weights) if return_weights else output
