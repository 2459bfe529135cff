# Style: typed and defensive.

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Final, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

IGNORED: Final[int] = -100


class LoRALinear(nn.Module):
    linear: nn.Linear
    A: nn.Parameter
    B: nn.Parameter

    def __init__(self, linear: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        if not isinstance(linear, nn.Linear):
            raise TypeError(f"linear must be an nn.Linear, not {type(linear).__name__}")
        if rank < 1:
            raise ValueError(f"rank must be positive, got {rank}")
        self.linear = linear
        self.linear.requires_grad_(False)
        self._scale: Final[float] = float(alpha) / rank
        size_in, size_out = linear.in_features, linear.out_features
        self.A = nn.Parameter(torch.empty((rank, size_in), dtype=linear.weight.dtype, device=linear.weight.device))
        self.B = nn.Parameter(torch.empty((size_out, rank), dtype=linear.weight.dtype, device=linear.weight.device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.A, mean=0.0, std=self.linear.in_features**-0.5)
        nn.init.zeros_(self.B)

    def forward(self, x: Tensor) -> Tensor:
        change: Tensor = F.linear(F.linear(x * self._scale, self.A), self.B)
        return self.linear(x) + change

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        weight: Tensor = self.linear.weight.addmm(self.B, self.A, alpha=self._scale)
        with_bias: bool = self.linear.bias is not None
        new = nn.Linear(self.linear.in_features, self.linear.out_features, bias=with_bias, device=weight.device, dtype=weight.dtype)
        new.weight = nn.Parameter(weight, requires_grad=True)
        if with_bias:
            new.bias = nn.Parameter(self.linear.bias.clone(), requires_grad=True)
        return new


class _Place(NamedTuple):
    parent: nn.Module
    attribute: str
    layer: nn.Linear


def _has_name(dotted: str, names: Sequence[str]) -> bool:
    return any(dotted == name or dotted.endswith(f".{name}") for name in names)


def add_lora(model: nn.Module, rank: int, alpha: float, names: Sequence[str]) -> list[str]:
    places: dict[str, _Place] = {}
    for dotted, module in model.named_modules():
        if isinstance(module, nn.Linear) and _has_name(dotted, names):
            path, _, attribute = dotted.rpartition(".")
            places[dotted] = _Place(model.get_submodule(path), attribute, module)
    if not places:
        raise ValueError("no linear layer is named " + ", ".join(repr(name) for name in names))
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for parent, attribute, layer in places.values():
        adapter = LoRALinear(layer, rank, alpha)
        if isinstance(parent, (nn.Sequential, nn.ModuleList)):
            parent[int(attribute)] = adapter
        else:
            setattr(parent, attribute, adapter)
    return list(places)


def answer_labels(ids: Sequence[int], spans: Sequence[tuple[int, int]], ignore_index: int = IGNORED) -> list[int]:
    labels: list[int] = [ignore_index] * max(len(ids) - 1, 0)
    for start, stop in spans:
        if not 0 <= start <= stop <= len(ids):
            raise ValueError(f"the span ({start}, {stop}) is not inside of {len(ids)} ids")
        for place in range(start, stop):
            if place > 0:
                labels[place - 1] = ids[place]
    return labels


@dataclass(frozen=True)
class _Part:
    ids: tuple[int, ...]
    targets: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass
class _Row:
    room: int
    parts: list[_Part] = field(default_factory=list)

    def add(self, part: _Part) -> None:
        self.parts.append(part)
        self.room -= len(part)


def _cut(sequence: Sequence[int], length: int) -> Iterator[_Part]:
    ids: tuple[int, ...] = tuple(sequence)
    targets: tuple[int, ...] = (*ids[1:], IGNORED)
    for start in range(0, len(ids), length):
        yield _Part(ids[start : start + length], targets[start : start + length])


def pack(sequences: Sequence[Sequence[int]], length: int, pad_id: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if length < 1:
        raise ValueError(f"length must be positive, got {length}")
    rows: list[_Row] = []
    for sequence in sequences:
        for part in _cut(sequence, length):
            fitting: _Row | None = next((row for row in rows if row.room >= len(part)), None)
            if fitting is None:
                fitting = _Row(room=length)
                rows.append(fitting)
            fitting.add(part)
    size: tuple[int, int] = (len(rows), length)
    ids: Tensor = torch.full(size, pad_id, dtype=torch.int64)
    targets: Tensor = torch.full(size, IGNORED, dtype=torch.int64)
    positions: Tensor = torch.zeros(size, dtype=torch.int64)
    mask: Tensor = torch.zeros((*size, length), dtype=torch.bool)
    for number, row in enumerate(rows):
        begin: int = 0
        for part in row.parts:
            inside = slice(begin, begin + len(part))
            ids[number, inside] = torch.tensor(part.ids)
            targets[number, inside] = torch.tensor(part.targets)
            place: Tensor = torch.arange(len(part))
            positions[number, inside] = place
            mask[number, inside, inside] = place[:, None] >= place[None, :]
            begin = inside.stop
    return ids, targets, positions, mask


def sequence_log_prob(logits: Tensor, targets: Tensor, ignore_index: int = IGNORED) -> Tensor:
    if logits.shape[:-1] != targets.shape:
        raise ValueError(f"logits {tuple(logits.shape)} do not fit targets {tuple(targets.shape)}")
    ignored: Tensor = targets == ignore_index
    index: Tensor = torch.where(ignored, torch.zeros_like(targets), targets).unsqueeze(-1)
    scores: Tensor = torch.gather(logits, -1, index).squeeze(-1) - torch.logsumexp(logits, dim=-1)
    return torch.where(ignored, torch.zeros_like(scores), scores).sum(dim=-1)


def reward_loss(chosen: Tensor, rejected: Tensor, margin: float = 0.0) -> Tensor:
    distance: Tensor = torch.sub(chosen, rejected) - margin
    return F.binary_cross_entropy_with_logits(distance, torch.ones_like(distance))


def dpo_loss(
    policy_chosen: Tensor,
    policy_rejected: Tensor,
    reference_chosen: Tensor,
    reference_rejected: Tensor,
    beta: float = 0.1,
) -> tuple[Tensor, Tensor, Tensor]:
    with torch.no_grad():
        fixed: Tensor = reference_chosen - reference_rejected
        rewards: tuple[Tensor, Tensor] = (
            beta * (policy_chosen - reference_chosen),
            beta * (policy_rejected - reference_rejected),
        )
    moved: Tensor = policy_chosen - policy_rejected - fixed
    return F.logsigmoid(beta * moved).mean().neg(), *rewards


class _Kind(StrEnum):
    K1 = "k1"
    K2 = "k2"
    K3 = "k3"


def kl_estimate(policy: Tensor, reference: Tensor, kind: str = "k3") -> Tensor:
    chosen: _Kind = _Kind(kind)  # raises a ValueError that names another kind
    log_ratio: Tensor = reference - policy
    if chosen is _Kind.K1:
        return log_ratio.neg()
    if chosen is _Kind.K2:
        return log_ratio.square().div(2)
    return (log_ratio.exp() - 1 - log_ratio).clamp(min=0)


def group_advantages(rewards: Tensor, group_size: int, normalise: bool = True) -> Tensor:
    if group_size < 1 or rewards.size(0) % group_size:
        raise ValueError(f"group_size={group_size} does not divide {rewards.size(0)} rewards")
    groups: Tensor = rewards.unflatten(0, (-1, group_size))
    constant: Tensor = groups.eq(groups[:, :1]).all(dim=1, keepdim=True)
    advantages: Tensor = groups - groups.mean(dim=1, keepdim=True)
    if normalise:
        spread: Tensor = groups.std(dim=1, keepdim=True, correction=min(1, group_size - 1))
        advantages = advantages / torch.where(constant, torch.ones_like(spread), spread)
    return torch.where(constant, torch.zeros_like(advantages), advantages).reshape(rewards.shape)


def policy_loss(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    clip: float = 0.2,
    kl: Tensor | None = None,
    kl_weight: float = 0.0,
    average: str = "token",
) -> Tensor:
    if average not in ("token", "sequence"):
        raise ValueError(f"average must be 'token' or 'sequence', got {average!r}")
    weights: Tensor = mask.to(log_probs.dtype)
    if average == "sequence":
        weights = weights / weights.sum(dim=1, keepdim=True).clamp(min=1)
    weights = weights / weights.sum().clamp(min=torch.finfo(weights.dtype).eps)
    zeros: Tensor = torch.zeros_like(log_probs)
    ratio: Tensor = torch.exp(torch.where(mask, log_probs - old_log_probs.detach(), zeros))
    advantage: Tensor = advantages.detach().unsqueeze(-1).expand_as(ratio)
    highest: Tensor = ratio.clamp(max=1 + clip)
    lowest: Tensor = ratio.clamp(min=1 - clip)
    loss: Tensor = -advantage * torch.where(advantage > 0, highest, lowest)
    if kl is not None:
        loss = loss + kl_weight * torch.where(mask, kl, zeros)
    return torch.sum(loss * weights)


_DIGITS: Final[str] = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?"
_NUMBER: Final[re.Pattern[str]] = re.compile(
    rf"""
    (?P<sign> (?<! [^\W_] ) (?<! [)\]}}] ) [+-] )?
    (?P<above> {_DIGITS} )
    (?: / (?P<below> {_DIGITS} ) )?
    """,
    re.VERBOSE,
)
_LONGEST: Final[int] = 400  # digits; a float has at most 309 before its point


def _to_fraction(digits: str) -> Fraction:
    plain: str = digits.replace(",", "")
    if len(plain) > _LONGEST:
        raise OverflowError("a very long number")
    return Fraction(plain)


def _last_number(text: str) -> float | None:
    matches: list[re.Match[str]] = list(_NUMBER.finditer(text))
    if not matches:
        return None
    last = matches[-1]
    try:
        size: float = float(_to_fraction(last["above"]) / _to_fraction(last["below"] or "1"))
    except (ZeroDivisionError, OverflowError):
        return None
    return -size if last["sign"] == "-" else size


def grade_answer(text: str, expected: float | str) -> float:
    target: float | None = _last_number(expected) if isinstance(expected, str) else float(expected)
    answer: float | None = _last_number(text)
    return 1.0 if answer is not None and answer == target else 0.0
