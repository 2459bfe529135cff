"""Chapter 12 in the terse style: as short as it can be read."""

from itertools import accumulate

import torch
from torch import Tensor

from .ch07_models import GPT
from .ch09_sampling import looking_at


def residual_stream(model: GPT, ids: Tensor) -> list[Tensor]:
    with looking_at(model):
        x = model.token_emb(ids)
        return [*accumulate(model.blocks, lambda x, block: block(x), initial=model.pos_emb(x) if model.pos_emb else x)]


def logit_lens(model: GPT, ids: Tensor) -> Tensor:
    with looking_at(model):
        return model.lm_head(model.ln_f(torch.stack(residual_stream(model, ids))))


def attention_patterns(model: GPT, ids: Tensor) -> Tensor:
    with looking_at(model):
        return torch.stack([b.attn(b.ln1(x), return_weights=True)[1] for b, x in zip(model.blocks, residual_stream(model, ids))])


def classify_head(pattern: Tensor) -> str:
    means = {"previous": pattern.diagonal(-1).mean(), "first": pattern[1:, 0].mean(), "self": pattern.diagonal()[1:].mean()}
    if means[name := max(means, key=means.get)] > 0.6:
        return name
    even = torch.ones_like(pattern).tril()
    even /= even.sum(-1, keepdim=True)
    if (pattern - even)[1:].abs().sum(-1).mean() / 2 < 0.15:
        return "uniform"
    return "sparse" if pattern[1:].amax(-1).mean() > 0.8 else "mixed"


def scores(patterns: Tensor, period: int) -> Tensor:
    return patterns.diagonal(1 - period, -2, -1)[..., 1:].mean(-1)


def induction_score(pattern: Tensor, period: int) -> float:
    return scores(pattern, period).item()


def find_induction_heads(model: GPT, period: int, n_sequences: int, generator: torch.Generator | None = None) -> Tensor:
    size, vocab = (n_sequences, period), model.config.vocab_size
    if period <= vocab:
        half = torch.rand(n_sequences, vocab, generator=generator).argsort(-1)[:, :period]  # a random order has no token twice
    else:
        half = torch.randint(vocab, size, generator=generator)
    return scores(attention_patterns(model, half.repeat(1, 2).to(model.lm_head.weight.device)), period).mean(1)


def patch_residual(model: GPT, clean_ids: Tensor, corrupted_ids: Tensor, layer: int, position: int | None = None) -> Tensor:
    if layer not in range(n := len(model.blocks)):
        raise ValueError(f"layer {layer} is not from 0 to {n - 1}")
    if clean_ids.shape != corrupted_ids.shape:
        raise ValueError(f"clean ids {tuple(clean_ids.shape)} and corrupted ids {tuple(corrupted_ids.shape)} differ in shape")
    where = slice(None) if position is None else position
    clean, x = (residual_stream(model, ids)[layer + 1] for ids in (clean_ids, corrupted_ids))
    x[:, where] = clean[:, where]
    with looking_at(model):
        for part in (*model.blocks[layer + 1 :], model.ln_f, model.lm_head):
            x = part(x)
    return x


def recovery(clean: Tensor, corrupted: Tensor, patched: Tensor, target: int) -> float:
    best, worst, found = (x[target].item() for x in (clean, corrupted, patched))
    if best == worst:
        raise ValueError(f"both runs give target {target} the logit {best}: nothing was lost")
    return (found - worst) / (best - worst)
