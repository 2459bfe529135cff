"""Chapter 7: the whole machine.

B batch, T positions, S positions of a source, D = d_model, V = vocab_size. Ids are (B, T), logits (B, T, V).
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
        ### BEGIN SOLUTION
        if config.positions not in ("learned", "sinusoidal", "rope", "alibi"):
            raise ValueError(f"positions = {config.positions!r} is not one of 'learned', 'sinusoidal', 'rope', 'alibi'")
        self.config = config
        self.token_emb = TokenEmbedding(config.vocab_size, config.d_model)
        tables = {"learned": LearnedPositions, "sinusoidal": SinusoidalPositions}
        table = tables.get(config.positions)
        self.pos_emb = table(config.max_len, config.d_model) if table else None
        inside = "none" if table else config.positions
        self.blocks = nn.ModuleList(
            PreNormBlock(config.d_model, config.n_heads, config.d_ff, inside, config.dropout, config.activation)
            for _ in range(config.n_layers)
        )
        self.ln_f = LayerNorm(config.d_model)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        if config.tie_weights:
            self.lm_head.weight = self.token_emb.weight
        ### END SOLUTION

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
        ### BEGIN SOLUTION
        x = self.token_emb(ids)  # (B, T, D)
        if self.pos_emb is not None:
            x = self.pos_emb(x)
        for block in self.blocks:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))  # (B, T, V)
        if targets is None:
            return logits, None
        total = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")
        return logits, total / (targets != -100).sum().clamp(min=1)
        ### END SOLUTION


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
        ### BEGIN SOLUTION
        self.config = config
        self.src_emb = TokenEmbedding(config.src_vocab_size, config.d_model, scale=True)
        self.tgt_emb = TokenEmbedding(config.tgt_vocab_size, config.d_model, scale=True)
        self.positions = SinusoidalPositions(config.max_len, config.d_model)
        sizes = (config.d_model, config.n_heads, config.d_ff, config.dropout)
        self.encoder_blocks = nn.ModuleList(EncoderBlock(*sizes) for _ in range(config.n_encoder_blocks))
        self.decoder_blocks = nn.ModuleList(DecoderBlock(*sizes) for _ in range(config.n_decoder_blocks))
        self.lm_head = nn.Linear(config.d_model, config.tgt_vocab_size)
        ### END SOLUTION

    def encode(self, src: Tensor) -> Tensor:
        """Encode the source: ids (B, S) -> memory (B, S, D)."""
        # TODO 3: look up the token vectors, and add the positions
        # TODO 4: apply every encoder block, with a mask that hides the padding of the source
        ### BEGIN SOLUTION
        mask = padding_mask(src, self.config.pad_id)  # (B, 1, 1, S)
        x = self.positions(self.src_emb(src))  # (B, S, D)
        for block in self.encoder_blocks:
            x = block(x, mask)
        return x
        ### END SOLUTION

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        """Score the next token after each position of the target: ids (B, T), memory (B, S, D), ids (B, S) -> (B, T, V).

        `src` shows which positions of the memory are padding.
        """
        # TODO 5: make the mask of the target: True for keys that are not padding and not later than the query, (B, 1, T, T)
        # TODO 6: make the mask of the memory: True for keys that are not padding in the source, (B, 1, 1, S)
        # TODO 7: look up the token vectors, add the positions, and apply every decoder block and the head
        ### BEGIN SOLUTION
        self_mask = padding_mask(tgt, self.config.pad_id) & causal_mask(tgt.size(1)).to(tgt.device)  # (B, 1, T, T)
        memory_mask = padding_mask(src, self.config.pad_id)  # (B, 1, 1, S)
        x = self.positions(self.tgt_emb(tgt))  # (B, T, D)
        for block in self.decoder_blocks:
            x = block(x, memory, self_mask, memory_mask)
        return self.lm_head(x)  # (B, T, V)
        ### END SOLUTION

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Encode `src` (B, S), decode `tgt` (B, T) with the memory, and return logits (B, T, V)."""
        # TODO 8: encode, then decode
        ### BEGIN SOLUTION
        return self.decode(tgt, self.encode(src), src)
        ### END SOLUTION


def count_parameters(model: nn.Module) -> int:
    """Count the numbers in all parameters, frozen or not. A matrix that is used in two places counts once; buffers do not count.

    The model may be on any device, also on "meta", where tensors have a shape but no memory.
    """
    # TODO 1: add up the numbers of elements of the parameters, each parameter once
    ### BEGIN SOLUTION
    return sum(parameter.numel() for parameter in model.parameters())
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    if model.config.positions != "learned":
        raise ValueError(f"GPT-2 has learned positions, and the positions of this model are {model.config.positions!r}")
    theirs = {name.removeprefix("transformer."): tensor for name, tensor in state_dict.items()}
    layers = len({name.split(".")[1] for name in theirs if name.startswith("h.")})
    if layers != len(model.blocks):
        raise ValueError(f"the state dict has {layers} layers, and the model has {len(model.blocks)}")

    places = [("wte", ["token_emb"]), ("wpe", ["pos_emb"])]
    for i in range(layers):
        h, block = f"h.{i}", f"blocks.{i}"
        places += [
            (f"{h}.ln_1", [f"{block}.ln1"]),
            (f"{h}.attn.c_attn", [f"{block}.attn.W_q", f"{block}.attn.W_k", f"{block}.attn.W_v"]),
            (f"{h}.attn.c_proj", [f"{block}.attn.W_out"]),
            (f"{h}.ln_2", [f"{block}.ln2"]),
            (f"{h}.mlp.c_fc", [f"{block}.ffn.up"]),
            (f"{h}.mlp.c_proj", [f"{block}.ffn.down"]),
        ]
    places.append(("ln_f", ["ln_f"]))
    if not model.config.tie_weights:
        places.append(("lm_head" if "lm_head.weight" in theirs else "wte", ["lm_head"]))

    own = dict(model.named_parameters())
    copies = []
    for layer, ours in places:
        for kind in ("weight", "bias"):
            parameters = [own[f"{name}.{kind}"] for name in ours if f"{name}.{kind}" in own]
            if not parameters:  # token_emb, pos_emb and lm_head have no bias
                continue
            name = f"{layer}.{kind}"
            if name not in theirs:
                raise ValueError(f"the state dict has no {name}")
            linear = kind == "weight" and ".c_" in name
            tensor = theirs[name].T if linear else theirs[name]
            parts = tensor.chunk(len(parameters))
            if [part.shape for part in parts] != [parameter.shape for parameter in parameters]:
                raise ValueError(f"{name} has the size {tuple(theirs[name].shape)}, which does not fit this model")
            copies += zip(parameters, parts)
    with torch.no_grad():
        for parameter, part in copies:
            parameter.copy_(part)
    ### END SOLUTION
