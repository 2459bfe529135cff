# Style: typed and defensive.

from __future__ import annotations

from enum import StrEnum
from typing import Final

import torch
from torch import Tensor, nn

from .ch03_attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from .ch04_positions_in_attention import CausalSelfAttention, alibi_bias, apply_rope
from .ch07_models import GPT, GPTConfig
from .ch09_sampling import looking_at, sample_next_token

POSITION_AXIS: Final[int] = 2
GROWTH: Final[int] = 2
KEYS_AND_VALUES: Final[int] = 2
TABLES: Final[frozenset[str]] = frozenset({"learned", "sinusoidal"})


class HeadPositions(StrEnum):
    NONE = "none"
    ROPE = "rope"
    ALIBI = "alibi"

    @classmethod
    def parse(cls, name: str) -> HeadPositions:
        try:
            return cls(name)
        except ValueError:
            raise ValueError(f"positions must be one of {[kind.value for kind in cls]}, got {name!r}") from None


class _Shelf:
    """A tensor that grows along its positions, with room ahead."""

    __slots__ = ("_room",)

    _room: Tensor

    def __init__(self, first: Tensor) -> None:
        self._room = first.clone()

    def put(self, new: Tensor, length: int) -> Tensor:
        """Put `new` behind the first `length` positions; give all that are filled."""
        past: Tensor = self._room.narrow(POSITION_AXIS, 0, length)
        if torch.is_grad_enabled() and (new.requires_grad or past.requires_grad):
            self._room = torch.cat((past, new), dim=POSITION_AXIS)
            return self._room
        total: int = length + new.size(POSITION_AXIS)
        if total > self._room.size(POSITION_AXIS):
            self._grow(past, max(total, GROWTH * length))
        self._room.narrow(POSITION_AXIS, length, new.size(POSITION_AXIS)).copy_(new)
        return self._room.narrow(POSITION_AXIS, 0, total)

    def copy(self, length: int) -> _Shelf:
        return _Shelf(self._room.narrow(POSITION_AXIS, 0, length))

    def fits(self, new: Tensor) -> bool:
        return self._sizes(new) == self._sizes(self._room)

    def _grow(self, past: Tensor, capacity: int) -> None:
        shape: list[int] = list(past.shape)
        shape[POSITION_AXIS] = capacity
        room: Tensor = past.new_empty(shape)
        room.narrow(POSITION_AXIS, 0, past.size(POSITION_AXIS)).copy_(past)
        self._room = room

    @staticmethod
    def _sizes(x: Tensor) -> tuple[int | torch.dtype | torch.device, ...]:
        batch, n_heads, _, d_head = x.shape
        return batch, n_heads, d_head, x.dtype, x.device


class KVCache:
    __slots__ = ("_keys", "_length", "_values")

    _keys: _Shelf | None
    _values: _Shelf | None
    _length: int

    def __init__(self) -> None:
        self._keys = None
        self._values = None
        self._length = 0

    @property
    def length(self) -> int:
        return self._length

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if k.dim() != 4 or k.shape != v.shape:
            raise ValueError(f"keys and values must both be (B, H, T, d_head), got {tuple(k.shape)} and {tuple(v.shape)}")
        if self._keys is None or self._values is None:
            self._keys, self._values = _Shelf(k[:, :, :0]), _Shelf(v[:, :, :0])
        elif not (self._keys.fits(k) and self._values.fits(v)):
            raise ValueError(f"batch, heads, width, dtype or device of {tuple(k.shape)} differ from those in the cache")
        keys: Tensor = self._keys.put(k, self._length)
        values: Tensor = self._values.put(v, self._length)
        self._length += k.size(POSITION_AXIS)
        assert keys.size(POSITION_AXIS) == values.size(POSITION_AXIS) == self._length
        return keys, values

    def copy(self) -> KVCache:
        branch = KVCache()
        branch._keys = None if self._keys is None else self._keys.copy(self._length)
        branch._values = None if self._values is None else self._values.copy(self._length)
        branch._length = self._length
        return branch


