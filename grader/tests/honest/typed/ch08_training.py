# Style: typed and defensive.

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol, TypedDict

import torch
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]

IGNORED_TARGET: Final[int] = -100
ID_DTYPE: Final[torch.dtype] = torch.int64
DIGEST_BYTES: Final[int] = 8
HASH_RANGE: Final[int] = 2 ** (8 * DIGEST_BYTES)
RISE_OF_OVERFITTING: Final[float] = 1.05
FALL_OF_LEARNING: Final[float] = 0.90


class Optimizer(Protocol):
    def step(self) -> None: ...

    def zero_grad(self) -> None: ...


class Fit(StrEnum):
    OVERFITTING = "overfitting"
    UNDERFITTING = "underfitting"
    LEARNING = "learning"


def next_token_pairs(ids: Sequence[int], seq_len: int) -> list[tuple[list[int], list[int]]]:
    if seq_len < 1:
        raise ValueError(f"seq_len must be 1 or more, got {seq_len}")
    inputs: list[int] = list(ids[:-1])
    targets: list[int] = list(ids[1:])
    assert len(inputs) == len(targets)
    return [(inputs[start : start + seq_len], targets[start : start + seq_len]) for start in range(0, len(inputs), seq_len)]


def collate(pairs: Sequence[tuple[Sequence[int], Sequence[int]]], pad_id: int = 0) -> Batch:
    if not pairs:
        raise ValueError("a batch needs one window at least")
    for inputs, targets in pairs:
        if len(inputs) != len(targets):
            raise ValueError(f"a window has as many targets as inputs, got {len(inputs)} inputs and {len(targets)} targets")
    shape: tuple[int, int] = (len(pairs), max(len(inputs) for inputs, _ in pairs))
    all_inputs: Tensor = torch.full(shape, pad_id, dtype=ID_DTYPE)
    all_targets: Tensor = torch.full(shape, IGNORED_TARGET, dtype=ID_DTYPE)
    for row, (inputs, targets) in enumerate(pairs):
        all_inputs[row, : len(inputs)] = torch.tensor(inputs, dtype=ID_DTYPE)
        all_targets[row, : len(targets)] = torch.tensor(targets, dtype=ID_DTYPE)
    return all_inputs, all_targets


def _n_kept(targets: Tensor, ignore_index: int = IGNORED_TARGET) -> int:
    return int((targets != ignore_index).sum())


def cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int = IGNORED_TARGET) -> Tensor:
    if logits.dim() < 1 or logits.shape[:-1] != targets.shape:
        raise ValueError(f"logits (..., V) want targets (...), got {tuple(logits.shape)} and {tuple(targets.shape)}")
    kept: Tensor = targets != ignore_index
    n_kept: int = int(kept.sum())
    wanted: Tensor = targets[kept].to(ID_DTYPE)
    vocab_size: int = logits.size(-1)
    if bool(((wanted < 0) | (wanted >= vocab_size)).any()):
        raise ValueError(f"targets must lie between 0 and {vocab_size - 1}, or be {ignore_index}")
    log_probs: Tensor = torch.log_softmax(logits[kept].to(torch.promote_types(logits.dtype, torch.float32)), dim=-1)
    assert log_probs.shape == (n_kept, vocab_size)
    surprise: Tensor = -log_probs.gather(-1, wanted.unsqueeze(-1))
    return surprise.sum() / max(n_kept, 1)


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> float:
    if not max_norm >= 0.0:
        raise ValueError(f"max_norm must be 0 or more, got {max_norm}")
    gradients: list[Tensor] = [p.grad for p in dict.fromkeys(parameters) if p.grad is not None]
    squares: list[float] = [float(torch.linalg.vector_norm(g.detach(), dtype=torch.float64)) ** 2 for g in gradients]
    norm: float = math.sqrt(math.fsum(squares))
    if norm > max_norm:
        with torch.no_grad():
            for gradient in gradients:
                gradient.mul_(max_norm / norm)
    return norm


def _require_batch(inputs: Tensor, targets: Tensor) -> None:
    if inputs.shape != targets.shape:
        raise ValueError(f"each input has a target, got inputs {tuple(inputs.shape)} and targets {tuple(targets.shape)}")


def _logits(model: nn.Module, inputs: Tensor) -> Tensor:
    answer: Tensor | tuple[Tensor, ...] = model(inputs)
    return answer[0] if isinstance(answer, tuple) else answer


def _update(model: nn.Module, optimizer: Optimizer, max_norm: float | None) -> None:
    if max_norm is not None:
        clip_gradients(model.parameters(), max_norm)
    optimizer.step()


def train_step(model: nn.Module, optimizer: Optimizer, inputs: Tensor, targets: Tensor, max_norm: float | None = None) -> float:
    return accumulated_step(model, optimizer, [(inputs, targets)], max_norm=max_norm)


def accumulated_step(
    model: nn.Module, optimizer: Optimizer, micro_batches: Iterable[Batch], max_norm: float | None = None
) -> float:
    pieces: list[Batch] = list(micro_batches)
    if not pieces:
        raise ValueError("there is no piece to learn from: was the generator used up?")
    for inputs, targets in pieces:
        _require_batch(inputs, targets)
    counts: list[int] = [_n_kept(targets) for _, targets in pieces]
    n_kept: int = max(sum(counts), 1)
    model.train()
    optimizer.zero_grad()
    total: float = 0.0
    for (inputs, targets), count in zip(pieces, counts):
        share: Tensor = cross_entropy(_logits(model, inputs), targets) * (count / n_kept)
        share.backward()
        total += share.item()
    _update(model, optimizer, max_norm)
    return total


