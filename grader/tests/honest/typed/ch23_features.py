# Style: typed and defensive.

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from .ch09_sampling import looking_at

TEXTS: Final[int] = 1


class Ablation(StrEnum):
    ZERO = "zero"
    MEAN = "mean"


def _check_layer(model: nn.Module, layer: int) -> None:
    if not 0 <= layer < len(model.blocks):
        raise ValueError(f"layer must be between 0 and {len(model.blocks) - 1}, got {layer}")


def _logits(result: Tensor | tuple[Tensor, Tensor | None]) -> Tensor:
    return result[0] if isinstance(result, tuple) else result


@contextmanager
def _active(handle: RemovableHandle) -> Iterator[None]:
    try:
        yield
    finally:
        handle.remove()


@dataclass
class _Record:
    """What enters or leaves modules, at the last position of the first text."""

    vectors: dict[str, Tensor] = field(default_factory=dict)

    def entering(self, name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def hook(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            self.vectors[name] = inputs[0][0, -1].clone()

        return hook

    def leaving(self, name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
        def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            self.vectors[name] = output[0, -1].clone()

        return hook


@dataclass(frozen=True)
class _FixedNorm:
    """The final norm with the scale of one stream: a linear map."""

    weight: Tensor
    bias: Tensor | None
    divisor: Tensor

    @classmethod
    def of(cls, norm: nn.Module, stream: Tensor) -> _FixedNorm:
        bias: Tensor | None = getattr(norm, "bias", None)
        centred: Tensor = stream if bias is None else stream - stream.mean()
        return cls(norm.weight, bias, torch.sqrt(centred.square().mean() + norm.eps))

    def __call__(self, part: Tensor) -> Tensor:
        centred: Tensor = part if self.bias is None else part - part.mean()
        return centred / self.divisor * self.weight


def logit_attribution(model: nn.Module, ids: Tensor, target: int) -> dict[str, float]:
    if ids.size(0) != TEXTS:
        raise ValueError(f"ids must be one text, got {ids.size(0)}")
    n_tokens: int = model.lm_head.weight.size(0)
    if not 0 <= target < n_tokens:
        raise ValueError(f"target must be between 0 and {n_tokens - 1}, got {target}")
    record = _Record()
    with ExitStack() as stack, looking_at(model):
        stack.enter_context(_active(model.blocks[0].register_forward_pre_hook(record.entering("embedding"))))
        stack.enter_context(_active(model.ln_f.register_forward_pre_hook(record.entering("stream"))))
        for i, block in enumerate(model.blocks):
            stack.enter_context(_active(block.attn.W_out.register_forward_pre_hook(record.entering(f"merged {i}"))))
            stack.enter_context(_active(block.ffn.register_forward_hook(record.leaving(f"ffn {i}"))))
        model(ids)
    with torch.no_grad():
        vectors: dict[str, Tensor] = {"embedding": record.vectors["embedding"]}
        bias: Tensor = torch.zeros_like(record.vectors["embedding"])
        for i, block in enumerate(model.blocks):
            attention: nn.Module = block.attn
            columns: Tensor = attention.W_out.weight.unflatten(1, (attention.n_heads, -1))  # (D, H, d_head)
            features: Tensor = record.vectors[f"merged {i}"].unflatten(0, (attention.n_heads, -1))  # (H, d_head)
            for h in range(attention.n_heads):
                vectors[f"head {i}.{h}"] = columns[:, h] @ features[h]
            vectors[f"ffn {i}"] = record.vectors[f"ffn {i}"]
            if attention.W_out.bias is not None:
                bias = bias + attention.W_out.bias
        vectors["bias"] = bias
        norm: _FixedNorm = _FixedNorm.of(model.ln_f, record.vectors["stream"])
        row: Tensor = model.lm_head.weight[target]
        shares: dict[str, float] = {name: float(norm(vector) @ row) for name, vector in vectors.items()}
        if norm.bias is not None:
            shares["bias"] += float(norm.bias @ row)
    return shares


@contextmanager
def ablate_head(model: nn.Module, layer: int, head: int, kind: str = "zero") -> Iterator[None]:
    _check_layer(model, layer)
    attention: nn.Module = model.blocks[layer].attn
    if not 0 <= head < attention.n_heads:
        raise ValueError(f"head must be between 0 and {attention.n_heads - 1}, got {head}")
    if kind not in list(Ablation):
        raise ValueError(f"kind must be one of {', '.join(Ablation)}, got {kind!r}")

    def hook(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
        heads: Tensor = inputs[0].unflatten(-1, (attention.n_heads, -1)).clone()  # (B, T, H, d_head)
        own: Tensor = inputs[0].unflatten(-1, (attention.n_heads, -1))[:, :, head]
        new: Tensor = torch.zeros_like(own) if kind == Ablation.ZERO else own.mean(dim=(0, 1)).expand_as(own)
        heads[:, :, head] = new
        return (heads.flatten(-2),)

    with _active(attention.W_out.register_forward_pre_hook(hook)):
        yield


def _stream(model: nn.Module, ids: Tensor, graph: bool) -> tuple[list[Tensor], Tensor]:
    states: list[Tensor] = []

    def begin(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        first: Tensor = inputs[0].detach().clone()
        states.append(first.requires_grad_(graph))
        return (states[0], *inputs[1:])

    def keep(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        states.append(output)

    with ExitStack() as stack:
        stack.enter_context(_active(model.blocks[0].register_forward_pre_hook(begin)))
        for block in model.blocks:
            stack.enter_context(_active(block.register_forward_hook(keep)))
        with torch.set_grad_enabled(graph):
            return states, _logits(model(ids))


def attribution_patching(
    model: nn.Module, clean_ids: Tensor, corrupted_ids: Tensor, metric: Callable[[Tensor], Tensor]
) -> Tensor:
    if clean_ids.shape != corrupted_ids.shape:
        raise ValueError(f"the shapes differ: {tuple(clean_ids.shape)} and {tuple(corrupted_ids.shape)}")
    with looking_at(model):
        clean, _ = _stream(model, clean_ids, graph=False)
        corrupted, logits = _stream(model, corrupted_ids, graph=True)
        with torch.enable_grad():
            value: Tensor = metric(logits)
            if not isinstance(value, Tensor):
                raise ValueError(f"metric must return a tensor, got {type(value).__name__}")
            if value.numel() != 1:
                raise ValueError(f"metric must return one number, got {value.numel()}")
            if not value.requires_grad:
                raise ValueError("metric must return a tensor with a graph")
            gradients: tuple[Tensor, ...] = torch.autograd.grad(value, corrupted)
        differences: Tensor = torch.stack(clean) - torch.stack([state.detach() for state in corrupted])
        return torch.einsum("lbtd,lbtd->lt", torch.stack(gradients), differences)


def mean_direction(positive: Tensor, negative: Tensor) -> Tensor:
    difference: Tensor = positive.mean(dim=0) - negative.mean(dim=0)
    length: Tensor = torch.linalg.vector_norm(difference)
    if float(length) == 0.0:
        raise ValueError("both means are equal, so no direction leads from one to the other")
    return difference / length


@contextmanager
def steer(model: nn.Module, layer: int, direction: Tensor, strength: float) -> Iterator[None]:
    _check_layer(model, layer)
    width: int = model.token_emb.weight.size(-1)
    if tuple(direction.shape) != (width,):
        raise ValueError(f"direction must have the shape ({width},), got {tuple(direction.shape)}")

    def hook(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        step: Tensor = strength * direction.to(device=output.device, dtype=output.dtype)
        return output + step

    with _active(model.blocks[layer].register_forward_hook(hook)):
        yield


def remove_direction(states: Tensor, direction: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(direction)
    if float(length) == 0.0:
        raise ValueError("direction must not have length 0")
    unit: Tensor = direction / length
    projection: Tensor = torch.einsum("...d,d->...", states, unit)
    return states - projection.unsqueeze(-1) * unit


PROBE_STEPS: Final[int] = 100
HALVINGS: Final[int] = 40


@dataclass(frozen=True)
class _Objective:
    """The loss of a probe, with its first and second derivatives."""

    x: Tensor  # (N, D + 1), float64, the last column is 1
    y: Tensor  # (N,), float64
    penalty: Tensor  # (D + 1,)

    def value(self, theta: Tensor) -> float:
        score: Tensor = self.x @ theta
        losses: Tensor = nn.functional.softplus(score) - self.y * score
        return float(losses.mean() + (self.penalty * theta * theta).sum() / 2)

    def gradient(self, theta: Tensor) -> Tensor:
        return self.x.mT @ (torch.sigmoid(self.x @ theta) - self.y) / self.y.numel() + self.penalty * theta

    def hessian(self, theta: Tensor) -> Tensor:
        p: Tensor = torch.sigmoid(self.x @ theta)
        return torch.einsum("n,ni,nj->ij", p * (1 - p) / self.y.numel(), self.x, self.x) + torch.diag(self.penalty)


def fit_probe(states: Tensor, labels: Tensor, l2: float = 1e-2) -> tuple[Tensor, Tensor]:
    if not l2 > 0:
        raise ValueError(f"l2 must be above 0, got {l2}")
    count, width = states.shape
    if labels.shape != (count,):
        raise ValueError(f"labels must have the shape ({count},), got {tuple(labels.shape)}")
    y: Tensor = labels.detach().to(torch.float64)
    if torch.unique(y).numel() != 2:
        raise ValueError("labels must have both classes")
    ones: Tensor = torch.ones(count, 1, dtype=torch.float64, device=states.device)
    penalty: Tensor = torch.full((width + 1,), float(l2), dtype=torch.float64, device=states.device)
    penalty[width] = 0.0
    objective = _Objective(torch.cat([states.detach().to(torch.float64), ones], dim=1), y, penalty)
    theta: Tensor = torch.zeros_like(penalty)
    for _ in range(PROBE_STEPS):
        gradient: Tensor = objective.gradient(theta)
        if float(gradient.abs().max()) < 1e-11:
            break
        step: Tensor = torch.linalg.lstsq(objective.hessian(theta), gradient[:, None]).solution[:, 0]
        before: float = objective.value(theta)
        for halving in range(HALVINGS):
            candidate: Tensor = theta - step * 0.5**halving
            if objective.value(candidate) <= before:
                theta = candidate
                break
    return theta[:width].to(states.dtype), theta[width].to(states.dtype)


def _deal(labels: Tensor, folds: int, generator: torch.Generator | None) -> list[Tensor]:
    """The places of each fold."""
    places: list[Tensor] = []
    for kind in (True, False):
        members: Tensor = torch.nonzero(labels == kind).flatten()
        order: Tensor = torch.randperm(members.numel(), generator=generator)
        places.append(members[order.to(members.device)])
    dealt: Tensor = torch.cat(places)
    return [dealt[fold::folds] for fold in range(folds)]


def _held_out_accuracy(states: Tensor, labels: Tensor, folds: int, generator: torch.Generator | None) -> float:
    right: int = 0
    for held in _deal(labels, folds, generator):
        rest: Tensor = torch.ones_like(labels)
        rest[held] = False
        weight, bias = fit_probe(states[rest], labels[rest])
        predicted: Tensor = torch.mv(states[held], weight) + bias > 0
        right += int((predicted == labels[held]).sum())
    return right / labels.numel()


def probe_score(
    states: Tensor, labels: Tensor, folds: int, generator: torch.Generator | None = None
) -> tuple[float, float]:
    count: int = states.size(0)
    if not 2 <= folds <= count:
        raise ValueError(f"folds must be between 2 and {count}, got {folds}")
    classes: Tensor = labels.detach() != 0
    smaller: int = min(int(classes.sum()), int((~classes).sum()))
    if smaller < 2:
        raise ValueError(f"labels must have at least 2 states of each class, got {smaller}")
    order: Tensor = torch.randperm(count, generator=generator).to(labels.device)
    accuracy: float = _held_out_accuracy(states, classes, folds, generator)
    return accuracy, _held_out_accuracy(states, classes[order], folds, generator)


class SparseAutoencoder(nn.Module):
    W_enc: nn.Parameter
    b_enc: nn.Parameter
    W_dec: nn.Parameter
    b_dec: nn.Parameter

    def __init__(self, d_model: int, n_features: int, k: int) -> None:
        super().__init__()
        if not 1 <= k <= n_features:
            raise ValueError(f"k must be between 1 and {n_features}, got {k}")
        self.k: Final[int] = k
        directions: Tensor = torch.randn(n_features, d_model)
        directions = directions / torch.linalg.vector_norm(directions, dim=1, keepdim=True)
        self.W_enc = nn.Parameter(directions.mT.clone(memory_format=torch.contiguous_format))
        self.b_enc = nn.Parameter(torch.zeros(n_features))
        self.W_dec = nn.Parameter(directions)
        self.b_dec = nn.Parameter(torch.zeros(d_model))

    def encode(self, x: Tensor) -> Tensor:
        active: Tensor = torch.relu(torch.matmul(x - self.b_dec, self.W_enc) + self.b_enc)
        places: Tensor = torch.topk(active.detach(), self.k, dim=-1).indices
        chosen: Tensor = torch.zeros_like(active, dtype=torch.bool).scatter(-1, places, True)
        return torch.where(chosen, active, torch.zeros((), dtype=active.dtype, device=active.device))

    def decode(self, features: Tensor) -> Tensor:
        return torch.matmul(features, self.W_dec) + self.b_dec

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features: Tensor = self.encode(x)
        return self.decode(features), features

    def _unit_rows(self) -> Tensor:
        rows: Tensor = self.W_dec.detach()
        length: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        return rows / length.masked_fill(length == 0, 1.0)

    def normalise(self) -> None:
        with torch.no_grad():
            self.W_dec.copy_(self._unit_rows())

    def project_gradient(self) -> None:
        gradient: Tensor | None = self.W_dec.grad
        if gradient is None:
            return
        unit: Tensor = self._unit_rows()
        with torch.no_grad():
            gradient.addcmul_(unit, torch.einsum("fd,fd->f", gradient, unit)[:, None], value=-1.0)


def explained_variance(x: Tensor, reconstruction: Tensor) -> float:
    if x.shape != reconstruction.shape:
        raise ValueError(f"x has the shape {tuple(x.shape)}, the reconstruction {tuple(reconstruction.shape)}")
    states: Tensor = x.detach().reshape(-1, x.size(-1))
    error: Tensor = (states - reconstruction.detach().reshape(-1, x.size(-1))).square().sum()
    spread: Tensor = (states - states.mean(dim=0, keepdim=True)).square().sum()
    if float(spread) == 0.0:
        raise ValueError("x must have states that differ")
    return 1.0 - float(error / spread)


def dead_features(features_seen: Tensor, window: int) -> Tensor:
    count: int = features_seen.size(0)
    if not 1 <= window <= count:
        raise ValueError(f"window must be between 1 and {count}, got {window}")
    alive: Tensor = torch.gt(features_seen[count - window :], 0).any(dim=0)
    return torch.logical_not(alive)


@dataclass(frozen=True)
class _Peak:
    """Where a text is most active."""

    activation: float
    text: int
    place: int


def top_contexts(
    features: Tensor, ids: Tensor, n: int, before: int, after: int
) -> list[tuple[float, list[int], int]]:
    peaks: list[_Peak] = []
    for text, row in enumerate(features.detach().tolist()):
        place: int = max(range(len(row)), key=row.__getitem__)
        if row[place] > 0:
            peaks.append(_Peak(row[place], text, place))
    peaks.sort(key=lambda peak: (-peak.activation, peak.text))
    found: list[tuple[float, list[int], int]] = []
    for peak in peaks[:n]:
        first: int = max(0, peak.place - before)
        tokens: list[int] = ids[peak.text, first : peak.place + after + 1].tolist()
        found.append((peak.activation, tokens, peak.place - first))
    return found
