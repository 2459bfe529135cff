"""In explicit loops: part by part, position by position, feature by feature."""

from contextlib import contextmanager

import torch
from torch import Tensor, nn

from .ch09_sampling import looking_at


def embed(model, ids: Tensor) -> Tensor:
    x = model.token_emb(ids)
    if hasattr(model, "pos_emb") and model.pos_emb is not None:
        x = model.pos_emb(x)
    return x


def logit_attribution(model, ids: Tensor, target: int) -> dict[str, float]:
    if ids.size(0) != 1:
        raise ValueError(f"there are {ids.size(0)} texts and not one")
    if target < 0 or target >= model.lm_head.weight.size(0):
        raise ValueError(f"target {target} is no token")
    names = []
    vectors = []
    bias = None
    with looking_at(model):
        x = embed(model, ids)
        names.append("embedding")
        vectors.append(x[0, -1])
        for i in range(len(model.blocks)):
            block = model.blocks[i]
            seen = []
            W_out = block.attn.W_out
            handle = W_out.register_forward_pre_hook(lambda module, inputs, seen=seen: seen.append(inputs[0]))
            try:
                attended = block.attn(block.ln1(x))
            finally:
                handle.remove()
            features = seen[0][0, -1]
            weight = block.attn.W_out.weight
            d_head = weight.size(1) // block.attn.n_heads
            for h in range(block.attn.n_heads):
                vector = torch.zeros_like(features)
                for j in range(h * d_head, (h + 1) * d_head):
                    vector = vector + features[j] * weight[:, j]
                names.append(f"head {i}.{h}")
                vectors.append(vector)
            if block.attn.W_out.bias is not None:
                bias = block.attn.W_out.bias if bias is None else bias + block.attn.W_out.bias
            x = x + attended
            fed = block.ffn(block.ln2(x))
            names.append(f"ffn {i}")
            vectors.append(fed[0, -1])
            x = x + fed
        names.append("bias")
        vectors.append(torch.zeros_like(x[0, -1]) if bias is None else bias)

        norm = model.ln_f
        is_layer_norm = hasattr(norm, "bias")
        last = x[0, -1]
        if is_layer_norm:
            last = last - last.mean()
        divisor = (last.pow(2).mean() + norm.eps).sqrt()
        row = model.lm_head.weight[target]
        found = {}
        for name, vector in zip(names, vectors):
            if is_layer_norm:
                vector = vector - vector.mean()
            found[name] = (vector / divisor * norm.weight * row).sum().item()
        if is_layer_norm:
            found["bias"] += (norm.bias * row).sum().item()
    return found


@contextmanager
def ablate_head(model, layer: int, head: int, kind: str = "zero"):
    if layer < 0 or layer >= len(model.blocks):
        raise ValueError(f"there is no layer {layer}")
    attention = model.blocks[layer].attn
    if head < 0 or head >= attention.n_heads:
        raise ValueError(f"there is no head {head}")
    if kind != "zero" and kind != "mean":
        raise ValueError(f"there is no kind {kind}")

    def hook(module, inputs):
        merged = inputs[0].clone()
        d_head = merged.size(2) // attention.n_heads
        for j in range(head * d_head, (head + 1) * d_head):
            if kind == "zero":
                merged[:, :, j] = 0.0
            else:
                merged[:, :, j] = inputs[0][:, :, j].mean()
        return merged

    handle = attention.W_out.register_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def attribution_patching(model, clean_ids: Tensor, corrupted_ids: Tensor, metric) -> Tensor:
    if clean_ids.shape != corrupted_ids.shape:
        raise ValueError("the texts have different shapes")
    clean = []
    corrupted = []
    with looking_at(model):
        x = embed(model, clean_ids)
        clean.append(x)
        for block in model.blocks:
            x = block(x)
            clean.append(x)
        x = embed(model, corrupted_ids).clone()
        with torch.enable_grad():
            x.requires_grad_(True)
            corrupted.append(x)
            for block in model.blocks:
                x = block(x)
                corrupted.append(x)
            value = metric(model.lm_head(model.ln_f(x)))
            if not isinstance(value, Tensor):
                raise ValueError("the metric returned no tensor")
            if value.numel() != 1:
                raise ValueError("the metric returned several numbers")
            if not value.requires_grad:
                raise ValueError("the metric returned a tensor without a graph")
            gradients = torch.autograd.grad(value, corrupted)
        rows = []
        for i in range(len(clean)):
            row = []
            for t in range(clean_ids.size(1)):
                row.append((gradients[i][:, t] * (clean[i][:, t] - corrupted[i][:, t])).sum())
            rows.append(torch.stack(row))
    return torch.stack(rows)


