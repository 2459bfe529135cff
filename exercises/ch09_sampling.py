"""Chapter 9: choosing the next word.

B batch, T positions, V = vocab_size. Logits are (..., V): one score for every token.

Write your own code wherever NotImplementedError is raised, from top to bottom. The TODO steps say what to do, the
lesson ch09_sampling.md explains why, and `headway check` tests what you have written.

Rules for all exercises of this chapter; the tests check them:
- Do not change an argument in place, unless the docstring says so.
- `...` in a shape means any number of axes, also none. An argument may be a view (not contiguous), and so may a result.
- The result has the dtype and device of the input, unless the docstring says otherwise. Compute float64 input in
  float64.
- Gradients reach every input and parameter and are finite, unless the docstring says "without gradient".
- A ValueError names the values that do not fit, as in
  raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}").
  It may be raised when an object is made or at the first call. An assert with such a message is accepted too.

In this chapter, write attention yourself, without `F.scaled_dot_product_attention`, `nn.MultiheadAttention`,
`nn.Transformer` and torch's other attention functions.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from .ch07_models import Seq2Seq


def apply_temperature(logits: Tensor, temperature: float) -> Tensor:
    """Divide the logits by the temperature, (..., V) -> (..., V): below 1 sharpens the distribution, above 1 flattens it.

    The result has the dtype of the logits; float64 is divided in float64. The result is used without gradient.
    Raises a ValueError that names the temperature when it is 0 or below.
    """
    # TODO 1: check the temperature; name it in the error
    # TODO 2: divide
    raise NotImplementedError


def top_k_filter(logits: Tensor, k: int) -> Tensor:
    """Keep the k greatest logits of each distribution and set the others to -inf: (..., V) -> (..., V).

    Logits equal to the k-th greatest stay too, so ties can leave more than k. If k is V or more, everything stays. Logits
    that stay are unchanged, with the same dtype: two float64 values that are equal only after rounding to float32 are not a
    tie. The result is used without gradient. Raises a ValueError that names k when k is below 1.
    """
    # TODO 1: check k; name it in the error
    # TODO 2: find the k-th greatest logit of each distribution, (..., 1); k may be above V
    # TODO 3: set everything below it to -inf, in a new tensor
    raise NotImplementedError


def top_p_filter(logits: Tensor, p: float) -> Tensor:
    """Keep the smallest set of likeliest tokens whose probabilities sum to at least p, and set the others to -inf.

    (..., V) -> (..., V). The token that crosses p stays, so at least one token always stays. With p = 1 everything stays. Of
    several equally likely tokens, any may be the ones that stay. Logits that stay are unchanged, with the same dtype. The
    result is used without gradient. Raises a ValueError that names p when p is not above 0, or is above 1.
    """
    # TODO 1: check p; name it in the error
    # TODO 2: sort each distribution, greatest first, and compute its probabilities
    # TODO 3: for each token, add up the probabilities before it; it is removed if that sum has already reached p
    # TODO 4: bring the mask back to the order of the vocabulary, and set removed tokens to -inf, in a new tensor
    raise NotImplementedError


def min_p_filter(logits: Tensor, min_p: float) -> Tensor:
    """Keep the tokens at least min_p times as likely as the likeliest one, and set the others to -inf: (..., V) -> (..., V).

    The limit is min_p times the greatest probability of each distribution. With min_p = 0 everything stays; with min_p = 1
    the likeliest token stays, and every token that is exactly as likely. Logits that stay are unchanged, with the same dtype;
    a logit that is already -inf stays -inf. The result is used without gradient. Raises a ValueError that names min_p when it
    is below 0 or above 1.
    """
    # TODO 1: check min_p; name it in the error
    # TODO 2: compute the probabilities, and the greatest of each distribution, (..., 1)
    # TODO 3: set the logits of tokens below min_p times the greatest to -inf, in a new tensor
    raise NotImplementedError


def sample_next_token(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Choose one token from each distribution: (..., V) -> ids (...).

    With temperature 0 it is that of the greatest logit, and the filters have no effect. Otherwise it is drawn at random:
    divide the logits by the temperature, apply top k and then top p if they are given, and draw from the tokens that are left.
    If a generator is given, all randomness comes from it. The ids are int64.
    """
    # TODO 1: with temperature 0, return the index of the greatest logit
    # TODO 2: apply temperature, then top k, then top p; each filter only if it is given
    # TODO 3: turn logits into probabilities and draw one token from each row; multinomial takes (rows, V)
    raise NotImplementedError


@contextmanager
def looking_at(model: nn.Module) -> Iterator[None]:
    """Inside the `with` block, the model is in eval mode and records no gradients; afterwards each module's mode is restored."""
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
    """Continue a prompt, token by token: ids (B, T) -> (B, T + n), n at most max_new_tokens.

    `model(ids)` returns logits, or a tuple that begins with them. If config.positions is a table ("learned" or "sinusoidal"),
    the model gets at most the last config.max_len tokens. Otherwise it gets the whole text, and so does a model without a
    config. Tokens are chosen by sample_next_token from the logits, in their dtype. A row that has written eos_id is finished
    and is filled with eos_id; an eos_id in the prompt finishes nothing. When all rows are finished, generation stops. The
    text is int64, on the device of `ids`, and may be used in training. Runs in eval mode without gradient, and restores each
    module's mode.
    """
    # TODO 1: use looking_at (above), and keep a bool for each row: is it finished?
    # TODO 2: leave out what the model cannot see, take the logits of the last position, and choose each row's next token
    # TODO 3: finished rows get eos_id; rows that have just chosen it are finished
    # TODO 4: append the new tokens; stop when all rows are finished
    raise NotImplementedError


def translate(model: Seq2Seq, src: Tensor, sos_id: int, eos_id: int, max_new_tokens: int) -> Tensor:
    """Translate greedily: source ids (B, S) -> target ids (B, 1 + n), n at most max_new_tokens.

    Each row begins with sos_id. The logits are compared in their dtype. A row that has written eos_id is finished and is
    filled with config.pad_id. When all rows are finished, generation stops. The source is encoded once. The text is int64,
    and may be used in training. Runs in eval mode without gradient, and restores each module's mode. Raises a ValueError that
    names config.max_len when `decode` would read a longer target; it may be raised at once if max_new_tokens tokens would not
    fit. `model` may be any module with the encode, decode and config of a Seq2Seq.
    """
    # TODO 1: use looking_at, encode the source once, and begin each row with sos_id
    # TODO 2: decode, and take the likeliest token at the last position
    # TODO 3: finished rows get pad_id; rows that have just chosen eos_id are finished
    # TODO 4: append the new tokens; stop when all rows are finished
    raise NotImplementedError
