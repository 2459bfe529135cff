# Style: typed and defensive.

from __future__ import annotations

from enum import StrEnum
from typing import Final

import torch
from torch import Tensor, nn

from .ch03_attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads

ROPE_BASE: Final[float] = 10000.0
ALIBI_SPAN: Final[float] = 8.0  # the last slope of a power of two is 2^-8
ANGLE_DTYPE: Final[torch.dtype] = torch.float32


class PositionKind(StrEnum):
    NONE = "none"
    ROPE = "rope"
    ALIBI = "alibi"

    @classmethod
    def parse(cls, name: str) -> PositionKind:
        try:
            return cls(name)
        except ValueError:
            raise ValueError(f"positions must be one of {[kind.value for kind in cls]}, got {name!r}") from None


def _require_even(d_head: int) -> None:
    if d_head < 2 or d_head % 2:
        raise ValueError(f"d_head must be even, for features are turned in pairs; got {d_head}")


def _require_heads(n_heads: int) -> None:
    if n_heads < 1:
        raise ValueError(f"n_heads must be 1 or more, got {n_heads}")


def rope_angles(positions: Tensor, d_head: int, base: float = ROPE_BASE) -> Tensor:
    _require_even(d_head)
    if positions.dim() != 1:
        raise ValueError(f"positions must be (T,), got {tuple(positions.shape)}")
    if base <= 0.0:
        raise ValueError(f"base must be above 0, got {base}")
    exponents: Tensor = torch.arange(0, d_head, 2, dtype=ANGLE_DTYPE, device=positions.device) / -d_head
    frequencies: Tensor = base**exponents
    angles: Tensor = torch.outer(positions.to(ANGLE_DTYPE), frequencies)
    assert angles.shape == (positions.numel(), d_head // 2) and angles.dtype == ANGLE_DTYPE
    return angles


def apply_rope(x: Tensor, positions: Tensor, base: float = ROPE_BASE) -> Tensor:
    if x.dim() < 2:
        raise ValueError(f"x must be (..., T, d_head), got {tuple(x.shape)}")
    length, d_head = x.shape[-2:]
    _require_even(d_head)
    if positions.shape != (length,):
        raise ValueError(f"x has {length} positions, so positions must be ({length},), got {tuple(positions.shape)}")
    angles: Tensor = rope_angles(positions.to(x.device), d_head, base)
    cosine, sine = angles.cos(), angles.sin()
    wide: Tensor = x.to(torch.promote_types(x.dtype, ANGLE_DTYPE))
    first, second = wide.unflatten(-1, (d_head // 2, 2)).unbind(-1)
    turned: Tensor = torch.stack((first * cosine - second * sine, first * sine + second * cosine), dim=-1).flatten(-2)
    assert turned.shape == x.shape
    return turned.to(x.dtype)


def _power_of_two_slopes(n_heads: int) -> list[float]:
    assert n_heads & (n_heads - 1) == 0
    return [2.0 ** (-ALIBI_SPAN * head / n_heads) for head in range(1, n_heads + 1)]


def alibi_slopes(n_heads: int) -> Tensor:
    _require_heads(n_heads)
    below: int = 1 << (n_heads.bit_length() - 1)
    between: list[float] = _power_of_two_slopes(2 * below)[::2]
    slopes: list[float] = _power_of_two_slopes(below) + between[: n_heads - below]
    assert len(slopes) == n_heads
    return torch.tensor(slopes, dtype=torch.float32)


def alibi_bias(n_heads: int, q_len: int, k_len: int) -> Tensor:
    if not 0 <= q_len <= k_len:
        raise ValueError(f"the queries are the last of the keys, so q_len must lie between 0 and k_len; got {q_len} and {k_len}")
    key_positions: Tensor = torch.arange(k_len, dtype=torch.float32)
    query_positions: Tensor = key_positions[k_len - q_len :]
    distance: Tensor = (query_positions[:, None] - key_positions[None, :]).abs()
    bias: Tensor = -alibi_slopes(n_heads)[:, None, None] * distance
    assert bias.shape == (n_heads, q_len, k_len)
    return bias


class CausalSelfAttention(nn.Module):
    n_heads: int
    positions: PositionKind
    W_q: nn.Linear
    W_k: nn.Linear
    W_v: nn.Linear
    W_out: nn.Linear
    dropout: nn.Dropout

    def __init__(self, d_model: int, n_heads: int, positions: str = "none", bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        _require_heads(n_heads)
        if d_model < 1 or d_model % n_heads:
            raise ValueError(f"n_heads {n_heads} does not divide d_model {d_model}")
        self.positions = PositionKind.parse(positions)
        if self.positions is PositionKind.ROPE:
            _require_even(d_model // n_heads)
        self.n_heads = n_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_out = nn.Linear(d_model, d_model, bias=bias)
        self.dropout = nn.Dropout(dropout)

    @property
    def d_model(self) -> int:
        return self.W_q.in_features

    def forward(self, x: Tensor, return_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        if x.dim() != 3 or x.size(-1) != self.d_model:
            raise ValueError(f"x must be (B, T, {self.d_model}), got {tuple(x.shape)}")
        batch, length, _ = x.shape
        q: Tensor = split_heads(self.W_q(x), self.n_heads)
        k: Tensor = split_heads(self.W_k(x), self.n_heads)
        v: Tensor = split_heads(self.W_v(x), self.n_heads)
        bias: Tensor | None = None
        match self.positions:
            case PositionKind.ROPE:
                places: Tensor = torch.arange(length, device=x.device)
                q, k = apply_rope(q, places), apply_rope(k, places)
            case PositionKind.ALIBI:
                bias = alibi_bias(self.n_heads, length, length).to(dtype=x.dtype, device=x.device)
            case PositionKind.NONE:
                pass
        _, attended = scaled_dot_product_attention(q, k, v, mask=causal_mask(length).to(x.device), bias=bias)
        weights: Tensor = self.dropout(attended)
        assert weights.shape == (batch, self.n_heads, length, length)
        output: Tensor = self.W_out(merge_heads(weights @ v))
        assert output.shape == x.shape
        return (output, weights) if return_weights else output
