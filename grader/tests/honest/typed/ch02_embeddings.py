# Style: typed and defensive.

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor, nn

WAVE_BASE: Final[float] = 10000.0
POSITION_STD: Final[float] = 0.02
TABLE_DTYPE: Final[torch.dtype] = torch.float32


def _require_positive(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be 1 or more, got {size}")


def _is_whole(ids: Tensor) -> bool:
    return not (ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool)


def _rows_for(table: Tensor, x: Tensor, start: int) -> Tensor:
    """The rows start up to start + T of the table, (T, D), as x wants them: its dtype, its device."""
    max_len, d_model = table.shape
    if x.dim() != 3 or x.size(-1) != d_model:
        raise ValueError(f"x must be (B, T, {d_model}), got {tuple(x.shape)}")
    if start < 0:
        raise ValueError(f"start must be 0 or more, got {start} (max_len is {max_len})")
    end: int = start + x.size(1)
    if end > max_len:
        raise ValueError(f"positions {start} to {end - 1} were asked for, but max_len is {max_len}")
    rows: Tensor = table[start:end].to(dtype=x.dtype, device=x.device)
    assert rows.shape == x.shape[1:]
    return rows


class TokenEmbedding(nn.Module):
    weight: nn.Parameter
    factor: float

    def __init__(self, vocab_size: int, d_model: int, scale: bool = False) -> None:
        super().__init__()
        _require_positive(vocab_size=vocab_size, d_model=d_model)
        root: float = math.sqrt(d_model)
        self.weight = nn.Parameter(torch.randn(vocab_size, d_model) / root)
        self.factor = root if scale else 1.0

    @property
    def vocab_size(self) -> int:
        return self.weight.size(0)

    def forward(self, ids: Tensor) -> Tensor:
        if not _is_whole(ids):
            raise ValueError(f"ids must be whole numbers, got {ids.dtype}")
        if bool(((ids < 0) | (ids >= self.vocab_size)).any()):
            raise ValueError(f"ids must lie between 0 and {self.vocab_size - 1}, got {int(ids.min())} to {int(ids.max())}")
        vectors: Tensor = self.weight[ids.to(torch.int64)] * self.factor
        assert vectors.shape == (*ids.shape, self.weight.size(1))
        return vectors


class LearnedPositions(nn.Module):
    weight: nn.Parameter

    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__()
        _require_positive(max_len=max_len, d_model=d_model)
        self.weight = nn.Parameter(torch.randn(max_len, d_model) * POSITION_STD)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return x + _rows_for(self.weight, x, start)


def sinusoidal_positions(max_len: int, d_model: int) -> Tensor:
    _require_positive(max_len=max_len, d_model=d_model)
    n_sines: int = (d_model + 1) // 2
    n_cosines: int = d_model // 2
    positions: Tensor = torch.arange(max_len, dtype=TABLE_DTYPE).unsqueeze(1)
    exponents: Tensor = torch.arange(0, d_model, 2, dtype=TABLE_DTYPE) / -d_model
    angles: Tensor = positions * WAVE_BASE**exponents
    assert angles.shape == (max_len, n_sines)
    table: Tensor = torch.empty(max_len, d_model, dtype=TABLE_DTYPE)
    table[:, 0::2] = angles.sin()
    table[:, 1::2] = angles[:, :n_cosines].cos()
    return table


class SinusoidalPositions(nn.Module):
    table: Tensor

    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoidal_positions(max_len, d_model), persistent=False)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return x + _rows_for(self.table, x, start)
