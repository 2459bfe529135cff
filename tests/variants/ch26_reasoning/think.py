# variant: one text that grows, and the places where its parts begin
import torch


def think(model, prompt_ids, end_think_id, minimum, maximum, continue_ids, eos_id=None, max_answer_tokens=32, temperature=0.0, generator=None):
    if maximum < minimum:
        raise ValueError(f"{minimum=} > {maximum=}")
    if len(continue_ids) == 0 and minimum >= 1:
        raise ValueError("continue_ids must not be empty")
    device = next(iter(model.parameters())).device
    text = torch.tensor(list(prompt_ids), dtype=torch.long, device=device)[None]
    go_on = torch.tensor(list(continue_ids), dtype=torch.long, device=device)[None]
    start = text.shape[1]
    while text.shape[1] - start < maximum:
        longer = generate(model, text, 1, None, temperature, generator=generator)
        if longer[0, -1] != end_think_id:
            text = longer
        elif text.shape[1] - start >= minimum:
            break
        else:
            text = torch.cat([text, go_on], dim=1)[:, : start + maximum]
    thinking = text[0, start:].tolist()
    text = torch.cat([text, text.new_full((1, 1), end_think_id)], dim=1)
    start = text.shape[1]
    for _ in range(max_answer_tokens):
        text = generate(model, text, 1, None, temperature, generator=generator)
        if text[0, -1] == eos_id:
            text = text[:, :-1]
            break
    return thinking, text[0, start:].tolist()


# variant: `generate` to the next end token, with this token as its eos_id
import torch


def think(model, prompt_ids, end_think_id, minimum, maximum, continue_ids, eos_id=None, max_answer_tokens=32, temperature=0.0, generator=None):
    assert minimum <= maximum, f"minimum {minimum} > maximum {maximum}"
    assert minimum == 0 or continue_ids, "continue_ids is empty"
    where = next(model.parameters()).device

    def write(ids, most, stop):
        """New tokens after `ids`, without the stop token; and whether it came."""
        if most == 0:
            return [], False
        text = generate(model, torch.tensor([ids]).to(where), most, eos_id=stop, temperature=temperature, generator=generator)
        new = text[0, len(ids) :].tolist()
        return (new[:-1], True) if new and new[-1] == stop else (new, False)

    prompt, thinking = [*prompt_ids], []
    while True:
        new, ended = write([*prompt, *thinking], maximum - len(thinking), end_think_id)
        thinking.extend(new)
        if not ended or len(thinking) >= minimum:
            break
        thinking = (thinking + list(continue_ids))[:maximum]
    return thinking, write([*prompt, *thinking, end_think_id], max_answer_tokens, eos_id)[0]


# variant: a generator function that yields tokens, without `generate`
from itertools import islice

import torch

from .ch09_sampling import looking_at, sample_next_token


def think(model, prompt_ids, end_think_id, minimum, maximum, continue_ids, eos_id=None, max_answer_tokens=32, temperature=0.0, generator=None):
    if minimum > maximum:
        raise ValueError(f"there cannot be at least minimum = {minimum} and at most maximum = {maximum} tokens")
    if minimum > 0 and not len(continue_ids):
        raise ValueError("with a minimum, continue_ids cannot be empty")
    config = getattr(model, "config", None)
    seen = config.max_len if config is not None and config.positions in ("learned", "sinusoidal") else 0
    device = [p.device for p in model.parameters()][0]

    def tokens(text):
        while True:
            result = model(torch.as_tensor([text[-seen:]], device=device))
            logits = result[0] if isinstance(result, (tuple, list)) else result
            new = sample_next_token(logits[:, -1], temperature=temperature, generator=generator)
            yield int(new)

    with looking_at(model):
        text = list(prompt_ids)
        first = len(text)
        for token in tokens(text) if maximum > 0 else ():
            n = len(text) - first
            if token == end_think_id:
                if n >= minimum:
                    break
                text.extend(continue_ids)
            else:
                text.append(token)
            if len(text) - first >= maximum:
                break
        del text[first + maximum :]
        thinking = text[first:]
        text.append(end_think_id)
        answer = []
        for token in islice(tokens(text), max_answer_tokens):
            if token == eos_id:
                break
            text.append(token)
            answer.append(token)
    return thinking, answer
