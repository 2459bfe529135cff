"""Written in the functional style: small pure functions, with modules as thin shells around them."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def random_table(rows: int, width: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, width) / math.sqrt(width))


def add_rows(x: Tensor, table: Tensor, start: int) -> Tensor:
    """x (B, T, D) plus rows start .. start + T - 1 of table (max_len, D)."""
    end, max_len = start + x.size(1), table.size(0)
    if end > max_len:
        raise ValueError(f"position {end - 1} is not in the table: max_len is {max_len}")
    return x + table[start:end].to(x.dtype)


class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size: int, d_model: int, scale: bool = False):
        super().__init__()
        self.weight = random_table(vocab_size, d_model)
        self.factor = math.sqrt(d_model) if scale else 1.0

    def forward(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.weight) * self.factor


class LearnedPositions(nn.Module):
    def __init__(self, max_len: int, d_model: int):
        super().__init__()
        self.weight = random_table(max_len, d_model)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return add_rows(x, self.weight, start)


def sinusoidal_positions(max_len: int, d_model: int) -> Tensor:
    frequencies = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float32) / d_model)
    angles = torch.outer(torch.arange(max_len, dtype=torch.float32), frequencies)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :d_model]


class SinusoidalPositions(nn.Module):
    def __init__(self, max_len: int, d_model: int):
        super().__init__()
        self.register_buffer("table", sinusoidal_positions(max_len, d_model), persistent=False)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return add_rows(x, self.table, start)
