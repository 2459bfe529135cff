"""Style: einsum. Nothing is multiplied here: the products are inside the parts, and a block only adds."""

from torch import Tensor, nn

from .ch03_attention import MultiHeadAttention
from .ch04_positions_in_attention import CausalSelfAttention
from .ch05_layers import FeedForward, LayerNorm


class CausalParts(nn.Module):
    """What a pre-norm and a post-norm block have in common: the four parts."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int | None = None,
        positions: str = "none",
        dropout: float = 0.0,
        activation: str = "gelu",
    ):
        super().__init__()
        self.ln1 = LayerNorm(d_model)
        self.attn = CausalSelfAttention(d_model, n_heads, positions, dropout=dropout)
        self.ln2 = LayerNorm(d_model)
        self.ffn = FeedForward(d_model, d_ff, activation, dropout)


class PreNormBlock(CausalParts):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln1(x))
        return x + self.ffn(self.ln2(x))


class PostNormBlock(CausalParts):
    def forward(self, x: Tensor) -> Tensor:
        x = self.ln1(x + self.attn(x))
        return self.ln2(x + self.ffn(x))


class EncoderBlock(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, dropout: float = 0.0):
        super().__init__()
        self.attn = MultiHeadAttention(d_model, n_heads, dropout=dropout)
        self.ln1 = LayerNorm(d_model)
        self.ffn = FeedForward(d_model, d_ff, "relu", dropout)
        self.ln2 = LayerNorm(d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.ln1(x + self.attn(x, mask=mask))
        return self.ln2(x + self.ffn(x))


class DecoderBlock(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, dropout: float = 0.0):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, n_heads, dropout=dropout)
        self.ln1 = LayerNorm(d_model)
        self.cross_attn = MultiHeadAttention(d_model, n_heads, dropout=dropout)
        self.ln2 = LayerNorm(d_model)
        self.ffn = FeedForward(d_model, d_ff, "relu", dropout)
        self.ln3 = LayerNorm(d_model)

    def forward(
        self, x: Tensor, memory: Tensor, self_mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        x = self.ln1(x + self.self_attn(x, mask=self_mask))
        x = self.ln2(x + self.cross_attn(x, context=memory, mask=memory_mask))
        return self.ln3(x + self.ffn(x))
