"""Style: einsum. b batch, q and k positions of queries and keys, t positions, d model width, h head, e width of a head, s one of q, k, v."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class LinearMap(nn.Module):
    """weight (out, in) and perhaps bias (out,), for an einsum to use as it likes."""

    def __init__(self, d_in: int, d_out: int, bias: bool = True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d_out, d_in) * d_in**-0.5)
        self.register_parameter("bias", nn.Parameter(torch.zeros(d_out)) if bias else None)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.einsum("...i,oi->...o", x, self.weight)
        return y if self.bias is None else y + self.bias


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    top = x.detach().amax(dim, keepdim=True)
    powers = (x - torch.where(torch.isneginf(top), 0.0, top)).exp()
    total = powers.sum(dim, keepdim=True)
    return powers / torch.where(total == 0, 1.0, total)


def causal_mask(q_len: int, k_len: int | None = None) -> Tensor:
    k_len = q_len if k_len is None else k_len
    asking = torch.arange(q_len) + (k_len - q_len)
    return torch.arange(k_len) <= asking[:, None]


def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    return (ids != pad_id)[:, None, None, :]


def attention_weights(q: Tensor, k: Tensor, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    scores = torch.einsum("...qe,...ke->...qk", q * q.shape[-1] ** -0.5, k)
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    if mask is not None:
        scores = torch.where(mask, scores, -math.inf)
    return softmax(scores)


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    weights = attention_weights(q, k, mask, bias)
    return torch.einsum("...qk,...ke->...qe", weights, v), weights


def check_heads(d_model: int, n_heads: int) -> None:
    if n_heads < 1 or d_model % n_heads:
        raise ValueError(f"n_heads={n_heads} does not divide d_model={d_model}")


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    check_heads(x.shape[-1], n_heads)
    return torch.einsum("bthe->bhte", x.unflatten(-1, (n_heads, x.shape[-1] // n_heads)))


def merge_heads(x: Tensor) -> Tensor:
    return torch.einsum("bhte->bthe", x).flatten(-2)


def to_heads(x: Tensor, linear: nn.Module, n_heads: int) -> Tensor:
    """Project straight into heads, (b, t, d) -> (b, h, t, e): the rows of the weight are cut into heads, not the result."""
    y = torch.einsum("btd,hed->bhte", x, linear.weight.unflatten(0, (n_heads, -1)))
    return y if linear.bias is None else y + linear.bias.unflatten(0, (n_heads, 1, -1))


def from_heads(x: Tensor, linear: nn.Module) -> Tensor:
    """Let the output map read all heads at once, (b, h, t, e) -> (b, t, d): no merging first."""
    y = torch.einsum("bhte,dhe->btd", x, linear.weight.unflatten(1, (x.shape[1], -1)))
    return y if linear.bias is None else y + linear.bias


class SelfAttentionHead(nn.Module):
    def __init__(self, d_model: int, d_head: int):
        super().__init__()
        self.qkv = LinearMap(d_model, 3 * d_head, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = torch.einsum("btd,sed->sbte", x, self.qkv.weight.unflatten(0, (3, -1)))
        return scaled_dot_product_attention(q, k, v)[0]


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, bias: bool = True, dropout: float = 0.0):
        super().__init__()
        check_heads(d_model, n_heads)
        self.n_heads = n_heads
        self.W_q = LinearMap(d_model, d_model, bias)
        self.W_k = LinearMap(d_model, d_model, bias)
        self.W_v = LinearMap(d_model, d_model, bias)
        self.W_out = LinearMap(d_model, d_model, bias)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        context = x if context is None else context
        q = to_heads(x, self.W_q, self.n_heads)
        k = to_heads(context, self.W_k, self.n_heads)
        v = to_heads(context, self.W_v, self.n_heads)
        weights = self.dropout(attention_weights(q, k, mask))
        output = from_heads(torch.einsum("bhqk,bhke->bhqe", weights, v), self.W_out)
        return (output, weights) if return_weights else output


class FusedSelfAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, max_len: int, bias: bool = True, dropout: float = 0.0):
        super().__init__()
        check_heads(d_model, n_heads)
        self.n_heads = n_heads
        self.c_attn = LinearMap(d_model, 3 * d_model, bias)
        self.c_proj = LinearMap(d_model, d_model, bias)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", causal_mask(max_len), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        length, max_len = x.shape[1], self.mask.shape[0]
        if length > max_len:
            raise ValueError(f"an input of {length} positions is longer than max_len={max_len}")
        qkv = torch.einsum("btd,shed->sbhte", x, self.c_attn.weight.unflatten(0, (3, self.n_heads, -1)))
        if self.c_attn.bias is not None:
            qkv = qkv + self.c_attn.bias.unflatten(0, (3, 1, self.n_heads, 1, -1))
        q, k, v = qkv
        weights = self.dropout(attention_weights(q, k, self.mask[:length, :length]))
        return from_heads(torch.einsum("bhqk,bhke->bhqe", weights, v), self.c_proj)


def as_the_other(new: nn.Module, old: nn.Module, weight: Tensor) -> None:
    """Dtype, device and mode of `old` for `new`; `weight` is one of old's."""
    new.to(device=weight.device, dtype=weight.dtype)
    new.train(old.training)
    new.dropout.train(old.dropout.training)


@torch.no_grad()
def fuse_qkv(attention: MultiHeadAttention, max_len: int) -> FusedSelfAttention:
    three = (attention.W_q, attention.W_k, attention.W_v)
    weight, has_bias = three[0].weight, three[0].bias is not None
    fused = FusedSelfAttention(weight.shape[1], attention.n_heads, max_len, has_bias, attention.dropout.p)
    as_the_other(fused, attention, weight)
    fused.c_attn.weight.copy_(torch.cat([linear.weight for linear in three]))
    fused.c_proj.weight.copy_(attention.W_out.weight)
    if has_bias:
        fused.c_attn.bias.copy_(torch.cat([linear.bias for linear in three]))
        fused.c_proj.bias.copy_(attention.W_out.bias)
    return fused


@torch.no_grad()
def split_qkv(fused: FusedSelfAttention) -> MultiHeadAttention:
    weight, bias = fused.c_attn.weight, fused.c_attn.bias
    attention = MultiHeadAttention(weight.shape[1], fused.n_heads, bias is not None, fused.dropout.p)
    as_the_other(attention, fused, weight)
    three = (attention.W_q, attention.W_k, attention.W_v)
    for linear, rows in zip(three, weight.unflatten(0, (3, -1))):
        linear.weight.copy_(rows)
    attention.W_out.weight.copy_(fused.c_proj.weight)
    if bias is not None:
        for linear, entries in zip(three, bias.unflatten(0, (3, -1))):
            linear.bias.copy_(entries)
        attention.W_out.bias.copy_(fused.c_proj.bias)
    return attention
