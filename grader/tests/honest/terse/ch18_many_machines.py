"""Chapter 18 in the terse style: as short as it can be read."""

from math import prod

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad
from torch.nn.utils import parameters_to_vector

from .ch03_attention import merge_heads, scaled_dot_product_attention, split_heads
from .ch05_layers import gelu


def ring_all_reduce(t: Tensor, group) -> Tensor:
    n, r = group.size, group.rank
    parts = list(t.reshape(-1).tensor_split(n))
    for s in range(2 * n - 2):
        group.send(parts[(r - s) % n], (r + 1) % n)
        i = (r - s - 1) % n
        new = group.receive(parts[i].shape, (r - 1) % n)
        parts[i] = new + parts[i] if s < n - 1 else new
    return torch.cat(parts).view_as(t)


def shard_batch(ids: Tensor, rank: int, size: int) -> Tensor:
    return ids.tensor_split(size)[rank]


def average_gradients(model: nn.Module, group, bucket_bytes: int = 1 << 20) -> None:
    ps = [p for p in model.parameters() if p.requires_grad]
    if ps:
        g = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in ps])
        g = torch.cat([group.all_reduce(b) for b in g.split(max(1, bucket_bytes // g.element_size()))]) / group.size
        for p, new in zip(ps, g.split([p.numel() for p in ps])):
            p.grad = new.view_as(p)


class ShardedAdamW:
    def __init__(self, parameters, group, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        ps = list(parameters)
        self.param_groups = [dict(params=ps, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)]
        self.group, self.t, self.k = group, 0, -(-sum(p.numel() for p in ps) // group.size)
        self.m, self.v = torch.zeros(2, self.k).to(ps[0])

    @torch.no_grad()
    def step(self) -> None:
        ps, lr, (b1, b2), eps, decay = self.param_groups[0].values()
        w, g = map(self.mine, (ps, [p.grad for p in ps]))
        self.t += 1
        self.m.lerp_(g, 1 - b1)
        self.v.lerp_(g * g, 1 - b2)
        w = w * (1 - lr * decay) - lr * self.m / (1 - b1**self.t) / ((self.v / (1 - b2**self.t)).sqrt() + eps)
        sizes = [p.numel() for p in ps]
        for p, new in zip(ps, torch.cat(self.group.all_gather(w))[: sum(sizes)].split(sizes)):
            p.copy_(new.view_as(p))

    def mine(self, ts) -> Tensor:
        flat = torch.cat([t.reshape(-1) for t in ts])
        return pad(flat, (0, self.k * self.group.size - len(flat))).view(-1, self.k)[self.group.rank]

    def zero_grad(self) -> None:
        for p in self.param_groups[0]["params"]:
            p.grad = None


def gather_parameters(shards, shapes, group) -> list[Tensor]:
    every = torch.stack(group.all_gather(torch.cat([*shards]))).split([len(s) for s in shards], 1)
    return [e.reshape(-1)[: prod(shape)].view(tuple(shape)) for e, shape in zip(every, shapes)]


class FullyShardedLinear(nn.Module):
    def __init__(self, linear: nn.Linear, group) -> None:
        super().__init__()
        self.group, self.shapes = group, [p.shape for p in linear.parameters()]
        flat = parameters_to_vector(linear.parameters()).detach()
        self.n = len(flat)
        self.padding = -self.n % group.size
        self.shard = nn.Parameter(pad(flat, (0, self.padding)).chunk(group.size)[group.rank].clone())

    def whole(self) -> list[Tensor]:
        (flat,) = gather_parameters([self.shard.detach()], [(self.n,)], self.group)
        return [p.view(s) for p, s in zip(flat.split([prod(s) for s in self.shapes]), self.shapes)]

    def forward(self, x: Tensor) -> Tensor:
        layer = self

        class Apply(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, _):
                ctx.save_for_backward(x)
                return linear(x, *layer.whole())

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                rows = g.flatten(0, -2) if g.dim() > 1 else g[None]
                own = [rows.T @ x.reshape(-1, x.size(-1)), rows.sum(0)][: len(layer.shapes)]
                flat = pad(torch.cat([t.flatten() for t in own]), (0, layer.padding))
                return g @ layer.whole()[0], layer.group.reduce_scatter(flat)

        return Apply.apply(x, self.shard)


def with_backward(forward, backward, x: Tensor) -> Tensor:
    return type("Both", (torch.autograd.Function,), {
        "forward": staticmethod(lambda ctx, x: forward(x)), "backward": staticmethod(lambda ctx, g: backward(g))
    }).apply(x)  # fmt: skip


def copy_to_ranks(x: Tensor, group) -> Tensor:
    return with_backward(lambda x: x.view_as(x), group.all_reduce, x)


def sum_over_ranks(x: Tensor, group) -> Tensor:
    return with_backward(group.all_reduce, lambda g: g, x)


def check(group, **sizes: int) -> None:
    for name, n in sizes.items():
        if n % group.size:
            raise ValueError(f"{name} = {n}, ranks = {group.size}")


def part(p: Tensor | None, group, dim: int = 0) -> nn.Parameter | None:
    return p if p is None else nn.Parameter(p.detach().chunk(group.size, dim)[group.rank].clone())


class ColumnParallelLinear(nn.Module):
    def __init__(self, linear: nn.Linear, group) -> None:
        super().__init__()
        check(group, out_features=linear.out_features)
        self.group, self.weight, self.bias = group, part(linear.weight, group), part(linear.bias, group)

    def forward(self, x: Tensor) -> Tensor:
        return linear(copy_to_ranks(x, self.group), self.weight, self.bias)


class RowParallelLinear(nn.Module):
    def __init__(self, linear: nn.Linear, group) -> None:
        super().__init__()
        check(group, in_features=linear.in_features)
        self.group, self.weight, b = group, part(linear.weight, group, 1), linear.bias
        self.bias = b if b is None else nn.Parameter(b.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        return sum_over_ranks(linear(x, self.weight), self.group) + (0 if self.bias is None else self.bias)


class TensorParallelFeedForward(nn.Module):
    def __init__(self, feed_forward: nn.Module, group) -> None:
        super().__init__()
        self.up, self.down = ColumnParallelLinear(feed_forward.up, group), RowParallelLinear(feed_forward.down, group)
        self.name = feed_forward.activation

    def forward(self, x: Tensor) -> Tensor:
        h = self.up(x)
        return self.down(h.relu() if self.name == "relu" else gelu(h, self.name == "gelu_tanh"))


class TensorParallelAttention(nn.Module):
    def __init__(self, attention: nn.Module, group) -> None:
        super().__init__()
        check(group, n_heads=attention.n_heads)
        self.group, self.n_heads, self.W_out = group, attention.n_heads // group.size, RowParallelLinear(attention.W_out, group)
        for name in ("W_q", "W_k", "W_v"):
            w, b = (part(p, group) for p in (getattr(attention, name).weight, getattr(attention, name).bias))
            layer = nn.Linear(w.size(1), w.size(0), b is not None)
            layer.weight, layer.bias = w, b
            setattr(self, name, layer)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = copy_to_ranks(x, self.group)
        qkv = (split_heads(w(x), self.n_heads) for w in (self.W_q, self.W_k, self.W_v))
        return self.W_out(merge_heads(scaled_dot_product_attention(*qkv, mask)[0]))


def pipeline_schedule(n_stages: int, n_micro: int, kind: str = "1f1b") -> list[list[tuple[str, int]]]:
    if kind not in ("gpipe", "1f1b"):
        raise ValueError(f"{kind=}")
    f, b = ([(word, m) for m in range(n_micro)] for word in ("forward", "backward"))
    ahead = [n_micro if kind == "gpipe" else min(n_micro, n_stages - 1 - s) for s in range(n_stages)]
    return [f[:a] + [x for both in zip(f[a:], b) for x in both] + b[n_micro - a :] for a in ahead]


def run_stage(stage: nn.Module, schedule, group, inputs, loss) -> list[Tensor]:
    r, last, alive, losses = group.rank, group.size - 1, {}, []
    for kind, m in schedule:
        if kind == "forward":
            x = group.receive(inputs[m].shape, r - 1).requires_grad_() if r else inputs[m]
            y = stage(x)
            if r < last:
                group.send(y.detach(), r + 1)
            else:
                losses.append((y := loss(y, m)).detach())
            alive[m] = x, y
        else:
            x, y = alive.pop(m)
            y.backward(group.receive(y.shape, r + 1) if r < last else None)
            r and group.send(x.grad, r - 1)
            del x, y
    return losses
