"""Written in the functional style: the past is a value that is replaced and never written into."""

import math
from collections.abc import Callable, Iterable
from functools import partial, reduce
from itertools import accumulate, repeat

import torch
from torch import Tensor, nn

from .ch03_attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads
from .ch04_positions_in_attention import CausalSelfAttention, alibi_bias, apply_rope
from .ch07_models import GPT, GPTConfig
from .ch09_sampling import looking_at, sample_next_token


class KVCache:
    def __init__(self):
        self.past: tuple[Tensor, Tensor] | None = None

    @property
    def length(self) -> int:
        return 0 if self.past is None else self.past[0].size(2)

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        self.past = (k, v) if self.past is None else tuple(torch.cat(pair, dim=2) for pair in zip(self.past, (k, v)))
        return self.past

    def copy(self) -> "KVCache":
        branch = KVCache()
        branch.past = None if self.past is None else tuple(map(torch.clone, self.past))
        return branch


def turned(heads: Tensor, positions: str, start: int) -> Tensor:
    """Heads (B, H, T, d_head) whose first position is `start`, turned where positions are "rope"."""
    return apply_rope(heads, torch.arange(start, start + heads.size(2), device=heads.device)) if positions == "rope" else heads


def causal_weights(q: Tensor, k: Tensor, v: Tensor, positions: str) -> Tensor:
    """The weights of queries that are the last of all the positions, with ALiBi's bias where it is asked for."""
    q_len, k_len = q.size(2), k.size(2)
    bias = alibi_bias(q.size(1), q_len, k_len).to(q) if positions == "alibi" else None
    return scaled_dot_product_attention(q, k, v, causal_mask(q_len, k_len).to(q.device), bias)[1]


class CachedSelfAttention(CausalSelfAttention):
    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        past = 0 if cache is None else cache.length
        q, new_k, new_v = (split_heads(W(x), self.n_heads) for W in (self.W_q, self.W_k, self.W_v))
        new = (turned(new_k, self.positions, past), new_v)
        k, v = new if cache is None else cache.append(*new)
        weights = self.dropout(causal_weights(turned(q, self.positions, past), k, v, self.positions))
        return self.W_out(merge_heads(weights @ v))


def with_cache(attention: CausalSelfAttention) -> CachedSelfAttention:
    sizes = (attention.W_q.in_features, attention.n_heads, attention.positions)
    cached = CachedSelfAttention(*sizes, bias=attention.W_q.bias is not None, dropout=attention.dropout.p)
    cached.load_state_dict(attention.state_dict())
    return cached


def through(x: Tensor, step: tuple[nn.Module, KVCache | None]) -> Tensor:
    """A PreNormBlock, with a cache for its attention."""
    block, cache = step
    heard = x + block.attn(block.ln1(x), cache=cache)
    return heard + block.ffn(block.ln2(heard))


class CachedGPT(GPT):
    def __init__(self, config: GPTConfig):
        super().__init__(config)
        for block in self.blocks:
            block.attn = with_cache(block.attn)

    def new_caches(self) -> list[KVCache]:
        return [KVCache() for _ in self.blocks]

    def forward(self, ids: Tensor, caches: list[KVCache] | None = None) -> Tensor:
        start = caches[0].length if caches else 0
        tokens = self.token_emb(ids)
        placed = tokens if self.pos_emb is None else self.pos_emb(tokens, start)
        return self.lm_head(self.ln_f(reduce(through, zip(self.blocks, caches or repeat(None)), placed)))


Written = tuple[Tensor, Tensor]


def first_or_last(wanted: Callable[[Written], bool], states: Iterable[Written]) -> Written:
    """The first of the states that is wanted, else the last of them; no state after it is computed."""
    for state in states:
        if wanted(state):
            break
    return state


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
    together, config = ids.size(1) + max_new_tokens, model.config
    if config.positions in ("learned", "sinusoidal") and together > config.max_len:
        raise ValueError(f"prompt and new tokens are {together} together, and max_len is {config.max_len}")
    caches = model.new_caches()
    sample = partial(sample_next_token, temperature=temperature, top_k=top_k, top_p=top_p, generator=generator)

    def step(state: Written, _: None) -> Written:
        text, finished = state
        chosen = sample(model(text[:, caches[0].length :], caches)[:, -1]).to(text.dtype)
        new = chosen if eos_id is None else torch.where(finished, eos_id, chosen)
        done = finished if eos_id is None else finished | (chosen == eos_id)
        return torch.cat([text, new[:, None]], dim=1), done

    nobody = torch.zeros(ids.size(0), dtype=torch.bool, device=ids.device)
    with looking_at(model):
        return first_or_last(lambda state: bool(state[1].all()), accumulate(repeat(None, max_new_tokens), step, initial=(ids, nobody)))[0]


def kv_cache_bytes(
    n_layers: int, n_kv_heads: int, d_head: int, seq_len: int, batch: int = 1, bytes_per_value: int = 2
) -> int:
    keys_and_values = 2
    return math.prod((keys_and_values, n_layers, n_kv_heads, d_head, seq_len, batch, bytes_per_value))


def check_groups(d_model: int, n_heads: int, n_kv_heads: int, positions: str) -> None:
    if positions not in ("none", "rope", "alibi"):
        raise ValueError(f'positions is {positions!r}, and should be "none", "rope" or "alibi"')
    if n_heads < 1 or d_model % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {d_model}")
    if n_kv_heads < 1 or n_heads % n_kv_heads:
        raise ValueError(f"{n_kv_heads} heads of keys and values do not divide {n_heads} query heads")
    if positions == "rope" and d_model // n_heads % 2:
        raise ValueError(f"RoPE turns pairs of features, and d_head is odd: {d_model // n_heads}")


def shared(heads: Tensor, group: int) -> Tensor:
    """(B, n_kv_heads, T, d_head) -> (B, n_kv_heads * group, T, d_head), the copies of a head side by side."""
    return heads.unsqueeze(2).expand(-1, -1, group, -1, -1).flatten(1, 2)


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, positions: str = "none"):
        super().__init__()
        check_groups(d_model, n_heads, n_kv_heads, positions)
        self.n_heads, self.n_kv_heads, self.positions = n_heads, n_kv_heads, positions
        narrow = n_kv_heads * (d_model // n_heads)
        self.W_q, self.W_k, self.W_v, self.W_out = (nn.Linear(d_model, width) for width in (d_model, narrow, narrow, d_model))

    def forward(self, x: Tensor) -> Tensor:
        share = partial(shared, group=self.n_heads // self.n_kv_heads)
        turn = partial(turned, positions=self.positions, start=0)
        q = turn(split_heads(self.W_q(x), self.n_heads))
        k = share(turn(split_heads(self.W_k(x), self.n_kv_heads)))
        v = share(split_heads(self.W_v(x), self.n_kv_heads))
        return self.W_out(merge_heads(causal_weights(q, k, v, self.positions) @ v))
