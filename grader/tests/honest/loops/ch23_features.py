"""In explicit loops: part by part, position by position, feature by feature."""

from contextlib import contextmanager

import torch
from torch import Tensor

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
