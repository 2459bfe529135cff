"""Written in the functional style: small pure functions, with modules as thin shells around them."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def gelu(x: Tensor, approximate: bool = False) -> Tensor:
    """torch.special.ndtr is the probability that a standard normal number is below x."""
    if approximate:
        return x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x * torch.special.ndtr(x)


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    if not training or p == 0:
        return x
    stays = torch.rand(x.shape, device=x.device) >= p
    return torch.where(stays, x * (0.0 if p == 1 else 1 / (1 - p)), 0.0)


def widened(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + eps) * weight + bias


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight


class LayerNorm(nn.Module):
    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return layer_norm(widened(x), self.weight, self.bias, self.eps).to(x.dtype)


class RMSNorm(nn.Module):
    def __init__(self, d_model: int, eps: float = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(widened(x), self.weight, self.eps).to(x.dtype)


ACTIVATIONS = {"gelu": gelu, "gelu_tanh": partial(gelu, approximate=True), "relu": F.relu}


class FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int | None = None, activation: str = "gelu", dropout: float = 0.0):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation is {activation!r}, and should be one of {', '.join(ACTIVATIONS)}")
        width = 4 * d_model if d_ff is None else d_ff
        self.up, self.down = nn.Linear(d_model, width), nn.Linear(width, d_model)
        self.activation, self.p = activation, dropout

    def forward(self, x: Tensor) -> Tensor:
        return dropout(self.down(ACTIVATIONS[self.activation](self.up(x))), self.p, self.training)


class SwiGLU(nn.Module):
    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.gate, self.up = (nn.Linear(d_model, d_ff, bias=False) for _ in range(2))
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))
