# variant: a residual variable, the parts made in another order, torch's own LayerNorm
class PreNormBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff=None, positions="none", dropout=0.0, activation="gelu"):
        super().__init__()
        self.ffn = FeedForward(d_model, d_ff=d_ff, dropout=dropout, activation=activation)
        self.attn = CausalSelfAttention(d_model, n_heads, dropout=dropout, positions=positions)
        self.ln2 = nn.LayerNorm(d_model)
        self.ln1 = nn.LayerNorm(d_model)

    def forward(self, x):
        residual = x
        x = self.ln1(x)
        x = self.attn(x)
        x = residual + x
        residual = x
        x = self.ffn(self.ln2(x))
        return x + residual


# variant: one function for "read a normalised copy, add what came of it", and a loop over the two parts
import torch


def added(x, norm, part):
    return torch.add(x, part(norm(x)))


class PreNormBlock(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, positions: str = "none", dropout: float = 0.0, activation: str = "gelu") -> None:
        super().__init__()
        for name, part in {
            "ln1": LayerNorm(d_model),
            "attn": CausalSelfAttention(d_model, n_heads, positions, True, dropout),
            "ln2": LayerNorm(d_model),
            "ffn": FeedForward(d_model, 4 * d_model if d_ff is None else d_ff, activation, dropout),
        }.items():
            self.add_module(name, part)

    def forward(self, x: Tensor) -> Tensor:
        for norm, part in ((self.ln1, self.attn), (self.ln2, self.ffn)):
            x = added(x, norm, part)
        return x


# variant: the outputs are collected separately from the stream, in place on new tensors
class PreNormBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff=None, positions="none", dropout=0.0, activation="gelu"):
        super().__init__()
        self.ln1, self.ln2 = (LayerNorm(d_model) for _ in range(2))
        self.attn = CausalSelfAttention(d_model, n_heads, positions=positions, dropout=dropout)
        self.ffn = FeedForward(d_model, d_ff, activation=activation, dropout=dropout)

    def forward(self, x):
        out = x.clone()
        out += self.attn(self.ln1(x))
        out = out + self.ffn(self.ln2(out))
        return out


# variant: attention, feed-forward and dropout written out over the parts' parameters
import math

import torch
from .ch04_positions_in_attention import alibi_bias, apply_rope


class PreNormBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff=None, positions="none", dropout=0.0, activation="gelu"):
        super().__init__()
        self.h, self.rate, self.positions, self.activation = n_heads, dropout, positions, activation
        self.ln1 = nn.LayerNorm(d_model, eps=1e-5)
        self.attn = CausalSelfAttention(d_model, n_heads, positions)
        self.ln2 = nn.LayerNorm(d_model, eps=1e-5)
        self.ffn = FeedForward(d_model, d_ff, activation)

    def listen(self, x):
        B, T, D = x.shape
        q, k, v = (W(x).view(B, T, self.h, D // self.h).transpose(1, 2) for W in (self.attn.W_q, self.attn.W_k, self.attn.W_v))
        if self.positions == "rope":
            q, k = (apply_rope(part, torch.arange(T, device=x.device)) for part in (q, k))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(D // self.h)
        if self.positions == "alibi":
            scores = scores + alibi_bias(self.h, T, T).to(scores)
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, -torch.inf).softmax(-1)
        weights = nn.functional.dropout(weights, self.rate, self.training)
        return self.attn.W_out((weights @ v).transpose(1, 2).reshape(B, T, D))

    def think(self, x):
        bend = {"gelu": nn.functional.gelu, "gelu_tanh": lambda z: nn.functional.gelu(z, approximate="tanh"), "relu": torch.relu}[self.activation]
        return nn.functional.dropout(self.ffn.down(bend(self.ffn.up(x))), self.rate, self.training)

    def forward(self, x):
        x = x + self.listen(self.ln1(x))
        x = x + self.think(self.ln2(x))
        return x
