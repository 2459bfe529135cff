"""Chapter 3: how positions exchange information.

From the vector at each position, attention computes a query (what is this position looking for?), a key (what can it be
found by?) and a value (what does it pass on?). It compares each query with every key. The better they match, the larger
the weight of that key's value in the result.

    B batch    T positions    D = d_model    H = n_heads    d_head = D / H
    a mask is boolean, and True means "may attend"

Write your own code wherever NotImplementedError is raised, from top to bottom. The TODO steps say what to do, the
lesson ch03_attention.md explains why, and `headway check` tests what you have written.

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

In this chapter, write attention yourself, without `F.scaled_dot_product_attention`, `nn.MultiheadAttention`,
`nn.Transformer` and torch's other attention functions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """Turn scores into weights along `dim`: e^x divided by the sum of e^x, so that each slice along `dim` sums to 1.

    The result has the shape and dtype of `x`. Scores around 10000 or -10000 do not overflow. An entry of -inf gets weight 0.
    A slice in which every entry is -inf gets zeros, not NaN, and its gradient is finite too.

    Write it yourself, without `torch.softmax`, `log_softmax`, `logsumexp` and torch's other softmax functions.
    """
    # TODO 1: subtract each slice's largest entry, which changes no weight (subtract 0 if a slice has only -inf)
    # TODO 2: exponentiate; the largest number is now e^0 = 1
    # TODO 3: divide by the sum along `dim`; where the sum is 0, divide by 1
    raise NotImplementedError


def causal_mask(q_len: int, k_len: int | None = None) -> Tensor:
    """Build the mask that hides later positions: a bool tensor (q_len, k_len), True where a query may attend to a key.

    Without `k_len` there are as many keys as queries. With more keys than queries, the queries are the last positions:
    query i is at position k_len - q_len + i, and may attend to the keys up to and including that position.
    """
    # TODO 1: if k_len is not given, it is q_len
    # TODO 2: start with a matrix of True, (q_len, k_len)
    # TODO 3: keep the lower triangle, with its diagonal moved right by the number of keys before the first query
    raise NotImplementedError


def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    """Mark which keys are real tokens: ids (B, T) -> bool (B, 1, 1, T), True where the id is not `pad_id`.

    The two axes of size 1 are the heads and the queries of the scores (B, H, T, T): the mask is the same for all of them.
    """
    # TODO 1: compare every id with pad_id, (B, T)
    # TODO 2: add axes for heads and queries, (B, 1, 1, T)
    raise NotImplementedError


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute softmax(q k^T / sqrt(d) + bias) v: for each query the average of the values, weighted by how well keys match.

    q (..., Tq, d), k (..., Tk, d), v (..., Tk, d_v) -> output (..., Tq, d_v), weights (..., Tq, Tk).

    `bias` (floats) is added to the scaled scores. Then keys where `mask` is False are removed: their weight is exactly 0. Both
    broadcast to (..., Tq, Tk). A query that may attend to nothing, because all its keys are masked or biased to -inf, gets an
    output and weights of zero, not NaN. The gradients of q, k, v and bias are finite too, both through the output and through
    the weights. Output and weights have the dtype of q.
    """
    # TODO 1: divide the queries by the square root of d, their width: this divides every score by it
    # TODO 2: compute the score of every query with every key, (..., Tq, Tk)
    # TODO 3: add the bias, if there is one
    # TODO 4: set the scores of forbidden keys to -inf, if there is a mask
    # TODO 5: turn each query's scores into weights with your softmax
    # TODO 6: average the values with these weights; return the average and the weights
    raise NotImplementedError


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """Split the last axis into heads: (B, T, D) -> (B, H, T, d_head).

    Head h gets d_head neighbouring features, from h * d_head on. Raises a ValueError that names D and n_heads if n_heads does
    not divide D.
    """
    # TODO 1: check that n_heads divides D; name both numbers in the error
    # TODO 2: split the feature axis in two, (B, T, D) -> (B, T, H, d_head)
    # TODO 3: move the head axis in front of the positions
    raise NotImplementedError


def merge_heads(x: Tensor) -> Tensor:
    """Concatenate the heads of each position, the first head first: (B, H, T, d_head) -> (B, T, H * d_head).

    This is the exact inverse of `split_heads`.
    """
    # TODO 1: move the positions back in front of the heads
    # TODO 2: join the last two axes into one
    raise NotImplementedError


class SelfAttentionHead(nn.Module):
    """One head of self-attention, the smallest attention module: (B, T, d_model) -> (B, T, d_head).

    Every position may attend to all positions, itself included. Parameter: `qkv.weight` (3 * d_head, d_model), no bias; its first rows give
    the queries, the next the keys, the last the values.
    """

    def __init__(self, d_model: int, d_head: int):
        super().__init__()
        # TODO 1: create qkv, one linear layer without bias from d_model to queries, keys and values together
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 2: project, (B, T, D) -> (B, T, 3 * d_head), and split into q, k and v of d_head each
        # TODO 3: attend; return only the output
        raise NotImplementedError


