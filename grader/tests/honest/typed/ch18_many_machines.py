# Style: typed and defensive.

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from .ch03_attention import MultiHeadAttention
from .ch05_layers import FeedForward

Shape: TypeAlias = Sequence[int]
Step: TypeAlias = tuple[str, int]


class Group(Protocol):
    rank: int
    size: int

    def all_reduce(self, t: Tensor) -> Tensor: ...
    def all_gather(self, t: Tensor) -> list[Tensor]: ...
    def reduce_scatter(self, t: Tensor) -> Tensor: ...
    def broadcast(self, t: Tensor, source: int) -> Tensor: ...
    def send(self, t: Tensor, to: int) -> None: ...
    def receive(self, shape: Shape, source: int) -> Tensor: ...


class Interval(NamedTuple):
    start: int
    end: int

    @classmethod
    def of_part(cls, total: int, part: int, parts: int) -> Interval:
        """Part `part` of 0 ... total - 1; the first parts are the longer ones."""
        if not 0 <= part < parts:
            raise ValueError(f"there is no part {part} of {parts}")
        shortest, longer = divmod(total, parts)
        return cls(part * shortest + min(part, longer), (part + 1) * shortest + min(part + 1, longer))

    @property
    def length(self) -> int:
        return self.end - self.start

    @property
    def slice(self) -> slice:
        return slice(self.start, self.end)


def _require_divides(group: Group, **sizes: int) -> None:
    for name, size in sizes.items():
        if size % group.size != 0:
            raise ValueError(f"{name} must be a multiple of the {group.size} ranks, got {size}")


def ring_all_reduce(t: Tensor, group: Group) -> Tensor:
    result: Tensor = t.detach().flatten().clone()
    parts: list[Tensor] = [
        result[Interval.of_part(result.numel(), part, group.size).slice] for part in range(group.size)
    ]
    after: int = (group.rank + 1) % group.size
    before: int = (group.rank - 1) % group.size

    def exchange(sent: int) -> tuple[int, Tensor]:
        received: int = (sent - 1) % group.size
        group.send(parts[sent % group.size], after)
        return received, group.receive(tuple(parts[received].shape), before)

    for step in range(group.size - 1):
        place, numbers = exchange(group.rank - step)
        parts[place].add_(numbers)
    for step in range(group.size - 1):
        place, numbers = exchange(group.rank + 1 - step)
        parts[place].copy_(numbers)
    return result.reshape(t.shape)


def shard_batch(ids: Tensor, rank: int, size: int) -> Tensor:
    rows: Interval = Interval.of_part(ids.size(0), rank, size)
    return ids.narrow(0, rows.start, rows.length)


def _chunks(total: int, length: int) -> Iterator[slice]:
    assert length >= 1
    return (slice(start, min(start + length, total)) for start in range(0, total, length))


@dataclass(frozen=True)
class Flat:
    """Several tensors as one long vector."""

    shapes: tuple[torch.Size, ...]

    @classmethod
    def like(cls, tensors: Iterable[Tensor]) -> Flat:
        return cls(tuple(tensor.shape for tensor in tensors))

    @property
    def lengths(self) -> list[int]:
        return [shape.numel() for shape in self.shapes]

    @property
    def total(self) -> int:
        return sum(self.lengths)

    def piece_length(self, size: int) -> int:
        return math.ceil(self.total / size)

    def pack(self, tensors: Iterable[Tensor], size: int = 1) -> Tensor:
        """The vector, padded with zeros to a multiple of `size`."""
        vector: Tensor = torch.cat([tensor.flatten() for tensor in tensors])
        assert vector.numel() == self.total
        padding: int = size * self.piece_length(size) - self.total
        return torch.cat([vector, vector.new_zeros(padding)])

    def piece(self, tensors: Iterable[Tensor], group: Group) -> Tensor:
        return self.pack(tensors, group.size).view(group.size, -1)[group.rank]

    def unpack(self, vector: Tensor) -> list[Tensor]:
        parts: Sequence[Tensor] = vector[: self.total].split(self.lengths)
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]


