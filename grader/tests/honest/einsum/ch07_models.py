"""Style: einsum. b batch, t position, d model width, v vocabulary; i and o what a map takes and gives, s one of q, k, v. Masks are buffers."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .ch02_embeddings import LearnedPositions, SinusoidalPositions, TokenEmbedding
from .ch03_attention import causal_mask, padding_mask
from .ch05_layers import LayerNorm
from .ch06_blocks import DecoderBlock, EncoderBlock, PreNormBlock


class LinearMap(nn.Module):
    """weight (out, in) and perhaps bias (out,): "...i,oi->...o"."""

    def __init__(self, d_in: int, d_out: int, bias: bool = True):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d_out, d_in) * d_in**-0.5)
        self.register_parameter("bias", nn.Parameter(torch.zeros(d_out)) if bias else None)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.einsum("...i,oi->...o", x, self.weight)
        return y if self.bias is None else y + self.bias


@dataclass
class GPTConfig:
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


TABLES = {"learned": LearnedPositions, "sinusoidal": SinusoidalPositions}
INSIDE_ATTENTION = ("rope", "alibi")


class GPT(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        if config.positions not in (*TABLES, *INSIDE_ATTENTION):
            raise ValueError(f"positions={config.positions!r} is none of {', '.join([*TABLES, *INSIDE_ATTENTION])}")
        self.config = config
        self.token_emb = TokenEmbedding(config.vocab_size, config.d_model)
        table = TABLES.get(config.positions)
        self.pos_emb = None if table is None else table(config.max_len, config.d_model)
        inside = config.positions if config.positions in INSIDE_ATTENTION else "none"
        self.blocks = nn.ModuleList(
            PreNormBlock(config.d_model, config.n_heads, config.d_ff, inside, config.dropout, config.activation)
            for _ in range(config.n_layers)
        )
        self.ln_f = LayerNorm(config.d_model)
        self.lm_head = LinearMap(config.d_model, config.vocab_size, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        if config.tie_weights:
            self.lm_head.weight = self.token_emb.weight

    def forward(self, ids: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.token_emb(ids)
        if self.pos_emb is not None:
            x = self.pos_emb(x)
        for block in self.blocks:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, None if targets is None else mean_surprise(logits, targets)


def mean_surprise(logits: Tensor, targets: Tensor) -> Tensor:
    kept = targets != -100
    chosen = torch.log_softmax(logits, dim=-1).gather(-1, torch.where(kept, targets, 0)[..., None])[..., 0]
    return torch.where(kept, -chosen, 0.0).sum() / kept.sum().clamp(min=1)


@dataclass
class Seq2SeqConfig:
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
    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        self.config = config
        sizes = (config.d_model, config.n_heads, config.d_ff, config.dropout)
        self.src_emb = TokenEmbedding(config.src_vocab_size, config.d_model, scale=True)
        self.tgt_emb = TokenEmbedding(config.tgt_vocab_size, config.d_model, scale=True)
        self.positions = SinusoidalPositions(config.max_len, config.d_model)
        self.encoder_blocks = nn.ModuleList(EncoderBlock(*sizes) for _ in range(config.n_encoder_blocks))
        self.decoder_blocks = nn.ModuleList(DecoderBlock(*sizes) for _ in range(config.n_decoder_blocks))
        self.lm_head = LinearMap(config.d_model, config.tgt_vocab_size)
        self.register_buffer("past", causal_mask(config.max_len), persistent=False)

    def encode(self, src: Tensor) -> Tensor:
        x = self.positions(self.src_emb(src))
        real = padding_mask(src, self.config.pad_id)
        for block in self.encoder_blocks:
            x = block(x, mask=real)
        return x

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        x = self.positions(self.tgt_emb(tgt))
        length = tgt.shape[1]
        may_read = self.past[:length, :length] & padding_mask(tgt, self.config.pad_id)
        real_source = padding_mask(src, self.config.pad_id)
        for block in self.decoder_blocks:
            x = block(x, memory, self_mask=may_read, memory_mask=real_source)
        return self.lm_head(x)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return self.decode(tgt, self.encode(src), src)


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


# what GPT-2 calls the parts of a block, what we call them, and how theirs becomes ours (one part for each of our parts)
BLOCK_PARTS: dict[str, tuple[tuple[str, ...], str]] = {
    "ln_1.weight": (("ln1.weight",), "d->d"),
    "ln_1.bias": (("ln1.bias",), "d->d"),
    "attn.c_attn.weight": (("attn.W_q.weight", "attn.W_k.weight", "attn.W_v.weight"), "iso->soi"),
    "attn.c_attn.bias": (("attn.W_q.bias", "attn.W_k.bias", "attn.W_v.bias"), "so->so"),
    "attn.c_proj.weight": (("attn.W_out.weight",), "io->oi"),
    "attn.c_proj.bias": (("attn.W_out.bias",), "o->o"),
    "ln_2.weight": (("ln2.weight",), "d->d"),
    "ln_2.bias": (("ln2.bias",), "d->d"),
    "mlp.c_fc.weight": (("ffn.up.weight",), "io->oi"),
    "mlp.c_fc.bias": (("ffn.up.bias",), "o->o"),
    "mlp.c_proj.weight": (("ffn.down.weight",), "io->oi"),
    "mlp.c_proj.bias": (("ffn.down.bias",), "o->o"),
}


def shape_in_file(ours: Tensor, pattern: str) -> tuple[int, ...]:
    """The shape that a tensor must have in GPT-2's file to give `ours` by `pattern`; the three of `s` are side by side with `o`."""
    theirs, wanted = pattern.split("->")
    size = dict(zip(wanted.replace("s", ""), ours.shape))
    return tuple(size[letter] * (3 if "s" in theirs and letter == "o" else 1) for letter in theirs.replace("s", ""))


