# Style: typed and defensive.

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor, nn

NEVER: Final[float] = -math.inf
N_PROJECTIONS: Final[int] = 3  # queries, keys, values: in this order if they share a matrix


def _require_positive(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be 1 or more, got {size}")


def _require_divides(n_heads: int, d_model: int) -> None:
    _require_positive(n_heads=n_heads, d_model=d_model)
    if d_model % n_heads:
        raise ValueError(f"n_heads {n_heads} does not divide d_model {d_model}")


def _require_vectors(name: str, x: Tensor, d_model: int) -> None:
    if x.dim() != 3 or x.size(-1) != d_model:
        raise ValueError(f"{name} must be (B, T, {d_model}), got {tuple(x.shape)}")


def _require_broadcasts(name: str, tensor: Tensor, shape: torch.Size) -> None:
    try:
        fits: bool = torch.broadcast_shapes(tensor.shape, shape) == shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"{name} of shape {tuple(tensor.shape)} does not broadcast to the scores, {tuple(shape)}")


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    if not x.is_floating_point():
        raise ValueError(f"scores must be floats, got {x.dtype}")
    if x.numel() == 0:
        return x.exp()
    wide: Tensor = x.to(torch.promote_types(x.dtype, torch.float32))
    peak: Tensor = wide.detach().amax(dim=dim, keepdim=True)
    peak = peak.masked_fill(torch.isneginf(peak), 0.0)
    powers: Tensor = torch.exp(wide - peak)
    total: Tensor = powers.sum(dim=dim, keepdim=True)
    weights: Tensor = powers / total.masked_fill(total == 0, 1.0)
    assert weights.shape == x.shape
    return weights.to(x.dtype)


def causal_mask(q_len: int, k_len: int | None = None) -> Tensor:
    n_keys: int = q_len if k_len is None else k_len
    if q_len < 0:
        raise ValueError(f"q_len must be 0 or more, got {q_len}")
    if n_keys < q_len:
        raise ValueError(f"the queries are the last of the keys, so there cannot be {q_len} queries and only {n_keys} keys")
    query_positions: Tensor = torch.arange(n_keys - q_len, n_keys).unsqueeze(1)
    key_positions: Tensor = torch.arange(n_keys).unsqueeze(0)
    mask: Tensor = key_positions <= query_positions
    assert mask.shape == (q_len, n_keys) and mask.dtype == torch.bool
    return mask


