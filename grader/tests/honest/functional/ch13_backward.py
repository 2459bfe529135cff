"""Chapter 13 with torch's functions."""

from __future__ import annotations

import math

import torch


def numeric_gradient(f, x, eps=1e-5):
    import numpy as np

    with torch.no_grad():
        base = np.array(x.detach().cpu().double().numpy(), order="C")
        grad = np.zeros(base.shape)
        for place in np.ndindex(base.shape):
            step = np.zeros(base.shape)
            step[place] = eps
            a, b = f(torch.from_numpy(np.asarray(base + step))), f(torch.from_numpy(np.asarray(base - step)))
            grad[place] = (float(a) - float(b)) / (2 * eps)
    return torch.from_numpy(np.asarray(grad))


def linear_backward(x, weight, grad_out):
    import torch.nn.functional as F

    with torch.no_grad():
        flat_x, flat_g = x.flatten(0, -2) if x.dim() > 1 else x[None], grad_out.flatten(0, -2) if x.dim() > 1 else grad_out[None]
        return F.linear(grad_out, weight.t()), F.linear(flat_g.t(), flat_x.t()), flat_g.new_ones(len(flat_g)) @ flat_g


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
    kept = (targets != ignore_index)[..., None]
    safe = torch.where(kept[..., 0], targets, torch.zeros_like(targets))[..., None]
    grad = torch.log_softmax(logits, -1).exp()
    grad = grad.scatter_add(-1, safe, -torch.ones_like(grad[..., :1]))
    return torch.where(kept, grad, 0.0) / kept.sum().clamp(min=1)


def layer_norm_backward(x, weight, grad_out, eps=1e-5):
    D = x.shape[-1]
    rstd = (x.var(-1, unbiased=False, keepdim=True) + eps).rsqrt()
    n = (x - x.mean(-1, keepdim=True)) * rstd
    g = grad_out * weight
    grad_x = rstd / D * (D * g - g.sum(-1, keepdim=True) - n * (g * n).sum(-1, keepdim=True))
    lead = tuple(range(x.dim() - 1))
    return grad_x, (grad_out * n).sum(lead) if lead else grad_out * n, grad_out.sum(lead) if lead else grad_out.clone()


def embedding_backward(ids, grad_out, vocab_size):
    rows = grad_out.reshape(-1, grad_out.size(-1))
    return grad_out.new_zeros(vocab_size, rows.size(1)).scatter_add(0, ids.reshape(-1, 1).expand(-1, rows.size(1)), rows)


def attention_backward(q, k, v, grad_out, mask=None):
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), -math.inf)
    w = torch.softmax(scores, dim=-1).nan_to_num()
    mean = (grad_out * (w @ v)).sum(-1, keepdim=True)
    gs = w * (grad_out @ v.mT - mean) / q.size(-1) ** 0.5
    return gs.matmul(k), gs.mT.matmul(q), w.mT.matmul(grad_out)


class Scalar:
    def __init__(self, value, parts=(), name=""):
        self.value, self.grad, self._parts, self._pass_on, self.name = float(value), 0, parts, lambda g, give: None, name

    def _binary(self, other, value, left, right):
        out = Scalar(value, (self, other))

        def pass_on(g, give):
            give(self, g * left)
            give(other, g * right)

        out._pass_on = pass_on
        return out

    def __add__(self, other):
        other = other if isinstance(other, Scalar) else Scalar(other)
        return self._binary(other, self.value + other.value, 1, 1)

    def __mul__(self, other):
        other = other if isinstance(other, Scalar) else Scalar(other)
        return self._binary(other, self.value * other.value, other.value, self.value)

    def _unary(self, value, slope):
        out = Scalar(value, (self,))
        out._pass_on = lambda g, give: give(self, g * slope)
        return out

    def __pow__(self, n):
        return self._unary(self.value**n, n * self.value ** (n - 1))

    def exp(self):
        return self._unary(math.exp(self.value), math.exp(self.value))

    def log(self):
        return self._unary(math.log(self.value), 1 / self.value)

    def __neg__(self):
        return self * -1

    def __radd__(self, other):
        return self + other

    def __sub__(self, other):
        return self + (-other)

    def __rsub__(self, other):
        return (-self) + other

    def __rmul__(self, other):
        return self * other

    def __truediv__(self, other):
        return self * other**-1

    def __rtruediv__(self, other):
        return other * self**-1

    def _order(self):
        order, seen, stack = [], set(), [(self, iter(self._parts))]
        seen.add(self)
        while stack:
            node, parts = stack[-1]
            for part in parts:
                if part not in seen:
                    seen.add(part)
                    stack.append((part, iter(part._parts)))
                    break
            else:
                order.append(node)
                stack.pop()
        return order

    def backward(self):
        new = {self: 1.0}

        def give(node, gradient):
            new[node] = new.get(node, 0.0) + gradient

        for node in reversed(self._order()):
            node.grad += new[node]
            node._pass_on(new[node], give)

    def zero_grad(self):
        for node in self._order():
            node.grad = 0
