"""Written in the functional style: dials are functions from logits to logits, and writing is a chain of states."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial, reduce
from itertools import accumulate, repeat

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .ch07_models import Seq2Seq


def apply_temperature(logits: Tensor, temperature: float) -> Tensor:
    if not temperature > 0:
        raise ValueError(f"the temperature is {temperature}, and should be above 0")
    return logits / temperature


def top_k_filter(logits: Tensor, k: int) -> Tensor:
    if k < 1:
        raise ValueError(f"k is {k}, and should be at least 1")
    threshold = logits.topk(min(k, logits.size(-1)), dim=-1).values[..., -1:]
    return torch.where(logits < threshold, -math.inf, logits)


def chances_of(logits: Tensor) -> Tensor:
    return logits.softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))


def top_p_filter(logits: Tensor, p: float) -> Tensor:
    if not 0 < p <= 1:
        raise ValueError(f"p is {p}, and should be above 0 and not above 1")
    if p == 1:
        return logits
    descending, order = logits.sort(dim=-1, descending=True)
    before = F.pad(chances_of(descending).cumsum(dim=-1)[..., :-1], (1, 0))
    goes = (before >= p).gather(-1, order.argsort(dim=-1))
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
    asked = ((apply_temperature, temperature), (top_k_filter, top_k), (top_p_filter, top_p))
    filtered = reduce(lambda scores, dial: dial[0](scores, dial[1]), (dial for dial in asked if dial[1] is not None), logits)
    chances = chances_of(filtered).reshape(-1, logits.size(-1))
    return torch.multinomial(chances, 1, generator=generator).reshape(logits.shape[:-1])


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


Written = tuple[Tensor, Tensor]


def is_finished(state: Written) -> bool:
    return bool(state[1].all())


def first_or_last(wanted: Callable[[Written], bool], states: Iterable[Written]) -> Written:
    """The first of the states that is wanted, else the last of them; no state after it is computed."""
    for state in states:
        if wanted(state):
            break
    return state


def write_on(choose: Callable[[Tensor], Tensor], start: Tensor, steps: int, eos_id: int | None, filler: int | None) -> Tensor:
    """Lay chosen tokens behind `start` (B, T), row by row until eos_id, then the filler."""

    def step(state: Written, _: None) -> Written:
        ids, finished = state
        chosen = choose(ids).to(ids.dtype)
        new = chosen if eos_id is None else torch.where(finished, filler, chosen)
        done = finished if eos_id is None else finished | (chosen == eos_id)
        return torch.cat([ids, new[:, None]], dim=1), done

    nobody = torch.zeros(start.size(0), dtype=torch.bool, device=start.device)
    return first_or_last(is_finished, accumulate(repeat(None, steps), step, initial=(start, nobody)))[0]


def window(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """What the model sees of a text."""
    config = getattr(model, "config", None)
    if getattr(config, "positions", None) in ("learned", "sinusoidal"):
        return lambda ids: ids[:, -config.max_len :]
    return lambda ids: ids


def first_part(answer: Tensor | tuple) -> Tensor:
    return answer[0] if isinstance(answer, tuple) else answer


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
    seen = window(model)
    sample = partial(sample_next_token, temperature=temperature, top_k=top_k, top_p=top_p, generator=generator)
    with looking_at(model):
        return write_on(lambda text: sample(first_part(model(seen(text)))[:, -1]), ids, max_new_tokens, eos_id, eos_id)


def translate(model: Seq2Seq, src: Tensor, sos_id: int, eos_id: int, max_new_tokens: int) -> Tensor:
    with looking_at(model):
        memory = model.encode(src)
        start = src.new_full((src.size(0), 1), sos_id)
        return write_on(
            lambda tgt: model.decode(tgt, memory, src)[:, -1].argmax(dim=-1), start, max_new_tokens, eos_id, model.config.pad_id
        )
