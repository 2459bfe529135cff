"""Chapter 10 in the terse style: as short as it can be read."""

from copy import copy
from math import prod

import torch
from torch import Tensor, nn

from .ch03_attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from .ch04_positions_in_attention import CausalSelfAttention, alibi_bias, apply_rope
from .ch07_models import GPT, GPTConfig
from .ch09_sampling import generate


class KVCache:
    def __init__(self):
        self.kv, self.length = (), 0

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        self.kv = tuple(torch.cat(two, 2) for two in zip(self.kv or (k[:, :, :0], v[:, :, :0]), (k, v)))
        self.length = self.kv[0].size(2)
        return self.kv

    def copy(self) -> "KVCache":
        return copy(self)  # torch.cat never writes into the tensors that the two share


class CachedSelfAttention(CausalSelfAttention):
    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        past, n, h = cache.length if cache else 0, x.size(1), self.n_heads
        q, k, v = (split_heads(f(x), h) for f in (self.W_q, self.W_k, self.W_v))
        if self.positions == "rope":
            q, k = (apply_rope(t, torch.arange(past, past + n, device=x.device)) for t in (q, k))
        k, v = cache.append(k, v) if cache else (k, v)
        bias = alibi_bias(h, n, past + n).to(x) if self.positions == "alibi" else None
        w = scaled_dot_product_attention(q, k, v, causal_mask(n, past + n).to(x.device), bias)[1]
        return self.W_out(merge_heads(self.dropout(w) @ v))


class CachedGPT(GPT):
    def __init__(self, config: GPTConfig):
        super().__init__(config)
        for block in self.blocks:
            block.attn.__class__ = CachedSelfAttention  # the same numbers, another forward

    def new_caches(self) -> list[KVCache]:
        return [KVCache() for _ in self.blocks]

    def forward(self, ids: Tensor, caches: list[KVCache] | None = None) -> Tensor:
        caches = caches or self.new_caches()
        x = self.token_emb(ids)
        x = self.pos_emb(x, caches[0].length if caches else 0) if self.pos_emb else x
        for block, cache in zip(self.blocks, caches):
            x = x + block.attn(block.ln1(x), cache)
            x = x + block.ffn(block.ln2(x))
        return self.lm_head(self.ln_f(x))


class Newest(nn.Module):
    """A CachedGPT that gets the whole text and reads what is new in it."""

    def __init__(self, model: CachedGPT):
        super().__init__()
        self.model, self.caches, self.seen = model, model.new_caches(), 0

    def forward(self, ids: Tensor) -> Tensor:
        new, self.seen = ids[:, self.seen :], ids.size(1)
        return self.model(new, self.caches)


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
    if model.pos_emb and (n := ids.size(1) + max_new_tokens) > (most := model.config.max_len):
        raise ValueError(f"{n} tokens do not fit into max_len {most}")
    return generate(Newest(model), ids, max_new_tokens, eos_id, temperature, top_k, top_p, generator)


def kv_cache_bytes(n_layers: int, n_kv_heads: int, d_head: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2) -> int:
    return 2 * prod((n_layers, n_kv_heads, d_head, seq_len, batch, bytes_per_value))


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, positions: str = "none"):
        super().__init__()
        if min(n_heads, n_kv_heads) < 1 or d_model % n_heads or n_heads % n_kv_heads:
            raise ValueError(f"width {d_model}, {n_heads} heads and {n_kv_heads} key heads: each must divide the one before")
        if positions not in ("none", "rope", "alibi"):
            raise ValueError(f"unknown positions {positions!r}")
        if positions == "rope" and (d := d_model // n_heads) % 2:
            raise ValueError(f"RoPE turns pairs of features, and d_head {d} is odd")
        self.n_heads, self.n_kv_heads, self.positions = n_heads, n_kv_heads, positions
        self.W_q, self.W_k, self.W_v, self.W_out = (nn.Linear(d_model, d_model * h // n_heads) for h in (n_heads, n_kv_heads, n_kv_heads, n_heads))

    def forward(self, x: Tensor) -> Tensor:
        n, (h, g) = x.size(1), (self.n_heads, self.n_kv_heads)
        q, k, v = (split_heads(f(x), m) for f, m in ((self.W_q, h), (self.W_k, g), (self.W_v, g)))
        if self.positions == "rope":
            q, k = (apply_rope(t, torch.arange(n, device=x.device)) for t in (q, k))
        bias = alibi_bias(h, n, n).to(x).unflatten(0, (g, -1)) if self.positions == "alibi" else None
        y, _ = scaled_dot_product_attention(q.unflatten(1, (g, -1)), k[:, :, None], v[:, :, None], causal_mask(n).to(x.device), bias)
        return self.W_out(merge_heads(y.flatten(1, 2)))
