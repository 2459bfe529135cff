"""Chapter 7: the whole machine.

B batch, T positions, S positions of a source, D = d_model, V = vocab_size. Ids are (B, T), logits (B, T, V).

Write your own code wherever NotImplementedError is raised, from top to bottom. The TODO steps say what to do, the
lesson ch07_models.md explains why, and `headway check` tests what you have written.

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
    """The sizes and the options of a GPT. `positions` is "learned", "sinusoidal", "rope" or "alibi"."""

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
    """A language model: for each position, a logit (score) for every token that could come next, (B, T) -> (B, T, V).

    Its parts: `token_emb`; `pos_emb`, the table of positions, or None with RoPE and ALiBi, which act inside attention;
    `blocks`, a ModuleList of n_layers PreNormBlocks; `ln_f`; `lm_head`, D -> V without a bias. With tie_weights (weight
    tying), the weight of lm_head *is* the embedding's: one Parameter. `config` is stored. Embeddings are not scaled, and no
    dropout acts on them.
    Every matrix is initialised from N(0, 0.02), the normal distribution with mean 0 and standard deviation 0.02. Every bias
    starts at 0, and every norm has weight 1 and bias 0.
    Any other value of `positions` than the four of GPTConfig raises a ValueError that names it. If the positions are a table,
    input longer than max_len raises a ValueError that names max_len.
    """

    def __init__(self, config: GPTConfig):
        super().__init__()
        # TODO 1: check config.positions, and name it in the error
        # TODO 2: store config; create token_emb and pos_emb
        # TODO 3: create the blocks; pass them "rope" or "alibi" if positions is one of these, and "none" otherwise
        # TODO 4: create ln_f and lm_head
        # TODO 5: initialise every matrix and every bias of the whole model
        # TODO 6: with tie_weights, make lm_head.weight and token_emb.weight the same Parameter
        raise NotImplementedError

    def forward(self, ids: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Return (logits, loss): (B, T, V), and the mean cross-entropy with `targets` (B, T), or None without targets.

        `targets[b, t]` is the token that should follow position t: the caller has already shifted the targets. A target of -100
        does not count in the mean. If no target counts, the loss is 0 and its gradient zero. Both arguments may be slices of
        one tensor, such as batch[:, :-1] and batch[:, 1:]. The logits have the dtype of the parameters. For float64 parameters
        the loss is computed in float64; for half precision it may be in float32.
        """
        # TODO 7: look up the token vectors, and add the table of positions if there is one, (B, T, D)
        # TODO 8: apply every block, the last norm, and the head
        # TODO 9: with targets, compute the mean cross-entropy over those that are not -100
        raise NotImplementedError


@dataclass
class Seq2SeqConfig:
    """The sizes of a Seq2Seq. `pad_id` is the id that pads short rows, in source and target."""

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
    `decoder_blocks`, ModuleLists; `lm_head`, D -> tgt_vocab_size, with a bias. `config` is stored. No norm follows the last
    block, and no dropout acts on the embeddings. The model makes its own masks: no position attends to padding, and no
    position of the target attends to a later one. A source or target longer than max_len raises a ValueError that names
    max_len. Memory and logits have the dtype of the parameters.
    """

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        # TODO 1: store config; create src_emb, tgt_emb and positions
        # TODO 2: create encoder_blocks, decoder_blocks and lm_head
        raise NotImplementedError

    def encode(self, src: Tensor) -> Tensor:
        """Encode the source: ids (B, S) -> memory (B, S, D)."""
        # TODO 3: look up the token vectors, and add the positions
        # TODO 4: apply every encoder block, with a mask that hides the padding of the source
        raise NotImplementedError

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        """Score the next token after each position of the target: ids (B, T), memory (B, S, D), ids (B, S) -> (B, T, V).

        `src` shows which positions of the memory are padding.
        """
        # TODO 5: make the mask of the target: True for keys that are not padding and not later than the query, (B, 1, T, T)
        # TODO 6: make the mask of the memory: True for keys that are not padding in the source, (B, 1, 1, S)
        # TODO 7: look up the token vectors, add the positions, and apply every decoder block and the head
        raise NotImplementedError

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Encode `src` (B, S), decode `tgt` (B, T) with the memory, and return logits (B, T, V)."""
        # TODO 8: encode, then decode
        raise NotImplementedError


def count_parameters(model: nn.Module) -> int:
    """Count the numbers in all parameters, frozen or not. A matrix that is used in two places counts once; buffers do not count.

    The model may be on any device, also on "meta", where tensors have a shape but no memory.
    """
    # TODO 1: add up the numbers of elements of the parameters, each parameter once
    raise NotImplementedError


def load_gpt2(model: GPT, state_dict: Mapping[str, Tensor]) -> None:
    """Copy the tensors of a Hugging Face GPT-2 into a GPT made with activation="gelu_tanh".

    Each name may begin with "transformer.". `wte` is the token embedding, `wpe` the table of positions, and block i is `h.i`,
    with `ln_1`, `attn.c_attn` (q, k and v side by side), `attn.c_proj`, `ln_2`, `mlp.c_fc` and `mlp.c_proj`; the last norm is
    `ln_f`. A tied model needs nothing else; an untied one uses `lm_head.weight`, or `wte` again if that is missing. The linear
    maps of the blocks store their weights as (in, out), while nn.Linear uses (out, in). Other names, such as `h.0.attn.bias`
    (a mask), are ignored.

    Raises ValueError if the model's positions are not "learned" (the error names the value), if the state dict has another
    number of layers than the model (it names both numbers), and if a tensor is missing or has a wrong size (it names the
    tensor as the state dict does, without the prefix). After an error no tensor of the model has changed. The numbers are
    copied into the Parameters that the model has; these keep their dtype, and nothing else about the model changes.
    """
    # TODO 1: check that the model has learned positions
    # TODO 2: remove "transformer." from the names, and compare the number of layers with the number of blocks
    # TODO 3: list what belongs where: a name in the file, and the names in this model that share its rows
    # TODO 4: find each tensor, and transpose the weights of linear maps; check that each exists and that its parts fit
    # TODO 5: only after all of them have passed: copy them, part by part
    raise NotImplementedError
