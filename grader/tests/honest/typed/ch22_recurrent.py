# Style: typed and defensive.

from __future__ import annotations

import math
from typing import Final, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .ch03_attention import merge_heads, split_heads
from .ch05_layers import RMSNorm

CHUNK: Final = 64
UNIT_EPS: Final = 1e-6


class LayerState(NamedTuple):
    rows: Tensor
    memory: Tensor


def _initial_memory(q: Tensor, v: Tensor, state: Tensor | None) -> Tensor:
    if state is not None:
        return state
    return torch.zeros((*q.shape[:-2], q.shape[-1], v.shape[-1]), dtype=q.dtype, device=q.device)


def delta_rule(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, log_decay: Tensor | None = None, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    memory = _initial_memory(q, v, state)
    read: list[Tensor] = []
    for position in range(q.shape[2]):
        if log_decay is not None:
            factor = torch.exp(log_decay[:, :, position])
            memory = torch.einsum("bh,bhkv->bhkv", factor, memory)
        key = k[:, :, position]
        error = v[:, :, position] - torch.einsum("bhk,bhkv->bhv", key, memory)
        memory = memory + torch.einsum("bh,bhk,bhv->bhkv", beta[:, :, position], key, error)
        read.append(torch.einsum("bhk,bhkv->bhv", q[:, :, position], memory))
    return torch.stack(read, dim=2), memory


def _between(log_decay: Tensor) -> Tensor:
    """exp of the sums between two positions, 0 above the diagonal."""
    size = log_decay.shape[-1]
    index = torch.arange(size, device=log_decay.device)
    after = index[:, None] > index[None, :]
    sums = torch.where(after, log_decay[..., :, None], log_decay.new_zeros(())).cumsum(dim=-2)
    return torch.where(index[:, None] >= index[None, :], sums, sums.new_full((), -math.inf)).exp()


def delta_rule_chunked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    chunk: int,
    log_decay: Tensor | None = None,
    state: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1, got {chunk}")
    memory = _initial_memory(q, v, state)
    decay = torch.zeros_like(beta) if log_decay is None else log_decay
    read: list[Tensor] = []
    for start in range(0, q.shape[2], chunk):
        part = slice(start, start + chunk)
        queries, keys, values = q[:, :, part], k[:, :, part], v[:, :, part]
        weights, logs = beta[:, :, part].unsqueeze(-1), decay[:, :, part]
        between, since = _between(logs), logs.cumsum(dim=-1).exp().unsqueeze(-1)
        target = weights * (values - since * (keys @ memory))
        lower = torch.tril(weights * torch.matmul(keys, keys.mT) * between, diagonal=-1)
        identity = torch.eye(keys.shape[2], dtype=q.dtype, device=q.device)
        corrections = torch.linalg.solve_triangular(lower + identity, target, upper=False)
        read.append(torch.matmul(torch.matmul(queries, keys.mT) * between, corrections) + since * (queries @ memory))
        memory = since[:, :, -1:] * memory + (between[:, :, -1].unsqueeze(-1) * keys).mT @ corrections
    return torch.cat(read, dim=2), memory


def short_convolution(x: Tensor, weight: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
    batch, length, features = x.shape
    width = weight.shape[1]
    before = torch.zeros((batch, width - 1, features), dtype=x.dtype, device=x.device) if state is None else state
    inputs = torch.cat((before, x), dim=1)
    mixed: Tensor = F.conv1d(inputs.transpose(1, 2), weight.unsqueeze(1), groups=features)
    return mixed.transpose(1, 2), inputs.narrow(1, length, width - 1)


def selective_scan(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, D: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    memory = torch.zeros((x.shape[0], *A.shape), dtype=x.dtype, device=x.device) if state is None else state
    read: list[Tensor] = []
    for position in range(x.shape[1]):
        step, inputs = dt[:, position], x[:, position]
        memory = torch.exp(torch.einsum("bd,dn->bdn", step, A)) * memory
        memory = memory + torch.einsum("bd,bn->bdn", step * inputs, B[:, position])
        read.append(torch.einsum("bdn,bn->bd", memory, C[:, position]) + D * inputs)
    return torch.stack(read, dim=1), memory


class GatedDeltaNet(nn.Module):
    def __init__(self, d_model: int, n_heads: int, width: int = 4) -> None:
        super().__init__()
        if n_heads <= 0 or d_model % n_heads != 0:
            raise ValueError(f"d_model must be divisible by n_heads, got d_model = {d_model}, n_heads = {n_heads}")
        if width < 1:
            raise ValueError(f"width must be at least 1, got {width}")
        self.n_heads: int = n_heads
        self.W_qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.W_beta = nn.Linear(d_model, n_heads, bias=False)
        self.W_decay = nn.Linear(d_model, n_heads, bias=False)
        self.W_gate = nn.Linear(d_model, d_model, bias=False)
        self.W_out = nn.Linear(d_model, d_model, bias=False)
        self.norm = RMSNorm(d_model // n_heads)
        self.conv = nn.Parameter(torch.empty(3 * d_model, width))
        nn.init.normal_(self.conv, std=0.5)
        self.A_log = nn.Parameter(torch.log(torch.rand(n_heads) * 15.0 + 1.0))
        steps = torch.exp(torch.rand(n_heads) * (math.log(0.1) - math.log(0.001)) + math.log(0.001))
        self.dt_bias = nn.Parameter(steps + torch.log(-torch.expm1(-steps)))

    def new_state(self, B: int) -> LayerState:
        features, width = self.conv.shape
        d_head = features // (3 * self.n_heads)
        rows = torch.zeros((B, width - 1, features), dtype=self.conv.dtype, device=self.conv.device)
        return LayerState(rows, rows.new_zeros((B, self.n_heads, d_head, d_head)))

    @staticmethod
    def _unit(x: Tensor) -> Tensor:
        return x / torch.sqrt(x.square().sum(dim=-1, keepdim=True) + UNIT_EPS)

    def step(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, LayerState]:
        rows, memory = state
        mixed, rows = short_convolution(self.W_qkv(x), self.conv, rows)
        queries, keys, values = (split_heads(part, self.n_heads) for part in F.silu(mixed).chunk(3, dim=-1))
        beta = torch.sigmoid(self.W_beta(x)).transpose(1, 2)
        speed: Tensor = F.softplus(self.W_decay(x) + self.dt_bias) * torch.exp(self.A_log)
        decay = speed.neg().transpose(1, 2)
        read, memory = delta_rule_chunked(self._unit(queries), self._unit(keys), values, beta, CHUNK, decay, memory)
        gated = merge_heads(self.norm(read)) * F.silu(self.W_gate(x))
        return self.W_out(gated), LayerState(rows, memory)

    def forward(self, x: Tensor) -> Tensor:
        output, _ = self.step(x, self.new_state(x.shape[0]))
        return output