def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    if ids.dim() != 2:
        raise ValueError(f"ids must be (B, T), got {tuple(ids.shape)}")
    return (ids != pad_id)[:, None, None, :]


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, bias: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    if min(q.dim(), k.dim(), v.dim()) < 2:
        raise ValueError(f"q, k and v need two axes at least, got {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}")
    if q.size(-1) != k.size(-1):
        raise ValueError(f"queries of width {q.size(-1)} cannot be compared with keys of width {k.size(-1)}")
    if k.size(-2) != v.size(-2):
        raise ValueError(f"each key has its value: {k.size(-2)} keys, but {v.size(-2)} values")
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"a mask is boolean, True where a query may attend; got {mask.dtype}")
    if bias is not None and not bias.is_floating_point():
        raise ValueError(f"a bias holds floats, got {bias.dtype}")

    scores: Tensor = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    assert scores.shape[-2:] == (q.size(-2), k.size(-2))
    if bias is not None:
        _require_broadcasts("bias", bias, scores.shape)
        scores = scores + bias.to(dtype=scores.dtype, device=scores.device)
    if mask is not None:
        _require_broadcasts("mask", mask, scores.shape)
        scores = scores.masked_fill(~mask.to(device=scores.device), NEVER)
    weights: Tensor = softmax(scores, dim=-1)
    output: Tensor = weights @ v
    assert output.shape[-2:] == (q.size(-2), v.size(-1))
    return output, weights


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    if x.dim() != 3:
        raise ValueError(f"x must be (B, T, D), got {tuple(x.shape)}")
    batch, length, d_model = x.shape
    _require_divides(n_heads, d_model)
    return x.reshape(batch, length, n_heads, d_model // n_heads).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    if x.dim() != 4:
        raise ValueError(f"x must be (B, H, T, d_head), got {tuple(x.shape)}")
    batch, n_heads, length, d_head = x.shape
    return x.transpose(1, 2).reshape(batch, length, n_heads * d_head)


class SelfAttentionHead(nn.Module):
    qkv: nn.Linear

    def __init__(self, d_model: int, d_head: int) -> None:
        super().__init__()
        _require_positive(d_model=d_model, d_head=d_head)
        self.qkv = nn.Linear(d_model, N_PROJECTIONS * d_head, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        _require_vectors("x", x, self.qkv.in_features)
        q, k, v = self.qkv(x).chunk(N_PROJECTIONS, dim=-1)
        output, _ = scaled_dot_product_attention(q, k, v)
        return output


class MultiHeadAttention(nn.Module):
    n_heads: int
    W_q: nn.Linear
    W_k: nn.Linear
    W_v: nn.Linear
    W_out: nn.Linear
    dropout: nn.Dropout

    def __init__(self, d_model: int, n_heads: int, bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        _require_divides(n_heads, d_model)
        self.n_heads = n_heads
        self.W_q = nn.Linear(d_model, d_model, bias=bias)
        self.W_k = nn.Linear(d_model, d_model, bias=bias)
        self.W_v = nn.Linear(d_model, d_model, bias=bias)
        self.W_out = nn.Linear(d_model, d_model, bias=bias)
        self.dropout = nn.Dropout(dropout)

    @property
    def d_model(self) -> int:
        return self.W_q.in_features

    def forward(
        self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        source: Tensor = x if context is None else context
        _require_vectors("x", x, self.d_model)
        _require_vectors("context", source, self.d_model)
        if source.size(0) != x.size(0):
            raise ValueError(f"x has {x.size(0)} rows and context {source.size(0)}")

        q: Tensor = split_heads(self.W_q(x), self.n_heads)
        k: Tensor = split_heads(self.W_k(source), self.n_heads)
        v: Tensor = split_heads(self.W_v(source), self.n_heads)
        _, attended = scaled_dot_product_attention(q, k, v, mask=mask)
        weights: Tensor = self.dropout(attended)
        assert weights.shape == (x.size(0), self.n_heads, x.size(1), source.size(1))
        output: Tensor = self.W_out(merge_heads(weights @ v))
        assert output.shape == x.shape
        return (output, weights) if return_weights else output


class FusedSelfAttention(nn.Module):
    n_heads: int
    c_attn: nn.Linear
    c_proj: nn.Linear
    dropout: nn.Dropout
    mask: Tensor

    def __init__(self, d_model: int, n_heads: int, max_len: int, bias: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        _require_divides(n_heads, d_model)
        _require_positive(max_len=max_len)
        self.n_heads = n_heads
        self.c_attn = nn.Linear(d_model, N_PROJECTIONS * d_model, bias=bias)
        self.c_proj = nn.Linear(d_model, d_model, bias=bias)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", causal_mask(max_len), persistent=False)

    @property
    def d_model(self) -> int:
        return self.c_attn.in_features

    @property
    def max_len(self) -> int:
        return self.mask.size(0)

    def forward(self, x: Tensor) -> Tensor:
        _require_vectors("x", x, self.d_model)
        length: int = x.size(1)
        if length > self.max_len:
            raise ValueError(f"the input has {length} positions, but max_len is {self.max_len}")
        q, k, v = (split_heads(part, self.n_heads) for part in self.c_attn(x).chunk(N_PROJECTIONS, dim=-1))
        _, attended = scaled_dot_product_attention(q, k, v, mask=self.mask[:length, :length])
        output: Tensor = self.c_proj(merge_heads(self.dropout(attended) @ v))
        assert output.shape == x.shape
        return output


def _take_over(copy: nn.Module, original: nn.Module, weight: Tensor) -> None:
    """Bring `copy` to the dtype and device of `weight` and to the mode of `original`."""
    copy.to(dtype=weight.dtype, device=weight.device)
    copy.train(original.training)


def fuse_qkv(attention: MultiHeadAttention, max_len: int) -> FusedSelfAttention:
    if not isinstance(attention, MultiHeadAttention):
        raise TypeError(f"a MultiHeadAttention is needed, not a {type(attention).__name__}")
    has_bias: bool = attention.W_q.bias is not None
    fused = FusedSelfAttention(attention.d_model, attention.n_heads, max_len, bias=has_bias, dropout=attention.dropout.p)
    _take_over(fused, attention, attention.W_q.weight)
    projections: tuple[nn.Linear, ...] = (attention.W_q, attention.W_k, attention.W_v)
    with torch.no_grad():
        fused.c_attn.weight.copy_(torch.cat([projection.weight for projection in projections], dim=0))
        fused.c_proj.weight.copy_(attention.W_out.weight)
        if has_bias:
            fused.c_attn.bias.copy_(torch.cat([projection.bias for projection in projections], dim=0))
            fused.c_proj.bias.copy_(attention.W_out.bias)
    return fused


def split_qkv(fused: FusedSelfAttention) -> MultiHeadAttention:
    if not isinstance(fused, FusedSelfAttention):
        raise TypeError(f"a FusedSelfAttention is needed, not a {type(fused).__name__}")
    has_bias: bool = fused.c_attn.bias is not None
    attention = MultiHeadAttention(fused.d_model, fused.n_heads, bias=has_bias, dropout=fused.dropout.p)
    _take_over(attention, fused, fused.c_attn.weight)
    projections: tuple[nn.Linear, ...] = (attention.W_q, attention.W_k, attention.W_v)
    with torch.no_grad():
        for projection, weight in zip(projections, fused.c_attn.weight.chunk(N_PROJECTIONS, dim=0)):
            projection.weight.copy_(weight)
        attention.W_out.weight.copy_(fused.c_proj.weight)
        if has_bias:
            for projection, bias in zip(projections, fused.c_attn.bias.chunk(N_PROJECTIONS, dim=0)):
                projection.bias.copy_(bias)
            attention.W_out.bias.copy_(fused.c_proj.bias)
    return attention
