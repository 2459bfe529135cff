"""Models of one size: a block has attention with a KV cache, or the gated delta rule with a state of fixed size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from grader.models.design import give_first_values
from torch import Tensor, nn

KINDS = ("attention", "recurrent", "hybrid")
EVERY = 4  # layers of a hybrid, of which the last one is attention
LAYERS = (
    "KVCache", "CachedSelfAttention", "RMSNorm", "short_convolution", "segment_sums", "delta_rule_chunked",
    "GatedDeltaNet",
)  # fmt: skip
MAX_LEN = 1 << 20  # without a table of positions, a GPT reads texts of any length


@dataclass(frozen=True)
class Size:
    d_model: int
    n_heads: int
    n_layers: int
    positions: str = "rope"  # of the attention
    width: int = 4  # of the recurrent layers' convolution


def attends(kind: str, layer: int) -> bool:
    """Whether this layer of a model of this kind is attention."""
    return kind == "attention" or (kind == "hybrid" and layer % EVERY == EVERY - 1)


def new_model(parts: Any, kind: str, vocab_size: int, size: Size, tie_weights: bool = True) -> nn.Module:
    """An untrained GPT with layers of this kind. The first values come from torch's generator."""
    sizes = dict(d_model=size.d_model, n_heads=size.n_heads, n_layers=size.n_layers, max_len=MAX_LEN)
    config = parts.GPTConfig(vocab_size=vocab_size, positions="rope", tie_weights=tie_weights, **sizes)
    model = parts.GPT(config)
    model.blocks = nn.ModuleList(new_block(parts, size, attends(kind, layer)) for layer in range(size.n_layers))
    convolutions = [layer.conv for layer in recurrent_layers(parts, model)]
    first_values = [conv.detach().clone() for conv in convolutions]
    give_first_values(model)
    for conv, values in zip(convolutions, first_values):
        conv.data = values  # those of a matrix would make them almost 0
    return model


def new_block(parts: Any, size: Size, attention: bool) -> nn.Module:
    """A block with the one layer or the other. The feed-forward layer of a recurrent block is narrower by as many
    parameters as the gated delta rule has more than attention."""
    layer = parts.CachedSelfAttention(size.d_model, size.n_heads, size.positions)
    d_ff = 4 * size.d_model
    if not attention:
        count, layer = _count(layer), parts.GatedDeltaNet(size.d_model, size.n_heads, size.width)
        d_ff -= round((_count(layer) - count) / (2 * size.d_model + 1))
    block = parts.PreNormBlock(size.d_model, size.n_heads, d_ff)
    block.attn = layer
    return block


def recurrent_layers(parts: Any, model: nn.Module) -> Iterator[nn.Module]:
    return (block.attn for block in model.blocks if isinstance(block.attn, parts.GatedDeltaNet))


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


# ---- writing


class KeptCache:
    """What is added to the learner's KV cache."""

    kept: tuple[Tensor, ...] = ()  # keys and values of all positions

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        self.kept = both = super().append(k, v)  # type: ignore[misc]
        return both


class Memory:
    """What a model keeps of the positions that it has read: a KV cache or a state for each layer."""

    def __init__(self, parts: Any, model: nn.Module, rows: int) -> None:
        class Cache(KeptCache, parts.KVCache): ...

        recurrent = set(recurrent_layers(parts, model))
        self.layers = [block.attn.new_state(rows) if block.attn in recurrent else Cache() for block in model.blocks]

    @property
    def bytes(self) -> int:
        """Of the tensors; the room that a cache has reserved for later positions does not count."""
        kept = (layer.kept if isinstance(layer, KeptCache) else layer for layer in self.layers)
        return sum(tensor.numel() * tensor.element_size() for tensors in kept for tensor in tensors)


def read(model: nn.Module, ids: Tensor, memory: Memory) -> Tensor:
    """The logits of the position after these: ids (B, T) -> (B, V). The memory then has these positions too."""
    stream = model.token_emb(ids)  # (B, T, D)
    for number, block in enumerate(model.blocks):
        before = memory.layers[number]
        if isinstance(before, KeptCache):
            mixed = block.attn(block.ln1(stream), before)
        else:
            mixed, memory.layers[number] = block.attn.step(block.ln1(stream), before)
        stream = stream + mixed
        stream = stream + block.ffn(block.ln2(stream))
    return model.lm_head(model.ln_f(stream[:, -1]))
