# Style: typed and defensive.

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

MINUS_INFINITY: Final = float("-inf")


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
