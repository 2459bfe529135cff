"""In explicit loops: over sequences, over positions, over pairs of columns; lists, and a stack at the end."""

import math

import torch
from torch import Tensor, nn


class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size: int, d_model: int, scale: bool = False):
        super().__init__()
        self.weight = nn.Parameter(0.02 * torch.randn(vocab_size, d_model))
        self.factor = math.sqrt(d_model) if scale else 1.0

    def forward(self, ids: Tensor) -> Tensor:
        batch = []
        for sequence in ids.tolist():
            vectors = []
            for token in sequence:
                vectors.append(self.weight[token] * self.factor)
            batch.append(torch.stack(vectors))
        return torch.stack(batch)


def add_rows(x: Tensor, table: Tensor, start: int) -> Tensor:
    """Add row start + t of the table to position t of every sequence."""
    max_len = table.size(0)
    n_positions = x.size(1)
    if start + n_positions > max_len:
        raise ValueError(f"the last position is {start + n_positions - 1}, and the table has max_len = {max_len} rows")
    moved = []
    for t in range(n_positions):
        moved.append(x[:, t] + table[start + t].to(x.dtype))
    return torch.stack(moved, dim=1)


class LearnedPositions(nn.Module):
    def __init__(self, max_len: int, d_model: int):
        super().__init__()
        self.weight = nn.Parameter(0.02 * torch.randn(max_len, d_model))

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return add_rows(x, self.weight, start)


def sinusoidal_positions(max_len: int, d_model: int) -> Tensor:
    positions = torch.arange(max_len, dtype=torch.float32)
    frequencies = 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    columns = []
    for column in range(d_model):
        pair = column // 2
        frequency = frequencies[pair]
        if column % 2 == 0:
            columns.append(torch.sin(positions * frequency))
        else:
            columns.append(torch.cos(positions * frequency))
    return torch.stack(columns, dim=1)


class SinusoidalPositions(nn.Module):
    def __init__(self, max_len: int, d_model: int):
        super().__init__()
        self.register_buffer("table", sinusoidal_positions(max_len, d_model), persistent=False)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return add_rows(x, self.table, start)
