# Style: typed and defensive.

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum
from typing import Final

import torch
from torch import Tensor, nn

SQRT_HALF: Final[float] = math.sqrt(0.5)
TANH_SCALE: Final[float] = math.sqrt(2.0 / math.pi)
TANH_CUBIC: Final[float] = 0.044715
DEFAULT_WIDENING: Final[int] = 4


class Activation(StrEnum):
    GELU = "gelu"
    GELU_TANH = "gelu_tanh"
    RELU = "relu"

    @classmethod
    def parse(cls, name: str) -> Activation:
        try:
            return cls(name)
        except ValueError:
            raise ValueError(f"activation must be one of {[kind.value for kind in cls]}, got {name!r}") from None


def _require_positive(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be 1 or more, got {size}")


def _require_chance(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"the chance of dropout must lie between 0 and 1, got {p}")


def _require_width(x: Tensor, d_model: int) -> None:
    if x.dim() < 1 or x.size(-1) != d_model:
        raise ValueError(f"x must be (..., {d_model}), got {tuple(x.shape)}")


def _at_least_float32(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def gelu(x: Tensor, approximate: bool = False) -> Tensor:
    wide: Tensor = _at_least_float32(x)
    twice_chance: Tensor
    if approximate:
        twice_chance = 1.0 + torch.tanh(TANH_SCALE * (wide + TANH_CUBIC * wide * wide * wide))
    else:
        twice_chance = 1.0 + torch.erf(wide * SQRT_HALF)
    return (0.5 * wide * twice_chance).to(x.dtype)


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    _require_chance(p)
    if not training or p == 0.0:
        return x
    goes: Tensor = torch.rand(x.shape, dtype=torch.float32, device=x.device) < p
    kept: Tensor = x.masked_fill(goes, 0.0)
    return kept if p == 1.0 else kept / (1.0 - p)


class _Norm(nn.Module):
    """What both norms have: the learned stretch, eps, and a result in the dtype of x."""

    weight: nn.Parameter
    eps: float

    def __init__(self, d_model: int, eps: float) -> None:
        super().__init__()
        _require_positive(d_model=d_model)
        if eps < 0.0:
            raise ValueError(f"eps must be 0 or more, got {eps}")
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    @property
    def d_model(self) -> int:
        return self.weight.numel()

    def _over_root_of_mean_square(self, x: Tensor) -> Tensor:
        mean_square: Tensor = x.square().mean(dim=-1, keepdim=True)
        assert mean_square.shape == (*x.shape[:-1], 1)
        return x / torch.sqrt(mean_square + self.eps)


class LayerNorm(_Norm):
    bias: nn.Parameter

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__(d_model, eps)
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        _require_width(x, self.d_model)
        wide: Tensor = _at_least_float32(x)
        centred: Tensor = wide - wide.mean(dim=-1, keepdim=True)
        return (self._over_root_of_mean_square(centred) * self.weight + self.bias).to(x.dtype)


class RMSNorm(_Norm):
    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__(d_model, eps)

    def forward(self, x: Tensor) -> Tensor:
        _require_width(x, self.d_model)
        return (self._over_root_of_mean_square(_at_least_float32(x)) * self.weight).to(x.dtype)


def _gelu_tanh(x: Tensor) -> Tensor:
    return gelu(x, approximate=True)


_BENDS: Final[dict[Activation, Callable[[Tensor], Tensor]]] = {
    Activation.GELU: gelu,
    Activation.GELU_TANH: _gelu_tanh,
    Activation.RELU: torch.relu,
}


class FeedForward(nn.Module):
    up: nn.Linear
    down: nn.Linear
    activation: Activation
    p: float

    def __init__(self, d_model: int, d_ff: int | None = None, activation: str = "gelu", dropout: float = 0.0) -> None:
        super().__init__()
        width: int = DEFAULT_WIDENING * d_model if d_ff is None else d_ff
        _require_positive(d_model=d_model, d_ff=width)
        _require_chance(dropout)
        self.activation = Activation.parse(activation)
        self.p = dropout
        self.up = nn.Linear(d_model, width)
        self.down = nn.Linear(width, d_model)

    def forward(self, x: Tensor) -> Tensor:
        _require_width(x, self.up.in_features)
        hidden: Tensor = _BENDS[self.activation](self.up(x))
        assert hidden.shape == (*x.shape[:-1], self.up.out_features)
        return dropout(self.down(hidden), self.p, training=self.training)


class SwiGLU(nn.Module):
    gate: nn.Linear
    up: nn.Linear
    down: nn.Linear

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        _require_positive(d_model=d_model, d_ff=d_ff)
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        _require_width(x, self.gate.in_features)
        opened: Tensor = self.gate(x)
        opened = opened * torch.sigmoid(opened)
        return self.down(opened * self.up(x))
