"""Chapter 10: never compute the past twice.

B batch, T new positions, P past positions, D = d_model, H = n_heads, d_head = D / H. Keys and values are (B, H, T, d_head).
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
        ### BEGIN SOLUTION
        self.length = 0
        self.k: Tensor | None = None  # (B, H, room, d_head), of which the first `length` positions are filled
        self.v: Tensor | None = None
        ### END SOLUTION

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values of new positions, (B, H, T, d_head); give those of all positions, (B, H, P + T, d_head).

        What an append gave keeps its values when more is appended. All of it holds without gradient too (torch.no_grad,
        torch.inference_mode).
        """
        # TODO 2: the first time, take over batch, heads, width, dtype and device from what is to be added
        # TODO 3: make room where the new positions do not fit (or leave this out, and concatenate)
        # TODO 4: put the new behind the old, on the axis of positions, and count them
        # TODO 5: give all that is filled
        ### BEGIN SOLUTION
        start, end = self.length, self.length + k.size(2)
        if self.k is None:
            self.k, self.v = k[:, :, :0], v[:, :, :0]  # no position yet
        if end > self.k.size(2):
            self.k = F.pad(self.k, (0, 0, 0, end))  # `end` more positions: what was full is now half empty
            self.v = F.pad(self.v, (0, 0, 0, end))
        self.k[:, :, start:end] = k
        self.v[:, :, start:end] = v
        self.length = end
        return self.k[:, :, :end], self.v[:, :, :end]
        ### END SOLUTION

    def copy(self) -> "KVCache":
        """A branch: a cache with the same past; later appends to one of the two never change the other."""
        # TODO 6: make a new cache with copies of the tensors, where there are any
        ### BEGIN SOLUTION
        branch = KVCache()
        if self.k is not None:
            branch.length, branch.k, branch.v = self.length, self.k.clone(), self.v.clone()
        return branch
        ### END SOLUTION


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
        ### BEGIN SOLUTION
        T = x.size(1)
        past = cache.length if cache is not None else 0
        q, k, v = (split_heads(W(x), self.n_heads) for W in (self.W_q, self.W_k, self.W_v))  # each (B, H, T, d_head)
        if self.positions == "rope":
            where = torch.arange(past, past + T, device=x.device)
            q, k = apply_rope(q, where), apply_rope(k, where)
        if cache is not None:
            k, v = cache.append(k, v)  # each (B, H, past + T, d_head)
        bias = alibi_bias(self.n_heads, T, past + T).to(x) if self.positions == "alibi" else None
        mask = causal_mask(T, past + T).to(x.device)  # (T, past + T)
        _, weights = scaled_dot_product_attention(q, k, v, mask, bias)
        return self.W_out(merge_heads(self.dropout(weights) @ v))  # (B, T, D)
        ### END SOLUTION


