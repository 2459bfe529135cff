"""Chapter 7 in the terse style: as short as it can be read."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .ch02_embeddings import LearnedPositions, SinusoidalPositions, TokenEmbedding
from .ch03_attention import causal_mask, padding_mask
from .ch05_layers import LayerNorm
from .ch06_blocks import DecoderBlock, EncoderBlock, PreNormBlock

TABLES = {"learned": LearnedPositions, "sinusoidal": SinusoidalPositions, "rope": None, "alibi": None}


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


class GPT(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        if (c := config).positions not in TABLES:
            raise ValueError(f"unknown positions {c.positions!r}")
        self.config, self.token_emb, table = c, TokenEmbedding(c.vocab_size, c.d_model), TABLES[c.positions]
        self.pos_emb = table and table(c.max_len, c.d_model)
        inside = "none" if table else c.positions
        self.blocks = nn.ModuleList(PreNormBlock(c.d_model, c.n_heads, c.d_ff, inside, c.dropout, c.activation) for _ in range(c.n_layers))
        self.ln_f, self.lm_head = LayerNorm(c.d_model), nn.Linear(c.d_model, c.vocab_size, bias=False)
        for name, p in self.named_parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)
        if c.tie_weights:
            self.lm_head.weight = self.token_emb.weight

    def forward(self, ids: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.token_emb(ids)
        for part in (*filter(None, [self.pos_emb]), *self.blocks, self.ln_f, self.lm_head):
            x = part(x)
        return x, None if targets is None else F.cross_entropy(x.mT, targets, reduction="sum") / (targets != -100).sum().clamp(min=1)


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
        self.config, sizes = (c := config), (c.d_model, c.n_heads, c.d_ff, c.dropout)
        self.src_emb, self.tgt_emb = (TokenEmbedding(v, c.d_model, scale=True) for v in (c.src_vocab_size, c.tgt_vocab_size))
        self.positions = SinusoidalPositions(c.max_len, c.d_model)
        self.encoder_blocks = nn.ModuleList(EncoderBlock(*sizes) for _ in range(c.n_encoder_blocks))
        self.decoder_blocks = nn.ModuleList(DecoderBlock(*sizes) for _ in range(c.n_decoder_blocks))
        self.lm_head = nn.Linear(c.d_model, c.tgt_vocab_size)

    def encode(self, src: Tensor) -> Tensor:
        x, mask = self.positions(self.src_emb(src)), padding_mask(src, self.config.pad_id)
        for block in self.encoder_blocks:
            x = block(x, mask)
        return x

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        x, (real, src_real) = self.positions(self.tgt_emb(tgt)), (padding_mask(t, self.config.pad_id) for t in (tgt, src))
        for block in self.decoder_blocks:
            x = block(x, memory, real & causal_mask(tgt.size(1)).to(tgt.device), src_real)
        return self.lm_head(x)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        return self.decode(tgt, self.encode(src), src)


def count_parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


PARTS = {"ln_1": "ln1", "attn.c_attn": "attn.W_q attn.W_k attn.W_v", "attn.c_proj": "attn.W_out", "ln_2": "ln2", "mlp.c_fc": "ffn.up", "mlp.c_proj": "ffn.down"}


@torch.no_grad()
def load_gpt2(model: GPT, state_dict: Mapping[str, Tensor]) -> None:
    if (kind := model.config.positions) != "learned":
        raise ValueError(f"GPT-2 has learned positions, this model has {kind!r}")
    theirs, ours, n = {k.removeprefix("transformer."): t for k, t in state_dict.items()}, dict(model.named_parameters()), len(model.blocks)
    if (m := len({hit[1] for k in theirs if (hit := re.match(r"h\.(\d+)\.", k))})) != n:
        raise ValueError(f"the state dict has {m} layers, the model {n}")
    plan = [("wte.weight", "token_emb.weight"), ("wpe.weight", "pos_emb.weight"), ("ln_f.weight", "ln_f.weight"), ("ln_f.bias", "ln_f.bias")]
    plan += [("lm_head.weight" if "lm_head.weight" in theirs else "wte.weight", "lm_head.weight")] * ("lm_head.weight" in ours)  # tied: not in ours
    plan += [(f"h.{i}.{a}.{s}", " ".join(f"blocks.{i}.{o}.{s}" for o in b.split())) for i in range(n) for a, b in PARTS.items() for s in ("weight", "bias")]
    todo = []
    for name, parts in plan:
        if (t := theirs.get(name)) is None:
            raise ValueError(f"{name} is missing")
        t, ps = t.transpose(0, -1) if ".c_" in name else t, [ours[p] for p in parts.split()]
        if t.shape != (want := (len(ps) * len(ps[0]), *ps[0].shape[1:])):
            raise ValueError(f"{name} should give {tuple(want)}, and gives {tuple(t.shape)}")
        todo += zip(ps, t.chunk(len(ps)))
    for p, t in todo:
        p.copy_(t)
