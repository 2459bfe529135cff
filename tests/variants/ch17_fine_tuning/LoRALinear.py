# variant: einsum, and a copy of the layer for merged
from copy import deepcopy

import torch
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, linear, rank, alpha):
        super().__init__()
        assert rank >= 1, f"rank = {rank} is too small"
        for parameter in linear.parameters():
            parameter.requires_grad = False
        self.linear = linear
        n_out, n_in = linear.weight.shape
        like = dict(dtype=linear.weight.dtype, device=linear.weight.device)
        self.register_parameter("A", nn.Parameter(torch.empty(rank, n_in, **like)))
        self.register_parameter("B", nn.Parameter(torch.empty(n_out, rank, **like)))
        nn.init.normal_(self.A, std=n_in**-0.5)
        nn.init.zeros_(self.B)
        self.alpha, self.rank = alpha, rank

    def forward(self, x):
        return self.linear(x) + torch.einsum("...i,ri,or->...o", x, self.A, self.B) * self.alpha / self.rank

    def merged(self):
        layer = deepcopy(self.linear).requires_grad_(True)
        with torch.no_grad():
            layer.weight += self.B.matmul(self.A) * (self.alpha / self.rank)
        return layer


# variant: one matrix for the whole change, added to the weight in every call
import math

import torch
import torch.nn.functional as F
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, linear, rank, alpha):
        super().__init__()
        if not rank > 0:
            raise ValueError(f"rank must be at least 1, and it is {rank}")
        self.linear = linear.requires_grad_(False)
        self.A = nn.Parameter(linear.weight.new_empty(rank, linear.in_features).normal_() / math.sqrt(linear.in_features))
        self.B = nn.Parameter(linear.weight.new_zeros(linear.out_features, rank))
        self.factor = alpha / rank

    @property
    def weight(self):
        return torch.addmm(self.linear.weight, self.B, self.A, alpha=self.factor)

    def forward(self, x):
        return F.linear(x, self.weight, self.linear.bias)

    def merged(self):
        has_bias = self.linear.bias is not None
        new = nn.Linear(self.linear.in_features, self.linear.out_features, bias=has_bias).to(self.linear.weight)
        new.weight = nn.Parameter(self.weight.detach().clone())
        if has_bias:
            new.bias = nn.Parameter(self.linear.bias.detach().clone())
        return new


# variant: two linear functions, state copied by name
import torch
import torch.nn.functional as F
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, linear, rank, alpha):
        if rank < 1:
            raise ValueError("rank: %d" % rank)
        super().__init__()
        self.add_module("linear", linear)
        for name in dict(linear.named_parameters()):
            getattr(linear, name).requires_grad_(False)
        weight = linear.weight.data
        self.A = nn.Parameter(torch.randn_like(weight[:1].expand(rank, -1)) * weight.size(1) ** -0.5)
        self.B = nn.Parameter(torch.zeros_like(weight[:, :1].repeat(1, rank)))
        self.register_buffer("scale", torch.tensor(alpha / rank, dtype=weight.dtype, device=weight.device), persistent=False)

    def forward(self, x):
        down = F.linear(x, self.A)
        return torch.add(self.linear(x), F.linear(down, self.scale * self.B))

    @torch.no_grad()
    def merged(self):
        state = self.linear.state_dict()
        state["weight"] = state["weight"] + self.scale * (self.B @ self.A)
        new = nn.Linear(*reversed(state["weight"].shape), bias="bias" in state)
        new.to(device=state["weight"].device, dtype=state["weight"].dtype).load_state_dict(state)
        return new
