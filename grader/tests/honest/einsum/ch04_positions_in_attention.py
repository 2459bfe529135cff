"""Style: einsum. b batch, t position, h head, e width of a head, d model width; p a pair of features, i and j its two places."""

import torch
from torch import Tensor, nn

from .ch03_attention import causal_mask, scaled_dot_product_attention


class LinearMap(nn.Module):
    """weight (out, in) and perhaps bias (out,), for an einsum to use as it likes."""

    def __init__(self, d_in: int, d_out: int, bias: bool = True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d_out, d_in) * d_in**-0.5)
        self.register_parameter("bias", nn.Parameter(torch.zeros(d_out)) if bias else None)

    def into_heads(self, x: Tensor, n_heads: int) -> Tensor:
        y = torch.einsum("btd,hed->bhte", x, self.weight.unflatten(0, (n_heads, -1)))
        return y if self.bias is None else y + self.bias.unflatten(0, (n_heads, 1, -1))

    def out_of_heads(self, x: Tensor) -> Tensor:
        y = torch.einsum("bhte,dhe->btd", x, self.weight.unflatten(1, (x.shape[1], -1)))
        return y if self.bias is None else y + self.bias

    def forward(self, x: Tensor) -> Tensor:
        y = torch.einsum("...i,oi->...o", x, self.weight)
        return y if self.bias is None else y + self.bias


def rope_angles(positions: Tensor, d_head: int, base: float = 10000.0) -> Tensor:
    if d_head % 2:
        raise ValueError(f"d_head={d_head} is odd: RoPE turns pairs of features")
    frequencies = torch.tensor([base ** (-i / d_head) for i in range(0, d_head, 2)], dtype=torch.float32, device=positions.device)
    return torch.einsum("t,p->tp", positions.float(), frequencies)


def apply_rope(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
    exact = torch.promote_types(x.dtype, torch.float32)
    angles = rope_angles(positions, x.shape[-1], base).to(exact)
    cos, sin = angles.cos(), angles.sin()
    turn = torch.stack([torch.stack([cos, -sin], dim=-1), torch.stack([sin, cos], dim=-1)], dim=-2)  # (t, p, i, j)
    pairs = x.to(exact).unflatten(-1, (-1, 2))
    return torch.einsum("tpij,...tpj->...tpi", turn, pairs).flatten(-2).to(x.dtype)


def alibi_slopes(n_heads: int) -> Tensor:
    def of(heads: int) -> list[float]:
        return [2.0 ** (-8.0 * h / heads) for h in range(1, heads + 1)]

    power = 1 << (n_heads.bit_length() - 1)
    return torch.tensor((of(power) + of(2 * power)[::2])[:n_heads], dtype=torch.float32)


def alibi_bias(n_heads: int, q_len: int, k_len: int) -> Tensor:
    keys = torch.arange(k_len, dtype=torch.float32)
    distance = (keys[k_len - q_len :, None] - keys).abs()
    return torch.einsum("h,qk->hqk", -alibi_slopes(n_heads), distance)


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, positions: str = "none", bias: bool = True, dropout: float = 0.0):
        super().__init__()
        if n_heads < 1 or d_model % n_heads:
            raise ValueError(f"n_heads={n_heads} does not divide d_model={d_model}")
        if positions not in ("none", "rope", "alibi"):
            raise ValueError(f"positions={positions!r} is not 'none', 'rope' or 'alibi'")
        if positions == "rope" and d_model // n_heads % 2:
            raise ValueError(f"RoPE turns pairs of features, and d_head={d_model // n_heads} is odd")
        self.n_heads = n_heads
        self.positions = positions
        self.W_q = LinearMap(d_model, d_model, bias)
        self.W_k = LinearMap(d_model, d_model, bias)
        self.W_v = LinearMap(d_model, d_model, bias)
        self.W_out = LinearMap(d_model, d_model, bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, return_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        length = x.shape[1]
        q, k, v = (linear.into_heads(x, self.n_heads) for linear in (self.W_q, self.W_k, self.W_v))
        if self.positions == "rope":
            places = torch.arange(length, device=x.device)
            q, k = apply_rope(q, places), apply_rope(k, places)
        bias = alibi_bias(self.n_heads, length, length).to(x) if self.positions == "alibi" else None
        _, weights = scaled_dot_product_attention(q, k, v, causal_mask(length).to(x.device), bias)
        weights = self.dropout(weights)
        output = self.W_out.out_of_heads(torch.einsum("bhqk,bhke->bhqe", weights, v))
        return (output, weights) if return_weights else output