@torch.no_grad()
def load_gpt2(model: GPT, state_dict: Mapping[str, Tensor]) -> None:
    if model.config.positions != "learned":
        raise ValueError(f"GPT-2 has learned positions, and this model's are {model.config.positions!r}")
    theirs = {name.removeprefix("transformer."): tensor for name, tensor in state_dict.items()}
    numbers = [int(name.split(".")[1]) for name in theirs if name.startswith("h.") and name.split(".")[1].isdigit()]
    n_theirs, n_ours = max(numbers, default=-1) + 1, len(model.blocks)
    if n_theirs != n_ours:
        raise ValueError(f"the state dict has {n_theirs} layers, and the model has {n_ours}")

    wanted = [
        ("wte.weight", [model.token_emb.weight], "vd->vd"),
        ("wpe.weight", [model.pos_emb.weight], "td->td"),
        ("ln_f.weight", [model.ln_f.weight], "d->d"),
        ("ln_f.bias", [model.ln_f.bias], "d->d"),
    ]
    for i, block in enumerate(model.blocks):
        for name, (ours, pattern) in BLOCK_PARTS.items():
            wanted.append((f"h.{i}.{name}", [block.get_parameter(part) for part in ours], pattern))
    if model.lm_head.weight is not model.token_emb.weight:
        head = "lm_head.weight" if "lm_head.weight" in theirs else "wte.weight"
        wanted.append((head, [model.lm_head.weight], "vd->vd"))

    for name, ours, pattern in wanted:
        if name not in theirs:
            raise ValueError(f"{name} is missing in the state dict")
        shape = shape_in_file(ours[0], pattern)
        if tuple(theirs[name].shape) != shape:
            raise ValueError(f"{name} has shape {tuple(theirs[name].shape)}, and this model needs {shape}")
    for name, ours, pattern in wanted:
        given = theirs[name]
        if "s" not in pattern:
            ours[0].copy_(torch.einsum(pattern, given))
            continue
        for parameter, part in zip(ours, torch.einsum(pattern, given.unflatten(-1, (3, -1)))):
            parameter.copy_(part)