def mean_direction(positive: Tensor, negative: Tensor) -> Tensor:
    total = torch.zeros_like(positive[0])
    for state in positive:
        total = total + state
    other = torch.zeros_like(negative[0])
    for state in negative:
        other = other + state
    difference = total / len(positive) - other / len(negative)
    length = difference.pow(2).sum().sqrt()
    if length == 0:
        raise ValueError("the means are equal")
    return difference / length


@contextmanager
def steer(model, layer: int, direction: Tensor, strength: float):
    if layer < 0 or layer >= len(model.blocks):
        raise ValueError(f"there is no layer {layer}")
    if direction.shape != model.token_emb.weight[0].shape:
        raise ValueError(f"the direction has the shape {tuple(direction.shape)}")

    def hook(module, inputs, output):
        step = direction.to(output) * strength
        steered = []
        for t in range(output.size(1)):
            steered.append(output[:, t] + step)
        return torch.stack(steered, dim=1)

    handle = model.blocks[layer].register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def remove_direction(states: Tensor, direction: Tensor) -> Tensor:
    length = direction.pow(2).sum().sqrt()
    if length == 0:
        raise ValueError("the direction is 0")
    unit = direction / length
    rows = []
    for state in states.reshape(-1, states.size(-1)):
        rows.append(state - (state * unit).sum() * unit)
    return torch.stack(rows).reshape(states.shape)


def fit_probe(states: Tensor, labels: Tensor, l2: float = 1e-2) -> tuple[Tensor, Tensor]:
    if l2 <= 0:
        raise ValueError(f"l2 is {l2}")
    if len(labels) != len(states):
        raise ValueError(f"there are {len(labels)} labels and {len(states)} states")
    targets = []
    for label in labels.tolist():
        targets.append(1.0 if label else 0.0)
    if sum(targets) == 0 or sum(targets) == len(targets):
        raise ValueError("the labels are all of one class")
    N, D = states.shape
    rows = []
    for state in states.detach():
        rows.append(torch.cat([state.double(), torch.ones(1, dtype=torch.float64)]))
    theta = torch.zeros(D + 1, dtype=torch.float64)
    for _ in range(50):
        slope = torch.zeros(D + 1, dtype=torch.float64)
        bend = torch.zeros(D + 1, D + 1, dtype=torch.float64)
        for row, target in zip(rows, targets):
            p = torch.sigmoid(row @ theta)
            slope += (p - target) * row / N
            bend += p * (1 - p) * torch.outer(row, row) / N
        for d in range(D):
            slope[d] += l2 * theta[d]
            bend[d, d] += l2
        if slope.abs().max() < 1e-9:
            break
        theta = theta - torch.linalg.solve(bend, slope)
    return theta[:D].to(states.dtype), theta[D].to(states.dtype)


def probe_score(states: Tensor, labels: Tensor, folds: int, generator=None) -> tuple[float, float]:
    N = len(states)
    if folds < 2 or folds > N:
        raise ValueError(f"folds is {folds}, and there are {N} states")
    real = []
    for label in labels.tolist():
        real.append(bool(label))
    if real.count(True) < 2 or real.count(False) < 2:
        raise ValueError("labels must have two states of each class")
    mixed = []
    for i in torch.randperm(N, generator=generator).tolist():
        mixed.append(real[i])
    found = []
    for labels_now in (real, mixed):
        members = [[] for _ in range(folds)]
        turn = 0
        for kind in (False, True):
            places = [i for i in range(N) if labels_now[i] == kind]
            for j in torch.randperm(len(places), generator=generator).tolist():
                members[turn % folds].append(places[j])
                turn += 1
        right = 0
        for held in members:
            others = [i for i in range(N) if i not in held]
            weight, bias = fit_probe(states[others], torch.tensor([labels_now[i] for i in others]), 1e-2)
            for i in held:
                score = (states[i] * weight).sum() + bias
                if (score > 0) == labels_now[i]:
                    right += 1
        found.append(right / N)
    return found[0], found[1]


