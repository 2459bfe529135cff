# variant: residual variables, the parts made in another order, torch's own LayerNorm
class DecoderBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff=None, dropout=0.0):
        super().__init__()
        self.ln1 = nn.LayerNorm(d_model)
        self.ln2 = nn.LayerNorm(d_model)
        self.ln3 = nn.LayerNorm(d_model)
        self.cross_attn = MultiHeadAttention(d_model, n_heads, True, dropout)
        self.self_attn = MultiHeadAttention(d_model, n_heads, True, dropout)
        self.ffn = FeedForward(d_model, d_ff, dropout=dropout, activation="relu")

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        residual = x
        x = self.self_attn(x, x, self_mask)
        x = self.ln1(residual + x)
        residual = x
        x = self.cross_attn(x, memory, memory_mask)
        x = self.ln2(residual + x)
        residual = x
        x = self.ffn(x)
        return self.ln3(residual + x)


# variant: a loop over the three parts, each with its norm and its arguments
class DecoderBlock(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        for name in ("self_attn", "cross_attn"):
            setattr(self, name, MultiHeadAttention(d_model, n_heads, dropout=dropout))
        for i in (1, 2, 3):
            setattr(self, f"ln{i}", LayerNorm(d_model))
        self.ffn = FeedForward(d_model, 4 * d_model if d_ff is None else d_ff, "relu", dropout)

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        steps = [
            (self.ln1, lambda x: self.self_attn(x, mask=self_mask)),
            (self.ln2, lambda x: self.cross_attn(x, memory, memory_mask)),
            (self.ln3, self.ffn),
        ]
        for norm, part in steps:
            x = norm(part(x) + x)
        return x


# variant: an encoder block's two halves around a cross-attention, with no mask as a mask that allows everything
import torch


class DecoderBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff=None, dropout=0.0):
        super().__init__()
        self.self_attn, self.cross_attn = (MultiHeadAttention(d_model, n_heads, dropout=dropout) for _ in range(2))
        self.ln1, self.ln2, self.ln3 = (LayerNorm(d_model) for _ in range(3))
        self.ffn = FeedForward(d_model, d_ff, "relu", dropout)

    def attend_and_add(self, attention, norm, x, source, mask):
        if mask is None:
            mask = torch.ones(x.size(1), source.size(1), dtype=torch.bool, device=x.device)
        answer = attention(x, source, mask)
        answer += x
        return norm(answer)

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = self.attend_and_add(self.self_attn, self.ln1, x, x, self_mask)
        x = self.attend_and_add(self.cross_attn, self.ln2, x, memory, memory_mask)
        return self.ln3(x + self.ffn(x))


# variant: one function of attention over the parts' parameters, einsum, dropout by hand
import math

import torch
from .ch03_attention import softmax


class DecoderBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff=None, dropout=0.0):
        super().__init__()
        if d_model % n_heads != 0:
            raise ValueError(f"{d_model} is no multiple of {n_heads}")
        self.n_heads, self.drop = n_heads, nn.Dropout(dropout)
        self.self_attn = MultiHeadAttention(d_model, n_heads)
        self.cross_attn = MultiHeadAttention(d_model, n_heads)
        self.ffn = FeedForward(d_model, d_ff, "relu")
        self.ln1, self.ln2, self.ln3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def attend(self, of, x, source, mask):
        q, k, v = (W(y).unflatten(-1, (self.n_heads, -1)) for W, y in ((of.W_q, x), (of.W_k, source), (of.W_v, source)))
        scores = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask.logical_not(), -math.inf)
        return of.W_out(torch.einsum("bhij,bjhd->bihd", self.drop(softmax(scores)), v).flatten(2))

    def forward(self, x, memory, self_mask=None, memory_mask=None):
        x = self.ln1(x + self.attend(self.self_attn, x, x, self_mask))
        x = self.ln2(x + self.attend(self.cross_attn, x, memory, memory_mask))
        return self.ln3(x + self.drop(self.ffn.down(torch.relu(self.ffn.up(x)))))
