# variant: a residual variable, the parts made in another order, torch's own LayerNorm
class EncoderBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff=None, dropout=0.0):
        super().__init__()
        self.ln1 = nn.LayerNorm(d_model)
        self.ln2 = nn.LayerNorm(d_model)
        self.ffn = FeedForward(d_model, d_ff, dropout=dropout, activation="relu")
        self.attn = MultiHeadAttention(d_model, n_heads, True, dropout)

    def forward(self, x, mask=None):
        residual = x
        x = self.attn(x, x, mask)
        x = self.ln1(residual + x)
        return self.ln2(x + self.ffn(x))


# variant: one function for "add, then normalise", the attention's weights taken and thrown away
import torch


class EncoderBlock(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.attn = MultiHeadAttention(d_model, n_heads, dropout=dropout)
        self.ffn = FeedForward(d_model, 4 * d_model if d_ff is None else d_ff, "relu", dropout)
        self.ln1, self.ln2 = LayerNorm(d_model), LayerNorm(d_model)

    def close(self, norm, x, answer):
        return norm(torch.stack([x, answer]).sum(0))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        answer, _ = self.attn(x, mask=mask, return_weights=True)
        x = self.close(self.ln1, x, answer)
        return self.close(self.ln2, x, self.ffn(x))


# variant: no mask is a mask that allows everything; the sums are made in place on the answers
import torch


class EncoderBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff=None, dropout=0.0):
        super().__init__()
        self.attn, self.ln1 = MultiHeadAttention(d_model, n_heads, dropout=dropout), LayerNorm(d_model)
        self.ffn, self.ln2 = FeedForward(d_model, d_ff, "relu", dropout), LayerNorm(d_model)

    def forward(self, x, mask=None):
        if mask is None:
            mask = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device)
        answer = self.attn(x, mask=mask)
        answer += x
        x = self.ln1(answer)
        thought = self.ffn(x).add_(x)
        return self.ln2(thought)


# variant: attention, feed-forward and dropout written out over the parts' parameters
import math

import torch
from .ch03_attention import merge_heads, softmax, split_heads


class EncoderBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff=None, dropout=0.0):
        super().__init__()
        self.h, self.drop = n_heads, nn.Dropout(dropout)
        self.attn = MultiHeadAttention(d_model, n_heads)
        self.ln1 = nn.LayerNorm(d_model)
        self.ffn = FeedForward(d_model, d_ff, "relu")
        self.ln2 = nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        q, k, v = (split_heads(W(x), self.h) for W in (self.attn.W_q, self.attn.W_k, self.attn.W_v))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = torch.where(mask, scores, torch.full_like(scores, -math.inf))
        weights = self.drop(softmax(scores))
        x = self.ln1(x + self.attn.W_out(merge_heads(weights @ v)))
        return self.ln2(x + self.drop(self.ffn.down(self.ffn.up(x).clamp_min(0))))
