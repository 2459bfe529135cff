"""Chapter 13 in einsum."""

from __future__ import annotations

import collections
import heapq
import itertools
import math

import torch

from .ch03_attention import softmax


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
    if not approximate:
        phi = torch.erfc(-x / 2**0.5) * 0.5
        return grad_out * phi + grad_out * x * (-x * x / 2).exp() * 0.3989422804014327
    k = (2 / math.pi) ** 0.5
    u = k * x + k * 0.044715 * x * x * x
    t = u.tanh()
    du = k + 3 * k * 0.044715 * x * x
    return grad_out / 2 + grad_out * t / 2 + grad_out * x * du * (1 - t) * (1 + t) / 2


def softmax_backward(weights, grad_out, dim=-1):
    w, g = weights.transpose(dim, -1), grad_out.transpose(dim, -1)
    return (w * (g - torch.einsum("...v,...v->...", w, g).unsqueeze(-1))).transpose(dim, -1).contiguous()


def cross_entropy_backward(logits, targets, ignore_index=-100):
    import torch.nn.functional as F

    keep = targets.ne(ignore_index)
    count = int(keep.sum())
    if count == 0:
        return torch.zeros_like(logits)
    hot = F.one_hot(torch.where(keep, targets, 0), logits.shape[-1]).to(logits.dtype)
    return (logits.softmax(-1) - hot) * keep.unsqueeze(-1) / count


def layer_norm_backward(x, weight, grad_out, eps=1e-5):
    D = x.size(-1)
    c = x - x.mean(-1, keepdim=True)
    s = ((c * c).mean(-1, keepdim=True) + eps) ** 0.5
    g = grad_out * weight
    grad_var = (g * c).sum(-1, keepdim=True) * -0.5 * s**-3
    grad_c = g / s + grad_var * 2 * c / D
    grad_x = grad_c - grad_c.mean(-1, keepdim=True)
    rows, n = grad_out.flatten(0, -2) if x.dim() > 1 else grad_out[None], (c / s).reshape(-1, D)
    return grad_x, torch.einsum("nd,nd->d", rows, n), rows.sum(0)


def embedding_backward(ids, grad_out, vocab_size):
    hot = (ids.reshape(-1)[:, None] == torch.arange(vocab_size, device=ids.device)).to(grad_out.dtype)
    return hot.T @ grad_out.reshape(-1, grad_out.shape[-1])


def attention_backward(q, k, v, grad_out, mask=None):
    scale = q.shape[-1] ** -0.5
    scores = torch.einsum("...qd,...kd->...qk", q, k) * scale
    if mask is not None:
        scores = torch.where(mask, scores, -math.inf)
    w = softmax(scores)
    gv = torch.einsum("...qk,...qe->...ke", w, grad_out)
    gw = torch.einsum("...qe,...ke->...qk", grad_out, v)
    gs = w * (gw - (w * gw).sum(-1, keepdim=True)) * scale
    return torch.einsum("...qk,...kd->...qd", gs, k), torch.einsum("...qk,...qd->...kd", gs, q), gv


_numbers = itertools.count()


class Scalar:
    """Nodes are numbered as they are made, so a node's number is greater than those of all that it was made of."""

    def __init__(self, value, made_of=None):
        self.value, self.grad = float(value), 0.0
        self.made_of, self.number = made_of or [], next(_numbers)

    def combine(self, other, value, slope, other_slope):
        return Scalar(value, [(self, slope)] + ([(other, other_slope)] if isinstance(other, Scalar) else []))

    def __add__(self, other):
        return self.combine(other, self.value + number(other), 1.0, 1.0)

    def __mul__(self, other):
        return self.combine(other, self.value * number(other), number(other), self.value)

    def __truediv__(self, other):
        y = number(other)
        return self.combine(other, self.value / y, 1 / y, -self.value / y / y)

    def __pow__(self, power):
        return Scalar(self.value**power, [(self, power * self.value ** (power - 1) if power else 0.0)])

    def exp(self):
        return Scalar(math.exp(self.value), [(self, math.exp(self.value))])

    def log(self):
        return Scalar(math.log(self.value), [(self, self.value**-1)])

    def __neg__(self):
        return Scalar(-self.value, [(self, -1.0)])

    def __sub__(self, other):
        return self + -other

    def __rsub__(self, other):
        return -self + other

    def __rtruediv__(self, other):
        return Scalar(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def nodes(self):
        """Each node once, those made last first."""
        heap, seen = [(-self.number, self)], {self.number}
        while heap:
            _, node = heapq.heappop(heap)
            yield node
            for part, _ in node.made_of:
                if part.number not in seen:
                    seen.add(part.number)
                    heapq.heappush(heap, (-part.number, part))

    def backward(self):
        flow = collections.defaultdict(float, {self.number: 1.0})
        for node in self.nodes():
            gradient = flow.pop(node.number)
            node.grad += gradient
            for part, slope in node.made_of:
                flow[part.number] += gradient * slope

    def zero_grad(self):
        for node in self.nodes():
            node.grad = 0.0


def number(x):
    return x.value if isinstance(x, Scalar) else x
