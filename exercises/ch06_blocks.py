"""Chapter 6: attention and feed-forward around a residual stream.

B batch, T positions, S positions of a source, D = d_model. Every block takes and returns (B, T, D).

Write your own code wherever NotImplementedError is raised, from top to bottom. The TODO steps say what to do, the
lesson ch06_blocks.md explains why, and `headway check` tests what you have written.

Rules for all exercises of this chapter; the tests check them:
- Do not change an argument in place, unless the docstring says so.
- `...` in a shape means any number of axes, also none. An argument may be a view (not contiguous), and so may a result.
- The result has the dtype and device of the input, unless the docstring says otherwise. Compute float64 input in
  float64.
- Gradients reach every input and parameter and are finite, unless the docstring says "without gradient".
- The state dict holds the parameters that the docstring names and nothing else: register a mask or a table as a buffer
  with persistent=False.
- A ValueError names the values that do not fit, as in
  raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}").
  It may be raised when an object is made or at the first call. An assert with such a message is accepted too.

In this chapter, write attention yourself, without `F.scaled_dot_product_attention`, `nn.MultiheadAttention`,
`nn.Transformer` and torch's other attention functions.
"""

from torch import Tensor, nn

from .ch03_attention import MultiHeadAttention
from .ch04_positions_in_attention import CausalSelfAttention
from .ch05_layers import FeedForward, LayerNorm


class PreNormBlock(nn.Module):
    """GPT-2's block: each layer reads a normalised copy of the stream and adds its output, (B, T, D) -> (B, T, D).

    Its parts: `ln1`, `attn` (a CausalSelfAttention), `ln2`, `ffn` (a FeedForward). `dropout` acts on the attention's weights and
    on the feed-forward's output, nowhere else. Raises the ValueErrors of its parts, which name d_model and n_heads, `positions`
    or `activation`.
    """

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
        # TODO 1: create ln1, attn, ln2 and ffn, and pass each one the arguments that it needs
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 2: apply ln1 and attention, and add the output to x
        # TODO 3: apply ln2 and the feed-forward to the result, and add the output to the result
        raise NotImplementedError


class PostNormBlock(nn.Module):
    """The order of 2017: add first, then normalise the sum, (B, T, D) -> (B, T, D).

    It has the same parts under the same names as PreNormBlock and the same rule for dropout. Raises the same ValueErrors, which
    name d_model and n_heads, `positions` or `activation`.
    """

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
        # TODO 1: create ln1, attn, ln2 and ffn, and pass each one the arguments that it needs
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        # TODO 2: apply attention to x, add the output to x, and normalise the sum with ln1
        # TODO 3: do the same with the feed-forward and ln2
        raise NotImplementedError


class EncoderBlock(nn.Module):
    """One block of an encoder: every position attends to the whole sequence, (B, S, D) -> (B, S, D).

    Its parts: `attn` (a MultiHeadAttention), `ln1`, `ffn` (a FeedForward with relu), `ln2`, in the order of 2017: add, then
    normalise. `dropout` acts on the attention's weights and on the feed-forward's output, nowhere else. A position whose mask
    allows no key gives no NaN, neither in the output nor in a gradient. If n_heads does not divide d_model, the ValueError of
    `attn` is raised, which names d_model and n_heads.
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, dropout: float = 0.0):
        super().__init__()
        # TODO 1: create attn, ln1, ffn (with relu) and ln2
        raise NotImplementedError

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """`mask` broadcasts to (B, H, S, S); True means that the query may attend to the key."""
        # TODO 2: apply attention with the mask, add the output to x, and normalise the sum with ln1
        # TODO 3: do the same with the feed-forward and ln2
        raise NotImplementedError


class DecoderBlock(nn.Module):
    """One block of a decoder: it attends to its own sequence, then to the encoder's memory, (B, T, D) -> (B, T, D).

    Its parts: `self_attn`, `ln1`, `cross_attn`, `ln2`, `ffn` (with relu), `ln3`, in the order of 2017: add, then normalise.
    Each of the two attentions is a MultiHeadAttention. `dropout` acts on the weights of both and on the feed-forward's output,
    nowhere else. A position whose mask allows no key gives no NaN, neither in the output nor in a gradient. If n_heads does
    not divide d_model, the ValueError of the attentions is raised, which names d_model and n_heads.
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int | None = None, dropout: float = 0.0):
        super().__init__()
        # TODO 1: create self_attn, ln1, cross_attn, ln2, ffn (with relu) and ln3
        raise NotImplementedError

    def forward(
        self, x: Tensor, memory: Tensor, self_mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        """Read `x` (B, T, D) and `memory` (B, S, D): (B, T, D).

        `self_mask` broadcasts to (B, H, T, T), `memory_mask` to (B, H, T, S). A mask that is not given is not applied: the block
        is causal only if `self_mask` is a causal mask.
        """
        # TODO 2: apply self-attention with self_mask, add the output to x, and normalise the sum with ln1
        # TODO 3: do the same with cross-attention, whose context is the memory, memory_mask and ln2
        # TODO 4: do the same with the feed-forward and ln3
        raise NotImplementedError
