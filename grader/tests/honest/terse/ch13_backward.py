"""Chapter 13 in the terse style: as short as it can be read."""

from __future__ import annotations

import math

import torch


def numeric_gradient(f, x, eps=1e-5):
    x = x.detach().to(torch.float64)
    n = x.numel()
    shifts = eps * torch.eye(n, dtype=torch.float64).reshape(n, *x.shape)
    up, down = [x + s for s in shifts], [x - s for s in shifts]
    values = [(float(f(a)), float(f(b))) for a, b in zip(up, down)]
    return torch.tensor([(a - b) / (2 * eps) for a, b in values], dtype=torch.float64).reshape(x.shape)


def linear_backward(x, weight, grad_out):
    grad_x = torch.einsum("...m,mn->...n", grad_out, weight)
    grad_weight = torch.einsum("...m,...n->mn", grad_out, x)
    return grad_x, grad_weight, torch.einsum("...m->m", grad_out)


def gelu_backward(x, grad_out, approximate=False):
    if approximate:
        u = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        near = u.clamp(-30, 30)
        slope = 0.5 * (1 + torch.tanh(u)) + 0.5 * x / torch.cosh(near) ** 2 * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
        slope = torch.where(u.abs() > 30, (x > 0).to(x.dtype), slope)
    else:
        slope = torch.special.ndtr(x) + x * torch.exp(-x.pow(2) / 2 - 0.5 * math.log(2 * math.pi))
    return slope.mul(grad_out)


def softmax_backward(weights, grad_out, dim=-1):
    product = weights * grad_out
    return product - weights * product.sum(dim, keepdim=True)


def cross_entropy_backward(logits, targets, ignore_index=-100):
    import torch.nn.functional as F

    keep = targets.ne(ignore_index)
    count = int(keep.sum())
    if count == 0:
        return torch.zeros_like(logits)
    hot = F.one_hot(torch.where(keep, targets, 0), logits.shape[-1]).to(logits.dtype)
    return (logits.softmax(-1) - hot) * keep.unsqueeze(-1) / count


def layer_norm_backward(x, weight, grad_out, eps=1e-5):
    D = x.shape[-1]
    rstd = (x.var(-1, unbiased=False, keepdim=True) + eps).rsqrt()
    n = (x - x.mean(-1, keepdim=True)) * rstd
    g = grad_out * weight
    grad_x = rstd / D * (D * g - g.sum(-1, keepdim=True) - n * (g * n).sum(-1, keepdim=True))
    lead = tuple(range(x.dim() - 1))
    return grad_x, (grad_out * n).sum(lead) if lead else grad_out * n, grad_out.sum(lead) if lead else grad_out.clone()


def embedding_backward(ids, grad_out, vocab_size):
    table = grad_out.new_zeros((vocab_size, grad_out.shape[-1]))
    table.index_put_((ids,), grad_out, accumulate=True)
    return table


def attention_backward(q, k, v, grad_out, mask=None):
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), -math.inf)
    w = torch.softmax(scores, dim=-1).nan_to_num()
    mean = (grad_out * (w @ v)).sum(-1, keepdim=True)
    gs = w * (grad_out @ v.mT - mean) / q.size(-1) ** 0.5
    return gs.matmul(k), gs.mT.matmul(q), w.mT.matmul(grad_out)


class Scalar:
    def __init__(self, value, tape=None):
        self.value, self.grad, self.slopes = value + 0.0, 0, tape or {}

    def __add__(self, other):
        if not isinstance(other, Scalar):
            return Scalar(self.value + other, {self: 1})
        return Scalar(self.value + other.value, {self: 2} if other is self else {self: 1, other: 1})

    def __mul__(self, other):
        if not isinstance(other, Scalar):
            return Scalar(self.value * other, {self: other})
        return Scalar(self.value * other.value, {self: 2 * self.value} if other is self else {self: other.value, other: self.value})

    def __pow__(self, n):
        return Scalar(self.value**n, {self: n * self.value ** (n - 1)})

    def exp(self):
        return Scalar(math.e**self.value, {self: math.e**self.value})

    def log(self):
        return Scalar(math.log(self.value), {self: 1 / self.value})

    def __neg__(self):
        return -1 * self

    def __sub__(self, other):
        return self + -other

    def __truediv__(self, other):
        return self * other**-1 if isinstance(other, Scalar) else self * (1 / other)

    def __radd__(self, other):
        return self + other

    def __rmul__(self, other):
        return self * other

    def __rsub__(self, other):
        return -self + other

    def __rtruediv__(self, other):
        return other * self**-1

    def waiting(self):
        """How many users each node below has."""
        users, look = {self: 0}, [self]
        while look:
            for part in look.pop().slopes:
                if part not in users:
                    users[part] = 0
                    look.append(part)
                users[part] += 1
        return users

    def backward(self):
        users, ready, arrived = self.waiting(), [self], {self: 1.0}
        while ready:
            node = ready.pop()
            node.grad = node.grad + arrived[node]
            for part, slope in node.slopes.items():
                arrived[part] = arrived.get(part, 0) + arrived[node] * slope
                users[part] -= 1
                if users[part] == 0:
                    ready.append(part)

    def zero_grad(self):
        for node in self.waiting():
            node.grad = 0
