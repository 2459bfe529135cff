"""Chapter 20: what changed since 2019.

Ten parts of today's models, each small. None of them changes what a transformer is.

B batch, T positions, D = d_model, H = n_heads, d_head = D / H, V tokens of the vocabulary. Heads are (B, H, T, d_head).

Write your own code wherever NotImplementedError is raised, from top to bottom. The TODO steps say what to do, the
lesson ch20_modern_block.md explains why, and `headway check` tests what you have written.

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
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .ch03_attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from .ch04_positions_in_attention import alibi_bias, apply_rope
from .ch05_layers import RMSNorm
from .ch10_kv_cache import KVCache


def soft_cap(logits: Tensor, cap: float) -> Tensor:
    """Keep logits between -cap and cap without a corner: cap · tanh(logits / cap), in their shape and dtype.

    Small logits hardly change, and every finite logit has a gradient that is finite. Models use it for the scores of attention and for
    the logits of the output. A cap that is not above 0 raises a
    ValueError that names cap.
    """
    # TODO 1: check the cap
    # TODO 2: scale down, squash, scale up
    raise NotImplementedError


def attention_with_sink(q: Tensor, k: Tensor, v: Tensor, sink: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Attention whose heads may look at nothing: the softmax has one more score for each head, `sink`, without a value.

    q (B, H, Tq, d), k (B, H, Tk, d), v (B, H, Tk, d_v), sink (H,) -> output (B, H, Tq, d_v), weights (B, H, Tq, Tk).

    A weight is exp(score) / (exp(sink of its head) + the sum of exp over all scores of its query), so the weights of a query add up
    to less than 1. Scores are q·k / sqrt(d); keys where `mask` (broadcast to (B, H, Tq, Tk)) is False get the weight 0, also where
    a query may look at no key. Output, weights and gradients are finite for scores and sinks of any size, such as 1e4. Output and
    weights have the dtype of q, also if the sink has another one.
    """
    # TODO 1: compute the scores, and mask them
    # TODO 2: put the sink's score beside those of the keys, for each query
    # TODO 3: apply softmax, and leave the sink's weight out
    # TODO 4: average the values
    raise NotImplementedError


