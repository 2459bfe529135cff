# Style: typed and defensive.

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from typing import Final

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from .ch07_models import GPT
from .ch09_sampling import looking_at

CLEAR_NAME: Final[float] = 0.6
NEAR_EVEN: Final[float] = 0.15
SPARSE: Final[float] = 0.8
N_REPEATS: Final[int] = 2


class HeadKind(StrEnum):
    PREVIOUS = "previous"
    FIRST = "first"
    SELF = "self"
    UNIFORM = "uniform"
    SPARSE = "sparse"
    MIXED = "mixed"


def _require_gpt(model: GPT) -> None:
    if not isinstance(model, GPT):
        raise TypeError(f"a GPT is needed, not a {type(model).__name__}")


def _require_ids(name: str, ids: Tensor) -> None:
    if ids.dim() != 2 or ids.size(1) < 1:
        raise ValueError(f"{name} must be (B, T) with one token at least, got {tuple(ids.shape)}")


def _require_pattern(pattern: Tensor) -> None:
    if pattern.dim() != 2 or pattern.size(0) != pattern.size(1):
        raise ValueError(f"a pattern must be (T, T), got {tuple(pattern.shape)}")


@contextmanager
def _taken_off(*handles: RemovableHandle) -> Iterator[None]:
    with ExitStack() as stack:
        for handle in handles:
            stack.callback(handle.remove)
        yield


