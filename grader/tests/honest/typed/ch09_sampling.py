# Style: typed and defensive.

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from .ch07_models import Seq2Seq

LEFT_OUT: Final[float] = -math.inf
TABLES: Final[frozenset[str]] = frozenset({"learned", "sinusoidal"})


def _require_distribution(logits: Tensor) -> None:
    if logits.dim() < 1 or logits.size(-1) < 1:
        raise ValueError(f"logits must be (..., V) with one token at least, got {tuple(logits.shape)}")


def _require_prompt(name: str, ids: Tensor) -> None:
    if ids.dim() != 2 or ids.size(1) < 1:
        raise ValueError(f"{name} must be (B, T) with one token at least, got {tuple(ids.shape)}")
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise ValueError(f"{name} must be whole numbers, got {ids.dtype}")


def _require_count(max_new_tokens: int) -> None:
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens must be 0 or more, got {max_new_tokens}")


def apply_temperature(logits: Tensor, temperature: float) -> Tensor:
    if not temperature > 0.0:
        raise ValueError(f"temperature must be above 0, got {temperature}")
    return logits / temperature


def top_k_filter(logits: Tensor, k: int) -> Tensor:
    if k < 1:
        raise ValueError(f"k must be 1 or more, got {k}")
    _require_distribution(logits)
    n_kept: int = min(k, logits.size(-1))
    threshold: Tensor = logits.topk(n_kept, dim=-1).values[..., -1:]
    assert threshold.shape == (*logits.shape[:-1], 1)
    return logits.masked_fill(logits < threshold, LEFT_OUT)


def top_p_filter(logits: Tensor, p: float) -> Tensor:
    if not 0.0 < p <= 1.0:
        raise ValueError(f"p must be above 0 and not above 1, got {p}")
    _require_distribution(logits)
    if p == 1.0:
        return logits.clone()
    ordered, order = logits.sort(dim=-1, descending=True)
    probs: Tensor = torch.softmax(ordered, dim=-1, dtype=torch.float64)
    before: Tensor = probs.cumsum(dim=-1).roll(1, dims=-1)
    before[..., 0] = 0.0
    goes: Tensor = torch.empty_like(order, dtype=torch.bool).scatter_(-1, order, before >= p)
    assert goes.shape == logits.shape
    return logits.masked_fill(goes, LEFT_OUT)


def sample_next_token(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    _require_distribution(logits)
    if temperature == 0.0:
        return logits.argmax(dim=-1)
    left: Tensor = apply_temperature(logits, temperature)
    if top_k is not None:
        left = top_k_filter(left, top_k)
    if top_p is not None:
        left = top_p_filter(left, top_p)
    probs: Tensor = torch.softmax(left, dim=-1, dtype=torch.float32)
    drawn: Tensor = torch.multinomial(probs.reshape(-1, logits.size(-1)), num_samples=1, generator=generator)
    return drawn.reshape(logits.shape[:-1])


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


@dataclass(slots=True)
class _Writing:
    """Rows that grow side by side; those that have written `end` are filled with `filler`."""

    ids: Tensor
    finished: Tensor
    end: int | None
    filler: int

    @classmethod
    def on(cls, ids: Tensor, end: int | None, filler: int) -> _Writing:
        return cls(ids=ids, finished=torch.zeros(ids.size(0), dtype=torch.bool, device=ids.device), end=end, filler=filler)

    @property
    def length(self) -> int:
        return self.ids.size(1)

    @property
    def all_finished(self) -> bool:
        return bool(self.finished.all())

    def write(self, tokens: Tensor) -> None:
        assert tokens.shape == self.finished.shape
        written: Tensor = tokens.masked_fill(self.finished, self.filler).to(self.ids.dtype)
        if self.end is not None:
            self.finished = self.finished | (written == self.end)
        self.ids = torch.cat((self.ids, written.unsqueeze(1)), dim=1)


def _window(model: nn.Module) -> int | None:
    """How many tokens the model sees at most; None where nothing limits them."""
    config = getattr(model, "config", None)
    return config.max_len if config is not None and config.positions in TABLES else None


def _last_logits(model: nn.Module, ids: Tensor) -> Tensor:
    answer: Tensor | tuple[Tensor, ...] = model(ids)
    logits: Tensor = answer[0] if isinstance(answer, tuple) else answer
    assert logits.shape[:2] == ids.shape
    return logits[:, -1]


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
    _require_prompt("ids", ids)
    _require_count(max_new_tokens)
    writing = _Writing.on(ids.clone(), end=eos_id, filler=0 if eos_id is None else eos_id)
    window: int | None = _window(model)
    with looking_at(model):
        for _ in range(max_new_tokens):
            seen: Tensor = writing.ids if window is None else writing.ids[:, -window:]
            logits: Tensor = _last_logits(model, seen)
            writing.write(sample_next_token(logits, temperature, top_k, top_p, generator))
            if writing.all_finished:
                break
    return writing.ids


def translate(model: Seq2Seq, src: Tensor, sos_id: int, eos_id: int, max_new_tokens: int) -> Tensor:
    _require_prompt("src", src)
    _require_count(max_new_tokens)
    beginning: Tensor = torch.full((src.size(0), 1), sos_id, dtype=torch.int64, device=src.device)
    writing = _Writing.on(beginning, end=eos_id, filler=model.config.pad_id)
    max_len: int = model.config.max_len
    with looking_at(model):
        memory: Tensor = model.encode(src)
        for _ in range(max_new_tokens):
            if writing.length >= max_len:
                raise ValueError(f"the target has {writing.length} tokens and wants to grow, but max_len is {max_len}")
            logits: Tensor = model.decode(writing.ids, memory, src)
            writing.write(logits[:, -1].argmax(dim=-1))
            if writing.all_finished:
                break
    return writing.ids
