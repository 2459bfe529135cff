"""Chapter 10: never compute the past twice.

B batch, T new positions, P past positions, D = d_model, H = n_heads, d_head = D / H. Keys and values are (B, H, T, d_head).

Your turn: write your own code wherever NotImplementedError is raised, from the top down. The TODO steps say what to do,
the lesson ch10_kv_cache.md says why, and `headway check` says how far you are.

Rules for all exercises of this chapter; the tests check them:
- Do not change an argument in place, unless the docstring says so.
- `...` in a shape means any number of axes, also none. An argument may be a view (not contiguous), and so may a result.
- The result has the dtype and device of the input, unless the docstring says otherwise. Compute float64 input in float64.
- Gradients reach every input and parameter and are finite, unless the docstring says "without gradient".
- The state dict holds the parameters that the docstring names and nothing else: register a mask or a table as a buffer
  with persistent=False.
- A ValueError names the values that do not fit: raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}").
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
    """The keys and values of every position so far, for one layer.

    `length` counts the positions in it. Keys and values keep their dtype and device, and every number stays as it was. Appending
    with torch.cat is right, but copies the whole past at every step. Reserving room ahead, at least twice as much whenever it
    runs out, copies little more than what is new.
    """

    def __init__(self):
        # TODO 1: begin empty
        raise NotImplementedError

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values of new positions, (B, H, T, d_head); give those of all positions, (B, H, P + T, d_head).

        What an append gave keeps its values when more is appended. All of it holds without gradient too (torch.no_grad,
        torch.inference_mode).
        """
        # TODO 2: the first time, take over batch, heads, width, dtype and device from what is to be added
        # TODO 3: make room where the new positions do not fit (or leave this out, and concatenate)
        # TODO 4: put the new behind the old, on the axis of positions, and count them
        # TODO 5: give all that is filled
        raise NotImplementedError

    def copy(self) -> "KVCache":
        """A branch: a cache with the same past; later appends to one of the two never change the other."""
        # TODO 6: make a new cache with copies of the tensors, where there are any
        raise NotImplementedError


class CachedSelfAttention(CausalSelfAttention):
    """CausalSelfAttention that can go on from a cache: the same arguments, names and weights, (B, T, D) -> (B, T, D)."""

    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        """Attend from the new positions `x` to those in the cache, themselves and those before them; the cache then holds them too.

        With an empty cache, or none, this is the pass over a whole sequence. Keys and values of the past come from the cache and
        are not computed again; the module itself keeps nothing from call to call. Passes with a cache need no gradient. Passes
        without gradient (torch.no_grad, torch.inference_mode) give the same, and without a cache the module can still be trained
        afterwards.
        """
        # TODO 1: project the new positions only, and split into heads
        # TODO 2: with "rope", turn queries and keys by where they stand: after those in the cache
        # TODO 3: put keys and values into the cache, and take those of all positions
        # TODO 4: make mask and bias for T queries, which are the last of all the keys
        # TODO 5: attend, drop out, merge the heads, and let W_out mix them
        raise NotImplementedError


class CachedGPT(GPT):
    """A GPT in names and weights whose blocks can go on from caches: ids (B, T) -> logits (B, T, V).

    Raises a ValueError that names max_len when past and new tokens together are more than max_len, where positions are a table.
    """

    def __init__(self, config: GPTConfig):
        # TODO 1: make the GPT, and give every block a CachedSelfAttention with the numbers of its attention
        raise NotImplementedError

    def new_caches(self) -> list[KVCache]:
        """An empty cache for each block."""
        # TODO 2: one each, none shared
        raise NotImplementedError

    def forward(self, ids: Tensor, caches: list[KVCache] | None = None) -> Tensor:
        """Logits (B, T, V) for the new tokens `ids`, which follow what is in the caches; the caches then hold them too."""
        # TODO 3: look up the tokens, and add the positions from where the caches end, where there is a table
        # TODO 4: through every block with its own cache, as PreNormBlock does it
        # TODO 5: the last norm, and the head
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
    """What `generate` gives, with each position through the model once: ids (B, T) -> (B, T + n).

    Where positions are a table, a prompt and new tokens that are more than config.max_len together raise a ValueError that names
    max_len before anything is computed. The same generator gives the same text as `generate`. Works in eval mode without
    gradient, and restores each module's mode.
    """
    # TODO 1: where positions are a table, check that prompt and new tokens fit
    # TODO 2: look at the model, and make its caches
    # TODO 3: the first pass takes the whole prompt, every later one only the newest token
    # TODO 4: choose, finish and stop as in `generate`
    raise NotImplementedError


def kv_cache_bytes(
    n_layers: int, n_kv_heads: int, d_head: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """How much memory the keys and values of every layer take."""
    # TODO 1: multiply, and mind that there are keys *and* values
    raise NotImplementedError


class GroupedQueryAttention(nn.Module):
    """Causal attention in which several query heads share one head of keys and values: (B, T, D) -> (B, T, D).

    Query head h reads key head h // (n_heads / n_kv_heads). `positions` is "none", "rope" or "alibi", as in
    CausalSelfAttention; ALiBi's slopes go by query head. Parameters: the linear maps `W_q` and `W_out`, D -> D, and `W_k` and
    `W_v`, D -> n_kv_heads * d_head, all with a bias. The input may have any length. Raises a ValueError that names both numbers
    when n_heads does not divide d_model or n_kv_heads does not divide n_heads, one that names d_head when `positions` is "rope"
    and d_head is odd, and one that names `positions` when it is not one of the three. A pass without gradient (torch.no_grad,
    torch.inference_mode) gives the same, and the module can still be trained afterwards.
    """

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, positions: str = "none"):
        super().__init__()
        # TODO 1: check the sizes and `positions`; name what does not fit in the error
        # TODO 2: keep n_heads, n_kv_heads and positions; make W_q, W_k, W_v and W_out
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 3: project; split queries into n_heads heads, keys and values into n_kv_heads
        # TODO 4: with "rope", turn queries and keys by their positions 0 .. T-1
        # TODO 5: give every query head its own view of its group's keys and values, (B, n_kv_heads, ...) -> (B, H, ...)
        # TODO 6: let every head attend under the causal mask, with "alibi" under its bias; merge the heads, and let W_out mix them
        raise NotImplementedError