def warmup_cosine(step: int, warmup: int, total: int, peak: float, floor: float = 0.0) -> float:
    if step < 0:
        raise ValueError(f"step must be 0 or more, got {step}")
    if not 0 <= warmup <= total:
        raise ValueError(f"warmup must lie between 0 and total, got {warmup} and {total}")
    if step < warmup:
        return peak * step / warmup
    if step >= total:
        return floor
    progress: float = (step - warmup) / (total - warmup)
    assert 0.0 <= progress < 1.0
    return floor + (peak - floor) * (1.0 + math.cos(math.pi * progress)) / 2.0


class ParamGroup(TypedDict):
    params: list[nn.Parameter]
    lr: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float


@dataclass(slots=True)
class _Moments:
    mean: Tensor
    mean_square: Tensor
    t: int = field(default=0)

    @classmethod
    def at_rest(cls, parameter: Tensor) -> _Moments:
        return cls(mean=torch.zeros_like(parameter), mean_square=torch.zeros_like(parameter))

    def take_in(self, gradient: Tensor, betas: tuple[float, float]) -> None:
        assert gradient.shape == self.mean.shape
        b1, b2 = betas
        self.t += 1
        self.mean.mul_(b1).add_(gradient, alpha=1.0 - b1)
        self.mean_square.mul_(b2).addcmul_(gradient, gradient, value=1.0 - b2)

    def direction(self, betas: tuple[float, float], eps: float) -> Tensor:
        b1, b2 = betas
        mean: Tensor = self.mean / (1.0 - b1**self.t)
        mean_square: Tensor = self.mean_square / (1.0 - b2**self.t)
        return mean / (mean_square.sqrt() + eps)


class AdamW:
    __slots__ = ("_moments", "param_groups")

    param_groups: list[ParamGroup]
    _moments: dict[nn.Parameter, _Moments]

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        if not lr >= 0.0:
            raise ValueError(f"lr must be 0 or more, got {lr}")
        if len(betas) != 2 or not all(0.0 <= beta < 1.0 for beta in betas):
            raise ValueError(f"betas must be two numbers from 0 up to 1, got {betas}")
        if not eps >= 0.0:
            raise ValueError(f"eps must be 0 or more, got {eps}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay must be 0 or more, got {weight_decay}")
        distinct: list[nn.Parameter] = list(dict.fromkeys(params))
        if not distinct:
            raise ValueError("there is no parameter to train: was the generator used up?")
        self.param_groups = [ParamGroup(params=distinct, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)]
        self._moments = {}

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, parameter.grad, group)

    def zero_grad(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def _move(self, parameter: nn.Parameter, gradient: Tensor, group: ParamGroup) -> None:
        if parameter not in self._moments:
            self._moments[parameter] = _Moments.at_rest(parameter)
        moments: _Moments = self._moments[parameter]
        parameter.mul_(1.0 - group["lr"] * group["weight_decay"])
        moments.take_in(gradient, group["betas"])
        parameter.sub_(moments.direction(group["betas"], group["eps"]), alpha=group["lr"])


def is_validation(text: str, fraction: float = 0.1) -> bool:
    if not 0.0 <= fraction <= 1.0:
        raise ValueError(f"fraction must lie between 0 and 1, got {fraction}")
    digest: bytes = hashlib.sha256(text.encode("utf-8")).digest()
    place: int = int.from_bytes(digest[:DIGEST_BYTES], byteorder="big")
    return place < fraction * HASH_RANGE


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode and no gradient while it lasts; afterwards every module has the mode it had."""
    modes: list[tuple[nn.Module, bool]] = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def perplexity(model: nn.Module, batches: Iterable[Batch]) -> float:
    surprise: float = 0.0
    n_kept: int = 0
    with _evaluating(model):
        for inputs, targets in batches:
            _require_batch(inputs, targets)
            count: int = _n_kept(targets)
            surprise += cross_entropy(_logits(model, inputs), targets).item() * count
            n_kept += count
    if n_kept == 0:
        raise ValueError("there is no token to predict")
    try:
        return math.exp(surprise / n_kept)
    except OverflowError:
        return math.inf


def judge_fit(train_losses: Sequence[float], val_losses: Sequence[float]) -> str:
    if not train_losses or not val_losses:
        raise ValueError(f"both curves need a point, got {len(train_losses)} and {len(val_losses)}")
    val_has_turned: bool = val_losses[-1] > RISE_OF_OVERFITTING * min(val_losses)
    train_is_lowest: bool = train_losses[-1] <= min(train_losses)
    if val_has_turned and train_is_lowest:
        return Fit.OVERFITTING
    if train_losses[-1] > FALL_OF_LEARNING * train_losses[0]:
        return Fit.UNDERFITTING
    return Fit.LEARNING


def _train_epoch(model: nn.Module, optimizer: Optimizer, batches: Iterable[Batch]) -> float:
    surprise: float = 0.0
    n_kept: int = 0
    n_batches: int = 0
    for inputs, targets in batches:
        count: int = _n_kept(targets)
        surprise += train_step(model, optimizer, inputs, targets) * count
        n_kept += count
        n_batches += 1
    if n_batches == 0:
        raise ValueError("an epoch needs a batch: does make_batches make new ones each time?")
    return surprise / max(n_kept, 1)


def fit(
    model: nn.Module,
    optimizer: Optimizer,
    make_batches: Callable[[], Iterable[Batch]],
    epochs: int,
    validate: Callable[[nn.Module], float] | None = None,
) -> list[dict[str, float]]:
    if epochs < 0:
        raise ValueError(f"epochs must be 0 or more, got {epochs}")
    history: list[dict[str, float]] = []
    for epoch in range(1, epochs + 1):
        record: dict[str, float] = {"epoch": epoch, "train_loss": _train_epoch(model, optimizer, make_batches())}
        if validate is not None:
            record["val_loss"] = float(validate(model))
        history.append(record)
    return history
