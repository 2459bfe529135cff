"""Chapter 9: choosing the next word.

B batch, T positions, V = vocab_size. Logits are (..., V): one score for every token.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from .ch07_models import Seq2Seq


def apply_temperature(logits: Tensor, temperature: float) -> Tensor:
    """Divide the logits by the temperature: below 1 sharpens the distribution, above 1 flattens it, (..., V) -> (..., V).

    The result has the dtype of the logits; float64 is divided in float64. Raises a ValueError that names the temperature when
    it is 0 or below.
    """
    # TODO 1: check the temperature; name it in the error
    # TODO 2: divide
    ### BEGIN SOLUTION
    if temperature <= 0:
        raise ValueError(f"temperature = {temperature}, but only a temperature above 0 can divide")
    return logits / temperature
    ### END SOLUTION


def top_k_filter(logits: Tensor, k: int) -> Tensor:
    """Keep the k greatest logits of each distribution, make the others -inf: (..., V) -> (..., V).

    All values tied with the k-th stay; with k at or above V everything does. Values that stay are unchanged, in the dtype of
    the logits: float64 values that differ only beyond float32 are different values. Raises a ValueError that names k when k is
    below 1.
    """
    # TODO 1: check k; name it in the error
    # TODO 2: find each distribution's k-th greatest logit, (..., 1); mind k above V
    # TODO 3: make everything below it -inf, in a new tensor
    ### BEGIN SOLUTION
    if k < 1:
        raise ValueError(f"k = {k}, but at least one token must stay")
    kth = logits.topk(min(k, logits.size(-1)), dim=-1).values[..., -1:]  # (..., 1)
    return logits.masked_fill(logits < kth, -math.inf)
    ### END SOLUTION


def top_p_filter(logits: Tensor, p: float) -> Tensor:
    """Keep the fewest most likely tokens whose probabilities together reach p, make the others -inf: (..., V) -> (..., V).

    The token that crosses p stays, so there is always one. With p = 1 everything stays. Which of several equal tokens is kept
    is open. Values that stay are unchanged, in the dtype of the logits. Raises a ValueError that names p when p is not above 0,
    or is above 1.
    """
    # TODO 1: check p; name it in the error
    # TODO 2: sort each distribution, greatest first, and take its probabilities
    # TODO 3: for each token, add up what lies before it; it goes when that has reached p already
    # TODO 4: bring the answer back to the order of the vocabulary, and make what goes -inf, in a new tensor
    ### BEGIN SOLUTION
    if not 0 < p <= 1:
        raise ValueError(f"p = {p} is not above 0 and at most 1")
    if p == 1:
        return logits.clone()
    ordered, order = logits.sort(dim=-1, descending=True)  # (..., V)
    probs = torch.softmax(ordered, dim=-1)
    before = probs.cumsum(dim=-1) - probs
    goes = torch.zeros_like(before, dtype=torch.bool).scatter(-1, order, before >= p)
    return logits.masked_fill(goes, -math.inf)
    ### END SOLUTION


def min_p_filter(logits: Tensor, min_p: float) -> Tensor:
    """Keep the tokens at least min_p times as likely as the likeliest, make the others -inf: (..., V) -> (..., V).

    The limit is a share of each distribution's greatest probability. With min_p = 0 everything stays; with min_p = 1 the likeliest
    token stays, and every token that is exactly as likely. Values that stay are unchanged, in the dtype of the logits; a logit that
    is -inf already stays -inf. Raises a ValueError that names min_p when it is below 0 or above 1.
    """
    # TODO 1: check min_p; name it in the error
    # TODO 2: take the probabilities, and the greatest of each distribution, (..., 1)
    # TODO 3: make the logits of the tokens below min_p times the greatest -inf, in a new tensor
    ### BEGIN SOLUTION
    if not 0 <= min_p <= 1:
        raise ValueError(f"min_p = {min_p} is not between 0 and 1")
    probs = torch.softmax(logits, dim=-1)  # (..., V)
    limit = min_p * probs.amax(dim=-1, keepdim=True)  # (..., 1)
    return logits.masked_fill(probs < limit, -math.inf)
    ### END SOLUTION


def sample_next_token(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Choose one token from each distribution: (..., V) -> ids (...).

    With temperature 0 it is the likeliest token, whatever the filters. Otherwise it is drawn at random: the logits are divided
    by the temperature, then filtered by k, then by p, and a token is drawn from the rest. Where a generator is given, all
    randomness comes from it. The ids are int64.
    """
    # TODO 1: with temperature 0, give the place of the greatest logit
    # TODO 2: temperature, then top k, then top p, each where asked
    # TODO 3: turn logits into probabilities and draw one token from each row; multinomial takes (rows, V)
    ### BEGIN SOLUTION
    if temperature == 0:
        return logits.argmax(dim=-1)
    logits = apply_temperature(logits, temperature)
    if top_k is not None:
        logits = top_k_filter(logits, top_k)
    if top_p is not None:
        logits = top_p_filter(logits, top_p)
    probs = torch.softmax(logits, dim=-1)  # (..., V)
    drawn = torch.multinomial(probs.reshape(-1, probs.size(-1)), 1, generator=generator)  # (rows, 1)
    return drawn.view(logits.shape[:-1])
    ### END SOLUTION


