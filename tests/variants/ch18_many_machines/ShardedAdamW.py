# variant: chapter 8's AdamW updates a piece
import torch
from torch import nn

from .ch08_training import AdamW


class ShardedAdamW:
    def __init__(self, parameters, group, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        params = [*parameters]
        self.group = group
        self.param_groups = [{"params": params, "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}]
        self.sizes = [p.numel() for p in params]
        self.k = (sum(self.sizes) + group.size - 1) // group.size
        self.own = nn.Parameter(params[0].new_zeros(self.k))
        self.inner = AdamW([self.own])
        self.m, self.v = torch.zeros_like(self.own.data), torch.zeros_like(self.own.data)

    def cut(self, tensors):
        flat = torch.cat([t.reshape(-1) for t in tensors])
        padding = flat.new_zeros(self.k * self.group.size - len(flat))
        return torch.cat([flat, padding]).unflatten(0, (self.group.size, self.k))[self.group.rank]

    @torch.no_grad()
    def step(self):
        options = self.param_groups[0]
        self.own.copy_(self.cut(options["params"]))
        self.own.grad = self.cut([p.grad for p in options["params"]]).clone()
        for name in ("lr", "betas", "eps", "weight_decay"):
            self.inner.param_groups[0][name] = options[name]
        b1, b2 = options["betas"]
        self.m = b1 * self.m + (1 - b1) * self.own.grad
        self.v = b2 * self.v + (1 - b2) * self.own.grad**2
        self.inner.step()
        new = torch.cat(self.group.all_gather(self.own.detach())).split([*self.sizes, self.k * self.group.size - sum(self.sizes)])
        for p, numbers in zip(options["params"], new):
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
        self.weights = torch.zeros(k, dtype=self.param_groups[0]["params"][0].dtype)
        self.gradient = self.weights.clone()
        self.m, self.v = torch.zeros_like(self.weights), torch.zeros_like(self.weights)

    def step(self):
        g = self.param_groups[0]
        with torch.no_grad():
            for p, start in zip(g["params"], self.starts):
                a, b = max(start, self.low), min(start + p.numel(), self.high)
                if a < b:
                    self.weights[a - self.low : b - self.low] = p.flatten()[a - start : b - start]
                    self.gradient[a - self.low : b - self.low] = p.grad.flatten()[a - start : b - start]
            self.count += 1
            b1, b2 = g["betas"]
            self.m.mul_(b1).add_(self.gradient, alpha=1 - b1)
            self.v.mul_(b2).addcmul_(self.gradient, self.gradient, value=1 - b2)
            self.weights.mul_(1 - g["lr"] * g["weight_decay"])
            root = (self.v / (1 - b2**self.count)).sqrt_().add_(g["eps"])
            self.weights.addcdiv_(self.m, root, value=-g["lr"] / (1 - b1**self.count))
            everything = torch.cat(self.group.all_gather(self.weights))
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
