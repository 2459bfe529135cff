"""Style: einsum. b batch, t position, v vocabulary; every filter works on "...v" at once, and tokens go by torch.where."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from .ch07_models import Seq2Seq


def apply_temperature(logits: Tensor, temperature: float) -> Tensor:
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, not {temperature}")
    return logits / temperature


def top_k_filter(logits: Tensor, k: int) -> Tensor:
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    least = logits.topk(min(k, logits.shape[-1]), dim=-1).values[..., -1:]
    return torch.where(logits < least, -math.inf, logits)


def top_p_filter(logits: Tensor, p: float) -> Tensor:
    if not 0 < p <= 1:
        raise ValueError(f"p must be above 0 and at most 1, not {p}")
    if p == 1:
        return logits.clone()
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    probs, order = torch.softmax(exact, dim=-1).sort(dim=-1, descending=True)
    goes = probs.cumsum(dim=-1) - probs >= p
    goes = goes.gather(-1, order.argsort(dim=-1))  # the order's own order leads back
    return torch.where(goes, -math.inf, logits)


def sample_next_token(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    if temperature == 0:
        return logits.argmax(dim=-1)
    logits = apply_temperature(logits, temperature)
    if top_k is not None:
        logits = top_k_filter(logits, top_k)
    if top_p is not None:
        logits = top_p_filter(logits, top_p)
    probs = torch.softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), dim=-1)
    # a race of exponential clocks: each token wins with its own probability, on any axes, without laying rows under each other
    clocks = torch.empty_like(probs).exponential_(generator=generator)
    return (probs / clocks.clamp(min=torch.finfo(probs.dtype).tiny)).argmax(dim=-1)


@contextmanager
def looking_at(model: nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def generate(
    model: nn.Module,
    ids: Tensor,
    max_new_tokens: int,
    eos_id: int | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    config = getattr(model, "config", None)
    has_table = getattr(config, "positions", None) in ("learned", "sinusoidal")
    finished = torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)
    with looking_at(model):
        for _ in range(max_new_tokens):
            answer = model(ids[:, -config.max_len :] if has_table else ids)
            logits = answer[0] if isinstance(answer, tuple) else answer
            new = sample_next_token(logits[:, -1], temperature, top_k, top_p, generator)
            if eos_id is not None:
                new = torch.where(finished, eos_id, new)
                finished = finished | (new == eos_id)
            ids = torch.cat([ids, new[:, None]], dim=1)
            if finished.all():
                break
    return ids


def translate(model: Seq2Seq, src: Tensor, sos_id: int, eos_id: int, max_new_tokens: int) -> Tensor:
    written = torch.full_like(src[:, :1], sos_id)
    finished = torch.zeros(src.shape[0], dtype=torch.bool, device=src.device)
    with looking_at(model):
        memory = model.encode(src)
        for _ in range(max_new_tokens):
            likeliest = model.decode(written, memory, src)[:, -1].argmax(dim=-1)
            new = torch.where(finished, model.config.pad_id, likeliest)
            finished = finished | (likeliest == eos_id)
            written = torch.cat([written, new[:, None]], dim=1)
            if finished.all():
                break
    return written