@contextmanager
def looking_at(model: nn.Module) -> Iterator[None]:
    """While this lasts the model is in eval mode and nothing keeps gradients; afterwards every module has its own mode again."""
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
    """Write on from a prompt, token by token: ids (B, T) -> (B, T + n), n at most max_new_tokens.

    `model(ids)` gives logits, or a tuple that begins with them. Where config.positions is a table ("learned" or "sinusoidal") it
    sees at most the last config.max_len tokens, else the whole text, as does a model without a config. Tokens are chosen by
    sample_next_token. A row that has written eos_id is finished and filled with eos_id; an eos_id in the prompt finishes nothing.
    When all rows are finished, writing ends early. The text is int64, on the device of `ids`. Works in eval mode without
    gradient, and restores each module's mode.
    """
    # TODO 1: look at the model (looking_at above), and keep for each row whether it is finished
    # TODO 2: leave out what the model cannot see, take the logits of the last position, and choose each row's next token
    # TODO 3: finished rows get eos_id; rows that have just written it are finished
    # TODO 4: put the new tokens at the end; stop when all rows are finished
    ### BEGIN SOLUTION
    config = getattr(model, "config", None)
    window = config.max_len if getattr(config, "positions", None) in ("learned", "sinusoidal") else None
    finished = torch.zeros(ids.size(0), dtype=torch.bool, device=ids.device)
    with looking_at(model):
        for _ in range(max_new_tokens):
            logits = model(ids if window is None else ids[:, -window:])
            logits = logits[0] if isinstance(logits, tuple) else logits
            new = sample_next_token(logits[:, -1], temperature, top_k, top_p, generator)  # (B,)
            if eos_id is not None:
                new = new.masked_fill(finished, eos_id)
                finished = finished | (new == eos_id)
            ids = torch.cat([ids, new[:, None]], dim=1)
            if finished.all():
                break
    return ids
    ### END SOLUTION


def translate(model: Seq2Seq, src: Tensor, sos_id: int, eos_id: int, max_new_tokens: int) -> Tensor:
    """Translate greedily: source ids (B, S) -> target ids (B, 1 + n), n at most max_new_tokens.

    Each row begins with sos_id, and is finished when it has written eos_id; then it is filled with config.pad_id. When all rows
    are finished, writing ends early. The source is encoded once. The text is int64. Works in eval mode without gradient, and
    restores each module's mode. Raises a ValueError that names config.max_len when the target becomes longer than that; it may
    do so at once where max_new_tokens words would not fit. `model` may be any object with a Seq2Seq's encode, decode and config.
    """
    # TODO 1: look at the model, encode the source once, and begin each row with sos_id
    # TODO 2: decode, and take the likeliest token at the last position
    # TODO 3: finished rows get pad_id; rows that have just written eos_id are finished
    # TODO 4: put the new tokens at the end; stop when all rows are finished
    ### BEGIN SOLUTION
    tgt = torch.full((src.size(0), 1), sos_id, device=src.device)
    finished = torch.zeros(src.size(0), dtype=torch.bool, device=src.device)
    with looking_at(model):
        memory = model.encode(src)
        for _ in range(max_new_tokens):
            new = model.decode(tgt, memory, src)[:, -1].argmax(dim=-1)  # (B,)
            new = new.masked_fill(finished, model.config.pad_id)
            finished = finished | (new == eos_id)
            tgt = torch.cat([tgt, new[:, None]], dim=1)
            if finished.all():
                break
    return tgt
    ### END SOLUTION
