"""Chapter 13 with loops."""

from __future__ import annotations

import math

import torch

from .ch03_attention import scaled_dot_product_attention, softmax


def numeric_gradient(f, x, eps=1e-5):
    import itertools

    exact = x.double()
    f(exact.clone())
    grad = torch.zeros(exact.shape, dtype=torch.float64, device=x.device)
    for place in itertools.product(*(range(size) for size in x.shape)):
        high, low = exact.clone(), exact.clone()
        high[place] += eps
        low[place] -= eps
        grad[place] = (f(high) - f(low)) / (2 * eps)
    return grad


def linear_backward(x, weight, grad_out):
    rows, grads = x.reshape(-1, x.shape[-1]), grad_out.reshape(-1, grad_out.shape[-1])
    grad_weight, grad_bias = torch.zeros_like(weight), torch.zeros_like(weight[:, 0])
    for row, grad in zip(rows, grads):
        grad_weight = grad_weight + torch.outer(grad, row)
        grad_bias = grad_bias + grad
    return torch.matmul(grad_out, weight), grad_weight, grad_bias


def gelu_backward(x, grad_out, approximate=False):
    if approximate:
        c = 2 * math.sqrt(2 / math.pi)
        s = torch.sigmoid(c * (x + 0.044715 * x.pow(3)))
        return grad_out * (s + x * s * (1 - s) * c * (1 + 0.134145 * x.square()))
    normal = torch.distributions.Normal(torch.zeros((), dtype=x.dtype, device=x.device), 1.0, validate_args=False)
    return grad_out * (normal.cdf(x) + x * normal.log_prob(x).exp()).to(x.dtype)


def softmax_backward(weights, grad_out, dim=-1):
    w, g = weights.movedim(dim, -1), grad_out.movedim(dim, -1)
    rows = [a * (b - torch.dot(a, b)) for a, b in zip(w.reshape(-1, w.shape[-1]), g.reshape(-1, g.shape[-1]))]
    return torch.stack(rows).reshape(w.shape).movedim(-1, dim)


def cross_entropy_backward(logits, targets, ignore_index=-100):
    grad, n = [], max(1, int((targets != ignore_index).sum()))
    for row, target in zip(logits.reshape(-1, logits.size(-1)), targets.reshape(-1).tolist()):
        if target == ignore_index:
            grad.append(torch.zeros_like(row))
            continue
        p = softmax(row)
        hot = torch.zeros_like(row)
        hot[target] = 1
        grad.append((p - hot) / n)
    return torch.stack(grad).reshape(logits.shape)


def layer_norm_backward(x, weight, grad_out, eps=1e-5):
    D = x.shape[-1]
    c = x - x.mean(-1, keepdim=True)
    s = torch.sqrt(c.square().mean(-1, keepdim=True) + eps)
    n = c / s
    eye = torch.eye(D, dtype=x.dtype, device=x.device)
    jacobian = (eye - 1 / D - n[..., :, None] * n[..., None, :] / D) / s[..., None]
    grad_x = (jacobian @ (grad_out * weight)[..., None])[..., 0]
    return [grad_x, (grad_out * n).reshape(-1, D).sum(0), grad_out.reshape(-1, D).sum(0)]


def embedding_backward(ids, grad_out, vocab_size):
    table = torch.zeros((vocab_size, grad_out.size(-1)), dtype=grad_out.dtype, device=grad_out.device)
    for token, row in zip(ids.reshape(-1), grad_out.reshape(-1, grad_out.size(-1))):
        table[token] = table[token] + row
    return table


def attention_backward(q, k, v, grad_out, mask=None):
    weights = scaled_dot_product_attention(q, k, v, mask)[1]
    if q.dim() > 2:
        lead = q.shape[:-2]
        flat = [t.reshape(-1, *t.shape[-2:]) for t in (q, k, v, grad_out)]
        masks = [None] * len(flat[0]) if mask is None else mask.expand(*lead, q.size(-2), k.size(-2)).reshape(-1, q.size(-2), k.size(-2))
        parts = [attention_backward(*each) for each in zip(*flat, masks)]
        return tuple(torch.stack(part).reshape(*lead, *part[0].shape) for part in zip(*parts))
    grad_weights, grad_v_t, _ = linear_backward(weights, v.T, grad_out)
    grad_scores = softmax_backward(weights, grad_weights, -1) / math.sqrt(q.shape[-1])
    grad_q, grad_k, _ = linear_backward(q, k, grad_scores)
    return grad_q, grad_k, grad_v_t.T


class Scalar:
    created = 0

    def __init__(self, value, made_of=()):
        Scalar.created += 1
        self.number, self.value, self.grad, self.made_of = Scalar.created, float(value), 0.0, made_of

    def wrap(x):
        return x if isinstance(x, Scalar) else Scalar(x)

    def __add__(self, other):
        other = Scalar.wrap(other)
        return Scalar(self.value + other.value, [(self, 1.0), (other, 1.0)])

    __radd__ = __add__

    def __sub__(self, other):
        other = Scalar.wrap(other)
        return Scalar(self.value - other.value, [(self, 1.0), (other, -1.0)])

    def __rsub__(self, other):
        return Scalar.wrap(other) - self

    def __mul__(self, other):
        other = Scalar.wrap(other)
        return Scalar(self.value * other.value, [(self, other.value), (other, self.value)])

    __rmul__ = __mul__

    def __truediv__(self, other):
        other = Scalar.wrap(other)
        return Scalar(self.value / other.value, [(self, 1 / other.value), (other, -self.value / other.value**2)])

    def __rtruediv__(self, other):
        return Scalar.wrap(other) / self

    def __neg__(self):
        return Scalar(-self.value, [(self, -1.0)])

    def __pow__(self, n):
        return Scalar(self.value**n, [(self, n * self.value ** (n - 1))])

    def exp(self):
        e = math.exp(self.value)
        return Scalar(e, [(self, e)])

    def log(self):
        return Scalar(math.log(self.value), [(self, 1 / self.value)])

    def all_nodes(self):
        import heapq

        heap, known = [(-self.number, self)], {self.number}
        while heap:
            _, node = heapq.heappop(heap)
            yield node
            for part, _ in node.made_of:
                if part.number not in known:
                    known.add(part.number)
                    heapq.heappush(heap, (-part.number, part))

    def backward(self):
        slopes = {self.number: 1.0}
        for node in self.all_nodes():
            g = slopes[node.number]
            node.grad += g
            for part, slope in node.made_of:
                slopes[part.number] = slopes.get(part.number, 0.0) + g * slope

    def zero_grad(self):
        for node in list(self.all_nodes()):
            node.grad = 0.0
