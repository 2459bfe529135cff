"""Chapter 13 with a type for everything."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .ch03_attention import scaled_dot_product_attention


def numeric_gradient(f: Callable[[Tensor], Tensor | float], x: Tensor, eps: float = 1e-5) -> Tensor:
    work = x.to(torch.float64).flatten().clone()
    out = []
    for i in range(len(work)):
        saved = work[i].item()
        work[i] = saved + eps
        top = f(work.view(x.shape).clone())
        work[i] = saved - eps
        bottom = f(work.view(x.shape).clone())
        work[i] = saved
        out.append((float(top) - float(bottom)) * (0.5 / eps))
    return torch.as_tensor(out, dtype=torch.float64).view(x.shape)


def linear_backward(x: Tensor, weight: Tensor, grad_out: Tensor) -> list[Tensor]:
    lead = tuple(range(x.dim() - 1))
    outer = grad_out.unsqueeze(-1) * x.unsqueeze(-2)
    sums = [outer.sum(lead), grad_out.sum(lead)] if lead else [outer, grad_out.clone()]
    return [(grad_out.unsqueeze(-1) * weight).sum(-2), *sums]


def gelu_backward(x: Tensor, grad_out: Tensor, approximate: bool = False) -> Tensor:
    if approximate:
        c = 2 * math.sqrt(2 / math.pi)
        s = torch.sigmoid(c * (x + 0.044715 * x.pow(3)))
        return grad_out * (s + x * s * (1 - s) * c * (1 + 0.134145 * x.square()))
    normal = torch.distributions.Normal(torch.zeros((), dtype=x.dtype, device=x.device), 1.0, validate_args=False)
    return grad_out * (normal.cdf(x) + x * normal.log_prob(x).exp()).to(x.dtype)


def softmax_backward(weights: Tensor, grad_out: Tensor, dim: int = -1) -> Tensor:
    w, g = weights.movedim(dim, -1), grad_out.movedim(dim, -1)
    jacobian = torch.diag_embed(w) - w[..., :, None] * w[..., None, :]
    return (jacobian @ g[..., None])[..., 0].movedim(-1, dim)


def cross_entropy_backward(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    flat, wanted = logits.reshape(-1, logits.size(-1)), targets.reshape(-1)
    rows = (wanted != ignore_index).nonzero().flatten()
    grad = torch.zeros_like(flat)
    probs = torch.softmax(flat[rows], dim=1)
    probs[torch.arange(len(rows)), wanted[rows]] -= 1
    grad[rows] = probs / max(len(rows), 1)
    return grad.reshape(logits.shape)


def layer_norm_backward(x: Tensor, weight: Tensor, grad_out: Tensor, eps: float = 1e-5) -> list[Tensor]:
    D = x.shape[-1]
    c = x - x.mean(-1, keepdim=True)
    s = torch.sqrt(c.square().mean(-1, keepdim=True) + eps)
    n = c / s
    eye = torch.eye(D, dtype=x.dtype, device=x.device)
    jacobian = (eye - 1 / D - n[..., :, None] * n[..., None, :] / D) / s[..., None]
    grad_x = (jacobian @ (grad_out * weight)[..., None])[..., 0]
    return [grad_x, (grad_out * n).reshape(-1, D).sum(0), grad_out.reshape(-1, D).sum(0)]


def embedding_backward(ids: Tensor, grad_out: Tensor, vocab_size: int) -> Tensor:
    flat = grad_out.reshape(-1, grad_out.size(-1))
    return torch.stack([flat[ids.reshape(-1) == token].sum(0) for token in range(vocab_size)])


def attention_backward(q: Tensor, k: Tensor, v: Tensor, grad_out: Tensor, mask: Tensor | None = None) -> list[Tensor]:
    _, w = scaled_dot_product_attention(q, k, v, mask=mask)
    gs = softmax_backward(w, torch.matmul(grad_out, v.transpose(-1, -2)))
    if mask is not None:
        gs = gs.masked_fill(~mask, 0)
    gs = gs.div(q.shape[-1] ** 0.5)
    return [torch.matmul(gs, k), torch.matmul(gs.transpose(-1, -2), q), torch.matmul(w.transpose(-1, -2), grad_out)]


@dataclass(eq=False)
class Scalar:
    """A node of the graph. Its edges lead to the nodes that it was made of."""

    value: float
    grad: float = 0.0
    edges: list[tuple[Scalar, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.value = float(self.value)

    @staticmethod
    def of(x: Scalar | float) -> Scalar:
        return x if isinstance(x, Scalar) else Scalar(float(x))

    @classmethod
    def made(cls, value: float, *edges: tuple[Scalar, float]) -> Scalar:
        return cls(float(value), edges=list(edges))

    def __add__(self, other: Scalar | float) -> Scalar:
        right = Scalar.of(other)
        return Scalar.made(self.value + right.value, (self, 1.0), (right, 1.0))

    def __sub__(self, other: Scalar | float) -> Scalar:
        right = Scalar.of(other)
        return Scalar.made(self.value - right.value, (self, 1.0), (right, -1.0))

    def __mul__(self, other: Scalar | float) -> Scalar:
        right = Scalar.of(other)
        return Scalar.made(self.value * right.value, (self, right.value), (right, self.value))

    def __truediv__(self, other: Scalar | float) -> Scalar:
        right = Scalar.of(other)
        quotient = self.value / right.value
        return Scalar.made(quotient, (self, 1.0 / right.value), (right, -quotient / right.value))

    def __pow__(self, exponent: float) -> Scalar:
        return Scalar.made(self.value**exponent, (self, exponent * self.value ** (exponent - 1)))

    def exp(self) -> Scalar:
        result = math.exp(self.value)
        return Scalar.made(result, (self, result))

    def log(self) -> Scalar:
        return Scalar.made(math.log(self.value), (self, 1.0 / self.value))

    def __neg__(self) -> Scalar:
        return Scalar.made(-self.value, (self, -1.0))

    def __radd__(self, other: float) -> Scalar:
        return Scalar.of(other) + self

    def __rsub__(self, other: float) -> Scalar:
        return Scalar.of(other) - self

    def __rmul__(self, other: float) -> Scalar:
        return Scalar.of(other) * self

    def __rtruediv__(self, other: float) -> Scalar:
        return Scalar.of(other) / self

    def _reachable(self) -> dict[int, Scalar]:
        """id -> node, of this node and all that it was made of."""
        found: dict[int, Scalar] = {id(self): self}
        frontier: deque[Scalar] = deque([self])
        while frontier:
            for part, _ in frontier.popleft().edges:
                if id(part) not in found:
                    found[id(part)] = part
                    frontier.append(part)
        return found

    def backward(self) -> None:
        """Kahn's algorithm: a node passes its gradient on when no edge that leads to it is left."""
        nodes = self._reachable()
        waiting_for: Counter[int] = Counter(id(part) for node in nodes.values() for part, _ in node.edges)
        gradients: dict[int, float] = dict.fromkeys(nodes, 0.0)
        gradients[id(self)] = 1.0
        ready: list[Scalar] = [self]
        while ready:
            node = ready.pop()
            node.grad += gradients[id(node)]
            for part, slope in node.edges:
                gradients[id(part)] += gradients[id(node)] * slope
                waiting_for[id(part)] -= 1
                if not waiting_for[id(part)]:
                    ready.append(part)

    def zero_grad(self) -> None:
        for node in self._reachable().values():
            node.grad = 0.0