class CachedGPT(GPT):
    """A GPT in names and weights whose blocks can go on from caches: ids (B, T) -> logits (B, T, V).

    Raises a ValueError that names max_len when past and new tokens together are more than max_len, where positions are a table.
    """

    def __init__(self, config: GPTConfig):
        # TODO 1: make the GPT, and give every block a CachedSelfAttention with the numbers of its attention
        ### BEGIN SOLUTION
        super().__init__(config)
        for block in self.blocks:
            plain = block.attn
            block.attn = CachedSelfAttention(config.d_model, config.n_heads, plain.positions, dropout=config.dropout)
            block.attn.load_state_dict(plain.state_dict())
        ### END SOLUTION

    def new_caches(self) -> list[KVCache]:
        """An empty cache for each block."""
        # TODO 2: one each, none shared
        ### BEGIN SOLUTION
        return [KVCache() for _ in self.blocks]
        ### END SOLUTION

    def forward(self, ids: Tensor, caches: list[KVCache] | None = None) -> Tensor:
        """Logits (B, T, V) for the new tokens `ids`, which follow what is in the caches; the caches then hold them too."""
        # TODO 3: look up the tokens, and add the positions from where the caches end, where there is a table
        # TODO 4: through every block with its own cache, as PreNormBlock does it
        # TODO 5: the last norm, and the head
        ### BEGIN SOLUTION
        past = caches[0].length if caches else 0
        x = self.token_emb(ids)  # (B, T, D)
        if self.pos_emb is not None:
            x = self.pos_emb(x, start=past)
        for i, block in enumerate(self.blocks):
            x = x + block.attn(block.ln1(x), caches[i] if caches else None)
            x = x + block.ffn(block.ln2(x))
        return self.lm_head(self.ln_f(x))  # (B, T, V)
        ### END SOLUTION


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
    ### BEGIN SOLUTION
    most = ids.size(1) + max_new_tokens
    if model.pos_emb is not None and most > model.config.max_len:
        raise ValueError(f"{ids.size(1)} + {max_new_tokens} = {most} tokens do not fit into max_len = {model.config.max_len}")
    finished = torch.zeros(ids.size(0), dtype=torch.bool, device=ids.device)
    caches = model.new_caches()
    unseen = ids
    with looking_at(model):
        for _ in range(max_new_tokens):
            logits = model(unseen, caches)[:, -1]  # (B, V)
            new = sample_next_token(logits, temperature, top_k, top_p, generator)  # (B,)
            if eos_id is not None:
                new = new.masked_fill(finished, eos_id)
                finished = finished | (new == eos_id)
            unseen = new[:, None]
            ids = torch.cat([ids, unseen], dim=1)
            if finished.all():
                break
    return ids
    ### END SOLUTION


def kv_cache_bytes(
    n_layers: int, n_kv_heads: int, d_head: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    """How much memory the keys and values of every layer take."""
    # TODO 1: multiply, and mind that there are keys *and* values
    ### BEGIN SOLUTION
    return 2 * n_layers * n_kv_heads * d_head * seq_len * batch * bytes_per_value
    ### END SOLUTION


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
        ### BEGIN SOLUTION
        if d_model % n_heads != 0:
            raise ValueError(f"d_model = {d_model} cannot be cut into {n_heads} equal heads")
        if n_heads % n_kv_heads != 0:
            raise ValueError(f"{n_heads} query heads cannot share {n_kv_heads} key heads evenly")
        if positions not in ("none", "rope", "alibi"):
            raise ValueError(f"positions = {positions!r} is not one of 'none', 'rope', 'alibi'")
        d_head = d_model // n_heads
        if positions == "rope" and d_head % 2 != 0:
            raise ValueError(f"RoPE pairs features, but d_head = {d_model} / {n_heads} = {d_head} is odd")
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        self.positions = positions
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, n_kv_heads * d_head)
        self.W_v = nn.Linear(d_model, n_kv_heads * d_head)
        self.W_out = nn.Linear(d_model, d_model)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        # TODO 3: project; split queries into n_heads heads, keys and values into n_kv_heads
        # TODO 4: with "rope", turn queries and keys by their positions 0 .. T-1
        # TODO 5: give every query head its own view of its group's keys and values, (B, n_kv_heads, ...) -> (B, H, ...)
        # TODO 6: let every head attend under the causal mask, with "alibi" under its bias; merge the heads, and let W_out mix them
        ### BEGIN SOLUTION
        T = x.size(1)
        q = split_heads(self.W_q(x), self.n_heads)  # (B, H, T, d_head)
        k = split_heads(self.W_k(x), self.n_kv_heads)  # (B, n_kv_heads, T, d_head)
        v = split_heads(self.W_v(x), self.n_kv_heads)
        if self.positions == "rope":
            where = torch.arange(T, device=x.device)
            q, k = apply_rope(q, where), apply_rope(k, where)
        group = self.n_heads // self.n_kv_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)  # each (B, H, T, d_head)
        bias = alibi_bias(self.n_heads, T, T).to(x) if self.positions == "alibi" else None  # (H, T, T)
        output, _ = scaled_dot_product_attention(q, k, v, causal_mask(T).to(x.device), bias)
        return self.W_out(merge_heads(output))  # (B, H, T, d_head) -> (B, T, D)
        ### END SOLUTION
