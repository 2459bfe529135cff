"""In explicit loops: a number for each position and pair, each head and query and key; then a stack."""

import torch
from torch import Tensor, nn

from .ch03_attention import causal_mask, merge_heads, scaled_dot_product_attention, split_heads


def rope_angles(positions: Tensor, d_head: int, base: float = 10000.0) -> Tensor:
    if d_head % 2 != 0:
        raise ValueError(f"d_head = {d_head} is odd, and features turn in pairs")
    frequencies = []
    for i in range(d_head // 2):
        frequencies.append(base ** (-2 * i / d_head))
    rows = []
    for p in positions.tolist():
        row = []
        for frequency in frequencies:
            row.append(p * frequency)
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float32, device=positions.device)


def apply_rope(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
    d_head = x.size(-1)
    angles = rope_angles(positions, d_head, base)
    turned = []
    for i in range(d_head // 2):
        cos = torch.cos(angles[:, i])
        sin = torch.sin(angles[:, i])
        x0 = x[..., 2 * i]
        x1 = x[..., 2 * i + 1]
        turned.append(x0 * cos - x1 * sin)
        turned.append(x0 * sin + x1 * cos)
    return torch.stack(turned, dim=-1).to(x.dtype)


def alibi_slopes(n_heads: int) -> Tensor:
    power = 1
    while power * 2 <= n_heads:
        power *= 2
    slopes = []
    for h in range(1, power + 1):
        slopes.append(2.0 ** (-8 * h / power))
    odd = 1
    while len(slopes) < n_heads:
        slopes.append(2.0 ** (-8 * odd / (2 * power)))
        odd += 2
    return torch.tensor(slopes, dtype=torch.float32)


def alibi_bias(n_heads: int, q_len: int, k_len: int) -> Tensor:
    heads = []
    for slope in alibi_slopes(n_heads).tolist():
        rows = []
        for query in range(q_len):
            i = k_len - q_len + query
            row = []
            for j in range(k_len):
                row.append(-slope * abs(i - j))
            rows.append(row)
        heads.append(rows)
    return torch.tensor(heads, dtype=torch.float32)


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, positions: str = "none", bias: bool = True, dropout: float = 0.0):
        super().__init__()
        if n_heads < 1 or d_model % n_heads != 0:
            raise ValueError(f"n_heads = {n_heads} does not divide d_model = {d_model}")
        if positions not in ("none", "rope", "alibi"):
            raise ValueError(f"positions is {positions!r}, and must be 'none', 'rope' or 'alibi'")
        if positions == "rope" and (d_model // n_heads) % 2 != 0:
            raise ValueError(f"rope needs an even d_head, and {d_model} / {n_heads} = {d_model // n_heads} is odd")
        self.n_heads = n_heads
        self.positions = positions
        for name in ("W_q", "W_k", "W_v", "W_out"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=bias))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, return_weights: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        length = x.size(1)
        parts = []
        for linear in (self.W_q, self.W_k, self.W_v):
            parts.append(split_heads(linear(x), self.n_heads))
        q, k, v = parts
        bias = None
        if self.positions == "rope":
            where = torch.arange(length, device=x.device)
            q = apply_rope(q, where)
            k = apply_rope(k, where)
        elif self.positions == "alibi":
            bias = alibi_bias(self.n_heads, length, length).to(device=x.device, dtype=x.dtype)
        _, weights = scaled_dot_product_attention(q, k, v, causal_mask(length).to(x.device), bias)
        weights = self.dropout(weights)
        outputs = []
        for h in range(self.n_heads):
            outputs.append(weights[:, h] @ v[:, h])
        output = self.W_out(merge_heads(torch.stack(outputs, dim=1)))
        if return_weights:
            return output, weights
        return output
