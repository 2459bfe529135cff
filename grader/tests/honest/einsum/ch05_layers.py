"""Style: einsum. d model width, f the wide layer between; every layer takes any axes in front: "...d"."""

import math

import torch
from torch import Tensor, nn


class LinearMap(nn.Module):
    """weight (out, in) and perhaps bias (out,): "...i,oi->...o"."""

    def __init__(self, d_in: int, d_out: int, bias: bool = True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d_out, d_in) * d_in**-0.5)
        self.register_parameter("bias", nn.Parameter(torch.zeros(d_out)) if bias else None)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.einsum("...i,oi->...o", x, self.weight)
        return y if self.bias is None else y + self.bias


def gelu(x: Tensor, approximate: bool = False) -> Tensor:
    if approximate:
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5)))


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    if not training or p == 0:
        return x
    stays = torch.rand(x.shape, device=x.device) >= p
    return torch.where(stays, x / (1 - p if p < 1 else 1), 0.0)  # with p = 1 nothing stays, and nothing is divided by 0


class LayerNorm(nn.Module):
    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        centred = exact - exact.mean(-1, keepdim=True)
        variance = torch.einsum("...d,...d->...", centred, centred) / x.shape[-1]
        normed = torch.einsum("...d,...->...d", centred, (variance + self.eps).rsqrt())
        return (normed * self.weight + self.bias).to(x.dtype)


class RMSNorm(nn.Module):
    def __init__(self, d_model: int, eps: float = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        mean_square = torch.einsum("...d,...d->...", exact, exact) / x.shape[-1]
        normed = torch.einsum("...d,...->...d", exact, (mean_square + self.eps).rsqrt())
        return (normed * self.weight).to(x.dtype)


ACTIVATIONS = {"gelu": gelu, "gelu_tanh": lambda x: gelu(x, approximate=True), "relu": torch.relu}


class FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int | None = None, activation: str = "gelu", dropout: float = 0.0):
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation={activation!r} is none of {', '.join(ACTIVATIONS)}")
        d_ff = 4 * d_model if d_ff is None else d_ff
        self.activation = activation
        self.p = dropout
        self.up = LinearMap(d_model, d_ff)
        self.down = LinearMap(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return dropout(self.down(ACTIVATIONS[self.activation](self.up(x))), self.p, self.training)


class SwiGLU(nn.Module):
    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.gate = LinearMap(d_model, d_ff, bias=False)
        self.up = LinearMap(d_model, d_ff, bias=False)
        self.down = LinearMap(d_ff, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.gate(x)
        return torch.einsum("...f,...f,df->...d", gate * torch.sigmoid(gate), self.up(x), self.down.weight)
