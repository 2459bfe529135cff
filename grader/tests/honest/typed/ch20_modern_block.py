# Style: typed and defensive.

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple, cast, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .ch03_attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from .ch04_positions_in_attention import alibi_bias, apply_rope, rope_angles
from .ch05_layers import RMSNorm
from .ch10_kv_cache import KVCache

Positions = Literal["none", "rope", "alibi"]


class _Polynomial(NamedTuple):
    a: float = 3.4445
    b: float = -4.7750
    c: float = 2.0315


POLYNOMIAL: Final = _Polynomial()


def soft_cap(logits: Tensor, cap: float) -> Tensor:
    if not cap > 0:
        raise ValueError(f"cap must be positive, got {cap}")
    return torch.tanh(logits.div(cap)).mul(cap)


def _scores(q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
    scores: Tensor = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.size(-1) ** -0.5
    return scores if mask is None else scores.masked_fill(torch.logical_not(mask), float("-inf"))


def attention_with_sink(q: Tensor, k: Tensor, v: Tensor, sink: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    if sink.shape != (q.size(1),):
        raise ValueError(f"sink must have the shape {(q.size(1),)}, got {tuple(sink.shape)}")
    scores: Tensor = _scores(q, k, mask)
    own: Tensor = sink.to(scores.dtype).view(1, -1, 1, 1).expand(scores.size(0), -1, scores.size(2), 1)
    total: Tensor = torch.logsumexp(torch.cat((own, scores), dim=3), dim=3, keepdim=True)
    weights: Tensor = torch.exp(scores - total)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v), weights


def gated_attention(q: Tensor, k: Tensor, v: Tensor, gate: Tensor, mask: Tensor | None = None) -> Tensor:
    output, _ = scaled_dot_product_attention(q, k, v, mask)
    return output * F.sigmoid(gate)


class QKNormAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, positions: str = "none") -> None:
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"d_model = {d_model} must be a multiple of n_heads = {n_heads}")
        if positions not in get_args(Positions):
            raise ValueError(f"positions must be one of {get_args(Positions)}, got {positions!r}")
        self.n_heads: Final[int] = n_heads
        self.d_head: Final[int] = d_model // n_heads
        self.positions: Positions = cast(Positions, positions)
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        self.W_k = nn.Linear(d_model, d_model, bias=False)
        self.W_v = nn.Linear(d_model, d_model, bias=False)
        self.W_out = nn.Linear(d_model, d_model, bias=False)
        self.q_norm = RMSNorm(self.d_head)
        self.k_norm = RMSNorm(self.d_head)

    def _queries_and_keys(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q: Tensor = self.q_norm(split_heads(self.W_q(x), self.n_heads))
        k: Tensor = self.k_norm(split_heads(self.W_k(x), self.n_heads))
        if self.positions == "rope":
            places: Tensor = torch.arange(x.size(1), device=x.device)
            return apply_rope(q, places), apply_rope(k, places)
        return q, k

    def forward(self, x: Tensor) -> Tensor:
        length: int = x.size(1)
        q, k = self._queries_and_keys(x)
        v: Tensor = split_heads(self.W_v(x), self.n_heads)
        bias: Tensor | None = None
        if self.positions == "alibi":
            bias = alibi_bias(self.n_heads, length, length).to(dtype=x.dtype, device=x.device)
        output, _ = scaled_dot_product_attention(q, k, v, mask=causal_mask(length).to(device=x.device), bias=bias)
        return self.W_out(merge_heads(output))


class LatentAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_latent: int, d_rope: int) -> None:
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"d_model = {d_model} must be a multiple of n_heads = {n_heads}")
        if d_rope % 2:
            raise ValueError(f"d_rope must be even, got {d_rope}")
        self.n_heads: Final[int] = n_heads
        self.d_head: Final[int] = d_model // n_heads
        self.d_rope: Final[int] = d_rope
        self.W_q = nn.Linear(d_model, n_heads * (self.d_head + d_rope), bias=False)
        self.W_down = nn.Linear(d_model, d_latent, bias=False)
        self.W_up_k = nn.Linear(d_latent, d_model, bias=False)
        self.W_up_v = nn.Linear(d_latent, d_model, bias=False)
        self.W_rope = nn.Linear(d_model, d_rope, bias=False)
        self.W_out = nn.Linear(d_model, d_model, bias=False)
        self.norm = RMSNorm(d_latent)

    @property
    def _scale(self) -> float:
        return (self.d_head + self.d_rope) ** -0.5

    def _queries(self, x: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        both: Tensor = split_heads(self.W_q(x), self.n_heads)
        return both.narrow(-1, 0, self.d_head), apply_rope(both.narrow(-1, self.d_head, self.d_rope), places)

    def _weights(self, scores: Tensor, past: int) -> Tensor:
        allowed: Tensor = causal_mask(scores.size(-2), past + scores.size(-2)).to(device=scores.device)
        return torch.softmax(scores.mul(self._scale).masked_fill(~allowed, float("-inf")), dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        places: Tensor = torch.arange(x.size(1), device=x.device)
        latent: Tensor = self.norm(self.W_down(x))
        plain, turned = self._queries(x, places)
        keys: Tensor = split_heads(self.W_up_k(latent), self.n_heads)
        values: Tensor = split_heads(self.W_up_v(latent), self.n_heads)
        shared: Tensor = apply_rope(self.W_rope(x), places).unsqueeze(1)
        scores: Tensor = torch.einsum("bhqd,bhkd->bhqk", plain, keys)
        scores = scores + torch.einsum("bhqd,bkd->bhqk", turned, shared.squeeze(1))
        return self.W_out(merge_heads(self._weights(scores, 0) @ values))

    @torch.no_grad()
    def cached(self, x: Tensor, cache: KVCache) -> Tensor:
        past: int = cache.length
        places: Tensor = torch.arange(past, past + x.size(1), device=x.device)
        latent, shared = cache.append(self.norm(self.W_down(x)).unsqueeze(1), apply_rope(self.W_rope(x), places).unsqueeze(1))
        plain, turned = self._queries(x, places)
        up_k: Tensor = self.W_up_k.weight.view(self.n_heads, self.d_head, -1)
        up_v: Tensor = self.W_up_v.weight.view(self.n_heads, self.d_head, -1)
        absorbed: Tensor = torch.einsum("bhqd,hdl->bhql", plain, up_k)
        scores: Tensor = torch.einsum("bhql,bkl->bhqk", absorbed, latent[:, 0])
        scores = scores + torch.einsum("bhqd,bkd->bhqk", turned, shared[:, 0])
        average: Tensor = torch.einsum("bhqk,bkl->bhql", self._weights(scores, past), latent[:, 0])
        return self.W_out(merge_heads(torch.einsum("bhql,hdl->bhqd", average, up_v)))


def yarn_angles(
    positions: Tensor,
    d_head: int,
    factor: float,
    trained_length: int,
    base: float = 10000.0,
    fast: float = 32.0,
    slow: float = 1.0,
) -> tuple[Tensor, float]:
    if factor < 1.0:
        raise ValueError(f"factor must be at least 1, got {factor}")
    if d_head % 2:
        raise ValueError(f"d_head must be even, got {d_head}")
    usual: Tensor = rope_angles(positions, d_head, base).to(torch.float64)
    i: Tensor = torch.arange(d_head // 2, dtype=torch.float64, device=positions.device)

    def index_of(turns: float) -> float:
        return d_head * math.log(trained_length / (turns * 2.0 * math.pi)) / (2.0 * math.log(base))

    low, high = index_of(fast), index_of(slow)
    share: Tensor = torch.clamp((i - low) / (high - low), min=0.0, max=1.0)
    slower: Tensor = positions.to(torch.float64).unsqueeze(1) * torch.pow(torch.tensor(base, dtype=torch.float64), -2.0 * i / d_head) / factor
    return torch.lerp(usual, slower, share.expand_as(usual)), 0.1 * math.log(factor) + 1.0


def newton_schulz(m: Tensor, steps: int = 5) -> Tensor:
    if m.dim() != 2:
        raise ValueError(f"newton_schulz needs a matrix, got {m.dim()} axes")
    x: Tensor = m / (torch.linalg.matrix_norm(m) + 1e-7)
    is_tall: bool = m.size(0) > m.size(1)
    for _ in range(steps):
        # the smaller of the two products: X (XᵀX) = (XXᵀ) X
        square: Tensor = x.mT @ x if is_tall else x @ x.mT
        change: Tensor = POLYNOMIAL.b * square + POLYNOMIAL.c * torch.linalg.matrix_power(square, 2)
        x = POLYNOMIAL.a * x + (x @ change if is_tall else change @ x)
    return x


class Muon:
    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 0.02,
        momentum: float = 0.95,
        steps: int = 5,
        weight_decay: float = 0.0,
    ) -> None:
        parameters: list[nn.Parameter] = list(params)
        wrong: list[tuple[int, ...]] = [tuple(p.shape) for p in parameters if p.dim() != 2]
        if wrong:
            raise ValueError(f"Muon takes matrices only, got the shapes {wrong}")
        group: dict[str, Any] = {"params": parameters, "lr": lr, "momentum": momentum, "steps": steps, "weight_decay": weight_decay}
        self.param_groups: list[dict[str, Any]] = [group]
        self._momenta: dict[nn.Parameter, Tensor] = {}

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)

    def _update(self, parameter: nn.Parameter, gradient: Tensor, group: dict[str, Any]) -> None:
        share: float = group["momentum"]
        velocity: Tensor = self._momenta.setdefault(parameter, torch.zeros_like(parameter, memory_format=torch.preserve_format))
        velocity.lerp_(gradient, 1.0 - share)
        direction: Tensor = newton_schulz(torch.lerp(gradient, velocity, share), group["steps"])
        height, width = parameter.shape
        if group["weight_decay"]:
            parameter -= group["lr"] * group["weight_decay"] * parameter
        parameter -= group["lr"] * math.sqrt(max(1.0, height / width)) * direction

    def zero_grad(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None


def multi_token_loss(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    log_probs: Tensor = torch.log_softmax(logits, dim=-1)
    losses: list[Tensor] = []
    for ahead, own in enumerate(log_probs.unbind(0)):
        wanted: Tensor = targets[:, ahead:]
        counts: Tensor = wanted.ne(ignore_index)
        chosen: Tensor = own[:, : wanted.size(1)].gather(-1, wanted.where(counts, 0).unsqueeze(-1)).squeeze(-1)
        number: int = max(int(counts.sum()), 1)
        losses.append(-chosen.masked_fill(~counts, 0.0).sum() / number)
    return sum(losses, start=logits.new_zeros(())) / len(losses)


def schedule_wsd(step: int, warmup: int, decay: int, total: int, peak: float, floor: float = 0.0) -> float:
    stable_end: Final[int] = total - decay
    if stable_end < warmup:
        raise ValueError(f"warmup = {warmup} + decay = {decay} exceeds total = {total}")
    if step < warmup:
        return step * peak / warmup
    if step <= stable_end and step < total:
        return peak
    if step >= total:
        return floor
    return peak - (peak - floor) * (step - stable_end) / decay
