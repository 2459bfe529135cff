"""In explicit loops: the norms walk from feature to feature; what is done to each number alone stays one line."""

import math

import torch
from torch import Tensor, nn


def gelu(x: Tensor, approximate: bool = False) -> Tensor:
    if not approximate:
        return x / 2 * (1 + torch.erf(x / math.sqrt(2)))
    cube = x
    for _ in range(2):
        cube = cube * x
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * cube)
    return x / 2 * (1 + torch.tanh(inner))


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    if not training or p == 0:
        return x
    stays = torch.rand(x.shape, device=x.device) >= p
    if p < 1:
        x = x / (1 - p)
    return torch.where(stays, x, torch.zeros_like(x))


def mean_of(numbers: list[Tensor]) -> Tensor:
    total = torch.zeros_like(numbers[0])
    for number in numbers:
        total = total + number
    return total / len(numbers)


class LayerNorm(nn.Module):
    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        features = x.to(torch.promote_types(x.dtype, torch.float32)).unbind(-1)
        mean = mean_of(features)
        deviations = []
        squares = []
        for feature in features:
            deviation = feature - mean
            deviations.append(deviation)
            squares.append(deviation * deviation)
        root = torch.sqrt(mean_of(squares) + self.eps)
        normed = []
        for deviation, stretch, shift in zip(deviations, self.weight.unbind(), self.bias.unbind()):
            normed.append(deviation / root * stretch + shift)
        return torch.stack(normed, dim=-1).to(x.dtype)


class RMSNorm(nn.Module):
    def __init__(self, d_model: int, eps: float = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        features = x.to(torch.promote_types(x.dtype, torch.float32)).unbind(-1)
        squares = []
        for feature in features:
            squares.append(feature * feature)
        root = torch.sqrt(mean_of(squares) + self.eps)
        normed = []
        for feature, stretch in zip(features, self.weight.unbind()):
            normed.append(feature / root * stretch)
        return torch.stack(normed, dim=-1).to(x.dtype)


class FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int | None = None, activation: str = "gelu", dropout: float = 0.0):
        super().__init__()
        if activation not in ("gelu", "gelu_tanh", "relu"):
            raise ValueError(f"the activation {activation!r} is none of gelu, gelu_tanh and relu")
        if d_ff is None:
            d_ff = 4 * d_model
        self.activation = activation
        self.chance = dropout
        self.up = nn.Linear(d_model, d_ff)
        self.down = nn.Linear(d_ff, d_model)

    def bend(self, wide: Tensor) -> Tensor:
        if self.activation == "relu":
            return torch.relu(wide)
        return gelu(wide, approximate=self.activation == "gelu_tanh")

    def forward(self, x: Tensor) -> Tensor:
        for step in (self.up, self.bend, self.down):
            x = step(x)
        return dropout(x, self.chance, self.training)


class SwiGLU(nn.Module):
    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        for name in ("gate", "up"):
            setattr(self, name, nn.Linear(d_model, d_ff, bias=False))
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        g = self.gate(x)
        return self.down(g * torch.sigmoid(g) * self.up(x))
