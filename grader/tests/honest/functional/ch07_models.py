"""Written in the functional style: the stream is folded through the blocks, and loading is a plan made before it is carried out."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import chain

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .ch02_embeddings import LearnedPositions, SinusoidalPositions, TokenEmbedding
from .ch03_attention import causal_mask, padding_mask
from .ch05_layers import LayerNorm
from .ch06_blocks import DecoderBlock, EncoderBlock, PreNormBlock

TABLES = {"learned": LearnedPositions, "sinusoidal": SinusoidalPositions}
INSIDE_ATTENTION = ("rope", "alibi")


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


def first_values(name: str, parameter: Tensor) -> None:
    if parameter.dim() > 1:
        nn.init.normal_(parameter, std=0.02)
    elif name.endswith("bias"):
        nn.init.zeros_(parameter)


def mean_surprise(logits: Tensor, targets: Tensor) -> Tensor:
    total = F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=-100, reduction="sum")
    return total / targets.ne(-100).sum().clamp(min=1)


class GPT(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        if config.positions not in (*TABLES, *INSIDE_ATTENTION):
            raise ValueError(f"positions is {config.positions!r}, and should be one of {', '.join((*TABLES, *INSIDE_ATTENTION))}")
        inside = config.positions if config.positions in INSIDE_ATTENTION else "none"
        self.config = config
        self.token_emb = TokenEmbedding(config.vocab_size, config.d_model)
        self.pos_emb = TABLES[config.positions](config.max_len, config.d_model) if config.positions in TABLES else None
        self.blocks = nn.ModuleList(
            PreNormBlock(config.d_model, config.n_heads, config.d_ff, inside, config.dropout, config.activation)
            for _ in range(config.n_layers)
        )
        self.ln_f = LayerNorm(config.d_model)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        for name, parameter in self.named_parameters():
            first_values(name, parameter)
        if config.tie_weights:
            self.lm_head.weight = self.token_emb.weight

    def forward(self, ids: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        tables = () if self.pos_emb is None else (self.pos_emb,)
        parts = (self.token_emb, *tables, *self.blocks, self.ln_f, self.lm_head)
        logits = reduce(lambda x, part: part(x), parts, ids)
        return logits, None if targets is None else mean_surprise(logits, targets)


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
        sizes = (config.d_model, config.n_heads, config.d_ff, config.dropout)
        self.config = config
        self.src_emb = TokenEmbedding(config.src_vocab_size, config.d_model, scale=True)
        self.tgt_emb = TokenEmbedding(config.tgt_vocab_size, config.d_model, scale=True)
        self.positions = SinusoidalPositions(config.max_len, config.d_model)
        self.encoder_blocks = nn.ModuleList(EncoderBlock(*sizes) for _ in range(config.n_encoder_blocks))
        self.decoder_blocks = nn.ModuleList(DecoderBlock(*sizes) for _ in range(config.n_decoder_blocks))
        self.lm_head = nn.Linear(config.d_model, config.tgt_vocab_size)

    def encode(self, src: Tensor) -> Tensor:
        real = padding_mask(src, self.config.pad_id)
        return reduce(lambda x, block: block(x, real), self.encoder_blocks, self.positions(self.src_emb(src)))

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        real = padding_mask(src, self.config.pad_id)
        past = causal_mask(tgt.size(1)).to(tgt.device) & padding_mask(tgt, self.config.pad_id)
        start = self.positions(self.tgt_emb(tgt))
        return self.lm_head(reduce(lambda x, block: block(x, memory, past, real), self.decoder_blocks, start))

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return self.decode(tgt, self.encode(src), src)


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


Plan = list[tuple[str, tuple[str, ...]]]


def with_bias(theirs: str, ours: tuple[str, ...]) -> Plan:
    return [(f"{theirs}.{kind}", tuple(f"{name}.{kind}" for name in ours)) for kind in ("weight", "bias")]


def block_plan(i: int) -> Plan:
    pairs = (
        ("ln_1", ("ln1",)),
        ("attn.c_attn", ("attn.W_q", "attn.W_k", "attn.W_v")),
        ("attn.c_proj", ("attn.W_out",)),
        ("ln_2", ("ln2",)),
        ("mlp.c_fc", ("ffn.up",)),
        ("mlp.c_proj", ("ffn.down",)),
    )
    return [line for theirs, ours in pairs for line in with_bias(f"h.{i}.{theirs}", tuple(f"blocks.{i}.{part}" for part in ours))]


def loading_plan(model: GPT, names: Mapping[str, Tensor]) -> Plan:
    """Which weights correspond: one of GPT-2's names, and our names that share its rows."""
    tied = model.lm_head.weight is model.token_emb.weight
    head_name = "lm_head.weight" if "lm_head.weight" in names else "wte.weight"
    tables = [("wte.weight", ("token_emb.weight",)), ("wpe.weight", ("pos_emb.weight",))]
    head = [] if tied else [(head_name, ("lm_head.weight",))]
    return [*tables, *chain.from_iterable(map(block_plan, range(len(model.blocks)))), *with_bias("ln_f", ("ln_f",)), *head]


def is_transposed(name: str) -> bool:
    return name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight"))


def parts_of(name: str, tensor: Tensor | None, shapes: list[torch.Size]) -> tuple[Tensor, ...]:
    """The tensor of that name, cut into parts of these shapes; or a ValueError that names it."""
    if tensor is None:
        raise ValueError(f"the state dict has no {name}")
    together = (sum(shape[0] for shape in shapes), *shapes[0][1:])
    expected = together[::-1] if is_transposed(name) else together
    if tuple(tensor.shape) != expected:
        raise ValueError(f"{name} is {tuple(tensor.shape)}, and should be {expected}")
    return (tensor.t() if is_transposed(name) else tensor).split([shape[0] for shape in shapes])


def load_gpt2(model: GPT, state_dict: Mapping[str, Tensor]) -> None:
    if model.config.positions != "learned":
        raise ValueError(f"GPT-2 has learned positions, and those of the model are {model.config.positions!r}")
    theirs = {name.removeprefix("transformer."): tensor for name, tensor in state_dict.items()}
    n_layers = len({name.split(".")[1] for name in theirs if name.startswith("h.")})
    if n_layers != len(model.blocks):
        raise ValueError(f"the state dict has {n_layers} layers, and the model has {len(model.blocks)}")
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    plan = loading_plan(model, theirs)
    found = [zip(ours, parts_of(name, theirs.get(name), [shapes[part] for part in ours])) for name, ours in plan]
    model.load_state_dict(dict(chain.from_iterable(found)), strict=False)
