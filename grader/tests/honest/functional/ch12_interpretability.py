"""Written in the functional style: hooks live in a context, and a pattern is read by slicing diagonals."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from .ch07_models import GPT
from .ch09_sampling import looking_at


@contextmanager
def hooked(handles: Iterable[RemovableHandle]) -> Iterator[None]:
    """Whatever happens in it, these hooks are taken off at its end."""
    with ExitStack() as stack:
        for handle in handles:
            stack.callback(handle.remove)
        yield


def residual_stream(model: GPT, ids: Tensor) -> list[Tensor]:
    """What comes into each block, and into the final norm behind the last of them."""
    states: list[Tensor] = []
    readers = (*model.blocks, model.ln_f)
    with hooked(reader.register_forward_pre_hook(lambda _, inputs: states.append(inputs[0])) for reader in readers), looking_at(model):
        model(ids)
    return states


def logit_lens(model: GPT, ids: Tensor) -> Tensor:
    with looking_at(model):
        return model.lm_head(model.ln_f(torch.stack(residual_stream(model, ids))))


def attention_patterns(model: GPT, ids: Tensor) -> Tensor:
    with looking_at(model):
        read = zip(model.blocks, residual_stream(model, ids))
        return torch.stack([block.attn(block.ln1(state), return_weights=True)[1] for block, state in read])


def classify_head(pattern: Tensor) -> str:
    rows = pattern[1:]
    habits = {
        "previous": pattern.diagonal(-1).mean(),
        "first": rows[:, 0].mean(),
        "self": pattern.diagonal()[1:].mean(),
    }
    favourite = max(habits, key=habits.get)
    if habits[favourite] > 0.6:
        return favourite
    allowed = torch.ones_like(pattern).tril()[1:]
    even = allowed / allowed.sum(dim=-1, keepdim=True)
    if (rows - even).abs().sum(dim=-1).mean() / 2 < 0.15:
        return "uniform"
    return "sparse" if rows.amax(dim=-1).mean() > 0.8 else "mixed"


def copy_weights(patterns: Tensor, period: int) -> Tensor:
    """pattern[i, i - period + 1] for every i from `period` on: (..., T, T) -> (..., T - period)."""
    return patterns.diagonal(1 - period, -2, -1)[..., 1:]


def induction_score(pattern: Tensor, period: int) -> float:
    return copy_weights(pattern, period).mean().item()


def find_induction_heads(
    model: GPT, period: int, n_sequences: int, generator: torch.Generator | None = None
) -> Tensor:
    vocabulary = torch.ones(n_sequences, model.config.vocab_size)
    halves = torch.multinomial(vocabulary, period, replacement=period > vocabulary.size(1), generator=generator)
    ids = halves.repeat(1, 2).to(model.lm_head.weight.device)
    return copy_weights(attention_patterns(model, ids), period).mean(dim=(1, -1))


def patch_residual(
    model: GPT, clean_ids: Tensor, corrupted_ids: Tensor, layer: int, position: int | None = None
) -> Tensor:
    n_layers = len(model.blocks)
    if not 0 <= layer < n_layers:
        raise ValueError(f"layer is {layer}, and should be from 0 to {n_layers - 1}")
    if clean_ids.shape != corrupted_ids.shape:
        raise ValueError(f"clean ids are {tuple(clean_ids.shape)}, and corrupted ones {tuple(corrupted_ids.shape)}")
    places = range(clean_ids.size(1))
    wanted = set(places) if position is None else {places[position]}
    taken = torch.tensor([place in wanted for place in places], device=clean_ids.device)[:, None]
    clean = residual_stream(model, clean_ids)[layer + 1]
    patch = model.blocks[layer].register_forward_hook(lambda block, inputs, output: torch.where(taken, clean, output))
    with hooked([patch]), looking_at(model):
        return model(corrupted_ids)[0]


def recovery(clean: Tensor, corrupted: Tensor, patched: Tensor, target: int) -> float:
    lost, back = ((run[target] - corrupted[target]).item() for run in (clean, patched))
    if lost == 0:
        raise ValueError(f"clean and corrupted runs give target {target} the same logit: nothing was lost")
    return back / lost
