"""Chapter 2: numbers become vectors, and vectors know where they stand.

B batch, T positions, D = d_model. Batch first, always: ids are (B, T), vectors (B, T, D).

Your turn: write your own code wherever NotImplementedError is raised, from the top down. The TODO steps say what to do,
the lesson ch02_embeddings.md says why, and `headway check` says how far you are.

Rules for all exercises of this chapter; the tests check them:
- Do not change an argument in place, unless the docstring says so.
- `...` in a shape means any number of axes, also none. An argument may be a view (not contiguous), and so may a result.
- The result has the dtype and device of the input, unless the docstring says otherwise. Compute float64 input in float64.
- Gradients reach every input and parameter and are finite, unless the docstring says "without gradient".
- The state dict holds the parameters that the docstring names and nothing else: register a mask or a table as a buffer
  with persistent=False.
- A ValueError names the values that do not fit: raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}").
  It may be raised when an object is made or at the first call. An assert with such a message is accepted too.
"""

import math

import torch
from torch import Tensor, nn


class TokenEmbedding(nn.Module):
    """A table with one row per token: ids (B, T) -> vectors (B, T, D).

    The table is the parameter `weight`, (vocab_size, d_model); it starts random, so that no two tokens begin alike.
    With scale=True every vector is multiplied by sqrt(d_model). The vectors have the dtype of `weight`.

    Write it yourself, without `nn.Embedding`.
    """

    def __init__(self, vocab_size: int, d_model: int, scale: bool = False):
        super().__init__()
        # TODO 1: make the parameter `weight`, (vocab_size, d_model), of small random numbers
        # TODO 2: keep the factor forward will need: sqrt(d_model) with scale=True, else 1
        raise NotImplementedError

    def forward(self, ids: Tensor) -> Tensor:
        """Look up each id's row: (B, T) -> (B, T, D)."""
        # TODO 3: pick row ids[b, t] of `weight` for every b and t
        # TODO 4: multiply by the factor
        raise NotImplementedError


class LearnedPositions(nn.Module):
    """A table with one trained row per position, which is added to the vectors at that position.

    The table is the parameter `weight`, (max_len, d_model).

    Write it yourself, without `nn.Embedding`.
    """

    def __init__(self, max_len: int, d_model: int):
        super().__init__()
        # TODO 1: make the parameter `weight`, (max_len, d_model), of small random numbers
        raise NotImplementedError

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Add row start + t to position t of every sequence: (B, T, D) -> (B, T, D), in x's dtype.

        Float64 input is added in float64. Raises a ValueError that names max_len when the last position, start + T - 1, is not
        in the table.
        """
        # TODO 2: raise ValueError when start + T is more than max_len
        # TODO 3: take rows start up to start + T, in x's dtype
        # TODO 4: add them to a new tensor, the same rows for every sequence of the batch
        raise NotImplementedError


def sinusoidal_positions(max_len: int, d_model: int) -> Tensor:
    """A fixed table of waves, one row per position: float32, (max_len, d_model).

    For the columns 2i and 2i + 1 of row p the angle is p * 10000^(-2i / d_model): column 2i holds its sine, column 2i + 1
    its cosine. With odd d_model the last column is a sine without its cosine. Up to position 1000 every entry is right to four
    decimals.
    """
    # TODO 1: the positions 0 ... max_len - 1 as a column, (max_len, 1)
    # TODO 2: the frequencies 10000^(-2i / d_model), one for each even column 2i
    # TODO 3: all the angles, by broadcasting: one row per position, one column per frequency
    # TODO 4: sines into the even columns, cosines into the odd ones (one fewer when d_model is odd)
    raise NotImplementedError


class SinusoidalPositions(nn.Module):
    """The table of waves as a layer: nothing to train, nothing to save, and it moves with the model.

    It has no parameter. The table is a buffer outside the state dict, because it can always be computed again.
    """

    def __init__(self, max_len: int, d_model: int):
        super().__init__()
        # TODO 1: register sinusoidal_positions(max_len, d_model) as a buffer that is not in the state dict
        raise NotImplementedError

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Add row start + t of the table to position t of every sequence: (B, T, D) -> (B, T, D), in x's dtype.

        Float64 input is added in float64. Raises a ValueError that names max_len when the last position, start + T - 1, is not
        in the table.
        """
        # TODO 2: raise ValueError when start + T is more than max_len
        # TODO 3: take rows start up to start + T, in x's dtype
        # TODO 4: add them to a new tensor, the same rows for every sequence of the batch
        raise NotImplementedError
