"""What a rotation by position does to pairs of neighbouring features, written with complex numbers."""

from __future__ import annotations

import torch
from torch import Tensor


def rotated(x: Tensor, base: float = 10000.0) -> Tensor:
    """Each pair of features (..., T, d) turned by position · base^(-2i / d) radians, in float64."""
    turns = base ** (-torch.arange(0, x.size(-1), 2, dtype=torch.float64) / x.size(-1))
    angles = torch.arange(x.size(-2))[:, None] * turns
    pairs = torch.complex(x[..., 0::2].double(), x[..., 1::2].double())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)
