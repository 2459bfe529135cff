"""Style: einsum. b batch, t position, d feature; p a row of the table, f a frequency. The table of waves is a buffer."""

import math

import torch
from torch import Tensor, nn


class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size: int, d_model: int, scale: bool = False):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab_size, d_model) * d_model**-0.5)
        self.factor = math.sqrt(d_model) if scale else 1.0  # a plain number: as a float32 buffer it would be too round for a float64 model

    def forward(self, ids: Tensor) -> Tensor:
        # "btv,vd->btd" with one-hot rows, without making the zeros
        return self.weight[ids] * self.factor


def rows_for(table: Tensor, x: Tensor, start: int) -> Tensor:
    """The rows of the table for x's positions, (t, d), in x's dtype."""
    stop, max_len = start + x.shape[1], table.shape[0]
    if stop > max_len:
        raise ValueError(f"positions {start} to {stop - 1} do not all lie in a table of max_len={max_len}")
    return table[start:stop].to(x.dtype)


class LearnedPositions(nn.Module):
    def __init__(self, max_len: int, d_model: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(max_len, d_model) * 0.02)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return x + rows_for(self.weight, x, start)


def sinusoidal_positions(max_len: int, d_model: int) -> Tensor:
    places = torch.arange(max_len, dtype=torch.float32)
    frequencies = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float32) / d_model)
    angles = torch.einsum("p,f->pf", places, frequencies)
    hands = torch.stack([angles.sin(), angles.cos()], dim=-1)  # (p, f, 2): each sine next to its cosine
    return hands.flatten(1)[:, :d_model]  # an odd width leaves out the last cosine


class SinusoidalPositions(nn.Module):
    def __init__(self, max_len: int, d_model: int):
        super().__init__()
        self.register_buffer("table", sinusoidal_positions(max_len, d_model), persistent=False)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return x + rows_for(self.table, x, start)
