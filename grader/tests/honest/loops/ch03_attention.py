"""In explicit loops: softmax walks along its axis, attention from query to query, a module from head to head."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    scores = x.unbind(dim)
    largest = scores[0]
    for score in scores[1:]:
        largest = torch.maximum(largest, score)
    # Which number is subtracted changes no weight, so no gradient has to go through it.
    largest = largest.detach().unsqueeze(dim)
    largest = torch.where(largest == -math.inf, torch.zeros_like(largest), largest)
    exps = torch.exp(x - largest)
    total = exps.sum(dim, keepdim=True)
    return exps / torch.where(total == 0, torch.ones_like(total), total)


def causal_mask(q_len: int, k_len: int | None = None) -> Tensor:
    if k_len is None:
        k_len = q_len
    rows = []
    for i in range(q_len):
        row = []
        for j in range(k_len):
            row.append(j <= k_len - q_len + i)
        rows.append(row)
    return torch.tensor(rows, dtype=torch.bool)


def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    batch = []
    for sequence in ids.tolist():
        row = []
        for token in sequence:
            row.append(token != pad_id)
        batch.append([[row]])
    return torch.tensor(batch, dtype=torch.bool, device=ids.device)


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    q_len = q.size(-2)
    shape = (*q.shape[:-1], k.size(-2))
    if mask is not None:
        mask = mask.expand(shape)
    if bias is not None:
        bias = bias.to(q.dtype).expand(shape)
    rows = []
    for i in range(q_len):
        query = q[..., i, :].unsqueeze(-1)
        scores = (k @ query).squeeze(-1) / math.sqrt(q.size(-1))
        if bias is not None:
            scores = scores + bias[..., i, :]
        if mask is not None:
            scores = scores.masked_fill(~mask[..., i, :], -math.inf)
        rows.append(scores)
    weights = softmax(torch.stack(rows, dim=-2))
    outputs = []
    for i in range(q_len):
        row = weights[..., i, :].unsqueeze(-2)
        outputs.append((row @ v).squeeze(-2))
    return torch.stack(outputs, dim=-2), weights


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    d_model = x.size(-1)
    if n_heads < 1 or d_model % n_heads != 0:
        raise ValueError(f"{n_heads} heads do not divide a width of {d_model}")
    d_head = d_model // n_heads
    heads = []
    for h in range(n_heads):
        heads.append(x[:, :, h * d_head : (h + 1) * d_head])
    return torch.stack(heads, dim=1)


def merge_heads(x: Tensor) -> Tensor:
    side_by_side = []
    for h in range(x.size(1)):
        side_by_side.append(x[:, h])
    return torch.cat(side_by_side, dim=-1)


class SelfAttentionHead(nn.Module):
    def __init__(self, d_model: int, d_head: int):
        super().__init__()
        self.d_head = d_head
        self.qkv = nn.Linear(d_model, 3 * d_head, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        made = self.qkv(x)
        parts = []
        for n in range(3):
            parts.append(made[..., n * self.d_head : (n + 1) * self.d_head])
        output, _ = scaled_dot_product_attention(parts[0], parts[1], parts[2])
        return output


def check_heads(d_model: int, n_heads: int) -> None:
    if n_heads < 1 or d_model % n_heads != 0:
        raise ValueError(f"n_heads = {n_heads} does not divide d_model = {d_model}")


def attend_head_by_head(q: Tensor, k: Tensor, v: Tensor, n_heads: int, mask: Tensor | None, dropout: nn.Module) -> tuple[Tensor, Tensor]:
    """q (B, Tq, D), k and v (B, Tk, D) -> the heads' outputs side by side (B, Tq, D), and the weights as used (B, H, Tq, Tk)."""
    d_head = q.size(-1) // n_heads
    if mask is not None:
        mask = mask.expand(q.size(0), n_heads, q.size(1), k.size(1))
    outputs = []
    used = []
    for h in range(n_heads):
        own = slice(h * d_head, (h + 1) * d_head)
        mask_of_head = None if mask is None else mask[:, h]
        _, weights = scaled_dot_product_attention(q[..., own], k[..., own], v[..., own], mask_of_head)
        weights = dropout(weights)
        outputs.append(weights @ v[..., own])
        used.append(weights)
    return torch.cat(outputs, dim=-1), torch.stack(used, dim=1)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, bias: bool = True, dropout: float = 0.0):
        super().__init__()
        check_heads(d_model, n_heads)
        self.n_heads = n_heads
        for name in ("W_q", "W_k", "W_v", "W_out"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=bias))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        if context is None:
            context = x
        found, weights = attend_head_by_head(self.W_q(x), self.W_k(context), self.W_v(context), self.n_heads, mask, self.dropout)
        output = self.W_out(found)
        if return_weights:
            return output, weights
        return output


class FusedSelfAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, max_len: int, bias: bool = True, dropout: float = 0.0):
        super().__init__()
        check_heads(d_model, n_heads)
        self.n_heads = n_heads
        self.c_attn = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.c_proj = nn.Linear(d_model, d_model, bias=bias)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", causal_mask(max_len), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        length = x.size(1)
        width = x.size(2)
        max_len = self.mask.size(0)
        if length > max_len:
            raise ValueError(f"the input has {length} positions, and max_len is {max_len}")
        made = self.c_attn(x)
        parts = []
        for n in range(3):
            parts.append(made[..., n * width : (n + 1) * width])
        found, _ = attend_head_by_head(parts[0], parts[1], parts[2], self.n_heads, self.mask[:length, :length], self.dropout)
        return self.c_proj(found)


def fuse_qkv(attention: MultiHeadAttention, max_len: int) -> FusedSelfAttention:
    old = attention.W_out.weight
    d_model = old.size(0)
    has_bias = attention.W_out.bias is not None
    fused = FusedSelfAttention(d_model, attention.n_heads, max_len, bias=has_bias, dropout=attention.dropout.p)
    fused.to(device=old.device, dtype=old.dtype)
    fused.train(attention.training)
    with torch.no_grad():
        for n, linear in enumerate((attention.W_q, attention.W_k, attention.W_v)):
            for row in range(d_model):
                fused.c_attn.weight[n * d_model + row] = linear.weight[row]
                if has_bias:
                    fused.c_attn.bias[n * d_model + row] = linear.bias[row]
        fused.c_proj.weight.copy_(attention.W_out.weight)
        if has_bias:
            fused.c_proj.bias.copy_(attention.W_out.bias)
    return fused


def split_qkv(fused: FusedSelfAttention) -> MultiHeadAttention:
    old = fused.c_proj.weight
    d_model = old.size(0)
    has_bias = fused.c_proj.bias is not None
    attention = MultiHeadAttention(d_model, fused.n_heads, bias=has_bias, dropout=fused.dropout.p)
    attention.to(device=old.device, dtype=old.dtype)
    attention.train(fused.training)
    with torch.no_grad():
        for n, linear in enumerate((attention.W_q, attention.W_k, attention.W_v)):
            for row in range(d_model):
                linear.weight[row] = fused.c_attn.weight[n * d_model + row]
                if has_bias:
                    linear.bias[row] = fused.c_attn.bias[n * d_model + row]
        attention.W_out.weight.copy_(fused.c_proj.weight)
        if has_bias:
            attention.W_out.bias.copy_(fused.c_proj.bias)
    return attention
