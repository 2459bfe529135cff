# variant: a state that a function turns into the next one
from typing import NamedTuple

import torch


class _State(NamedTuple):
    t: int
    m: torch.Tensor
    v: torch.Tensor


def _next(weights, gradient, state, lr, betas, eps, weight_decay):
    t = state.t + 1
    m = torch.lerp(gradient, state.m, betas[0])
    v = torch.lerp(gradient.square(), state.v, betas[1])
    scale = (1 - betas[1] ** t) ** 0.5
    step = lr * scale / (1 - betas[0] ** t) * m / (v.sqrt() + eps * scale)
    return weights - lr * weight_decay * weights - step, _State(t, m, v)


class ShardedAdamW:
    def __init__(self, parameters, group, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        params = [*parameters]
        self.ranks = group
        self.param_groups = [{"params": params, "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}]
        self.sizes = [p.numel() for p in params]
        self.k = (sum(self.sizes) + group.size - 1) // group.size
        self.state = _State(0, params[0].new_zeros(self.k), params[0].new_zeros(self.k))

    m = property(lambda self: self.state.m)
    v = property(lambda self: self.state.v)

    def cut(self, tensors):
        flat = torch.cat([t.reshape(-1) for t in tensors])
        padding = flat.new_zeros(self.k * self.ranks.size - len(flat))
        return torch.cat([flat, padding]).unflatten(0, (self.ranks.size, self.k))[self.ranks.rank]

    @torch.no_grad()
    def step(self):
        options = {**self.param_groups[0]}
        params = options.pop("params")
        own, self.state = _next(self.cut(params), self.cut([p.grad for p in params]), self.state, **options)
        rest = self.k * self.ranks.size - sum(self.sizes)
        for p, numbers in zip(params, torch.cat(self.ranks.all_gather(own)).split([*self.sizes, rest])):
            p.copy_(numbers.reshape(p.shape))

    def zero_grad(self):
        for p in self.param_groups[0]["params"]:
            p.grad = None


# variant: only the overlaps of this rank's piece with each parameter are copied
import torch


class ShardedAdamW:
    def __init__(self, parameters, group, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.param_groups = [dict(params=list(parameters), lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)]
        self.group = group
        self.count = 0
        starts, total = [], 0
        for p in self.param_groups[0]["params"]:
            starts.append(total)
            total += p.numel()
        k = total // group.size + (total % group.size > 0)
        self.low, self.high = group.rank * k, (group.rank + 1) * k
        self.starts = starts
        self.m = torch.zeros(k, dtype=self.param_groups[0]["params"][0].dtype)
        self.v = self.m.clone()

    def step(self):
        g = self.param_groups[0]
        weights, gradient = torch.zeros_like(self.m), torch.zeros_like(self.m)
        with torch.no_grad():
            for p, start in zip(g["params"], self.starts):
                a, b = max(start, self.low), min(start + p.numel(), self.high)
                if a < b:
                    weights[a - self.low : b - self.low] = p.flatten()[a - start : b - start]
                    gradient[a - self.low : b - self.low] = p.grad.flatten()[a - start : b - start]
            self.count += 1
            b1, b2 = g["betas"]
            self.m.mul_(b1).add_(gradient, alpha=1 - b1)
            self.v.mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
            weights.mul_(1 - g["lr"] * g["weight_decay"])
            root = (self.v / (1 - b2**self.count)).sqrt_().add_(g["eps"])
            weights.addcdiv_(self.m, root, value=-g["lr"] / (1 - b1**self.count))
            everything = torch.cat(self.group.all_gather(weights))
            for p, start in zip(g["params"], self.starts):
                p[...] = everything[start : start + p.numel()].view(p.shape)

    def zero_grad(self):
        for p in self.param_groups[0]["params"]:
            p.grad = None


# variant: rows of a table, one for each rank; data of the parameters
import torch
from torch.nn.utils import parameters_to_vector


class ShardedAdamW:
    def __init__(self, parameters, group, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        self.options = {"params": tuple(parameters), "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        self.param_groups = [self.options]
        self.group, self.t = group, 0
        self.m = torch.zeros_like(self.row(p.data for p in self.options["params"]))
        self.v = self.m.clone()

    def row(self, tensors):
        vector = parameters_to_vector(tensors)
        n = self.group.size
        table = vector.new_zeros((len(vector) + n - 1) // n * n)
        table[: len(vector)] = vector
        return table.view(n, -1)[self.group.rank]

    def step(self):
        o = self.options
        with torch.no_grad():
            w, g = self.row(o["params"]), self.row(p.grad for p in o["params"])
            self.t = self.t + 1
            for state, beta, new in ((self.m, o["betas"][0], g), (self.v, o["betas"][1], g * g)):
                state += (1 - beta) * (new - state)
            m, v = (s / (1 - b**self.t) for s, b in zip((self.m, self.v), o["betas"]))
            w = w - o["lr"] * (o["weight_decay"] * w + m / (v**0.5 + o["eps"]))
            left = torch.cat(self.group.all_gather(w))
            for p in o["params"]:
                p.data.copy_(left[: p.numel()].reshape_as(p))
                left = left[p.numel() :]

    def zero_grad(self):
        for p in self.options["params"]:
            p.grad = None
