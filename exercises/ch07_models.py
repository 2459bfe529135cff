"""Chapter 7: the whole machine.

B batch, T positions, S positions of a source, D = d_model, V = vocab_size. Ids are (B, T), logits (B, T, V).

Your turn: write your own code wherever NotImplementedError is raised, from the top down. The TODO steps say what to do,
the lesson ch07_models.md says why, and `headway check` says how far you are.

Rules for all exercises of this chapter; the tests check them:
- Do not change an argument in place, unless the docstring says so.
- `...` in a shape means any number of axes, also none. An argument may be a view (not contiguous), and so may a result.
- The result has the dtype and device of the input, unless the docstring says otherwise. Compute float64 input in float64.
- Gradients reach every input and parameter and are finite, unless the docstring says "without gradient".
- The state dict holds the parameters that the docstring names and nothing else: register a mask or a table as a buffer
  with persistent=False.
- A ValueError names the values that do not fit: raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}").
  It may be raised when an object is made or at the first call. An assert with such a message is accepted too.

In this chapter, write attention yourself, without `F.scaled_dot_product_attention`, `nn.MultiheadAttention`,
`nn.Transformer` and torch's other attention functions.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .ch02_embeddings import LearnedPositions, SinusoidalPositions, TokenEmbedding
from .ch03_attention import causal_mask, padding_mask
from .ch05_layers import LayerNorm
from .ch06_blocks import DecoderBlock, EncoderBlock, PreNormBlock


@dataclass
class GPTConfig:
    """The sizes of a GPT, and the choices to make. `positions` is "learned", "sinusoidal", "rope" or "alibi"."""

    vocab_size: int
    max_len: int
    d_model: int = 64
    n_heads: int = 4
    n_layers: int = 4
    d_ff: int | None = None
    positions: str = "learned"
    tie_weights: bool = True
    dropout: float = 0.0
    activation: str = "gelu"


class GPT(nn.Module):
    """A language model: for each position, a score for every token that could come next, (B, T) -> (B, T, V).

    Its parts: `token_emb`; `pos_emb`, the table of positions, or None with RoPE and ALiBi, which live inside attention;
    `blocks`, a ModuleList of n_layers PreNormBlocks; `ln_f`; `lm_head`, D -> V without a bias, whose weight *is* the
    embedding's where tie_weights says so. `config` is kept. Embeddings are not scaled, and no dropout acts on them.
    Every matrix starts as N(0, 0.02), every bias at 0, every norm at weight 1 and bias 0.
    Raises a ValueError that names `positions` for any other word, and one that names max_len for input longer than max_len
    where positions are a table.
    """

    def __init__(self, config: GPTConfig):
        super().__init__()
        # TODO 1: check config.positions; name it in the error
        # TODO 2: keep config; make token_emb and pos_emb
        # TODO 3: make the blocks; they hear of positions only when these are "rope" or "alibi"
        # TODO 4: make ln_f and lm_head
        # TODO 5: give every matrix and every bias of the whole model its first values
        # TODO 6: tie: let lm_head.weight be the very parameter that token_emb.weight is
        raise NotImplementedError

    def forward(self, ids: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Give (logits, loss): (B, T, V), and the mean cross-entropy with `targets` (B, T), or None without them.

        `targets[b, t]` is the token that should follow position t: they come shifted already. A target of -100 is left out of
        the mean; when all are, the loss is 0 and its gradient zero. The logits have the dtype of the parameters. For float64
        parameters the loss is computed in float64; for half precision it may be in float32.
        """
        # TODO 7: look up the tokens, and add the table of positions where there is one, (B, T, D)
        # TODO 8: through every block, the last norm, and the head
        # TODO 9: with targets, the mean of the cross-entropy over those that are not -100
        raise NotImplementedError


@dataclass
class Seq2SeqConfig:
    """The sizes of a Seq2Seq. `pad_id` is the id that fills up short rows, of source and target alike."""

    src_vocab_size: int
    tgt_vocab_size: int
    max_len: int
    d_model: int = 64
    n_heads: int = 4
    d_ff: int | None = None
    n_encoder_blocks: int = 2
    n_decoder_blocks: int = 2
    dropout: float = 0.0
    pad_id: int = 0


class Seq2Seq(nn.Module):
    """A translator: an encoder reads the source, a decoder writes the target, (B, S) and (B, T) -> (B, T, V).

    Its parts: `src_emb` and `tgt_emb`, scaled by sqrt(D); `positions`, sinusoidal, for both; `encoder_blocks` and
    `decoder_blocks`, ModuleLists; `lm_head`, D -> tgt_vocab_size, with a bias. `config` is kept. No norm follows the last
    block, and no dropout acts on the embeddings. The model makes its own masks: padding is never attended to, and the decoder
    never looks ahead. Raises a ValueError that names max_len for a source or target longer than max_len. Memory and logits
    have the dtype of the parameters.
    """

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        # TODO 1: keep config; make src_emb, tgt_emb and positions
        # TODO 2: make encoder_blocks, decoder_blocks and lm_head
        raise NotImplementedError

    def encode(self, src: Tensor) -> Tensor:
        """Read the source: ids (B, S) -> memory (B, S, D)."""
        # TODO 3: look up the tokens and add the positions
        # TODO 4: through every encoder block, hiding the padding of the source
        raise NotImplementedError

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        """Score the next token after each position of the target: ids (B, T), memory (B, S, D), ids (B, S) -> (B, T, V).

        `src` says which places of the memory are padding.
        """
        # TODO 5: a mask for the target: what is not padding and not later, (B, 1, T, T)
        # TODO 6: a mask for the memory: what is not padding in the source, (B, 1, 1, S)
        # TODO 7: look up the tokens, add the positions, through every decoder block, and the head
        raise NotImplementedError

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Encode `src` (B, S) and decode `tgt` (B, T) with it: logits (B, T, V)."""
        # TODO 8: encode, then decode
        raise NotImplementedError


def count_parameters(model: nn.Module) -> int:
    """How many numbers the parameters hold: a matrix used in two places counts once, buffers not at all."""
    # TODO 1: add up the sizes of the parameters, each once
    raise NotImplementedError


def load_gpt2(model: GPT, state_dict: Mapping[str, Tensor]) -> None:
    """Copy the tensors of a Hugging Face GPT-2 into a GPT made with activation="gelu_tanh".

    Each name may begin with "transformer.". `wte` holds the tokens, `wpe` the positions, and block i is `h.i`, with `ln_1`,
    `attn.c_attn` (q, k and v side by side), `attn.c_proj`, `ln_2`, `mlp.c_fc` and `mlp.c_proj`; then comes `ln_f`. A tied model
    needs no more; an untied one takes `lm_head.weight`, or `wte` again where that is missing. The linear maps of the blocks keep
    their weights as (in, out), the other way round than nn.Linear. Other names, such as `h.0.attn.bias` (a mask), are ignored.

    Raises ValueError for a model whose positions are not learned (the error says what they are), for another number of layers
    than the model has (it names both), and for a missing tensor or one of a wrong size (it names the tensor as the state dict
    does, without the prefix). After an error every tensor of the model is what it was. The numbers are copies, and the model
    keeps its dtype.
    """
    # TODO 1: check that the model has learned positions
    # TODO 2: take "transformer." off the names, and count the layers: are they as many as the model's blocks?
    # TODO 3: write down what belongs where: a name in the file, and this model's names that share its rows
    # TODO 4: find each tensor, transposed where it is linear; check that it is there and that its parts have the right sizes
    # TODO 5: only when all of them have passed: copy them, part by part
    raise NotImplementedError
