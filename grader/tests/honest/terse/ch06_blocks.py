"""Chapter 6 in the terse style: as short as it can be read."""

from torch import Tensor, nn

from .ch03_attention import MultiHeadAttention
from .ch04_positions_in_attention import CausalSelfAttention
from .ch05_layers import FeedForward, LayerNorm


class PreNormBlock(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, positions: str = "none", dropout: float = 0.0, activation: str = "gelu"):
        super().__init__()
        self.ln1, self.ln2 = LayerNorm(d_model), LayerNorm(d_model)
        self.attn = CausalSelfAttention(d_model, n_heads, positions, dropout=dropout)
        self.ffn = FeedForward(d_model, d_ff, activation, dropout)

    def forward(self, x: Tensor) -> Tensor:
        return (x := x + self.attn(self.ln1(x))) + self.ffn(self.ln2(x))


class PostNormBlock(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        return self.ln2((x := self.ln1(x + self.attn(x))) + self.ffn(x))


class EncoderBlock(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, dropout: float = 0.0):
        super().__init__()
        self.attn, self.ffn = MultiHeadAttention(d_model, n_heads, dropout=dropout), FeedForward(d_model, d_ff, "relu", dropout)
        self.ln1, self.ln2 = LayerNorm(d_model), LayerNorm(d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.ln2((x := self.ln1(x + self.attn(x, mask=mask))) + self.ffn(x))


class DecoderBlock(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, dropout: float = 0.0):
        super().__init__()
        self.self_attn, self.cross_attn = (MultiHeadAttention(d_model, n_heads, dropout=dropout) for _ in "sc")
        self.ffn = FeedForward(d_model, d_ff, "relu", dropout)
        self.ln1, self.ln2, self.ln3 = (LayerNorm(d_model) for _ in range(3))

    def forward(self, x: Tensor, memory: Tensor, self_mask: Tensor | None = None, memory_mask: Tensor | None = None) -> Tensor:
        x = self.ln1(x + self.self_attn(x, mask=self_mask))
        return self.ln3((x := self.ln2(x + self.cross_attn(x, memory, memory_mask))) + self.ffn(x))
