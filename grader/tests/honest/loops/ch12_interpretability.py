"""In explicit loops: through the blocks by hand, and through a pattern row by row."""

import torch
from torch import Tensor

from .ch07_models import GPT
from .ch09_sampling import looking_at


def embed(model: GPT, ids: Tensor) -> Tensor:
    x = model.token_emb(ids)
    if model.pos_emb is not None:
        x = model.pos_emb(x)
    return x


def residual_stream(model: GPT, ids: Tensor) -> list[Tensor]:
    with looking_at(model):
        x = embed(model, ids)
        states = [x]
        for block in model.blocks:
            x = block(x)
            states.append(x)
    return states


def logit_lens(model: GPT, ids: Tensor) -> Tensor:
    rows = []
    with looking_at(model):
        for state in residual_stream(model, ids):
            rows.append(model.lm_head(model.ln_f(state)))
    return torch.stack(rows)


def attention_patterns(model: GPT, ids: Tensor) -> Tensor:
    patterns = []
    with looking_at(model):
        states = residual_stream(model, ids)
        for i, block in enumerate(model.blocks):
            _, weights = block.attn(block.ln1(states[i]), return_weights=True)
            patterns.append(weights)
    return torch.stack(patterns)


def classify_head(pattern: Tensor) -> str:
    rows = pattern.tolist()
    names = ["previous", "first", "self"]
    sums = [0.0, 0.0, 0.0]
    distance = 0.0
    largest = 0.0
    n = len(rows) - 1
    for i in range(1, len(rows)):
        row = rows[i]
        sums[0] += row[i - 1]
        sums[1] += row[0]
        sums[2] += row[i]
        difference = 0.0
        for j in range(i + 1):
            difference += abs(row[j] - 1 / (i + 1))
        distance += difference / 2
        largest += max(row)
    best = 0
    for kind in range(1, 3):
        if sums[kind] > sums[best]:
            best = kind
    if sums[best] / n > 0.6:
        return names[best]
    if distance / n < 0.15:
        return "uniform"
    if largest / n > 0.8:
        return "sparse"
    return "mixed"


def induction_score(pattern: Tensor, period: int) -> float:
    rows = pattern.tolist()
    total = 0.0
    count = 0
    for i in range(period, len(rows)):
        total += rows[i][i - period + 1]
        count += 1
    return total / count


def find_induction_heads(
    model: GPT, period: int, n_sequences: int, generator: torch.Generator | None = None
) -> Tensor:
    vocab_size = model.config.vocab_size
    device = model.token_emb.weight.device
    texts = []
    for _ in range(n_sequences):
        if vocab_size >= period:
            text = torch.randperm(vocab_size, generator=generator).tolist()[:period]
        else:
            text = []
            for _ in range(period):
                text.append(int(torch.randint(vocab_size, (), generator=generator)))
        texts.append(text + text)
    patterns = attention_patterns(model, torch.tensor(texts, device=device))
    scores = []
    for layer in patterns:
        of_layer = []
        for h in range(layer.size(1)):
            total = 0.0
            for b in range(n_sequences):
                total += induction_score(layer[b, h], period)
            of_layer.append(total / n_sequences)
        scores.append(of_layer)
    return torch.tensor(scores, dtype=patterns.dtype)


def patch_residual(
    model: GPT, clean_ids: Tensor, corrupted_ids: Tensor, layer: int, position: int | None = None
) -> Tensor:
    n_layers = len(model.blocks)
    if not 0 <= layer < n_layers:
        raise ValueError(f"layer is {layer}, and the layers go from 0 to {n_layers - 1}")
    if clean_ids.shape != corrupted_ids.shape:
        raise ValueError(f"the clean ids have the shape {list(clean_ids.shape)}, the corrupted ones {list(corrupted_ids.shape)}")
    clean = residual_stream(model, clean_ids)[layer + 1]
    with looking_at(model):
        x = embed(model, corrupted_ids)
        for i, block in enumerate(model.blocks):
            x = block(x)
            if i == layer:
                if position is None:
                    x = clean
                else:
                    x = x.clone()
                    x[:, position] = clean[:, position]
        return model.lm_head(model.ln_f(x))


def recovery(clean: Tensor, corrupted: Tensor, patched: Tensor, target: int) -> float:
    logits = []
    for run in (clean, corrupted, patched):
        logits.append(run[target].item())
    lost = logits[0] - logits[1]
    if lost == 0:
        raise ValueError(f"both runs give token {target} the logit {logits[0]}: nothing was lost")
    return (logits[2] - logits[1]) / lost
