"""Chapter 22 in the terse style: as short as it can be read."""

import torch
import torch.nn.functional as F


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
