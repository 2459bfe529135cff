"""Written in the functional style: a block is a fold of its steps over the stream."""

from collections.abc import Callable
from functools import partial, reduce

from torch import Tensor, nn

from .ch03_attention import MultiHeadAttention
from .ch04_positions_in_attention import CausalSelfAttention
from .ch05_layers import FeedForward, LayerNorm

Part = Callable[[Tensor], Tensor]


def pre_norm(x: Tensor, step: tuple[Part, Part]) -> Tensor:
    norm, part = step
    return x + part(norm(x))


def post_norm(x: Tensor, step: tuple[Part, Part]) -> Tensor:
    norm, part = step
    return norm(x + part(x))


class GPTBlock(nn.Module):
    """The parts that the two kinds of decoder-only blocks share; which of them it is, is said by `join`."""

    join = staticmethod(pre_norm)

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
        self.ln1, self.ln2 = LayerNorm(d_model), LayerNorm(d_model)
        self.attn = CausalSelfAttention(d_model, n_heads, positions=positions, dropout=dropout)
        self.ffn = FeedForward(d_model, d_ff, activation=activation, dropout=dropout)

    def forward(self, x: Tensor) -> Tensor:
        return reduce(self.join, ((self.ln1, self.attn), (self.ln2, self.ffn)), x)


class PreNormBlock(GPTBlock):
    join = staticmethod(pre_norm)


class PostNormBlock(GPTBlock):
    join = staticmethod(post_norm)


class EncoderBlock(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, dropout: float = 0.0):
        super().__init__()
        self.attn = MultiHeadAttention(d_model, n_heads, dropout=dropout)
        self.ffn = FeedForward(d_model, d_ff, activation="relu", dropout=dropout)
        self.ln1, self.ln2 = LayerNorm(d_model), LayerNorm(d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return reduce(post_norm, ((self.ln1, partial(self.attn, mask=mask)), (self.ln2, self.ffn)), x)


class DecoderBlock(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, dropout: float = 0.0):
        super().__init__()
        self.self_attn, self.cross_attn = (MultiHeadAttention(d_model, n_heads, dropout=dropout) for _ in range(2))
        self.ffn = FeedForward(d_model, d_ff, activation="relu", dropout=dropout)
        self.ln1, self.ln2, self.ln3 = (LayerNorm(d_model) for _ in range(3))

    def forward(
        self, x: Tensor, memory: Tensor, self_mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        listen = partial(self.self_attn, mask=self_mask)
        ask = partial(self.cross_attn, context=memory, mask=memory_mask)
        return reduce(post_norm, ((self.ln1, listen), (self.ln2, ask), (self.ln3, self.ffn)), x)
