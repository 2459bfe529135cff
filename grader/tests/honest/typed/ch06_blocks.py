# Style: typed and defensive.

from __future__ import annotations

from typing import Final

from torch import Tensor, nn

from .ch03_attention import MultiHeadAttention
from .ch04_positions_in_attention import CausalSelfAttention
from .ch05_layers import FeedForward, LayerNorm

ACTIVATION_OF_2017: Final[str] = "relu"


def _require_stream(name: str, x: Tensor) -> None:
    if x.dim() != 3:
        raise ValueError(f"{name} must be (B, T, D), got {tuple(x.shape)}")


class _CausalBlock(nn.Module):
    """The parts of both GPT blocks; what sets them apart is the order in `forward`."""

    ln1: LayerNorm
    attn: CausalSelfAttention
    ln2: LayerNorm
    ffn: FeedForward

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int | None = None,
        positions: str = "none",
        dropout: float = 0.0,
        activation: str = "gelu",
    ) -> None:
        super().__init__()
        self.ln1 = LayerNorm(d_model)
        self.attn = CausalSelfAttention(d_model, n_heads, positions=positions, dropout=dropout)
        self.ln2 = LayerNorm(d_model)
        self.ffn = FeedForward(d_model, d_ff=d_ff, activation=activation, dropout=dropout)


class PreNormBlock(_CausalBlock):
    def forward(self, x: Tensor) -> Tensor:
        _require_stream("x", x)
        talked: Tensor = x + self.attn(self.ln1(x))
        thought: Tensor = talked + self.ffn(self.ln2(talked))
        assert thought.shape == x.shape
        return thought


class PostNormBlock(_CausalBlock):
    def forward(self, x: Tensor) -> Tensor:
        _require_stream("x", x)
        talked: Tensor = self.ln1(x + self.attn(x))
        thought: Tensor = self.ln2(talked + self.ffn(talked))
        assert thought.shape == x.shape
        return thought


class EncoderBlock(nn.Module):
    attn: MultiHeadAttention
    ln1: LayerNorm
    ffn: FeedForward
    ln2: LayerNorm

    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.attn = MultiHeadAttention(d_model, n_heads, dropout=dropout)
        self.ln1 = LayerNorm(d_model)
        self.ffn = FeedForward(d_model, d_ff=d_ff, activation=ACTIVATION_OF_2017, dropout=dropout)
        self.ln2 = LayerNorm(d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        _require_stream("x", x)
        talked: Tensor = self.ln1(x + self.attn(x, mask=mask))
        thought: Tensor = self.ln2(talked + self.ffn(talked))
        assert thought.shape == x.shape
        return thought


class DecoderBlock(nn.Module):
    self_attn: MultiHeadAttention
    ln1: LayerNorm
    cross_attn: MultiHeadAttention
    ln2: LayerNorm
    ffn: FeedForward
    ln3: LayerNorm

    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, n_heads, dropout=dropout)
        self.ln1 = LayerNorm(d_model)
        self.cross_attn = MultiHeadAttention(d_model, n_heads, dropout=dropout)
        self.ln2 = LayerNorm(d_model)
        self.ffn = FeedForward(d_model, d_ff=d_ff, activation=ACTIVATION_OF_2017, dropout=dropout)
        self.ln3 = LayerNorm(d_model)

    def forward(
        self, x: Tensor, memory: Tensor, self_mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        _require_stream("x", x)
        _require_stream("memory", memory)
        if memory.size(0) != x.size(0):
            raise ValueError(f"x has {x.size(0)} rows and memory {memory.size(0)}")
        talked: Tensor = self.ln1(x + self.self_attn(x, mask=self_mask))
        informed: Tensor = self.ln2(talked + self.cross_attn(talked, context=memory, mask=memory_mask))
        thought: Tensor = self.ln3(informed + self.ffn(informed))
        assert thought.shape == x.shape
        return thought
