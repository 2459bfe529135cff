"""Chapter 13 with a type for everything."""

from __future__ import annotations

import math
from collections.abc import Callable

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
