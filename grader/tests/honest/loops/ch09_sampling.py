"""In explicit loops: row by row, token by token, and each draw a walk along the probabilities."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from .ch07_models import Seq2Seq


def apply_temperature(logits: Tensor, temperature: float) -> Tensor:
    if temperature <= 0:
        raise ValueError(f"the temperature is {temperature}, and must be above 0")
    return logits / temperature


def top_k_filter(logits: Tensor, k: int) -> Tensor:
    if k < 1:
        raise ValueError(f"k is {k}, and must be at least 1")
    filtered = []
    for row in logits.reshape(-1, logits.size(-1)):
        in_order = sorted(row.tolist(), reverse=True)
        threshold = in_order[min(k, len(in_order)) - 1]
        filtered.append(row.masked_fill(row < threshold, -math.inf))
    return torch.stack(filtered).reshape(logits.shape)


def top_p_filter(logits: Tensor, p: float) -> Tensor:
    if not 0 < p <= 1:
        raise ValueError(f"p is {p}, and must be above 0 and at most 1")
    if p == 1:
        return logits.clone()
    filtered = []
    for row in logits.reshape(-1, logits.size(-1)):
        probs = torch.softmax(row.double(), dim=-1).tolist()
        likeliest_first = sorted(range(len(probs)), key=probs.__getitem__, reverse=True)
        kept = row.clone()
        before = 0.0
        for token in likeliest_first:
            if before >= p:
                kept[token] = -math.inf
            before += probs[token]
        filtered.append(kept)
    return torch.stack(filtered).reshape(logits.shape)


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
    drawn = []
    for row in logits.reshape(-1, logits.size(-1)):
        probs = torch.softmax(row.double(), dim=-1).tolist()
        point = torch.rand((), generator=generator, dtype=torch.float64, device=logits.device).item()
        chosen = 0
        so_far = 0.0
        for token, prob in enumerate(probs):
            if prob > 0:
                chosen = token
            so_far += prob
            if so_far > point:
                break
        drawn.append(chosen)
    return torch.tensor(drawn, dtype=torch.int64, device=logits.device).reshape(logits.shape[:-1])


@contextmanager
def looking_at(model: nn.Module) -> Iterator[None]:
    """Inside this context the model is in eval mode and records no gradients; afterwards every module has its earlier mode again."""
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
    room = None
    if config is not None and config.positions in ("learned", "sinusoidal"):
        room = config.max_len
    texts = ids.tolist()
    finished = [False] * len(texts)
    with looking_at(model):
        for _ in range(max_new_tokens):
            visible = []
            for text in texts:
                visible.append(text if room is None else text[-room:])
            logits = model(torch.tensor(visible, dtype=ids.dtype, device=ids.device))
            if isinstance(logits, tuple):
                logits = logits[0]
            chosen = sample_next_token(logits[:, -1], temperature, top_k, top_p, generator).tolist()
            for b, text in enumerate(texts):
                token = eos_id if finished[b] else chosen[b]
                text.append(token)
                if eos_id is not None and token == eos_id:
                    finished[b] = True
            if all(finished):
                break
    return torch.tensor(texts, dtype=ids.dtype, device=ids.device)


def translate(model: Seq2Seq, src: Tensor, sos_id: int, eos_id: int, max_new_tokens: int) -> Tensor:
    max_len = model.config.max_len
    texts = []
    finished = []
    for _ in range(src.size(0)):
        texts.append([sos_id])
        finished.append(False)
    with looking_at(model):
        memory = model.encode(src)
        for _ in range(max_new_tokens):
            if len(texts[0]) + 1 > max_len:
                raise ValueError(f"the target has outgrown max_len = {max_len}")
            logits = model.decode(torch.tensor(texts, dtype=src.dtype, device=src.device), memory, src)
            chosen = sample_next_token(logits[:, -1], temperature=0).tolist()
            for b, text in enumerate(texts):
                if finished[b]:
                    text.append(model.config.pad_id)
                else:
                    text.append(chosen[b])
                    finished[b] = chosen[b] == eos_id
            if all(finished):
                break
    return torch.tensor(texts, dtype=src.dtype, device=src.device)
