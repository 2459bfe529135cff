"""Chapter 3: how positions exchange information.

From the vector at each position, attention computes a query (what is this position looking for?), a key (what can it be
found by?) and a value (what does it pass on?). It compares each query with every key. The better they match, the larger
the weight of that key's value in the result.

    B batch    T positions    D = d_model    H = n_heads    d_head = D / H
    a mask is boolean, and True means "may attend"
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """Turn scores into weights along `dim`: e^x divided by the sum of e^x, so that each slice along `dim` sums to 1.

    The result has the shape and dtype of `x`. Scores around 10000 or -10000 do not overflow. An entry of -inf gets weight 0.
    A slice in which every entry is -inf gets zeros, not NaN, and its gradient is finite too.
    """
    # TODO 1: subtract each slice's largest entry, which changes no weight (subtract 0 if a slice has only -inf)
    # TODO 2: exponentiate; the largest number is now e^0 = 1
    # TODO 3: divide by the sum along `dim`; where the sum is 0, divide by 1
    ### BEGIN SOLUTION
    largest = x.amax(dim, keepdim=True).detach()
    largest = largest.masked_fill(largest == -math.inf, 0.0)
    exps = torch.exp(x - largest)
    total = exps.sum(dim, keepdim=True)
    return exps / total.masked_fill(total == 0, 1.0)
    ### END SOLUTION


def causal_mask(q_len: int, k_len: int | None = None) -> Tensor:
    """Build the mask that hides later positions: a bool tensor (q_len, k_len), True where a query may attend to a key.

    Without `k_len` there are as many keys as queries. With more keys than queries, the queries are the last positions:
    query i is at position k_len - q_len + i, and may attend to the keys up to and including that position.
    """
    # TODO 1: if k_len is not given, it is q_len
    # TODO 2: start with a matrix of True, (q_len, k_len)
    # TODO 3: keep the lower triangle, with its diagonal moved right by the number of keys before the first query
    ### BEGIN SOLUTION
    k_len = q_len if k_len is None else k_len
    everything = torch.ones(q_len, k_len, dtype=torch.bool)
    return everything.tril(diagonal=k_len - q_len)
    ### END SOLUTION


def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    """Mark which keys are real tokens: ids (B, T) -> bool (B, 1, 1, T), True where the id is not `pad_id`.

    The two axes of size 1 are the heads and the queries of the scores (B, H, T, T): the mask is the same for all of them.
    """
    # TODO 1: compare every id with pad_id, (B, T)
    # TODO 2: add axes for heads and queries, (B, 1, 1, T)
    ### BEGIN SOLUTION
    real = ids != pad_id  # (B, T)
    return real[:, None, None, :]  # (B, 1, 1, T)
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    q = q / math.sqrt(q.size(-1))  # this scales every score
    scores = q @ k.transpose(-2, -1)  # (..., Tq, d) @ (..., d, Tk) -> (..., Tq, Tk)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = softmax(scores, dim=-1)
    return weights @ v, weights  # (..., Tq, Tk) @ (..., Tk, d_v) -> (..., Tq, d_v)
    ### END SOLUTION


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """Split the last axis into heads: (B, T, D) -> (B, H, T, d_head).

    Head h gets d_head neighbouring features, from h * d_head on. Raises a ValueError that names D and n_heads if n_heads does
    not divide D.
    """
    # TODO 1: check that n_heads divides D; name both numbers in the error
    # TODO 2: split the feature axis in two, (B, T, D) -> (B, T, H, d_head)
    # TODO 3: move the head axis in front of the positions
    ### BEGIN SOLUTION
    B, T, D = x.shape
    if D % n_heads != 0:
        raise ValueError(f"{D} features cannot be cut into {n_heads} equal heads")
    heads = x.reshape(B, T, n_heads, D // n_heads)  # (B, T, H, d_head)
    return heads.transpose(1, 2)  # (B, H, T, d_head)
    ### END SOLUTION


def merge_heads(x: Tensor) -> Tensor:
    """Concatenate the heads of each position, the first head first: (B, H, T, d_head) -> (B, T, H * d_head).

    This is the exact inverse of `split_heads`.
    """
    # TODO 1: move the positions back in front of the heads
    # TODO 2: join the last two axes into one
    ### BEGIN SOLUTION
    return x.transpose(1, 2).flatten(2)  # (B, T, H, d_head) -> (B, T, D)
    ### END SOLUTION


class SelfAttentionHead(nn.Module):
    """One head of self-attention, the smallest attention module: (B, T, d_model) -> (B, T, d_head).

    Every position may attend to all positions, itself included. Parameter: `qkv.weight` (3 * d_head, d_model), no bias; its first rows give
    the queries, the next the keys, the last the values.
    """

    def __init__(self, d_model: int, d_head: int):
        super().__init__()
        # TODO 1: create qkv, one linear layer without bias from d_model to queries, keys and values together
        ### BEGIN SOLUTION
        self.qkv = nn.Linear(d_model, 3 * d_head, bias=False)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        # TODO 2: project, (B, T, D) -> (B, T, 3 * d_head), and split into q, k and v of d_head each
        # TODO 3: attend; return only the output
        ### BEGIN SOLUTION
        q, k, v = self.qkv(x).chunk(3, dim=-1)  # three of (B, T, d_head)
        output, _ = scaled_dot_product_attention(q, k, v)
        return output
        ### END SOLUTION


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
        ### BEGIN SOLUTION
        if d_model % n_heads != 0:
            raise ValueError(f"d_model = {d_model} cannot be cut into {n_heads} equal heads")
        self.n_heads = n_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_out = nn.Linear(d_model, d_model, bias=bias)
        self.dropout = nn.Dropout(dropout)
        ### END SOLUTION

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
        ### BEGIN SOLUTION
        context = x if context is None else context
        q = split_heads(self.W_q(x), self.n_heads)  # (B, H, Tq, d_head)
        k = split_heads(self.W_k(context), self.n_heads)  # (B, H, Tk, d_head)
        v = split_heads(self.W_v(context), self.n_heads)  # (B, H, Tk, d_head)
        mixed, weights = scaled_dot_product_attention(q, k, v, mask)  # (B, H, Tq, d_head), (B, H, Tq, Tk)
        if self.training and self.dropout.p > 0:
            weights = self.dropout(weights)
            mixed = weights @ v
        output = self.W_out(merge_heads(mixed))  # (B, H, Tq, d_head) -> (B, Tq, D)
        return (output, weights) if return_weights else output
        ### END SOLUTION


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
        ### BEGIN SOLUTION
        if d_model % n_heads != 0:
            raise ValueError(f"d_model = {d_model} cannot be cut into {n_heads} equal heads")
        self.n_heads = n_heads
        self.c_attn = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.c_proj = nn.Linear(d_model, d_model, bias=bias)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", causal_mask(max_len), persistent=False)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        # TODO 4: raise a ValueError if x is longer than max_len; name both numbers in it
        # TODO 5: project once, split into q, k and v, and split each into heads, (B, H, T, d_head)
        # TODO 6: let every head attend with the first T rows and columns of the mask: this gives the averages of the values, and the weights
        # TODO 7: only in training with dropout, apply it to the weights, and average the values with the result instead
        # TODO 8: merge the heads, and apply c_proj
        ### BEGIN SOLUTION
        T, max_len = x.size(1), self.mask.size(0)
        if T > max_len:
            raise ValueError(f"{T} positions do not fit into max_len = {max_len}")
        parts = self.c_attn(x).chunk(3, dim=-1)  # three of (B, T, D)
        q, k, v = (split_heads(part, self.n_heads) for part in parts)  # each (B, H, T, d_head)
        mixed, weights = scaled_dot_product_attention(q, k, v, self.mask[:T, :T])  # (B, H, T, d_head), (B, H, T, T)
        if self.training and self.dropout.p > 0:
            mixed = self.dropout(weights) @ v
        return self.c_proj(merge_heads(mixed))  # (B, H, T, d_head) -> (B, T, D)
        ### END SOLUTION


def fuse_qkv(attention: MultiHeadAttention, max_len: int) -> FusedSelfAttention:
    """Convert an attention to GPT-2's layout: `fuse_qkv(attention, max_len)(x)` equals `attention(x, mask=causal_mask(T))`.

    The parameters are copies: training one module afterwards does not change the other. Bias or no bias, dropout, train or
    eval mode, dtype and device are those of `attention`, which does not change.
    """
    # TODO 1: create a FusedSelfAttention of the same sizes, with a bias if `attention` has one, and the same dropout
    # TODO 2: give it the dtype, device and mode of `attention`
    # TODO 3: concatenate the weights of W_q, W_k and W_v along their output axis (0) for c_attn; c_proj is W_out
    # TODO 4: do the same with the biases, if there are any
    ### BEGIN SOLUTION
    out = attention.W_out
    fused = FusedSelfAttention(
        out.in_features, attention.n_heads, max_len, bias=out.bias is not None, dropout=attention.dropout.p
    )
    fused.to(out.weight).train(attention.training)
    separate = attention.state_dict()
    copied = {}
    for kind in out.state_dict():  # "weight", and "bias" where there is one
        copied[f"c_attn.{kind}"] = torch.cat([separate[f"{name}.{kind}"] for name in ("W_q", "W_k", "W_v")])
        copied[f"c_proj.{kind}"] = separate[f"W_out.{kind}"]
    fused.load_state_dict(copied)
    return fused
    ### END SOLUTION


def split_qkv(fused: FusedSelfAttention) -> MultiHeadAttention:
    """Convert back to separate matrices: every tensor of `split_qkv(fuse_qkv(a, max_len))` equals that of `a`.

    `split_qkv(fused)(x, mask=causal_mask(T))` equals `fused(x)`. The parameters are copies. Bias or no bias, dropout, train or
    eval mode, dtype and device are those of `fused`, which does not change.
    """
    # TODO 1: create a MultiHeadAttention of the same sizes, with a bias if `fused` has one, and the same dropout
    # TODO 2: give it the dtype, device and mode of `fused`
    # TODO 3: split the weight of c_attn in three along its output axis for W_q, W_k and W_v; W_out is c_proj
    # TODO 4: do the same with the biases, if there are any
    ### BEGIN SOLUTION
    out = fused.c_proj
    attention = MultiHeadAttention(out.in_features, fused.n_heads, bias=out.bias is not None, dropout=fused.dropout.p)
    attention.to(out.weight).train(fused.training)
    joined = fused.state_dict()
    copied = {}
    for kind in out.state_dict():  # "weight", and "bias" where there is one
        parts = joined[f"c_attn.{kind}"].chunk(3)
        copied |= {f"{name}.{kind}": part for name, part in zip(("W_q", "W_k", "W_v"), parts)}
        copied[f"W_out.{kind}"] = joined[f"c_proj.{kind}"]
    attention.load_state_dict(copied)
    return attention
    ### END SOLUTION