def average_gradients(model: nn.Module, group: Group, bucket_bytes: int = 1 << 20) -> None:
    parameters: list[nn.Parameter] = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        return
    flat: Flat = Flat.like(parameters)
    gradients: list[Tensor] = [
        torch.zeros_like(parameter) if parameter.grad is None else parameter.grad for parameter in parameters
    ]
    vector: Tensor = flat.pack(gradients)
    for bucket in _chunks(flat.total, max(1, bucket_bytes // vector.element_size())):
        vector[bucket] = group.all_reduce(vector[bucket]).div(group.size)
    for parameter, mean in zip(parameters, flat.unpack(vector), strict=True):
        parameter.grad = mean.clone()


class ShardedAdamW:
    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        group: Group,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        params: list[nn.Parameter] = list(parameters)
        if not params:
            raise ValueError("there are no parameters to update")
        self.param_groups: list[dict[str, Any]] = [
            {"params": params, "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        ]
        self._group: Group = group
        self._flat: Flat = Flat.like(params)
        self._steps: int = 0
        self.m: Tensor = params[0].new_zeros(self._flat.piece_length(group.size))
        self.v: Tensor = torch.zeros_like(self.m)

    @property
    def params(self) -> list[nn.Parameter]:
        return self.param_groups[0]["params"]

    @torch.no_grad()
    def step(self) -> None:
        settings: dict[str, Any] = self.param_groups[0]
        beta1, beta2 = settings["betas"]
        gradients: list[Tensor] = []
        for number, parameter in enumerate(self.params):
            if parameter.grad is None:
                raise ValueError(f"parameter {number} has no gradient")
            gradients.append(parameter.grad)
        weights: Tensor = self._flat.piece(self.params, self._group)
        gradient: Tensor = self._flat.piece(gradients, self._group)
        self._steps += 1
        self.m.mul_(beta1).add_(gradient, alpha=1 - beta1)
        self.v.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        first: Tensor = self.m / (1 - beta1**self._steps)
        second: Tensor = self.v / (1 - beta2**self._steps)
        decayed: Tensor = weights * (1 - settings["lr"] * settings["weight_decay"])
        updated: Tensor = decayed - settings["lr"] * first / (second.sqrt() + settings["eps"])
        every: list[Tensor] = self._group.all_gather(updated)
        for parameter, numbers in zip(self.params, self._flat.unpack(torch.cat(every)), strict=True):
            parameter.copy_(numbers)

    def zero_grad(self) -> None:
        for parameter in self.params:
            parameter.grad = None


def gather_parameters(shards: Sequence[Tensor], shapes: Sequence[Shape], group: Group) -> list[Tensor]:
    if len(shards) != len(shapes):
        raise ValueError(f"{len(shards)} shards cannot have {len(shapes)} shapes")
    own: Flat = Flat.like(shards)
    of_each_rank: list[list[Tensor]] = [own.unpack(vector) for vector in group.all_gather(own.pack(shards))]
    whole: list[Tensor] = []
    for tensor, shape in enumerate(shapes):
        numbers: Tensor = torch.cat([parts[tensor] for parts in of_each_rank])
        whole.append(numbers.narrow(0, 0, math.prod(shape)).reshape(tuple(shape)))
    return whole


class _ShardedLinear(Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, shard: Tensor, flat: Flat, group: Group) -> Tensor:
        ctx.save_for_backward(x, shard)
        ctx.flat, ctx.group = flat, group
        weight, *bias = _ShardedLinear.whole(shard, flat, group)
        return nn.functional.linear(x, weight, bias[0] if bias else None)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, shard = ctx.saved_tensors
        weight, *bias = _ShardedLinear.whole(shard, ctx.flat, ctx.group)
        gradients: list[Tensor] = [torch.einsum("no,ni->oi", g.reshape(-1, g.size(-1)), x.reshape(-1, x.size(-1)))]
        if bias:
            gradients.append(g.reshape(-1, g.size(-1)).sum(dim=0))
        together: Tensor = ctx.flat.pack(gradients, ctx.group.size)
        return torch.matmul(g, weight), ctx.group.reduce_scatter(together), None, None

    @staticmethod
    def whole(shard: Tensor, flat: Flat, group: Group) -> list[Tensor]:
        (vector,) = gather_parameters([shard], [(flat.total,)], group)
        return flat.unpack(vector)


class FullyShardedLinear(nn.Module):
    shard: nn.Parameter

    def __init__(self, linear: nn.Linear, group: Group) -> None:
        super().__init__()
        whole: list[Tensor] = [
            parameter.detach() for parameter in (linear.weight, linear.bias) if parameter is not None
        ]
        self._group: Group = group
        self._flat: Flat = Flat.like(whole)
        self.shard = nn.Parameter(self._flat.piece(whole, group).clone())

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = _ShardedLinear.apply(x, self.shard, self._flat, self._group)
        assert output.shape[:-1] == x.shape[:-1]
        return output


class _Copy(Function):
    @staticmethod
    def forward(x: Tensor, group: Group) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Group], output: Tensor) -> None:
        ctx.group = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return ctx.group.all_reduce(g), None


class _Sum(Function):
    @staticmethod
    def forward(x: Tensor, group: Group) -> Tensor:
        return group.all_reduce(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Group], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return g, None


def copy_to_ranks(x: Tensor, group: Group) -> Tensor:
    return _Copy.apply(x, group)


def sum_over_ranks(x: Tensor, group: Group) -> Tensor:
    return _Sum.apply(x, group)


def _own_part(whole: Tensor, group: Group, dim: int = 0) -> nn.Parameter:
    part: Interval = Interval.of_part(whole.size(dim), group.rank, group.size)
    return nn.Parameter(whole.detach().narrow(dim, part.start, part.length).clone())


class ColumnParallelLinear(nn.Module):
    weight: nn.Parameter
    bias: nn.Parameter | None

    def __init__(self, linear: nn.Linear, group: Group) -> None:
        super().__init__()
        _require_divides(group, out_features=linear.out_features)
        self._group: Group = group
        self.weight = _own_part(linear.weight, group)
        self.bias = None if linear.bias is None else _own_part(linear.bias, group)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(copy_to_ranks(x, self._group), self.weight, self.bias)


class RowParallelLinear(nn.Module):
    weight: nn.Parameter
    bias: nn.Parameter | None

    def __init__(self, linear: nn.Linear, group: Group) -> None:
        super().__init__()
        _require_divides(group, in_features=linear.in_features)
        self._group: Group = group
        self.weight = _own_part(linear.weight, group, dim=1)
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        if x.size(-1) != self.weight.size(1):
            raise ValueError(f"this rank has {self.weight.size(1)} features of the input, got {x.size(-1)}")
        output: Tensor = sum_over_ranks(nn.functional.linear(x, self.weight), self._group)
        return output if self.bias is None else output + self.bias


class TensorParallelFeedForward(FeedForward):
    def __init__(self, feed_forward: FeedForward, group: Group) -> None:
        whole: nn.Linear = feed_forward.up
        super().__init__(whole.in_features, whole.out_features, activation=feed_forward.activation)
        del self.up, self.down
        self.up = ColumnParallelLinear(feed_forward.up, group)
        self.down = RowParallelLinear(feed_forward.down, group)
        # the given layer's forward asks `up` for its sizes
        self.up.in_features, self.up.out_features = whole.in_features, whole.out_features // group.size


class TensorParallelAttention(MultiHeadAttention):
    def __init__(self, attention: MultiHeadAttention, group: Group) -> None:
        _require_divides(group, n_heads=attention.n_heads)
        whole: nn.Linear = attention.W_q
        super().__init__(whole.in_features, attention.n_heads, bias=whole.bias is not None)
        self.n_heads = attention.n_heads // group.size
        self._group: Group = group
        for layer, given in ((self.W_q, attention.W_q), (self.W_k, attention.W_k), (self.W_v, attention.W_v)):
            layer.out_features = given.out_features // group.size
            layer.weight = _own_part(given.weight, group)
            if given.bias is not None:
                layer.bias = _own_part(given.bias, group)
        del self.W_out
        self.W_out = RowParallelLinear(attention.W_out, group)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(copy_to_ranks(x, self._group), mask=mask)


class Kind(StrEnum):
    GPIPE = "gpipe"
    ONE_FORWARD_ONE_BACKWARD = "1f1b"

    @classmethod
    def parse(cls, name: str) -> Kind:
        try:
            return cls(name)
        except ValueError:
            raise ValueError(f"kind must be one of {[kind.value for kind in cls]}, got {name!r}") from None


def _steps_of_stage(ahead: int, n_micro: int) -> Iterator[Step]:
    """`ahead` forward passes, pairs, and the remaining backward passes."""
    yield from (("forward", m) for m in range(ahead))
    for m in itertools.count():
        if m >= n_micro:
            return
        if m + ahead < n_micro:
            yield "forward", m + ahead
        yield "backward", m


def pipeline_schedule(n_stages: int, n_micro: int, kind: str = "1f1b") -> list[list[Step]]:
    match Kind.parse(kind):
        case Kind.GPIPE:
            ahead: list[int] = [n_micro] * n_stages
        case Kind.ONE_FORWARD_ONE_BACKWARD:
            ahead = [min(after, n_micro) for after in reversed(range(n_stages))]
    return [list(_steps_of_stage(count, n_micro)) for count in ahead]


@dataclass
class Alive:
    """What a micro-batch needs until its backward pass."""

    x: Tensor
    result: Tensor


def run_stage(
    stage: nn.Module,
    schedule: Sequence[Step],
    group: Group,
    inputs: Sequence[Tensor],
    loss: Callable[[Tensor, int], Tensor],
) -> list[Tensor]:
    before: int | None = group.rank - 1 if group.rank > 0 else None
    after: int | None = group.rank + 1 if group.rank < group.size - 1 else None
    alive: dict[int, Alive] = {}
    losses: dict[int, Tensor] = {}

    def forward(m: int) -> None:
        x: Tensor
        if before is None:
            x = inputs[m].detach()
        else:
            x = group.receive(tuple(inputs[m].shape), before).detach().requires_grad_(True)
        result: Tensor = stage(x)
        if after is None:
            result = loss(result, m)
            losses[m] = result.detach()
        else:
            group.send(result.detach(), after)
        alive[m] = Alive(x, result)

    def backward(m: int) -> None:
        kept: Alive = alive.pop(m)
        g: Tensor | None = None if after is None else group.receive(tuple(kept.result.shape), after)
        torch.autograd.backward([kept.result], [g])
        if before is not None:
            assert kept.x.grad is not None
            group.send(kept.x.grad, before)

    for kind, m in schedule:
        {"forward": forward, "backward": backward}[kind](m)
    if alive:
        raise ValueError(f"no backward pass for the micro-batches {sorted(alive)}")
    return [losses[m] for m in sorted(losses)]
