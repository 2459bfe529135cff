"""In explicit loops: the cache is a list of positions, attention goes head by head, the model block by block."""

import torch
from torch import Tensor, nn

from .ch03_attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from .ch04_positions_in_attention import CausalSelfAttention, alibi_bias, apply_rope
from .ch07_models import GPT, GPTConfig
from .ch09_sampling import looking_at, sample_next_token


class KVCache:
    def __init__(self):
        self.keys = []
        self.values = []
        self.length = 0

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        for t in range(k.size(2)):
            self.keys.append(k[:, :, t].clone())
            self.values.append(v[:, :, t].clone())
            self.length += 1
        return torch.stack(self.keys, dim=2), torch.stack(self.values, dim=2)

    def copy(self) -> "KVCache":
        branch = KVCache()
        for key, value in zip(self.keys, self.values):
            branch.keys.append(key.clone())
            branch.values.append(value.clone())
            branch.length += 1
        return branch


class CachedSelfAttention(CausalSelfAttention):
    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        past = 0 if cache is None else cache.length
        new = x.size(1)
        parts = []
        for linear in (self.W_q, self.W_k, self.W_v):
            parts.append(split_heads(linear(x), self.n_heads))
        q, k, v = parts
        if self.positions == "rope":
            where = torch.arange(past, past + new, device=x.device)
            q = apply_rope(q, where)
            k = apply_rope(k, where)
        if cache is not None:
            k, v = cache.append(k, v)
        mask = causal_mask(new, past + new).to(x.device)
        bias = None
        if self.positions == "alibi":
            bias = alibi_bias(self.n_heads, new, past + new).to(device=x.device, dtype=x.dtype)
        _, weights = scaled_dot_product_attention(q, k, v, mask, bias)
        weights = self.dropout(weights)
        outputs = []
        for h in range(self.n_heads):
            outputs.append(weights[:, h] @ v[:, h])
        return self.W_out(merge_heads(torch.stack(outputs, dim=1)))


class CachedGPT(GPT):
    def __init__(self, config: GPTConfig):
        super().__init__(config)
        for block in self.blocks:
            old = block.attn
            new = CachedSelfAttention(config.d_model, config.n_heads, positions=old.positions, dropout=config.dropout)
            for name in ("W_q", "W_k", "W_v", "W_out"):
                setattr(new, name, getattr(old, name))
            block.attn = new

    def new_caches(self) -> list[KVCache]:
        caches = []
        for _ in self.blocks:
            caches.append(KVCache())
        return caches

    def forward(self, ids: Tensor, caches: list[KVCache] | None = None) -> Tensor:
        if caches is None:
            caches = self.new_caches()
        x = self.token_emb(ids)
        if self.pos_emb is not None:
            past = 0
            for cache in caches:
                past = cache.length
            x = self.pos_emb(x, start=past)
        for block, cache in zip(self.blocks, caches):
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
    in_all = ids.size(1) + max_new_tokens
    if model.config.positions in ("learned", "sinusoidal") and in_all > model.config.max_len:
        raise ValueError(f"prompt and new tokens are {in_all} together, and max_len is {model.config.max_len}")
    texts = ids.tolist()
    finished = [False] * len(texts)
    new = ids
    with looking_at(model):
        caches = model.new_caches()
        for _ in range(max_new_tokens):
            logits = model(new, caches)
            chosen = sample_next_token(logits[:, -1], temperature, top_k, top_p, generator).tolist()
            newest = []
            for b, text in enumerate(texts):
                token = eos_id if finished[b] else chosen[b]
                text.append(token)
                newest.append([token])
                if eos_id is not None and token == eos_id:
                    finished[b] = True
            if all(finished):
                break
            new = torch.tensor(newest, dtype=ids.dtype, device=ids.device)
    return torch.tensor(texts, dtype=ids.dtype, device=ids.device)


def kv_cache_bytes(
    n_layers: int, n_kv_heads: int, d_head: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    total = 1
    for factor in (2, n_layers, n_kv_heads, d_head, seq_len, batch, bytes_per_value):
        total *= factor
    return total


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, positions: str = "none"):
        super().__init__()
        if n_heads < 1 or d_model % n_heads != 0:
            raise ValueError(f"n_heads = {n_heads} does not divide d_model = {d_model}")
        if n_kv_heads < 1 or n_heads % n_kv_heads != 0:
            raise ValueError(f"n_kv_heads = {n_kv_heads} does not divide n_heads = {n_heads}")
        if positions not in ("none", "rope", "alibi"):
            raise ValueError(f"positions is {positions!r}, and must be 'none', 'rope' or 'alibi'")
        d_head = d_model // n_heads
        if positions == "rope" and d_head % 2 != 0:
            raise ValueError(f"rope needs an even d_head, and {d_model} / {n_heads} = {d_head} is odd")
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        self.positions = positions
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, n_kv_heads * d_head)
        self.W_v = nn.Linear(d_model, n_kv_heads * d_head)
        self.W_out = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        length = x.size(1)
        q = split_heads(self.W_q(x), self.n_heads)
        k = split_heads(self.W_k(x), self.n_kv_heads)
        v = split_heads(self.W_v(x), self.n_kv_heads)
        if self.positions == "rope":
            where = torch.arange(length, device=x.device)
            q = apply_rope(q, where)
            k = apply_rope(k, where)
        mask = causal_mask(length).to(x.device)
        bias = None
        if self.positions == "alibi":
            bias = alibi_bias(self.n_heads, length, length).to(device=x.device, dtype=x.dtype)
        group = self.n_heads // self.n_kv_heads
        outputs = []
        for h in range(self.n_heads):
            bias_of_head = None if bias is None else bias[h]
            output, _ = scaled_dot_product_attention(q[:, h], k[:, h // group], v[:, h // group], mask, bias_of_head)
            outputs.append(output)
        return self.W_out(merge_heads(torch.stack(outputs, dim=1)))
