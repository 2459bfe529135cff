"""Style: einsum. b batch, t new positions, h head, g key head, r query head within its group, e width of a head, d model width."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .ch03_attention import causal_mask, scaled_dot_product_attention
from .ch04_positions_in_attention import CausalSelfAttention, alibi_bias, apply_rope
from .ch07_models import GPT, GPTConfig
from .ch09_sampling import looking_at, sample_next_token


class KVCache:
    def __init__(self):
        self.length = 0
        self.room: Tensor | None = None  # (2, b, h, places, e): keys and values in one tensor, the first `length` places filled

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        new = torch.stack([k, v])
        start, stop = self.length, self.length + k.shape[2]
        if self.room is None:
            self.room = new
        elif new.requires_grad or self.room.requires_grad:  # a graph needs the old keys: nothing may be written next to them
            self.room = torch.cat([self.room[:, :, :, :start], new], dim=3)
        else:
            if stop > self.room.shape[3]:
                places = max(stop, 2 * self.room.shape[3])
                self.room = F.pad(self.room, (0, 0, 0, places - self.room.shape[3]))
            self.room[:, :, :, start:stop] = new
        self.length = stop
        keys, values = self.room[:, :, :, :stop]
        return keys, values

    def copy(self) -> "KVCache":
        branch = KVCache()
        branch.length = self.length
        branch.room = None if self.room is None else self.room.clone()
        return branch


def map_heads(x: Tensor, linear: nn.Module, n_heads: int) -> Tensor:
    """Project straight into heads, (b, t, d) -> (b, h, t, e)."""
    y = torch.einsum("btd,hed->bhte", x, linear.weight.unflatten(0, (n_heads, -1)))
    return y if linear.bias is None else y + linear.bias.unflatten(0, (n_heads, 1, -1))


class CachedSelfAttention(CausalSelfAttention):
    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        cache = KVCache() if cache is None else cache
        q, k, v = (map_heads(x, linear, self.n_heads) for linear in (self.W_q, self.W_k, self.W_v))
        start, length = cache.length, x.shape[1]
        if self.positions == "rope":
            places = torch.arange(start, start + length, device=x.device)
            q, k = apply_rope(q, places), apply_rope(k, places)
        k, v = cache.append(k, v)
        mask = causal_mask(length, start + length).to(x.device)
        bias = alibi_bias(self.n_heads, length, start + length).to(x) if self.positions == "alibi" else None
        _, weights = scaled_dot_product_attention(q, k, v, mask, bias)
        mixed = torch.einsum("bhqk,bhke->bhqe", self.dropout(weights), v)
        y = torch.einsum("bhte,dhe->btd", mixed, self.W_out.weight.unflatten(1, (self.n_heads, -1)))
        return y if self.W_out.bias is None else y + self.W_out.bias


class CachedGPT(GPT):
    def __init__(self, config: GPTConfig):
        super().__init__(config)
        for block in self.blocks:
            old = block.attn
            block.attn = CachedSelfAttention(config.d_model, config.n_heads, old.positions, dropout=config.dropout)
            block.attn.load_state_dict(old.state_dict())

    def new_caches(self) -> list[KVCache]:
        return [KVCache() for _ in self.blocks]

    def forward(self, ids: Tensor, caches: list[KVCache] | None = None) -> Tensor:
        caches = self.new_caches() if caches is None else caches
        x = self.token_emb(ids)
        if self.pos_emb is not None:
            x = self.pos_emb(x, caches[0].length if caches else 0)
        for block, cache in zip(self.blocks, caches, strict=True):
            x = x + block.attn(block.ln1(x), cache)
            x = x + block.ffn(block.ln2(x))
        return self.lm_head(self.ln_f(x))


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
    longest, max_len = ids.shape[1] + max_new_tokens, model.config.max_len
    if model.pos_emb is not None and longest > max_len:
        raise ValueError(f"{ids.shape[1]} tokens and {max_new_tokens} new ones are {longest}, more than max_len={max_len}")
    caches = model.new_caches()
    finished = torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)
    unread = ids
    with looking_at(model):
        for _ in range(max_new_tokens):
            new = sample_next_token(model(unread, caches)[:, -1], temperature, top_k, top_p, generator)
            if eos_id is not None:
                new = torch.where(finished, eos_id, new)
                finished = finished | (new == eos_id)
            unread = new[:, None]
            ids = torch.cat([ids, unread], dim=1)
            if finished.all():
                break
    return ids


def kv_cache_bytes(
    n_layers: int, n_kv_heads: int, d_head: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    keys_and_values = 2
    return keys_and_values * n_layers * n_kv_heads * d_head * seq_len * batch * bytes_per_value


class LinearMap(nn.Module):
    """weight (out, in) and bias (out,)."""

    def __init__(self, d_in: int, d_out: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d_out, d_in) * d_in**-0.5)
        self.bias = nn.Parameter(torch.zeros(d_out))


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, positions: str = "none"):
        super().__init__()
        if n_heads < 1 or d_model % n_heads:
            raise ValueError(f"n_heads={n_heads} does not divide d_model={d_model}")
        if n_kv_heads < 1 or n_heads % n_kv_heads:
            raise ValueError(f"n_kv_heads={n_kv_heads} does not divide n_heads={n_heads}")
        if positions not in ("none", "rope", "alibi"):
            raise ValueError(f"positions={positions!r} is not 'none', 'rope' or 'alibi'")
        d_head = d_model // n_heads
        if positions == "rope" and d_head % 2:
            raise ValueError(f"RoPE turns pairs of features, and d_head={d_head} is odd")
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        self.positions = positions
        self.W_q = LinearMap(d_model, d_model)
        self.W_k = LinearMap(d_model, n_kv_heads * d_head)
        self.W_v = LinearMap(d_model, n_kv_heads * d_head)
        self.W_out = LinearMap(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        length, groups = x.shape[1], (self.n_kv_heads, -1)
        q = map_heads(x, self.W_q, self.n_heads)
        k = map_heads(x, self.W_k, self.n_kv_heads)
        v = map_heads(x, self.W_v, self.n_kv_heads)
        if self.positions == "rope":
            places = torch.arange(length, device=x.device)
            q, k = apply_rope(q, places), apply_rope(k, places)
        bias = alibi_bias(self.n_heads, length, length).to(x).unflatten(0, groups) if self.positions == "alibi" else None
        # (b, g, r, t, e) against (b, g, 1, t, e): a key head is broadcast over its group, and never repeated in memory
        mask = causal_mask(length).to(x.device)
        mixed, _ = scaled_dot_product_attention(q.unflatten(1, groups), k[:, :, None], v[:, :, None], mask, bias)
        weight = self.W_out.weight.unflatten(1, (*groups[:1], self.n_heads // self.n_kv_heads, -1))
        return torch.einsum("bgrte,dgre->btd", mixed, weight) + self.W_out.bias