class SparseAutoencoder(nn.Module):
    def __init__(self, d_model: int, n_features: int, k: int) -> None:
        super().__init__()
        if k < 1 or k > n_features:
            raise ValueError(f"k is {k}, and there are {n_features} features")
        self.k = k
        rows = []
        for _ in range(n_features):
            row = torch.randn(d_model)
            rows.append(row / row.norm())
        self.W_dec = nn.Parameter(torch.stack(rows))
        self.W_enc = nn.Parameter(torch.stack(rows, dim=1))
        self.b_enc = nn.Parameter(torch.zeros(n_features))
        self.b_dec = nn.Parameter(torch.zeros(d_model))

    def encode(self, x: Tensor) -> Tensor:
        found = []
        for state in x.reshape(-1, x.size(-1)):
            numbers = (state - self.b_dec) @ self.W_enc + self.b_enc
            order = sorted(range(len(numbers)), key=lambda f: -numbers[f].item())
            kept = torch.zeros_like(numbers)
            for f in order[: self.k]:
                if numbers[f] > 0:
                    kept[f] = numbers[f]
            found.append(kept)
        return torch.stack(found).reshape(*x.shape[:-1], -1)

    def decode(self, features: Tensor) -> Tensor:
        found = []
        for row in features.reshape(-1, features.size(-1)):
            state = self.b_dec
            for f in range(len(row)):
                state = state + row[f] * self.W_dec[f]
            found.append(state)
        return torch.stack(found).reshape(*features.shape[:-1], -1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.encode(x)
        return self.decode(features), features

    def normalise(self) -> None:
        with torch.no_grad():
            for f in range(self.W_dec.size(0)):
                length = self.W_dec[f].norm()
                if length > 0:
                    self.W_dec[f] /= length

    def project_gradient(self) -> None:
        if self.W_dec.grad is None:
            return
        with torch.no_grad():
            for f in range(self.W_dec.size(0)):
                length = self.W_dec[f].norm()
                if length > 0:
                    unit = self.W_dec[f] / length
                    self.W_dec.grad[f] -= (self.W_dec.grad[f] * unit).sum() * unit


def explained_variance(x: Tensor, reconstruction: Tensor) -> float:
    if x.shape != reconstruction.shape:
        raise ValueError(f"the shapes are {tuple(x.shape)} and {tuple(reconstruction.shape)}")
    states = list(x.reshape(-1, x.size(-1)))
    guesses = list(reconstruction.reshape(-1, x.size(-1)))
    mean = sum(states) / len(states)
    error = spread = 0.0
    for state, guess in zip(states, guesses):
        error += (state - guess).pow(2).sum().item()
        spread += (state - mean).pow(2).sum().item()
    if spread == 0:
        raise ValueError("x has only equal states")
    return 1 - error / spread


def dead_features(features_seen: Tensor, window: int) -> Tensor:
    N, F = features_seen.shape
    if window < 1 or window > N:
        raise ValueError(f"the window is {window}, and there are {N} states")
    dead = torch.ones(F, dtype=torch.bool, device=features_seen.device)
    for i in range(N - window, N):
        for f in range(F):
            if features_seen[i, f] > 0:
                dead[f] = False
    return dead


def top_contexts(features: Tensor, ids: Tensor, n: int, before: int, after: int) -> list[tuple[float, list[int], int]]:
    left = []
    for b in range(ids.size(0)):
        strongest, place = 0.0, None
        for t in range(ids.size(1)):
            if features[b, t].item() > strongest:
                strongest, place = features[b, t].item(), t
        if place is not None:
            left.append((strongest, b, place))
    chosen = []
    while left and len(chosen) < n:
        best = left[0]
        for candidate in left:
            if candidate[0] > best[0]:
                best = candidate
        left.remove(best)
        strongest, b, place = best
        tokens, where = [], 0
        for t in range(ids.size(1)):
            if place - before <= t <= place + after:
                if t == place:
                    where = len(tokens)
                tokens.append(int(ids[b, t]))
        chosen.append((strongest, tokens, where))
    return chosen
