"""Chapter 10: never compute the past twice.

B batch, T new positions, P past positions, D = d_model, H = n_heads, d_head = D / H. Keys and values are (B, H, T, d_head).

Write your own code wherever NotImplementedError is raised, from top to bottom. The TODO steps say what to do, the
lesson ch10_kv_cache.md explains why, and `headway check` tests what you have written.

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

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .ch03_attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from .ch04_positions_in_attention import CausalSelfAttention, alibi_bias, apply_rope
from .ch07_models import GPT, GPTConfig
from .ch09_sampling import looking_at, sample_next_token


class KVCache:
    """The keys and values of all positions so far, for one layer.

    `length` is the number of positions in the cache. Keys and values keep their dtype, device and values. Appending with
    torch.cat is correct, but copies the whole past at every step. If you reserve room in advance, and at least double it
    whenever it is full, little more than the new positions is copied. What `append` returns is used without gradient.
    """

    def __init__(self):
        # TODO 1: start empty
        raise NotImplementedError

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values of new positions, (B, H, T, d_head); return those of all positions, (B, H, P + T, d_head).

        Returned tensors keep their values when more is appended. All this also holds inside
        torch.no_grad() and torch.inference_mode().
        """
        # TODO 2: at the first call, use the batch size, heads, width, dtype and device of k and v
        # TODO 3: if the new positions do not fit, make room (or leave this out, and concatenate)
        # TODO 4: put the new positions after the old ones, along the axis of positions, and count them
        # TODO 5: return everything that is filled
        raise NotImplementedError

    def copy(self) -> "KVCache":
        """A branch: a cache with the same past; later appends to one of the two never change the other."""
        # TODO 6: make a new cache with copies of the tensors, where there are any
        raise NotImplementedError


class CachedSelfAttention(CausalSelfAttention):
    """CausalSelfAttention that can continue from a cache: the same arguments, names and weights, (B, T, D) -> (B, T, D)."""

    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        """Attend from each new position in `x` to the cache, earlier new positions and itself; add the new ones to the cache.

        With an empty cache, or with None, this is the pass over a whole sequence. Keys and values of the past come from the
        cache and are not computed again; the module itself stores nothing between calls. Passes with a cache need not
        support gradients. A pass inside torch.no_grad() or torch.inference_mode() returns the same values; afterwards the
        module can still be trained without a cache.
        """
        # TODO 1: project the new positions only, and split into heads
        # TODO 2: with "rope", rotate queries and keys by their positions, which begin after those in the cache
        # TODO 3: append keys and values to the cache, and use those of all positions
        # TODO 4: make mask and bias for T queries, which are the last of all positions
        # TODO 5: attend, apply dropout to the weights, merge the heads, and apply W_out
        raise NotImplementedError


class CachedGPT(GPT):
    """A GPT, with the same names and weights, whose blocks can continue from caches: ids (B, T) -> logits (B, T, V).

    Raises a ValueError that names max_len when positions are a table ("learned" or "sinusoidal"), and past and new tokens together are more than max_len.
    """

    def __init__(self, config: GPTConfig):
        # TODO 1: make the GPT, and replace the attention of every block by a CachedSelfAttention with the same weights
        raise NotImplementedError

    def new_caches(self) -> list[KVCache]:
        """Return a list with an empty cache for each block."""
        # TODO 2: a separate cache for each block
        raise NotImplementedError

    def forward(self, ids: Tensor, caches: list[KVCache] | None = None) -> Tensor:
        """Return logits (B, T, V) for the new tokens `ids`, which follow the tokens in the caches; add them to the caches."""
        # TODO 3: look up the tokens; if there is a table of positions, add its rows from the end of the caches on
        # TODO 4: run every block with its own cache, in the steps of PreNormBlock
        # TODO 5: apply the last norm and the head
        raise NotImplementedError


def generate_cached(
    model: CachedGPT,
    ids: Tensor,
    max_new_tokens: int,
    eos_id: int | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Return what `generate` returns, with each position through the model only once: ids (B, T) -> (B, T + n).

    If positions are a table, and the prompt and the new tokens together are more than config.max_len, a ValueError that names
    max_len is raised before anything is computed. The same generator gives the same text as `generate`. The text may be used
    in training. Runs in eval mode without gradient, and restores each module's mode.
    """
    # TODO 1: if positions are a table, check that prompt and new tokens fit
    # TODO 2: use looking_at, and make the model's caches
    # TODO 3: the first pass takes the whole prompt, each later pass only the newest token
    # TODO 4: choose tokens, finish rows and stop as in `generate`
    raise NotImplementedError


def kv_cache_bytes(
    n_layers: int, n_kv_heads: int, d_head: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """Return how many bytes the keys and values of all layers take."""
    # TODO 1: multiply; remember that there are keys *and* values
    raise NotImplementedError


class GroupedQueryAttention(nn.Module):
    """Causal attention in which several query heads share one head of keys and values: (B, T, D) -> (B, T, D).

    Query head h reads key head h // (n_heads // n_kv_heads). `positions` is "none", "rope" or "alibi", as in
    CausalSelfAttention; ALiBi has one slope for each query head. Parameters: the linear layers `W_q` and `W_out`, D -> D, and
    `W_k` and `W_v`, D -> n_kv_heads * d_head, all with a bias. The input may have any length. Raises a ValueError that names
    both numbers when n_heads does not divide d_model or n_kv_heads does not divide n_heads, one that names d_head when
    `positions` is "rope" and d_head is odd, and one that names `positions` when it is not one of the three. A pass without
    gradient (torch.no_grad, torch.inference_mode) returns the same values, and the module can still be trained afterwards.
    """

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, positions: str = "none"):
        super().__init__()
        # TODO 1: check the sizes and `positions`; the error names the values that do not fit
        # TODO 2: keep n_heads, n_kv_heads and positions; make W_q, W_k, W_v and W_out
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 3: project; split queries into n_heads heads, keys and values into n_kv_heads
        # TODO 4: with "rope", rotate queries and keys by their positions 0 .. T-1
        # TODO 5: repeat keys and values, so that every query head has those of its group, (B, n_kv_heads, ...) -> (B, H, ...)
        # TODO 6: attend under the causal mask, with "alibi" also with its bias; merge the heads, and apply W_out
        raise NotImplementedError
