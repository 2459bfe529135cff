"""What a published model computed on the way to its next token: the logit lens, and where the last token looked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from grader.models.published.opening import Published
from torch import Tensor

SHOWN_TOKENS = 3
SHOWN_PLACES = 5


@dataclass(frozen=True)
class Layer:
    """The likeliest next tokens if the model stopped after this block, each with its probability."""

    block: int
    tokens: list[tuple[str, float]]


@dataclass(frozen=True)
class Inside:
    layers: list[Layer]
    looked_at: list[tuple[str, float]]  # tokens of the text, with the mean weight that the heads of the last block give them


@torch.no_grad()
def look_inside(published: Published, ids: list[int]) -> Inside:
    """One pass over the whole text, without caches."""
    model, states, inputs = published.model, [], []
    hooks = [block.register_forward_hook(lambda block, args, output: states.append(output[0, -1])) for block in model.blocks]
    hooks.append(model.blocks[-1].attn.register_forward_pre_hook(lambda attention, args: inputs.append(args[0])))
    try:
        model(torch.tensor([ids]))
    finally:
        for hook in hooks:
            hook.remove()
    layers = []
    for number, state in enumerate(states, start=1):
        chances = torch.softmax(model.lm_head(model.ln_f(state)).float(), -1)
        best = chances.topk(SHOWN_TOKENS)
        layers.append(Layer(number, [(published.tokenizer.decode([int(i)]), float(p)) for p, i in zip(best.values, best.indices)]))
    weights = last_weights(published, inputs[0])
    best = weights.topk(min(SHOWN_PLACES, len(ids)))
    return Inside(layers, [(published.tokenizer.decode([ids[int(place)]]), float(w)) for w, place in zip(best.values, best.indices)])


def last_weights(published: Published, x: Tensor) -> Tensor:
    """The attention weights of the last position in the last block, averaged over its heads: (T,)."""
    parts: Any = published.own.parts
    attention, where = published.model.blocks[-1].attn, torch.arange(x.shape[1])
    q = parts.apply_rope(parts.split_heads(attention.W_q(x), attention.n_heads), where, attention.base)[0, :, -1]  # (H, d)
    k = parts.apply_rope(parts.split_heads(attention.W_k(x), attention.n_kv_heads), where, attention.base)[0]  # (K, T, d)
    k = k.repeat_interleave(attention.n_heads // attention.n_kv_heads, dim=0)  # (H, T, d)
    scores = (k @ q[:, :, None])[..., 0] / q.shape[-1] ** 0.5  # (H, T)
    return torch.softmax(scores, -1).mean(0)
