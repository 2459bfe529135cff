"""Chapter 22 in the terse style: as short as it can be read."""

import torch
import torch.nn.functional as F
from torch import nn

from .ch05_layers import RMSNorm


def phi(x):
    return F.elu(x) + 1


def linear_attention(q, k, v):
    w = (phi(q) @ phi(k).mT).tril()
    return w / w.sum(-1, True) @ v


def linear_attention_step(q, k, v, state):
    q, k = phi(q), phi(k)
    S, z = state or (0, 0)
    S, z = S + k[..., None] * v[..., None, :], z + k
    return torch.einsum("bhd,bhdv->bhv", q, S) / (q * z).sum(-1, True), (S, z)


def segment_sums(log_decay):
    t = torch.arange(log_decay.shape[-1], device=log_decay.device)
    s = log_decay[..., None].where(t[:, None] > t, 0).cumsum(-2)
    return s.where(t[:, None] >= t, -torch.inf)


def decayed_attention(q, k, v, log_decay):
    return q @ k.mT * segment_sums(log_decay).exp() @ v


def decayed_attention_chunked(q, k, v, log_decay, chunk, state=None):
    assert chunk > 0, f"chunk {chunk}"
    S, out = 0 * k[..., :1, :].mT * v[..., :1, :] if state is None else state, []
    for Q, K, V, a in zip(*(x.split(chunk, 2) for x in (q, k, v, log_decay))):
        L, g = segment_sums(a).exp(), a.cumsum(-1).exp()[..., None]
        out += [(Q @ K.mT * L) @ V + g * Q @ S]
        S = g[..., -1:, :] * S + (L[..., -1, :, None] * K).mT @ V
    return torch.cat(out, 2), S


def doubling_scan(a, b):
    n = 1
    while n < len(b):
        b, a = torch.cat([b[:n], a[n:] * b[:-n] + b[n:]]), torch.cat([a[:n], a[n:] * a[:-n]])
        n *= 2
    return b


def delta_rule(q, k, v, beta, log_decay=None, state=None):
    S, out = q.mT @ v * 0 if state is None else state, []
    a = beta * 0 + 1 if log_decay is None else log_decay.exp()
    for i in (slice(i, i + 1) for i in range(q.shape[2])):
        S = a[:, :, i, None] * S
        S = S + k[:, :, i].mT @ (beta[:, :, i, None] * (v[:, :, i] - k[:, :, i] @ S))
        out.append(q[:, :, i] @ S)
    return torch.cat(out, 2), S


def factors(a):
    m = torch.ones(2 * a.shape[-1:], dtype=torch.bool, device=a.device).tril(-1)
    return a[..., None].where(m, 0).cumsum(-2).exp().tril()


def delta_rule_chunked(q, k, v, beta, chunk, log_decay=None, state=None):
    assert chunk > 0, f"chunk {chunk}"
    S, out = q.mT @ v * 0 if state is None else state, []
    g = beta * 0 if log_decay is None else log_decay
    for Q, K, V, b, a in zip(*(t.split(chunk, 2) for t in (q, k, v, beta[..., None], g))):
        w, s = factors(a), a.cumsum(-1).exp()[..., None]
        u = torch.linalg.solve_triangular(b * (K @ K.mT) * w, b * (V - s * (K @ S)), upper=False, unitriangular=True)
        out.append(Q @ K.mT * w @ u + s * (Q @ S))
        S = s[:, :, -1:] * S + (w[:, :, -1, :, None] * K).mT @ u
    return torch.cat(out, 2), S


def short_convolution(x, weight, state=None):
    w = weight.shape[1]
    x, T = F.pad(x, (0, 0, w - 1, 0)) if state is None else torch.cat([state, x], 1), x.shape[1]
    return (x.unfold(1, w, 1) * weight).sum(-1), x[:, T:]


def selective_scan(x, dt, A, B, C, D, state=None):
    a, b = (dt[..., None] * A).exp(), (dt * x)[..., None] * B[:, :, None]
    h, out = b[:, 0] * 0 if state is None else state, []
    for i in range(x.shape[1]):
        out += [h := a[:, i] * h + b[:, i]]
    return (torch.stack(out, 1) @ C[..., None])[..., 0] + D * x, h


class GatedDeltaNet(nn.Module):
    def __init__(self, d_model, n_heads, width=4):
        super().__init__()
        assert d_model % n_heads == 0, f"{d_model} % {n_heads}"
        assert width > 0, f"width {width}"
        D, self.n_heads = d_model, n_heads
        for name, n in zip("qkv beta decay gate out".split(), (3 * D, n_heads, n_heads, D, D)):
            self.add_module(f"W_{name}", nn.Linear(D, n, bias=False))
        self.norm, self.conv = RMSNorm(D // n_heads), nn.Parameter(torch.randn(3 * D, width) / 4)
        self.A_log = nn.Parameter(torch.empty(n_heads).uniform_(1, 16).log_())
        self.dt_bias = nn.Parameter(torch.empty(n_heads).uniform_(1e-3, 1e-1).expm1_().log_())

    def new_state(self, B):
        d = self.norm.weight.shape[0]
        return self.conv.new_zeros(B, self.conv.shape[1] - 1, len(self.conv)), self.conv.new_zeros(B, self.n_heads, d, d)

    def step(self, x, state):
        y, c = short_convolution(self.W_qkv(x), self.conv, state[0])
        y = F.silu(y).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = (z * (z.square().sum(-1, keepdim=True) + 1e-6).rsqrt() for z in y[:2])
        g = -self.A_log.exp() * F.softplus(self.W_decay(x) + self.dt_bias)
        o, S = delta_rule_chunked(q, k, y[2], self.W_beta(x).sigmoid().mT, 64, g.mT, state[1])
        return self.W_out(self.norm(o).transpose(1, 2).flatten(2) * F.silu(self.W_gate(x))), (c, S)

    def forward(self, x):
        return self.step(x, self.new_state(len(x)))[0]