class CachedSelfAttention(CausalSelfAttention):
    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:  # type: ignore[override]
        d_model: int = self.W_q.in_features
        if x.dim() != 3 or x.size(-1) != d_model:
            raise ValueError(f"x must be (B, T, {d_model}), got {tuple(x.shape)}")
        n_new: int = x.size(1)
        past: int = 0 if cache is None else cache.length
        total: int = past + n_new
        q: Tensor = split_heads(self.W_q(x), self.n_heads)
        k: Tensor = split_heads(self.W_k(x), self.n_heads)
        v: Tensor = split_heads(self.W_v(x), self.n_heads)
        bias: Tensor | None = None
        if self.positions == HeadPositions.ROPE:
            places: Tensor = torch.arange(past, total, device=x.device)
            q, k = apply_rope(q, places), apply_rope(k, places)
        elif self.positions == HeadPositions.ALIBI:
            bias = alibi_bias(self.n_heads, n_new, total).to(dtype=x.dtype, device=x.device)
        if cache is not None:
            k, v = cache.append(k, v)
        assert k.size(POSITION_AXIS) == v.size(POSITION_AXIS) == total
        _, weights = scaled_dot_product_attention(q, k, v, mask=causal_mask(n_new, total).to(x.device), bias=bias)
        output: Tensor = self.W_out(merge_heads(self.dropout(weights) @ v))
        assert output.shape == x.shape
        return output

    @classmethod
    def taking_over(cls, attention: CausalSelfAttention) -> CachedSelfAttention:
        """The same attention, the very same parameters, able to use a cache."""
        cached = cls(
            attention.W_q.in_features,
            attention.n_heads,
            positions=attention.positions,
            bias=attention.W_q.bias is not None,
            dropout=attention.dropout.p,
        )
        cached.W_q, cached.W_k, cached.W_v, cached.W_out = attention.W_q, attention.W_k, attention.W_v, attention.W_out
        return cached.train(attention.training)


class CachedGPT(GPT):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__(config)
        for block in self.blocks:
            block.attn = CachedSelfAttention.taking_over(block.attn)

    def new_caches(self) -> list[KVCache]:
        return [KVCache() for _ in self.blocks]

    def forward(self, ids: Tensor, caches: list[KVCache] | None = None) -> Tensor:  # type: ignore[override]
        if ids.dim() != 2:
            raise ValueError(f"ids must be (B, T), got {tuple(ids.shape)}")
        past: int = 0 if caches is None else self._length_of(caches)
        stream: Tensor = self.token_emb(ids)
        if self.pos_emb is not None:
            stream = self.pos_emb(stream, start=past)
        for i, block in enumerate(self.blocks):
            stream = stream + block.attn(block.ln1(stream), None if caches is None else caches[i])
            stream = stream + block.ffn(block.ln2(stream))
        logits: Tensor = self.lm_head(self.ln_f(stream))
        assert logits.shape == (*ids.shape, self.config.vocab_size)
        return logits

    def _length_of(self, caches: list[KVCache]) -> int:
        if len(caches) != len(self.blocks):
            raise ValueError(f"each block has its cache: {len(self.blocks)} blocks, but {len(caches)} caches")
        if len({id(cache) for cache in caches}) != len(caches):
            raise ValueError("two blocks must not share a cache")
        lengths: set[int] = {cache.length for cache in caches}
        if len(lengths) != 1:
            raise ValueError(f"the caches end at different positions: {sorted(lengths)}")
        return lengths.pop()


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
    if ids.dim() != 2 or ids.size(1) < 1:
        raise ValueError(f"ids must be (B, T) with one token at least, got {tuple(ids.shape)}")
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens must be 0 or more, got {max_new_tokens}")
    needed: int = ids.size(1) + max_new_tokens
    if model.config.positions in TABLES and needed > model.config.max_len:
        raise ValueError(f"{ids.size(1)} tokens and {max_new_tokens} new ones are {needed}, but max_len is {model.config.max_len}")

    text: Tensor = ids.clone()
    newest: Tensor = text
    finished: Tensor = torch.zeros(ids.size(0), dtype=torch.bool, device=ids.device)
    with looking_at(model):
        caches: list[KVCache] = model.new_caches()
        for _ in range(max_new_tokens):
            logits: Tensor = model(newest, caches)[:, -1]
            chosen: Tensor = sample_next_token(logits, temperature, top_k, top_p, generator).to(ids.dtype)
            if eos_id is not None:
                chosen = chosen.masked_fill(finished, eos_id)
                finished = finished | (chosen == eos_id)
            newest = chosen.unsqueeze(1)
            text = torch.cat((text, newest), dim=1)
            if bool(finished.all()):
                break
    return text


