"""Chapter 9 in the terse style: as short as it can be read."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

import torch
from torch import Tensor, nn

from .ch07_models import Seq2Seq


def apply_temperature(logits: Tensor, temperature: float) -> Tensor:
    if temperature <= 0:
        raise ValueError(f"temperature {temperature} is not above 0")
    return logits / temperature


def top_k_filter(logits: Tensor, k: int) -> Tensor:
    if k < 1:
        raise ValueError(f"k {k} is below 1")
    return logits.masked_fill(logits < logits.topk(min(k, logits.size(-1))).values[..., -1:], -inf)


def top_p_filter(logits: Tensor, p: float) -> Tensor:
    if not 0 < p <= 1:
        raise ValueError(f"p {p} is not above 0 and at most 1")
    s, order = logits.sort(descending=True)
    gone = ((q := s.double().softmax(-1)).cumsum(-1) - q >= p) & (p < 1)
    return logits.masked_fill(gone.scatter(-1, order, gone), -inf)


def sample_next_token(
    logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None, generator: torch.Generator | None = None
) -> Tensor:
    if temperature == 0:
        return logits.argmax(-1)
    x = apply_temperature(logits, temperature)
    x = x if top_k is None else top_k_filter(x, top_k)
    x = x if top_p is None else top_p_filter(x, top_p)
    return x.softmax(-1).reshape(-1, x.size(-1)).multinomial(1, generator=generator).view(x.shape[:-1])


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
    config, done = getattr(model, "config", None), torch.zeros(len(ids), dtype=torch.bool, device=ids.device)
    window = config.max_len if getattr(config, "positions", None) in ("learned", "sinusoidal") else 0  # ids[:, -0:] is all of it
    with looking_at(model):
        for _ in range(max_new_tokens):
            logits = out[0] if isinstance(out := model(ids[:, -window:]), tuple) else out
            new = sample_next_token(logits[:, -1], temperature, top_k, top_p, generator)
            if eos_id is not None:
                done |= (new := new.masked_fill(done, eos_id)) == eos_id
            ids = torch.cat((ids, new[:, None]), 1)
            if done.all():
                break
    return ids


def translate(model: Seq2Seq, src: Tensor, sos_id: int, eos_id: int, max_new_tokens: int) -> Tensor:
    tgt, done = src.new_full((len(src), 1), sos_id), torch.zeros(len(src), dtype=torch.bool, device=src.device)
    with looking_at(model):
        memory = model.encode(src)
        for _ in range(max_new_tokens):
            new = model.decode(tgt, memory, src)[:, -1].argmax(-1).masked_fill(done, model.config.pad_id)
            tgt, done = torch.cat((tgt, new[:, None]), 1), done | (new == eos_id)
            if done.all():
                break
    return tgt
