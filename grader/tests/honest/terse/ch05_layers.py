"""Chapter 5 in the terse style: as short as it can be read."""

from math import pi

import torch
from torch import Tensor, nn


def gelu(x: Tensor, approximate: bool = False) -> Tensor:
    return x / 2 * (1 + (((2 / pi) ** 0.5 * (x + 0.044715 * x**3)).tanh() if approximate else (x / 2**0.5).erf()))


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    return x.masked_fill(torch.rand(x.shape, device=x.device) < p, 0) / (1 - p or 1) if training and p else x


class LayerNorm(nn.Module):
    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        self.weight, self.bias, self.eps = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model)), eps

    def forward(self, x: Tensor) -> Tensor:
        v, m = torch.var_mean(y := x.to(torch.promote_types(x.dtype, torch.float32)), -1, correction=0, keepdim=True)
        return ((y - m) * (v + self.eps).rsqrt() * self.weight + self.bias).to(x.dtype)


class RMSNorm(nn.Module):
    def __init__(self, d_model: int, eps: float = 1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d_model)), eps

    def forward(self, x: Tensor) -> Tensor:
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        return (y * (y.square().mean(-1, keepdim=True) + self.eps).rsqrt() * self.weight).to(x.dtype)


BENDS = {"gelu": gelu, "gelu_tanh": lambda x: gelu(x, True), "relu": torch.relu}


class FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int | None = None, activation: str = "gelu", dropout: float = 0.0):
        super().__init__()
        if activation not in BENDS:
            raise ValueError(f"unknown activation {activation!r}")
        d = 4 * d_model if d_ff is None else d_ff
        self.up, self.down, self.activation, self.p = nn.Linear(d_model, d), nn.Linear(d, d_model), activation, dropout

    def forward(self, x: Tensor) -> Tensor:
        return dropout(self.down(BENDS[self.activation](self.up(x))), self.p, self.training)


class SwiGLU(nn.Module):
    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(*io, bias=False) for io in ((d_model, d_ff), (d_model, d_ff), (d_ff, d_model)))

    def forward(self, x: Tensor) -> Tensor:
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))