def residual_stream(model: GPT, ids: Tensor) -> list[Tensor]:
    _require_gpt(model)
    _require_ids("ids", ids)
    states: list[Tensor] = []

    def note_input(block: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        states.append(inputs[0].detach().clone())

    def note_output(block: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        states.append(output.detach().clone())

    before: RemovableHandle = model.blocks[0].register_forward_pre_hook(note_input)
    after: list[RemovableHandle] = [block.register_forward_hook(note_output) for block in model.blocks]
    with _taken_off(before, *after), looking_at(model):
        model(ids)
    assert len(states) == len(model.blocks) + 1
    return states


def logit_lens(model: GPT, ids: Tensor) -> Tensor:
    states: list[Tensor] = residual_stream(model, ids)
    with looking_at(model):
        lens: Tensor = torch.stack([model.lm_head(model.ln_f(state)) for state in states])
    assert lens.shape == (len(states), *ids.shape, model.config.vocab_size)
    return lens


def attention_patterns(model: GPT, ids: Tensor) -> Tensor:
    read_by_blocks: list[Tensor] = residual_stream(model, ids)[:-1]
    patterns: list[Tensor] = []
    with looking_at(model):
        for block, state in zip(model.blocks, read_by_blocks, strict=True):
            _, weights = block.attn(block.ln1(state), return_weights=True)
            patterns.append(weights)
    return torch.stack(patterns)


def _even_attention(length: int, like: Tensor) -> Tensor:
    allowed: Tensor = torch.ones(length, length, dtype=like.dtype, device=like.device).tril()
    return allowed / allowed.sum(dim=-1, keepdim=True)


def classify_head(pattern: Tensor) -> str:
    _require_pattern(pattern)
    length: int = pattern.size(0)
    if length < 2:
        raise ValueError("a pattern of one position says nothing about a head")
    exact: Tensor = pattern.detach().to(torch.float64)
    rows: Tensor = exact[1:]
    means: dict[HeadKind, float] = {
        HeadKind.PREVIOUS: exact.diagonal(offset=-1).mean().item(),
        HeadKind.FIRST: rows[:, 0].mean().item(),
        HeadKind.SELF: exact.diagonal()[1:].mean().item(),
    }
    greatest: HeadKind = max(means, key=means.__getitem__)
    if means[greatest] > CLEAR_NAME:
        return greatest
    distances: Tensor = (rows - _even_attention(length, exact)[1:]).abs().sum(dim=-1) / 2.0
    assert distances.shape == (length - 1,)
    if distances.mean().item() < NEAR_EVEN:
        return HeadKind.UNIFORM
    if rows.amax(dim=-1).mean().item() > SPARSE:
        return HeadKind.SPARSE
    return HeadKind.MIXED


def induction_score(pattern: Tensor, period: int) -> float:
    _require_pattern(pattern)
    length: int = pattern.size(0)
    if not 1 <= period < length:
        raise ValueError(f"period must lie between 1 and T - 1 = {length - 1}, or nothing is repeated; got {period}")
    weights: Tensor = pattern.diagonal(offset=1 - period)[1:]
    assert weights.numel() == length - period
    return weights.mean().item()


def _random_tokens(vocab_size: int, n: int, generator: torch.Generator | None) -> Tensor:
    device: torch.device = torch.device("cpu") if generator is None else generator.device
    if n <= vocab_size:
        return torch.randperm(vocab_size, generator=generator, dtype=torch.int64, device=device)[:n]
    return torch.randint(vocab_size, (n,), generator=generator, dtype=torch.int64, device=device)


def find_induction_heads(
    model: GPT, period: int, n_sequences: int, generator: torch.Generator | None = None
) -> Tensor:
    _require_gpt(model)
    if period < 1:
        raise ValueError(f"period must be 1 or more, got {period}")
    if n_sequences < 1:
        raise ValueError(f"n_sequences must be 1 or more, got {n_sequences}")
    halves: Tensor = torch.stack([_random_tokens(model.config.vocab_size, period, generator) for _ in range(n_sequences)])
    ids: Tensor = halves.repeat(1, N_REPEATS).to(model.token_emb.weight.device)
    assert ids.shape == (n_sequences, N_REPEATS * period)
    patterns: Tensor = attention_patterns(model, ids)
    scores: list[list[float]] = [
        [math.fsum(induction_score(pattern, period) for pattern in head) / n_sequences for head in layer.unbind(dim=1)]
        for layer in patterns
    ]
    return torch.tensor(scores, dtype=patterns.dtype, device=patterns.device)


def patch_residual(
    model: GPT, clean_ids: Tensor, corrupted_ids: Tensor, layer: int, position: int | None = None
) -> Tensor:
    _require_gpt(model)
    n_layers: int = len(model.blocks)
    if not 0 <= layer < n_layers:
        raise ValueError(f"layer must lie between 0 and {n_layers - 1}, got {layer}")
    _require_ids("clean_ids", clean_ids)
    if clean_ids.shape != corrupted_ids.shape:
        raise ValueError(f"positions must correspond, but the inputs are {tuple(clean_ids.shape)} and {tuple(corrupted_ids.shape)}")
    length: int = clean_ids.size(1)
    if position is not None and not -length <= position < length:
        raise ValueError(f"there is no position {position} among {length}")
    where: slice | int = slice(None) if position is None else position
    clean_state: Tensor = residual_stream(model, clean_ids)[layer + 1]

    def patch(block: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        assert output.shape == clean_state.shape
        patched: Tensor = output.clone()
        patched[:, where] = clean_state[:, where]
        return patched

    with _taken_off(model.blocks[layer].register_forward_hook(patch)), looking_at(model):
        logits, _ = model(corrupted_ids)
    assert logits.shape == (*corrupted_ids.shape, model.config.vocab_size)
    return logits


def recovery(clean: Tensor, corrupted: Tensor, patched: Tensor, target: int) -> float:
    if clean.dim() != 1 or not clean.shape == corrupted.shape == patched.shape:
        raise ValueError(f"logits must all be (V,), got {tuple(clean.shape)}, {tuple(corrupted.shape)} and {tuple(patched.shape)}")
    if not 0 <= target < clean.numel():
        raise ValueError(f"target must lie between 0 and {clean.numel() - 1}, got {target}")
    with_clean, with_corrupted, with_patch = (float(logits[target]) for logits in (clean, corrupted, patched))
    lost: float = with_clean - with_corrupted
    if lost == 0.0:
        raise ValueError(f"both runs give target {target} the logit {with_clean}: nothing was lost")
    return (with_patch - with_corrupted) / lost
