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
