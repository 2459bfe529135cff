"""Chapter 2: numbers become vectors that contain their positions.

B is the batch size, T the number of positions, D = d_model. The batch is always the first axis: ids are (B, T), vectors
(B, T, D).

Write your own code wherever NotImplementedError is raised, from top to bottom. The TODO steps say what to do, the
lesson ch02_embeddings.md explains why, and `headway check` tests what you have written.

Rules for all exercises of this chapter; the tests check them:
- Do not change an argument in place, unless the docstring says so.
- `...` in a shape means any number of axes, also none. An argument may be a view (not contiguous), and so may a result.
- The result has the dtype and device of the input, unless the docstring says otherwise. Compute float64 input in
  float64.
- Gradients reach every input and parameter and are finite, unless the docstring says "without gradient".
- The state dict holds the parameters that the docstring names and nothing else: register a mask or a table as a buffer
  with persistent=False.
- A ValueError names the values that do not fit, as in
  raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}").
  It may be raised when an object is made or at the first call. An assert with such a message is accepted too.
"""

import math

import torch
from torch import Tensor, nn


class TokenEmbedding(nn.Module):
    """A table with one row per token: ids (B, T) -> vectors (B, T, D).

    The table is the parameter `weight`, (vocab_size, d_model). Its initial values are random, so that no two tokens start
    with the same vector. With scale=True every vector is multiplied by sqrt(d_model). The vectors have the dtype of `weight`.

    Write it yourself, without `nn.Embedding`.
    """

    def __init__(self, vocab_size: int, d_model: int, scale: bool = False):
        super().__init__()
        # TODO 1: create the parameter `weight`, (vocab_size, d_model), with small random numbers
        # TODO 2: store the factor for forward: sqrt(d_model) with scale=True, else 1
        raise NotImplementedError

    def forward(self, ids: Tensor) -> Tensor:
        """Look up the row of each id: (B, T) -> (B, T, D)."""
        # TODO 3: select row ids[b, t] of `weight` for every b and t
        # TODO 4: multiply by the factor
        raise NotImplementedError


class LearnedPositions(nn.Module):
    """A trainable table with one row per position, which is added to the vectors at that position.

    The table is the parameter `weight`, (max_len, d_model).

    Write it yourself, without `nn.Embedding`.
    """

    def __init__(self, max_len: int, d_model: int):
        super().__init__()
        # TODO 1: create the parameter `weight`, (max_len, d_model), with small random numbers
        raise NotImplementedError

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Add row start + t to position t of every sequence: (B, T, D) -> (B, T, D), in x's dtype.

        Float64 input is added in float64. Raises a ValueError that names max_len if the last position, start + T - 1, is not
        in the table.
        """
        # TODO 2: raise a ValueError if start + T is greater than max_len
        # TODO 3: take the T rows from `start` on, in x's dtype
        # TODO 4: add them to x, the same rows for every sequence of the batch; return a new tensor
        raise NotImplementedError


def sinusoidal_positions(max_len: int, d_model: int) -> Tensor:
    """Compute a fixed table of sines and cosines, one row per position: a new float32 tensor, (max_len, d_model).

    In row p, the columns 2i and 2i + 1 have the angle p * 10000^(-2i / d_model): column 2i contains its sine, column 2i + 1
    its cosine. With odd d_model the last column is a sine without its cosine. Up to position 1000 every entry is correct to
    four decimals.
    """
    # TODO 1: the positions 0 ... max_len - 1 as a column, (max_len, 1)
    # TODO 2: the frequencies 10000^(-2i / d_model), one for each even column 2i
    # TODO 3: all angles, by broadcasting: one row per position, one column per frequency
    # TODO 4: write sines into the even columns, and cosines into the odd ones (one fewer if d_model is odd)
    raise NotImplementedError


class SinusoidalPositions(nn.Module):
    """A layer that adds the table of sinusoidal_positions to its input, and has nothing to train.

    It has no parameters. The table is a buffer, so it moves with the model to another device. It is not in the state dict,
    because it can be computed again at any time. In float16 and bfloat16, too, every row is right up to rounding, also after
    module.bfloat16().
    """

    def __init__(self, max_len: int, d_model: int):
        super().__init__()
        # TODO 1: register sinusoidal_positions(max_len, d_model) as a buffer that is not in the state dict
        raise NotImplementedError

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Add row start + t of the table to position t of every sequence: (B, T, D) -> (B, T, D), in x's dtype.

        Float64 input is added in float64. Raises a ValueError that names max_len if the last position, start + T - 1, is not
        in the table.
        """
        # TODO 2: raise a ValueError if start + T is greater than max_len
        # TODO 3: take the T rows from `start` on, in x's dtype
        # TODO 4: add them to x, the same rows for every sequence of the batch; return a new tensor
        raise NotImplementedError
