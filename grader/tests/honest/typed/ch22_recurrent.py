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


def _positive_features(x: Tensor) -> Tensor:
    return F.elu(x).add(1.0)


def _check_heads(q: Tensor, k: Tensor, v: Tensor) -> None:
    if q.shape != k.shape:
        raise ValueError(f"q has the shape {tuple(q.shape)}, and k has {tuple(k.shape)}")
    if k.shape[:-1] != v.shape[:-1]:
        raise ValueError(f"k has the shape {tuple(k.shape)}, and v has {tuple(v.shape)}")


def linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    _check_heads(q, k, v)
    scores: Tensor = torch.matmul(_positive_features(q), _positive_features(k).transpose(-1, -2))
    later: Tensor = torch.ones(q.size(-2), q.size(-2), dtype=torch.bool, device=q.device).triu(diagonal=1)
    weights: Tensor = torch.masked_fill(scores, later, 0.0)
    return torch.matmul(weights, v).div(weights.sum(dim=-1, keepdim=True))


class _Sums(NamedTuple):
    S: Tensor
    z: Tensor


def _no_sums(k: Tensor, v: Tensor) -> _Sums:
    return _Sums(k.new_zeros((*k.shape, v.size(-1))), torch.zeros_like(k))


def linear_attention_step(q: Tensor, k: Tensor, v: Tensor, state: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    _check_heads(q, k, v)
    before: _Sums = _no_sums(k, v) if state is None else _Sums(*state)
    query, key = _positive_features(q), _positive_features(k)
    after = _Sums(before.S + torch.einsum("bhd,bhv->bhdv", key, v), before.z + key)
    numerator: Tensor = torch.einsum("bhd,bhdv->bhv", query, after.S)
    denominator: Tensor = torch.einsum("bhd,bhd->bh", query, after.z)
    return numerator / denominator.unsqueeze(-1), (after.S, after.z)


def segment_sums(log_decay: Tensor) -> Tensor:
    length: int = log_decay.size(-1)
    ones: Tensor = torch.ones(length, length, dtype=torch.bool, device=log_decay.device)
    column: Tensor = log_decay.unsqueeze(-1).expand(*log_decay.shape, length)
    sums: Tensor = column.masked_fill(ones.triu(0), 0.0).cumsum(dim=-2)
    return sums.masked_fill(ones.triu(1), MINUS_INFINITY)


def decayed_attention(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor) -> Tensor:
    _check_heads(q, k, v)
    if log_decay.shape != q.shape[:-1]:
        raise ValueError(f"log_decay has the shape {tuple(log_decay.shape)}, and q has {tuple(q.shape)}")
    weights: Tensor = torch.einsum("bhtd,bhsd->bhts", q, k).mul(segment_sums(log_decay).exp())
    return torch.einsum("bhts,bhsv->bhtv", weights, v)


class _Piece(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor
    log_decay: Tensor


def _pieces(whole: _Piece, chunk: int) -> Iterator[_Piece]:
    for start in range(0, whole.q.size(2), chunk):
        length: int = min(chunk, whole.q.size(2) - start)
        yield _Piece(*(each.narrow(2, start, length) for each in whole))


def decayed_attention_chunked(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, chunk: int, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    _check_heads(q, k, v)
    if not chunk >= 1:
        raise ValueError(f"chunk must be at least 1, got {chunk}")
    memory: Tensor = q.new_zeros((*q.shape[:2], q.size(3), v.size(3))) if state is None else state
    outputs: list[Tensor] = []
    for piece in _pieces(_Piece(q, k, v, log_decay), chunk):
        to_the_end: Tensor = segment_sums(piece.log_decay)[..., -1, :].exp().unsqueeze(-1)
        from_the_start: Tensor = piece.log_decay.cumsum(dim=-1).exp().unsqueeze(-1)
        outputs.append(decayed_attention(*piece) + torch.matmul(piece.q * from_the_start, memory))
        added: Tensor = torch.matmul((piece.k * to_the_end).transpose(2, 3), piece.v)
        memory = memory * from_the_start[..., -1:, :] + added
    return torch.cat(outputs, dim=2), memory


def doubling_scan(a: Tensor, b: Tensor) -> Tensor:
    if a.shape != b.shape:
        raise ValueError(f"a has the shape {tuple(a.shape)}, and b has {tuple(b.shape)}")
    factor, value = a, b
    reach: int = 1
    while reach < b.size(0):
        earlier: Tensor = value.narrow(0, 0, b.size(0) - reach)
        later: Tensor = factor.narrow(0, reach, b.size(0) - reach)
        joined: Tensor = torch.addcmul(value.narrow(0, reach, b.size(0) - reach), later, earlier)
        product: Tensor = later * factor.narrow(0, 0, b.size(0) - reach)
        value = torch.cat((value.narrow(0, 0, reach), joined))
        factor = torch.cat((factor.narrow(0, 0, reach), product))
        reach *= 2
    return value


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
