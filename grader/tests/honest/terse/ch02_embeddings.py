"""Chapter 2 in the terse style: as short as it can be read."""

import torch
from torch import Tensor, nn


class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size: int, d_model: int, scale: bool = False):
        super().__init__()
        self.weight, self.factor = nn.Parameter(torch.randn(vocab_size, d_model) * d_model**-0.5), d_model**0.5 if scale else 1

    def forward(self, ids: Tensor) -> Tensor:
        return self.weight[ids] * self.factor


class LearnedPositions(nn.Module):
    def __init__(self, max_len: int, d_model: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(max_len, d_model) / 50)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        if (end := start + x.size(1)) > (n := len(self.weight)):
            raise ValueError(f"position {end - 1} is not in a table of max_len {n}")
        return x + self.weight[start:end].to(x)


def sinusoidal_positions(max_len: int, d_model: int) -> Tensor:
    a = torch.arange(max_len)[:, None] * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack((a.sin(), a.cos()), -1).flatten(1)[:, :d_model].float()


class SinusoidalPositions(nn.Module):
    def __init__(self, max_len: int, d_model: int):
        super().__init__()
        self.register_buffer("weight", sinusoidal_positions(max_len, d_model), persistent=False)

    forward = LearnedPositions.forward