def gated_attention(q: Tensor, k: Tensor, v: Tensor, gate: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attention whose output each query can close: σ(gate) · output, (B, H, Tq, d_v).

    q (B, H, Tq, d), k (B, H, Tk, d), v (B, H, Tk, d_v); `gate` is (B, H, Tq, d_v), or (B, H, Tq, 1) with one gate for a whole head.
    The output is that of scaled_dot_product_attention with this mask, and σ is the sigmoid function. Result and gradients are finite
    for gates of any size, such as 1e4.
    """
    # TODO 1: attend
    # TODO 2: multiply each head's output by the sigmoid of its gate; the heads stay apart
    raise NotImplementedError


class QKNormAttention(nn.Module):
    """Causal self-attention whose queries and keys are normalised, so that no score can grow without limit: (B, T, D) -> (B, T, D).

    Parts: the linear layers `W_q`, `W_k`, `W_v`, `W_out`, all D -> D without a bias, and `q_norm` and `k_norm`, each an
    RMSNorm(d_head) with its default eps, which all heads share. Each head's queries and keys go through their norm before they are
    rotated. `positions` is "none", "rope" or "alibi", with the same effect as in CausalSelfAttention. Dtypes, devices and lengths
    are as in CausalSelfAttention, too. Raises a ValueError that names d_model and n_heads if n_heads does not divide d_model, and one
    that names `positions` if it is not one of the three.
    """

    def __init__(self, d_model: int, n_heads: int, positions: str = "none") -> None:
        super().__init__()
        # TODO 1: check the sizes and `positions`
        # TODO 2: keep n_heads and positions; make the four linear layers and the two norms
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 3: project, and split into heads; normalise the queries and the keys of each head
        # TODO 4: with "rope", rotate both; with "alibi", make the bias
        # TODO 5: attend under the causal mask, merge the heads, and apply W_out
        raise NotImplementedError


class LatentAttention(nn.Module):
    """Multi-head latent attention (MLA): what the cache keeps of a position is one short vector, from which all heads make their
    keys and values.

    Parts, all linear layers without a bias: `W_q`, D -> H · (d_head + d_rope); `W_down`, D -> d_latent, and `norm`, an
    RMSNorm(d_latent) with its default eps behind it; `W_up_k` and `W_up_v`, d_latent -> D; `W_rope`, D -> d_rope; `W_out`, D -> D.

    The latent vector of a position is c = norm(W_down x). Head h's key has two parts: its d_head features of W_up_k c, without a
    position, and d_rope features W_rope x, rotated by apply_rope, which all heads share. Head h's query is the h-th part of W_q x:
    d_head features, then d_rope features that are rotated. A score is the sum of both products, divided by sqrt(d_head + d_rope).
    The values of head h are its d_head features of W_up_v c. Dtypes, devices and lengths are as in CausalSelfAttention. Raises a
    ValueError that names d_model and n_heads if n_heads does not divide d_model, and one that names d_rope if it is odd.
    """

    def __init__(self, d_model: int, n_heads: int, d_latent: int, d_rope: int) -> None:
        super().__init__()
        # TODO 1: check the sizes
        # TODO 2: keep n_heads and d_rope; make the parts
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """The plain form, for training: make the keys and values of all heads, and attend with the causal mask, (B, T, D) -> (B, T, D)."""
        # TODO 3: make the latent vectors, and from them keys and values of all heads
        # TODO 4: cut the queries into their two parts; rotate the second one, and the shared key
        # TODO 5: add up the scores of both parts, attend with the causal mask, merge the heads, apply W_out
        raise NotImplementedError

    def cached(self, x: Tensor, cache: KVCache) -> Tensor:
        """The compressed form, for writing: T new positions follow those in the cache, (B, T, D) -> (B, T, D).

        The results are those of forward over the whole text. `cache` has the `length` and the `append` of a KVCache, and takes keys and
        values of different widths. It keeps c as its keys, (B, 1, P + T, d_latent), and the rotated
        W_rope x as its values, (B, 1, P + T, d_rope), and nothing else. No keys or values of heads are made for the past: W_up_k
        works on the query instead, so that scores are products with c, and W_up_v works on the averages of c. Need not support
        gradients.
        """
        # TODO 6: make c and the rotated shared key of the new positions, which begin after the past; append both to the cache
        # TODO 7: multiply each head's query by its rows of W_up_k, (B, H, T, d_head) -> (B, H, T, d_latent)
        # TODO 8: add up the scores with c and with the shared keys, divide, mask, and apply softmax
        # TODO 9: average c with the weights, and multiply by each head's rows of W_up_v; merge the heads, apply W_out
        raise NotImplementedError


def yarn_angles(
    positions: Tensor,
    d_head: int,
    factor: float,
    trained_length: int,
    base: float = 10000.0,
    fast: float = 32.0,
    slow: float = 1.0,
) -> tuple[Tensor, float]:
    """Stretch RoPE to texts that are `factor` times as long as in training: positions (T,) -> angles (T, d_head / 2), and a scale.

    Pair i turns by base^(-2i / d_head) radians a position. The index at which a pair makes `fast` full turns in trained_length
    positions is i_fast = d_head / 2 · log(trained_length / (2π · fast)) / log(base). It need not be whole, nor the index of a pair
    that exists. i_slow is the same for `slow`, which is below `fast`. Pairs up to i_fast keep their frequency, pairs from i_slow on
    turn `factor` times more slowly, and between them the share of the slower frequency grows along a straight line from 0 to 1
    ("NTK by parts"). The scale, 0.1 · log(factor) + 1 (1 for factor 1), is for queries and keys alike: it makes up for scores that
    are spread over more keys.

    The angles are float32 or float64, on the device of `positions`. Raises a ValueError that names d_head if it is odd, and one that
    names factor if it is below 1.
    """
    # TODO 1: check d_head and factor; compute every pair's frequency
    # TODO 2: compute i_fast and i_slow, and each pair's share of the slower frequency
    # TODO 3: mix both frequencies, and multiply them by the positions
    raise NotImplementedError


def newton_schulz(m: Tensor, steps: int = 5) -> Tensor:
    """Push all singular values of a matrix to about 1, without computing them: (rows, columns) -> (rows, columns).

    The matrix is divided by its norm (the root of the sum of squares) plus 1e-7. Then each step replaces X by
    a X + b (X Xᵀ) X + c (X Xᵀ)² X, with a = 3.4445, b = -4.7750, c = 2.0315. With more rows than columns, X is transposed before and
    after the steps, which gives the same result with smaller products. The dtype stays; the result is a new tensor. Need not support gradients.
    """
    # TODO 1: if the matrix is higher than it is wide, transpose it
    # TODO 2: divide it by its norm, so that no singular value is above 1
    # TODO 3: apply the steps; X Xᵀ is needed twice
    # TODO 4: transpose back
    raise NotImplementedError


class Muon:
    """Momentum whose updates are orthogonalised, for matrices only.

    At each step of a parameter (rows, columns) with gradient g: its momentum v, which begins with zeros, becomes
    momentum · v + (1 - momentum) · g; the parameter is multiplied by 1 - lr · weight_decay; then it moves by
    -lr · sqrt(max(1, rows / columns)) · newton_schulz(momentum · v + (1 - momentum) · g, steps), with the new v (Nesterov's momentum).
    Without gradient, neither a parameter nor its momentum changes.

    `param_groups` is a list of one dict with "params", "lr", "momentum", "steps" and "weight_decay"; every step reads "lr" there. A
    parameter that is not a matrix, with exactly two axes, raises a ValueError that names its shape: give vectors to AdamW, and
    embeddings too. Gradients do not change.
    """

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float = 0.02, momentum: float = 0.95, steps: int = 5, weight_decay: float = 0.0
    ) -> None:
        # TODO 1: make param_groups (params may be a generator), and check the shapes
        # TODO 2: prepare a place for each parameter's momentum
        raise NotImplementedError

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient, in place."""
        # TODO 3: for each parameter with gradient: update its momentum, and mix it with the gradient once more
        # TODO 4: shrink the parameter; move it along the orthogonalised mixture
        raise NotImplementedError

    def zero_grad(self) -> None:
        """Clear every parameter's gradient."""
        # TODO 5: set each gradient to None
        raise NotImplementedError


def multi_token_loss(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    """Return the loss of several heads that predict the next tokens, a scalar: logits (K, B, T, V) and targets (B, T).

    targets[b, t] is the token that follows position t, as in GPT. Head k predicts the token k places further: logits[k, b, t]
    belong to targets[b, t + k], and the last k positions have nothing to predict. Each head's loss is the mean cross-entropy of all
    its targets in the batch, and the result is the mean of the heads' losses. Targets that are ignore_index do not count. A head
    without any target to predict counts with a loss of 0. Loss and gradients are finite for logits of any size, and the loss has
    the dtype of the logits.
    """
    # TODO 1: for each head, cut off the logits that have no target, and the targets that come too early
    # TODO 2: compute each head's mean cross-entropy, safe where nothing counts
    # TODO 3: average over the heads
    raise NotImplementedError


def schedule_wsd(step: int, warmup: int, decay: int, total: int, peak: float, floor: float = 0.0) -> float:
    """The learning rate at a step: warm-up, then stable, then decay.

    It is peak * step / warmup below `warmup`; `peak` from `warmup` to total - decay; then it falls along a straight line to `floor` at
    `total`, and stays there. With decay = 0 it is `peak` until just before `total`, and `floor` from `total` on. Raises a ValueError
    that names warmup, decay and total if warmup + decay is above total.
    """
    # TODO 1: check that warm-up and decay fit
    # TODO 2: the warm-up, the stable part, the decay, and what comes after it
    raise NotImplementedError
