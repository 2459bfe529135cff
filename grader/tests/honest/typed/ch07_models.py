# Style: typed and defensive.

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .ch02_embeddings import LearnedPositions, SinusoidalPositions, TokenEmbedding
from .ch03_attention import causal_mask, padding_mask
from .ch05_layers import LayerNorm
from .ch06_blocks import DecoderBlock, EncoderBlock, PreNormBlock

INIT_STD: Final[float] = 0.02
IGNORED_TARGET: Final[int] = -100
GPT2_PREFIX: Final[str] = "transformer."
GPT2_LAYER: Final[re.Pattern[str]] = re.compile(r"h\.(\d+)\.")
GPT2_ACTIVATION: Final[str] = "gelu_tanh"


class PositionKind(StrEnum):
    LEARNED = "learned"
    SINUSOIDAL = "sinusoidal"
    ROPE = "rope"
    ALIBI = "alibi"

    @classmethod
    def parse(cls, name: str) -> PositionKind:
        try:
            return cls(name)
        except ValueError:
            raise ValueError(f"positions must be one of {[kind.value for kind in cls]}, got {name!r}") from None

    @property
    def is_table(self) -> bool:
        return self in (PositionKind.LEARNED, PositionKind.SINUSOIDAL)


def _require_positive(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be 1 or more, got {size}")


def _require_ids(name: str, ids: Tensor) -> None:
    if ids.dim() != 2:
        raise ValueError(f"{name} must be (B, T), got {tuple(ids.shape)}")
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise ValueError(f"{name} must be whole numbers, got {ids.dtype}")


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


def _table_of(kind: PositionKind, config: GPTConfig) -> LearnedPositions | SinusoidalPositions | None:
    match kind:
        case PositionKind.LEARNED:
            return LearnedPositions(config.max_len, config.d_model)
        case PositionKind.SINUSOIDAL:
            return SinusoidalPositions(config.max_len, config.d_model)
        case _:
            return None


@torch.no_grad()
def _give_first_values(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if parameter.dim() >= 2:
            parameter.normal_(mean=0.0, std=INIT_STD)
        elif name.endswith("bias"):
            parameter.zero_()
        else:
            parameter.fill_(1.0)


class GPT(nn.Module):
    config: GPTConfig
    token_emb: TokenEmbedding
    pos_emb: LearnedPositions | SinusoidalPositions | None
    blocks: nn.ModuleList
    ln_f: LayerNorm
    lm_head: nn.Linear

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        kind: PositionKind = PositionKind.parse(config.positions)
        _require_positive(
            vocab_size=config.vocab_size,
            max_len=config.max_len,
            d_model=config.d_model,
            n_heads=config.n_heads,
            n_layers=config.n_layers,
        )
        self.config = config
        self.token_emb = TokenEmbedding(config.vocab_size, config.d_model)
        self.pos_emb = _table_of(kind, config)
        inside: str = "none" if kind.is_table else kind.value
        self.blocks = nn.ModuleList(
            PreNormBlock(
                config.d_model,
                config.n_heads,
                d_ff=config.d_ff,
                positions=inside,
                dropout=config.dropout,
                activation=config.activation,
            )
            for _ in range(config.n_layers)
        )
        self.ln_f = LayerNorm(config.d_model)
        self.lm_head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tie_weights:
            self.lm_head.weight = self.token_emb.weight
        _give_first_values(self)

    def forward(self, ids: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        _require_ids("ids", ids)
        if targets is not None:
            _require_ids("targets", targets)
            if targets.shape != ids.shape:
                raise ValueError(f"each id has a target: ids are {tuple(ids.shape)}, targets {tuple(targets.shape)}")
        stream: Tensor = self.token_emb(ids)
        if self.pos_emb is not None:
            stream = self.pos_emb(stream)
        for block in self.blocks:
            stream = block(stream)
        logits: Tensor = self.lm_head(self.ln_f(stream))
        assert logits.shape == (*ids.shape, self.config.vocab_size)
        return logits, None if targets is None else self._mean_surprise(logits, targets)

    @staticmethod
    def _mean_surprise(logits: Tensor, targets: Tensor) -> Tensor:
        flat_logits: Tensor = logits.flatten(0, -2)
        flat_targets: Tensor = targets.flatten().to(torch.int64)
        n_kept: int = int((flat_targets != IGNORED_TARGET).sum())
        total: Tensor = F.cross_entropy(flat_logits, flat_targets, ignore_index=IGNORED_TARGET, reduction="sum")
        loss: Tensor = total / max(n_kept, 1)
        assert loss.dim() == 0
        return loss


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
    config: Seq2SeqConfig
    src_emb: TokenEmbedding
    tgt_emb: TokenEmbedding
    positions: SinusoidalPositions
    encoder_blocks: nn.ModuleList
    decoder_blocks: nn.ModuleList
    lm_head: nn.Linear

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        _require_positive(
            src_vocab_size=config.src_vocab_size,
            tgt_vocab_size=config.tgt_vocab_size,
            max_len=config.max_len,
            d_model=config.d_model,
            n_heads=config.n_heads,
        )
        if not 0 <= config.pad_id < min(config.src_vocab_size, config.tgt_vocab_size):
            raise ValueError(f"pad_id {config.pad_id} is not in both vocabularies, of {config.src_vocab_size} and {config.tgt_vocab_size}")
        self.config = config
        self.src_emb = TokenEmbedding(config.src_vocab_size, config.d_model, scale=True)
        self.tgt_emb = TokenEmbedding(config.tgt_vocab_size, config.d_model, scale=True)
        self.positions = SinusoidalPositions(config.max_len, config.d_model)
        self.encoder_blocks = nn.ModuleList(
            EncoderBlock(config.d_model, config.n_heads, d_ff=config.d_ff, dropout=config.dropout)
            for _ in range(config.n_encoder_blocks)
        )
        self.decoder_blocks = nn.ModuleList(
            DecoderBlock(config.d_model, config.n_heads, d_ff=config.d_ff, dropout=config.dropout)
            for _ in range(config.n_decoder_blocks)
        )
        self.lm_head = nn.Linear(config.d_model, config.tgt_vocab_size)

    def encode(self, src: Tensor) -> Tensor:
        self._require_fits("src", src)
        may_read: Tensor = padding_mask(src, self.config.pad_id)
        memory: Tensor = self.positions(self.src_emb(src))
        for block in self.encoder_blocks:
            memory = block(memory, mask=may_read)
        assert memory.shape == (*src.shape, self.config.d_model)
        return memory

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        self._require_fits("tgt", tgt)
        _require_ids("src", src)
        if memory.shape != (*src.shape, self.config.d_model):
            raise ValueError(f"the memory of src {tuple(src.shape)} cannot be {tuple(memory.shape)}")
        if tgt.size(0) != src.size(0):
            raise ValueError(f"tgt has {tgt.size(0)} rows and src {src.size(0)}")
        self_mask: Tensor = padding_mask(tgt, self.config.pad_id) & causal_mask(tgt.size(1)).to(tgt.device)
        assert self_mask.shape == (tgt.size(0), 1, tgt.size(1), tgt.size(1))
        memory_mask: Tensor = padding_mask(src, self.config.pad_id)
        stream: Tensor = self.positions(self.tgt_emb(tgt))
        for block in self.decoder_blocks:
            stream = block(stream, memory, self_mask=self_mask, memory_mask=memory_mask)
        logits: Tensor = self.lm_head(stream)
        assert logits.shape == (*tgt.shape, self.config.tgt_vocab_size)
        return logits

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        self._require_fits("src", src)
        self._require_fits("tgt", tgt)
        return self.decode(tgt, self.encode(src), src)

    def _require_fits(self, name: str, ids: Tensor) -> None:
        _require_ids(name, ids)
        if ids.size(1) > self.config.max_len:
            raise ValueError(f"{name} has {ids.size(1)} tokens, but max_len is {self.config.max_len}")


def count_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@dataclass(frozen=True, slots=True)
class _Share:
    """One tensor of GPT-2's file and our parameters that share its rows, in order."""

    name: str
    parts: tuple[Tensor, ...]
    transposed: bool = False

    def rows_from(self, tensors: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        if self.name not in tensors:
            raise ValueError(f"{self.name} is missing")
        found: Tensor = tensors[self.name]
        expected: tuple[int, ...] = self._expected_shape()
        if tuple(found.shape) != expected:
            raise ValueError(f"{self.name} must be {expected}, got {tuple(found.shape)}")
        ours: Tensor = found.t() if self.transposed else found
        return ours.split([part.size(0) for part in self.parts], dim=0)

    def _expected_shape(self) -> tuple[int, ...]:
        n_rows: int = sum(part.size(0) for part in self.parts)
        shape: tuple[int, ...] = (n_rows, *self.parts[0].shape[1:])
        return shape[::-1] if self.transposed else shape


def _linear(name: str, *ours: nn.Linear) -> Iterator[_Share]:
    yield _Share(f"{name}.weight", tuple(linear.weight for linear in ours), transposed=True)
    yield _Share(f"{name}.bias", tuple(linear.bias for linear in ours))


def _norm(name: str, ours: LayerNorm) -> Iterator[_Share]:
    yield _Share(f"{name}.weight", (ours.weight,))
    yield _Share(f"{name}.bias", (ours.bias,))


def _gpt2_shares(model: GPT, names: Mapping[str, Tensor]) -> Iterator[_Share]:
    assert model.pos_emb is not None
    yield _Share("wte.weight", (model.token_emb.weight,))
    yield _Share("wpe.weight", (model.pos_emb.weight,))
    for i, block in enumerate(model.blocks):
        yield from _norm(f"h.{i}.ln_1", block.ln1)
        yield from _linear(f"h.{i}.attn.c_attn", block.attn.W_q, block.attn.W_k, block.attn.W_v)
        yield from _linear(f"h.{i}.attn.c_proj", block.attn.W_out)
        yield from _norm(f"h.{i}.ln_2", block.ln2)
        yield from _linear(f"h.{i}.mlp.c_fc", block.ffn.up)
        yield from _linear(f"h.{i}.mlp.c_proj", block.ffn.down)
    yield from _norm("ln_f", model.ln_f)
    if model.lm_head.weight is not model.token_emb.weight:
        yield _Share("lm_head.weight" if "lm_head.weight" in names else "wte.weight", (model.lm_head.weight,))


def load_gpt2(model: GPT, state_dict: Mapping[str, Tensor]) -> None:
    if not isinstance(model, GPT):
        raise TypeError(f"a GPT is needed, not a {type(model).__name__}")
    if model.config.positions != PositionKind.LEARNED:
        raise ValueError(f"GPT-2 has learned positions, this model's are {str(model.config.positions)!r}")
    if model.config.activation != GPT2_ACTIVATION:
        raise ValueError(f"GPT-2 was trained with activation {GPT2_ACTIVATION!r}, this model has {str(model.config.activation)!r}")
    tensors: dict[str, Tensor] = {name.removeprefix(GPT2_PREFIX): tensor for name, tensor in state_dict.items()}
    n_layers: int = len({found[1] for name in tensors if (found := GPT2_LAYER.match(name))})
    if n_layers != len(model.blocks):
        raise ValueError(f"the state dict has {n_layers} layers, the model {len(model.blocks)}")
    checked: list[tuple[Tensor, Tensor]] = [
        (part, rows) for share in _gpt2_shares(model, tensors) for part, rows in zip(share.parts, share.rows_from(tensors))
    ]
    assert all(part.shape == rows.shape for part, rows in checked)
    with torch.no_grad():
        for part, rows in checked:
            part.copy_(rows)
