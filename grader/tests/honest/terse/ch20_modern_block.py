"""Chapter 20 in the terse style: as short as it can be read."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .ch03_attention import causal_mask, scaled_dot_product_attention
from .ch04_positions_in_attention import alibi_bias, apply_rope
from .ch05_layers import RMSNorm


def soft_cap(logits, cap):
    assert cap > 0, f"cap {cap}"
    return (logits / cap).tanh() * cap


def attention_with_sink(q, k, v, sink, mask=None):
    s = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        s = s.where(mask, -torch.inf)
    s = F.pad(s, (0, 1))
    s[..., -1] = sink.to(s)[:, None]
    w = s.softmax(-1)[..., :-1]
    return w @ v, w


def gated_attention(q, k, v, gate, mask=None):
    return scaled_dot_product_attention(q, k, v, mask)[0] * gate.sigmoid()


def lin(a, b):
    return nn.Linear(a, b, bias=False)


class QKNormAttention(nn.Module):
    def __init__(self, d_model, n_heads, positions="none"):
        super().__init__()
        assert d_model % n_heads == 0, f"{d_model} % {n_heads}"
        assert positions in {"none", "rope", "alibi"}, f"{positions}?"
        self.n_heads, self.positions = n_heads, positions
        self.W_q, self.W_k, self.W_v, self.W_out = (lin(d_model, d_model) for _ in range(4))
        self.q_norm, self.k_norm = RMSNorm(d_model // n_heads), RMSNorm(d_model // n_heads)

    def forward(self, x):
        T = x.shape[1]
        q, k, v = (W(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for W in (self.W_q, self.W_k, self.W_v))
        q, k, pos = self.q_norm(q), self.k_norm(k), torch.arange(T, device=x.device)
        if self.positions == "rope":
            q, k = (apply_rope(t, pos) for t in (q, k))
        bias = alibi_bias(self.n_heads, T, T).to(x) if self.positions == "alibi" else None
        y = scaled_dot_product_attention(q, k, v, causal_mask(T).to(x.device), bias)[0]
        return self.W_out(y.transpose(1, 2).flatten(2))


class LatentAttention(nn.Module):
    def __init__(self, d_model, n_heads, d_latent, d_rope):
        super().__init__()
        assert d_model % n_heads == 0, f"{d_model} % {n_heads}"
        assert d_rope % 2 == 0, f"d_rope {d_rope} is odd"
        self.H, self.r = n_heads, d_rope
        self.W_q, self.W_down, self.W_rope = lin(d_model, d_model + n_heads * d_rope), lin(d_model, d_latent), lin(d_model, d_rope)
        self.norm = RMSNorm(d_latent)
        self.W_up_k, self.W_up_v, self.W_out = lin(d_latent, d_model), lin(d_latent, d_model), lin(d_model, d_model)

    def parts(self, x, start):
        pos = torch.arange(start, start + x.shape[1], device=x.device)
        q, r = self.W_q(x).unflatten(-1, (self.H, -1)).transpose(1, 2).split([self.W_out.in_features // self.H, self.r], -1)
        return q, apply_rope(r, pos), self.norm(self.W_down(x))[:, None], apply_rope(self.W_rope(x), pos)[:, None]

    def attend(self, q, r, c, s):
        up_k, up_v = (W.weight.unflatten(0, (self.H, -1)) for W in (self.W_up_k, self.W_up_v))
        T, n = q.shape[2], c.shape[2]
        a = (torch.cat([q @ up_k, r], -1) @ torch.cat([c, s], -1).mT) / (q.shape[-1] + self.r) ** 0.5
        w = a.masked_fill(~causal_mask(T, n).to(a.device), -torch.inf).softmax(-1)
        return self.W_out((w @ c @ up_v.mT).transpose(1, 2).flatten(2))

    def forward(self, x):
        return self.attend(*self.parts(x, 0))

    def cached(self, x, cache):
        q, r, c, s = self.parts(x, cache.length)
        return self.attend(q, r, *cache.append(c, s))


def yarn_angles(positions, d_head, factor, trained_length, base=10000.0, fast=32.0, slow=1.0):
    assert d_head % 2 == 0, f"d_head {d_head} is odd"
    assert factor >= 1, f"factor {factor} < 1"
    i = torch.arange(d_head // 2, device=positions.device).double()
    a, b = (d_head / 2 * math.log(trained_length / math.tau / n, base) for n in (fast, slow))
    t = ((i - a) / (b - a)).clip(0, 1)
    return torch.outer(positions.double(), base ** (-2 * i / d_head) * (1 - t + t / factor)), 1 + 0.1 * math.log(factor)


def newton_schulz(m, steps=5):
    if m.shape[0] > m.shape[1]:
        return newton_schulz(m.mT, steps).mT
    x = m / (m.norm() + 1e-7)
    for _ in range(steps):
        g = x @ x.mT
        x = 3.4445 * x - 4.775 * g @ x + 2.0315 * g @ g @ x
    return x


class Muon:
    def __init__(self, params, lr=0.02, momentum=0.95, steps=5, weight_decay=0.0):
        ps = [*params]
        for p in ps:
            assert p.ndim == 2, f"shape {tuple(p.shape)}"
        self.param_groups = [dict(params=ps, lr=lr, momentum=momentum, steps=steps, weight_decay=weight_decay)]
        self.v = {}

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            for p in (p for p in g["params"] if p.grad is not None):
                v = self.v[p] = torch.lerp(self.v.get(p, torch.zeros_like(p)), p.grad, 1 - g["momentum"])
                u = newton_schulz(p.grad.lerp(v, g["momentum"]), g["steps"]) * max(1, p.shape[0] / p.shape[1]) ** 0.5
                p.mul_(1 - g["lr"] * g["weight_decay"]).add_(u, alpha=-g["lr"])

    def zero_grad(self):
        for p in self.param_groups[0]["params"]:
            p.grad = None


def multi_token_loss(logits, targets, ignore_index=-100):
    K, B, T, V = logits.shape
    t = torch.stack([F.pad(targets[:, k:], (0, min(k, T)), value=ignore_index) for k in range(K)])
    nll = F.cross_entropy(logits.reshape(-1, V), t.flatten(), ignore_index=ignore_index, reduction="none").view(K, -1)
    return (nll.sum(1) / (t != ignore_index).flatten(1).sum(1).clamp(min=1)).mean()


def schedule_wsd(step, warmup, decay, total, peak, floor=0.0):
    assert warmup + decay <= total, f"{warmup} + {decay} > {total}"
    if step < warmup:
        return peak * step / warmup
    return floor if step >= total else floor + (peak - floor) * min(1, (total - step) / max(decay, 1e-9))
