"""Chapter 23 in the terse style: as short as it can be read."""

from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import nn

from .ch09_sampling import looking_at


@contextmanager
def hooks(*handles):
    try:
        yield
    finally:
        [handle.remove() for handle in handles]


def logit_attribution(model, ids, target):
    if len(ids) != 1 or target not in range(len(model.lm_head.weight)):
        raise ValueError(f"one text has one target: {len(ids)} texts, {target = }")
    at, norm = {}, model.ln_f
    watched = [("", model.blocks[0], 0), ("x", norm, 0), ("y", norm, 1)]
    watched += [(i, b.attn.W_out, 0) for i, b in enumerate(model.blocks)]
    watched += [(f"ffn {i}", b.ffn, 1) for i, b in enumerate(model.blocks)]

    def seeing(name, out):
        return lambda module, args, result: at.update({name: (result if out else args[0])[0, -1]})

    with looking_at(model), hooks(*[module.register_forward_hook(seeing(n, out)) for n, module, out in watched]):
        model(ids)
        parts, b = {"embedding": at[""]}, getattr(norm, "bias", None)
        for i, attn in enumerate(block.attn for block in model.blocks):
            heads = zip(attn.W_out.weight.chunk(attn.n_heads, 1), at[i].chunk(attn.n_heads))
            parts |= {f"head {i}.{h}": w @ x for h, (w, x) in enumerate(heads)} | {f"ffn {i}": at[f"ffn {i}"]}
        parts["bias"] = at["x"] - sum(parts.values())
        x, y = (at["x"], at["y"]) if b is None else (at["x"] - at["x"].mean(), at["y"] - b)
        row = model.lm_head.weight[target] * norm.weight * (y / norm.weight).norm() / x.norm()
        row = row if b is None else row - row.mean()
        found = {name: (part @ row).item() for name, part in parts.items()}
        found["bias"] = 0.0 if b is None else found["bias"] + (b @ model.lm_head.weight[target]).item()
    return found


@contextmanager
def ablate_head(model, layer, head, kind="zero"):
    if layer not in range(len(model.blocks)) or kind not in ("zero", "mean"):
        raise ValueError(f"{layer = }, {kind = }")
    attn = model.blocks[layer].attn
    if head not in range(attn.n_heads):
        raise ValueError(f"{head = }")

    def hook(W, args):
        heads = [*args[0].chunk(attn.n_heads, -1)]
        heads[head] = heads[head] * 0 if kind == "zero" else heads[head].mean((0, 1)).expand_as(heads[head])
        return torch.cat(heads, -1)

    with hooks(attn.W_out.register_forward_pre_hook(hook)):
        yield


def attribution_patching(model, clean_ids, corrupted_ids, metric):
    if clean_ids.shape != corrupted_ids.shape:
        raise ValueError(f"{clean_ids.shape} and {corrupted_ids.shape}")

    def run(ids):
        states = []

        def begin(block, args):
            states.append(args[0].detach().requires_grad_())
            return states[0], *args[1:]

        found = [block.register_forward_hook(lambda block, args, x: states.append(x)) for block in model.blocks]
        with hooks(model.blocks[0].register_forward_pre_hook(begin), *found):
            result = model(ids)
        return states, result[0] if isinstance(result, tuple) else result

    with looking_at(model):
        clean, _ = run(clean_ids)
        with torch.enable_grad():
            corrupted, logits = run(corrupted_ids)
            value = metric(logits)
            if not torch.is_tensor(value) or value.numel() - 1 or not value.requires_grad:
                raise ValueError(f"metric returned {value}")
            slopes = torch.autograd.grad(value, corrupted)
        return torch.stack([(g * (a - b)).sum((0, 2)) for g, a, b in zip(slopes, clean, corrupted)])


def mean_direction(positive, negative):
    d = positive.mean(0) - negative.mean(0)
    if not d.any():
        raise ValueError("equal means")
    return d / d.norm()


