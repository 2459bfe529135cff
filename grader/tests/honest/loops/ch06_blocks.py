"""In explicit loops: a block walks through its parts and the norm that belongs to each."""

from torch import Tensor, nn

from .ch03_attention import MultiHeadAttention
from .ch04_positions_in_attention import CausalSelfAttention
from .ch05_layers import FeedForward, LayerNorm


class PreNormBlock(nn.Module):
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
        for name in ("ln1", "ln2"):
            setattr(self, name, LayerNorm(d_model))
        self.attn = CausalSelfAttention(d_model, n_heads, positions=positions, dropout=dropout)
        self.ffn = FeedForward(d_model, d_ff, activation=activation, dropout=dropout)

    def forward(self, x: Tensor) -> Tensor:
        for norm, part in ((self.ln1, self.attn), (self.ln2, self.ffn)):
            x = x + part(norm(x))
        return x


class PostNormBlock(nn.Module):
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
        for name in ("ln1", "ln2"):
            setattr(self, name, LayerNorm(d_model))
        self.attn = CausalSelfAttention(d_model, n_heads, positions=positions, dropout=dropout)
        self.ffn = FeedForward(d_model, d_ff, activation=activation, dropout=dropout)

    def forward(self, x: Tensor) -> Tensor:
        for norm, part in ((self.ln1, self.attn), (self.ln2, self.ffn)):
            x = norm(x + part(x))
        return x


class EncoderBlock(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, dropout: float = 0.0):
        super().__init__()
        self.attn = MultiHeadAttention(d_model, n_heads, dropout=dropout)
        self.ffn = FeedForward(d_model, d_ff, activation="relu", dropout=dropout)
        for name in ("ln1", "ln2"):
            setattr(self, name, LayerNorm(d_model))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        found = self.attn(x, mask=mask)
        x = self.ln1(x + found)
        thought = self.ffn(x)
        return self.ln2(x + thought)


class DecoderBlock(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, dropout: float = 0.0):
        super().__init__()
        for name in ("self_attn", "cross_attn"):
            setattr(self, name, MultiHeadAttention(d_model, n_heads, dropout=dropout))
        self.ffn = FeedForward(d_model, d_ff, activation="relu", dropout=dropout)
        for name in ("ln1", "ln2", "ln3"):
            setattr(self, name, LayerNorm(d_model))

    def forward(
        self, x: Tensor, memory: Tensor, self_mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        found = self.self_attn(x, mask=self_mask)
        x = self.ln1(x + found)
        heard = self.cross_attn(x, context=memory, mask=memory_mask)
        x = self.ln2(x + heard)
        thought = self.ffn(x)
        return self.ln3(x + thought)
