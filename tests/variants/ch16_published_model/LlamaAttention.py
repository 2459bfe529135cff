# variant: grouped queries as an axis of their own
import math

import torch
from torch import nn


class LlamaAttention(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, base=10_000.0):
        super().__init__()
        if d_model % n_heads or n_heads % n_kv_heads or d_model // n_heads % 2:
            raise ValueError(f"d_model={d_model}, n_heads={n_heads}, n_kv_heads={n_kv_heads}, d_head={d_model // n_heads} do not fit")
        self.n_heads, self.n_kv_heads, self.d, self.base = n_heads, n_kv_heads, d_model // n_heads, base
        for name, width in (("W_q", d_model), ("W_k", self.n_kv_heads * self.d), ("W_v", self.n_kv_heads * self.d), ("W_out", d_model)):
            self.add_module(name, nn.Linear(d_model, width, bias=False))

    def forward(self, x, cache=None):
        B, T, _ = x.shape
        past = 0 if cache is None else cache.length
        where = torch.arange(past, past + T, device=x.device)
        q = self.W_q(x).view(B, T, self.n_heads, self.d).transpose(1, 2)
        k = self.W_k(x).view(B, T, self.n_kv_heads, self.d).transpose(1, 2)
        v = self.W_v(x).view(B, T, self.n_kv_heads, self.d).transpose(1, 2)
        q, k = apply_rope(q, where, base=self.base), apply_rope(k, where, base=self.base)
        if cache is not None:
            k, v = cache.append(k, v)
        q = q.reshape(B, self.n_kv_heads, self.n_heads // self.n_kv_heads, T, self.d)
        scores = q @ k[:, :, None].transpose(-2, -1) / math.sqrt(self.d)
        hidden = torch.arange(past + T, device=x.device) > where[:, None]
        out = torch.softmax(scores.masked_fill(hidden, -math.inf), dim=-1) @ v[:, :, None]
        return self.W_out(out.reshape(B, self.n_heads, T, self.d).transpose(1, 2).reshape(B, T, -1))


# variant: expand instead of repeat, names of chapter 10
import torch
from torch import nn


class LlamaAttention(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, base=10_000.0):
        super().__init__()
        assert d_model % n_heads == 0, f"d_model {d_model} and n_heads {n_heads}"
        assert n_heads % n_kv_heads == 0, f"n_heads {n_heads} and n_kv_heads {n_kv_heads}"
        assert (d_model // n_heads) % 2 == 0, f"d_head {d_model // n_heads} is odd"
        d = d_model // n_heads
        self.n_heads, self.n_kv_heads, self.theta = n_heads, n_kv_heads, base
        self.W_q, self.W_out = nn.Linear(d_model, d_model, bias=False), nn.Linear(d_model, d_model, bias=False)
        self.W_k, self.W_v = nn.Linear(d_model, n_kv_heads * d, bias=False), nn.Linear(d_model, n_kv_heads * d, bias=False)

    def forward(self, x, cache=None):
        start = cache.length if cache else 0
        q, k, v = split_heads(self.W_q(x), self.n_heads), split_heads(self.W_k(x), self.n_kv_heads), split_heads(self.W_v(x), self.n_kv_heads)
        positions = start + torch.arange(x.shape[1], device=x.device)
        q, k = (apply_rope(each, positions, self.theta) for each in (q, k))
        if cache is not None:
            k, v = cache.append(k, v)
        n = self.n_heads // self.n_kv_heads
        k, v = (each[:, :, None].expand(-1, -1, n, -1, -1).flatten(1, 2) for each in (k, v))
        mask = causal_mask(x.shape[1], k.shape[2]).to(x.device)
        return self.W_out(merge_heads(scaled_dot_product_attention(q, k, v, mask)[0]))


# variant: keys by index
import torch
from torch import nn


class LlamaAttention(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, base=10_000.0):
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"{n_heads} heads do not divide {d_model}")
        if n_heads % n_kv_heads:
            raise ValueError(f"{n_kv_heads} key heads do not divide {n_heads} heads")
        self.width, odd = divmod(d_model // n_heads, 2)
        if odd:
            raise ValueError(f"an odd width, {d_model // n_heads}")
        self.n_heads, self.n_kv_heads, self.base = n_heads, n_kv_heads, base
        self.group_of = [h // (n_heads // n_kv_heads) for h in range(n_heads)]
        inner = n_kv_heads * d_model // n_heads
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        self.W_k = nn.Linear(d_model, inner, bias=False)
        self.W_v = nn.Linear(d_model, inner, bias=False)
        self.W_out = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, cache=None):
        T, past = x.size(1), 0
        if cache is not None:
            past = cache.length
        at = torch.arange(T, device=x.device) + past
        keys, values = apply_rope(split_heads(self.W_k(x), self.n_kv_heads), at, self.base), split_heads(self.W_v(x), self.n_kv_heads)
        if cache is not None:
            keys, values = cache.append(keys, values)
        keys, values = keys[:, self.group_of], values[:, self.group_of]
        queries = apply_rope(split_heads(self.W_q(x), self.n_heads), at, self.base)
        mixed, _ = scaled_dot_product_attention(queries, keys, values, causal_mask(T, past + T).to(x.device))
        return self.W_out(merge_heads(mixed))