class MultiHeadAttention(nn.Module):
    """Several heads attend in parallel, each with its own slice of the projected features: (B, Tq, D) -> (B, Tq, D).

    Parameters: the linear layers `W_q`, `W_k`, `W_v`, `W_out`, all D -> D, with a bias unless `bias=False`.
    Other attributes: `n_heads`, and `dropout`, an nn.Dropout. A query whose keys are all masked gets zeros from every head, and
    all gradients stay finite. Raises a ValueError that names d_model and n_heads if n_heads does not divide d_model.
    """

    def __init__(self, d_model: int, n_heads: int, bias: bool = True, dropout: float = 0.0):
        super().__init__()
        # TODO 1: check that n_heads divides d_model; name both numbers in the error
        # TODO 2: store n_heads; create W_q, W_k, W_v, W_out and the dropout
        raise NotImplementedError

    def forward(
        self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attend from `x` (B, Tq, D) to `context` (B, Tk, D), or to `x` itself: (B, Tq, D).

        Queries come from `x`, keys *and* values from `context`. `mask` broadcasts to (B, H, Tq, Tk). Dropout acts on the
        weights. With `return_weights` the result is (output, weights), the weights (B, H, Tq, Tk) as used, after dropout.
        """
        # TODO 3: if no context is given, x attends to itself
        # TODO 4: project, and split into heads, (B, T, D) -> (B, H, T, d_head)
        # TODO 5: let every head attend: this gives the averages of the values, and the weights
        # TODO 6: only in training with dropout, apply it to the weights, and average the values with the result instead
        # TODO 7: merge the heads, and apply W_out
        raise NotImplementedError


class FusedSelfAttention(nn.Module):
    """Causal self-attention in GPT-2's layout, one matrix for queries, keys and values: (B, T, D) -> (B, T, D).

    Parameters: the linear layers `c_attn`, D -> 3D (queries first, then keys, then values), and `c_proj`, D -> D, with a bias
    unless `bias=False`. Other attributes: `n_heads`, `dropout` (an nn.Dropout, on the weights), and `mask`, the causal mask
    (max_len, max_len), a buffer that is not in the state dict. Raises a ValueError that names d_model and n_heads if n_heads
    does not divide d_model, and one that names T and max_len for an input longer than max_len.
    """

    def __init__(self, d_model: int, n_heads: int, max_len: int, bias: bool = True, dropout: float = 0.0):
        super().__init__()
        # TODO 1: check that n_heads divides d_model; name both numbers in the error
        # TODO 2: store n_heads; create c_attn, c_proj and the dropout
        # TODO 3: register the causal mask of max_len positions as a buffer that is not in the state dict
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 4: raise a ValueError if x is longer than max_len; name both numbers in it
        # TODO 5: project once, split into q, k and v, and split each into heads, (B, H, T, d_head)
        # TODO 6: let every head attend with the first T rows and columns of the mask: this gives the averages of the values, and the weights
        # TODO 7: only in training with dropout, apply it to the weights, and average the values with the result instead
        # TODO 8: merge the heads, and apply c_proj
        raise NotImplementedError


def fuse_qkv(attention: MultiHeadAttention, max_len: int) -> FusedSelfAttention:
    """Convert an attention to GPT-2's layout: `fuse_qkv(attention, max_len)(x)` equals `attention(x, mask=causal_mask(T))`.

    The parameters are copies: training one module afterwards does not change the other. Bias or no bias, dropout, train or
    eval mode, dtype and device are those of `attention`, which does not change.
    """
    # TODO 1: create a FusedSelfAttention of the same sizes, with a bias if `attention` has one, and the same dropout
    # TODO 2: give it the dtype, device and mode of `attention`
    # TODO 3: concatenate the weights of W_q, W_k and W_v along their output axis (0) for c_attn; c_proj is W_out
    # TODO 4: do the same with the biases, if there are any
    raise NotImplementedError


def split_qkv(fused: FusedSelfAttention) -> MultiHeadAttention:
    """Convert back to separate matrices: every tensor of `split_qkv(fuse_qkv(a, max_len))` equals that of `a`.

    `split_qkv(fused)(x, mask=causal_mask(T))` equals `fused(x)`. The parameters are copies. Bias or no bias, dropout, train or
    eval mode, dtype and device are those of `fused`, which does not change.
    """
    # TODO 1: create a MultiHeadAttention of the same sizes, with a bias if `fused` has one, and the same dropout
    # TODO 2: give it the dtype, device and mode of `fused`
    # TODO 3: split the weight of c_attn in three along its output axis for W_q, W_k and W_v; W_out is c_proj
    # TODO 4: do the same with the biases, if there are any
    raise NotImplementedError