@contextmanager
def steer(model, layer, direction, strength):
    if layer not in range(len(model.blocks)) or direction.shape != model.ln_f.weight.shape:
        raise ValueError(f"{layer = }, or the shape {tuple(direction.shape)} of direction, does not fit")
    with hooks(model.blocks[layer].register_forward_hook(lambda b, args, x: x + strength * direction.to(x))):
        yield


def remove_direction(states, direction):
    if not direction.any():
        raise ValueError(f"{direction = }")
    unit = F.normalize(direction, dim=0, eps=0)
    return states - (states @ unit).unsqueeze(-1) * unit


def fit_probe(states, labels, l2=1e-2):
    y = labels.double()
    if not l2 > 0 or len(y) != len(states) or y.mean() in (0, 1):
        raise ValueError(f"{l2 = }, labels of {y.unique().tolist()}, {len(y)} for {len(states)} states")
    x, eye = F.pad(states.detach().double(), (0, 1), value=1), torch.eye(states.size(1) + 1).double()
    eye[-1, -1], theta = 0, eye[0] * 0
    for _ in range(30):
        p = (x @ theta).sigmoid()
        slope, bend = x.T @ (p - y) / len(y) + l2 * eye @ theta, x.T * p * (1 - p) @ x / len(y) + l2 * eye
        theta = theta - torch.linalg.solve(bend, slope)
    return theta[:-1].to(states), theta[-1].to(states)


def probe_score(states, labels, folds, generator=None):
    N, y = len(states), labels.bool()
    if folds not in range(2, N + 1) or y.sum() not in range(2, N - 1):
        raise ValueError(f"{folds = } of {N} states, labels: {y.sum()} ones")

    def right(y):
        fold = (torch.rand(N, generator=generator) + y).argsort().argsort() % folds
        probes = [fit_probe(states[fold != f], y[fold != f]) for f in range(folds)]
        return sum((states[i] @ probes[f][0] + probes[f][1] > 0) == y[i] for i, f in enumerate(fold)).item() / N

    return right(y), right(y[torch.randperm(N, generator=generator)])


class SparseAutoencoder(nn.Module):
    def __init__(self, d_model, n_features, k):
        super().__init__()
        if k not in range(1, n_features + 1):
            raise ValueError(f"{k = }")
        self.k, rows = k, F.normalize(torch.randn(n_features, d_model))
        self.W_dec, self.W_enc = nn.Parameter(rows), nn.Parameter(rows.T.clone())
        self.b_enc, self.b_dec = nn.Parameter(torch.zeros(n_features)), nn.Parameter(torch.zeros(d_model))

    def encode(self, x):
        f = F.relu((x - self.b_dec) @ self.W_enc + self.b_enc)
        return torch.zeros_like(f).scatter(-1, (top := f.topk(self.k)).indices, top.values)

    def decode(self, features):
        return features @ self.W_dec + self.b_dec

    def forward(self, x):
        return self.decode(f := self.encode(x)), f

    @torch.no_grad()
    def normalise(self):
        self.W_dec.copy_(F.normalize(self.W_dec))

    @torch.no_grad()
    def project_gradient(self):
        if (g := self.W_dec.grad) is not None:
            g -= (g * (unit := F.normalize(self.W_dec))).sum(1, True) * unit


def explained_variance(x, reconstruction):
    rows = x.reshape(-1, x.size(-1))
    if x.shape != reconstruction.shape or not (spread := (rows - rows.mean(0)).square().sum()):
        raise ValueError(f"x has shape {x.shape}, the reconstruction {reconstruction.shape}, or all states are equal")
    return float(1 - (x - reconstruction).square().sum() / spread)


def dead_features(features_seen, window):
    if window not in range(1, len(features_seen) + 1):
        raise ValueError(f"{window = }")
    return (features_seen[-window:] <= 0).all(0)


def top_contexts(features, ids, n, before, after):
    found = [(max(row), row.index(max(row)), tokens) for row, tokens in zip(features.tolist(), ids.tolist())]
    found = sorted((each for each in found if each[0] > 0), key=lambda each: each[0], reverse=True)[:n]
    return [(a, tokens[max(t - before, 0) : t + after + 1], min(t, before)) for a, t, tokens in found]