def kv_cache_bytes(
    n_layers: int, n_kv_heads: int, d_head: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    sizes: dict[str, int] = {
        "n_layers": n_layers,
        "n_kv_heads": n_kv_heads,
        "d_head": d_head,
        "seq_len": seq_len,
        "batch": batch,
        "bytes_per_value": bytes_per_value,
    }
    n_bytes: int = KEYS_AND_VALUES
    for name, size in sizes.items():
        if size < 0:
            raise ValueError(f"{name} must be 0 or more, got {size}")
        n_bytes *= size
    return n_bytes


class GroupedQueryAttention(nn.Module):
    n_heads: int
    n_kv_heads: int
    positions: HeadPositions
    W_q: nn.Linear
    W_k: nn.Linear
    W_v: nn.Linear
    W_out: nn.Linear

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, positions: str = "none") -> None:
        super().__init__()
        if n_heads < 1 or d_model < 1 or d_model % n_heads:
            raise ValueError(f"n_heads {n_heads} does not divide d_model {d_model}")
        if n_kv_heads < 1 or n_heads % n_kv_heads:
            raise ValueError(f"n_kv_heads {n_kv_heads} does not divide n_heads {n_heads}")
        self.positions = HeadPositions.parse(positions)
        d_head: int = d_model // n_heads
        if self.positions is HeadPositions.ROPE and d_head % 2:
            raise ValueError(f"RoPE turns features in pairs, but d_head is {d_head}, which is odd")
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, n_kv_heads * d_head)
        self.W_v = nn.Linear(d_model, n_kv_heads * d_head)
        self.W_out = nn.Linear(d_model, d_model)

    @property
    def group_size(self) -> int:
        return self.n_heads // self.n_kv_heads

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() != 3 or x.size(-1) != self.W_q.in_features:
            raise ValueError(f"x must be (B, T, {self.W_q.in_features}), got {tuple(x.shape)}")
        length: int = x.size(1)
        q: Tensor = split_heads(self.W_q(x), self.n_heads)
        k: Tensor = split_heads(self.W_k(x), self.n_kv_heads)
        v: Tensor = split_heads(self.W_v(x), self.n_kv_heads)
        bias: Tensor | None = None
        match self.positions:
            case HeadPositions.ROPE:
                places: Tensor = torch.arange(length, device=x.device)
                q, k = apply_rope(q, places), apply_rope(k, places)
            case HeadPositions.ALIBI:
                bias = alibi_bias(self.n_heads, length, length).to(dtype=x.dtype, device=x.device)
            case HeadPositions.NONE:
                pass
        k, v = self._for_each_query_head(k), self._for_each_query_head(v)
        assert k.shape == v.shape == q.shape
        mixed, _ = scaled_dot_product_attention(q, k, v, mask=causal_mask(length).to(x.device), bias=bias)
        output: Tensor = self.W_out(merge_heads(mixed))
        assert output.shape == x.shape
        return output

    def _for_each_query_head(self, heads: Tensor) -> Tensor:
        return heads.repeat_interleave(self.group_size, dim=1)
