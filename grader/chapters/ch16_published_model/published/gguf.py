"""Reads a model from a GGUF file, as llama.cpp uses it: the format's versions 2 and 3."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from grader.chapters.ch16_published_model.published.source import (
    BASE,
    BLOCKS,
    CONTEXT,
    EPS,
    HEADS,
    SIZE,
    WORDS,
    PublishedProblem,
    Sizes,
    Source,
    check_values,
    other_kind,
    other_texts,
)
from grader.models.file_values import list_of, require_finite, whole
from torch import Tensor, nn

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT = 32
MOST_ENTRIES = 1_000_000
MOST_STRING_BYTES = 1 << 20
CONTROL_TOKEN = 3  # a kind of token

_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
INT32 = whole(-(1 << 31), (1 << 31) - 1)

LOADING = ("dequantize_q8_0", "dequantize_q4_1")

_WHOLE = {"token_embd": "token_emb", "output_norm": "ln_f", "output": "lm_head"}
_IN_BLOCKS = {
    "attn_norm": "ln1", "attn_q": "attn.W_q", "attn_k": "attn.W_k", "attn_v": "attn.W_v", "attn_output": "attn.W_out",
    "ffn_norm": "ln2", "ffn_gate": "ffn.gate", "ffn_up": "ffn.up", "ffn_down": "ffn.down",
}  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """How a kind of tensor is stored: weights and bytes of a block."""

    name: str
    weights: int
    bytes: int


LAYOUTS = {0: Layout("F32", 1, 4), 1: Layout("F16", 1, 2), 3: Layout("Q4_1", 32, 20), 8: Layout("Q8_0", 32, 34)}
VALUES = {
    "tokenizer.ggml.tokens": WORDS, "tokenizer.ggml.merges": WORDS, "tokenizer.ggml.token_type": list_of(INT32),
    "llama.embedding_length": SIZE, "llama.block_count": BLOCKS, "llama.feed_forward_length": SIZE,
    "llama.attention.head_count": HEADS, "llama.attention.layer_norm_rms_epsilon": EPS,
}  # fmt: skip
OPTIONAL = {
    "general.alignment": whole(1, 1 << 20),
    "llama.vocab_size": SIZE,
    "llama.context_length": CONTEXT,
    "llama.attention.head_count_kv": HEADS,
    "llama.rope.freq_base": BASE,
}
Dequantize = Callable[[Tensor], Tensor]  # blocks (N, bytes) -> (N, weights)


@dataclass(frozen=True)
class _Place:
    shape: tuple[int, ...]
    layout: Layout
    offset: int

    @property
    def bytes(self) -> int:
        return prod(self.shape) // self.layout.weights * self.layout.bytes


class _Damaged(Exception):
    pass


class GgufFile:
    """An open file. Tensors are read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        try:
            with path.open("rb") as file:
                self._memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)  # torch takes no read-only memory
        except ValueError:
            raise PublishedProblem(f"{self.name} is empty; download it again") from None
        except OSError as problem:
            raise PublishedProblem(f"{path} cannot be read: {(problem.strerror or str(problem)).lower()}") from None
        self._at = 0
        try:
            self._read_header()
        except (struct.error, UnicodeDecodeError, KeyError, _Damaged):
            raise PublishedProblem(f"{self.name} is damaged or cut off; download it again") from None

    def _read_header(self) -> None:
        if self._memory[:4] != MAGIC:
            raise PublishedProblem(f"{self.name} is not a GGUF file")
        self._at = 4
        version = self._number("<I")
        if version not in VERSIONS:
            known = " and ".join(map(str, VERSIONS))
            raise PublishedProblem(f"{self.name} has version {version} of GGUF; Headway reads the versions {known}")
        tensors, entries = self._count(), self._count()
        self.metadata: dict[str, Any] = {}
        for _ in range(entries):
            name = self._string()
            self.metadata[name] = self._value(self._number("<I"))
        self._places = dict(self._read_place() for _ in range(tensors))
        alignment = self.metadata.get("general.alignment", ALIGNMENT)
        check_values(self.metadata, OPTIONAL, self.name, ())
        self._data = -(-self._at // alignment) * alignment
        for name, place in self._places.items():
            if self._data + place.offset + place.bytes > len(self._memory):
                raise PublishedProblem(f"{self.name} ends before {name}: it is cut off; download it again")

    def _read_place(self) -> tuple[str, _Place]:
        name = self._string()
        shape = tuple(reversed([self._number("<Q") for _ in range(self._number("<I"))]))
        kind, offset = self._number("<I"), self._number("<Q")
        if kind not in LAYOUTS:
            known = ", ".join(layout.name for layout in LAYOUTS.values())
            what = f"{self.name} stores {name} in a way that Headway does not read"
            raise PublishedProblem(f"{what}; take a file with {known}")
        if not shape or 0 in shape or shape[-1] % LAYOUTS[kind].weights:
            raise _Damaged
        return name, _Place(shape, LAYOUTS[kind], offset)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: place.shape for name, place in self._places.items()}

    def blocks(self, name: str) -> tuple[Layout, Tensor]:
        """How a tensor is stored, and its blocks: uint8 (N, bytes), in the memory of the file."""
        place = self._places[name]
        start = self._data + place.offset
        data = torch.frombuffer(self._memory, dtype=torch.uint8, count=place.bytes, offset=start)
        return place.layout, data.view(-1, place.layout.bytes)

    def tensor(self, name: str, dequantize: Mapping[str, Dequantize]) -> Tensor:
        """A tensor as float32, in its shape. `dequantize` has the functions for Q4_1 and Q8_0."""
        layout, blocks = self.blocks(name)
        if layout.name in dequantize:
            values = dequantize[layout.name](blocks)
        else:
            values = blocks.clone().view(torch.float32 if layout.name == "F32" else torch.float16).float()
        return values.reshape(self._places[name].shape)

    # ---- reading from the current place on

    def _number(self, kind: str) -> Any:
        [value] = struct.unpack_from(kind, self._memory, self._at)
        self._at += struct.calcsize(kind)
        return value

    def _count(self) -> int:
        count = self._number("<Q")
        if count > MOST_ENTRIES:
            raise _Damaged
        return count

    def _string(self) -> str:
        length = self._number("<Q")
        if length > MOST_STRING_BYTES or self._at + length > len(self._memory):
            raise _Damaged
        self._at += length
        return self._memory[self._at - length : self._at].decode("utf-8")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._number(_NUMBERS[kind])
        inner, count = self._number("<I"), self._count()
        if inner == _ARRAY:  # the format allows it, no model has it, and a damaged file could nest them without end
            raise _Damaged
        if inner == _STRING:
            return [self._string() for _ in range(count)]
        form = f"<{count}{_NUMBERS[inner][1]}"
        values = struct.unpack_from(form, self._memory, self._at)
        self._at += struct.calcsize(form)
        return list(values)


def read_gguf(path: Path) -> Source:
    """The model in this file. PublishedProblem, with a sentence, if chapter 16's model cannot run it."""
    file = GgufFile(path)
    data = file.metadata
    kind = data.get("general.architecture")
    if kind != "llama":
        raise other_kind(path.name, kind)
    check_values(data, VALUES | OPTIONAL, path.name, VALUES)
    tokens, merges, kinds = (data[f"tokenizer.ggml.{name}"] for name in ("tokens", "merges", "token_type"))
    if data.get("tokenizer.ggml.pre") != "smollm":
        raise other_texts(path.name)
    heads = data["llama.attention.head_count"]
    sizes = Sizes(
        data.get("llama.vocab_size", len(tokens)), data["llama.embedding_length"], heads,
        data.get("llama.attention.head_count_kv", heads), data["llama.block_count"], data["llama.feed_forward_length"],
        float(data.get("llama.rope.freq_base", 10_000)), float(data["llama.attention.layer_norm_rms_epsilon"]),
        "output.weight" not in file.shapes,
    )  # fmt: skip
    special = [token for token, kind in zip(tokens, kinds) if kind == CONTROL_TOKEN]
    name, context = path.stem.partition(".")[0], data.get("llama.context_length", 2048)
    source = Source(
        name, sizes, context, tokens, merges, special, LOADING, lambda parts, model: _fill(parts, model, file)
    )  # fmt: skip
    _require_tensors(file, sizes)
    return source


def _require_tensors(file: GgufFile, sizes: Sizes) -> None:
    """PublishedProblem unless the file has exactly the tensors that a model of these sizes has."""
    D, d_kv = sizes.d_model, sizes.d_model // sizes.n_heads * sizes.n_kv_heads
    table = (sizes.vocab_size, D)
    expected = {"token_embd.weight": table, "output_norm.weight": (D,)}
    if not sizes.tied:
        expected["output.weight"] = table
    shapes = {
        "attn_norm": (D,), "attn_q": (D, D), "attn_k": (d_kv, D), "attn_v": (d_kv, D), "attn_output": (D, D),
        "ffn_norm": (D,), "ffn_gate": (sizes.d_ff, D), "ffn_up": (sizes.d_ff, D), "ffn_down": (D, sizes.d_ff),
    }  # fmt: skip
    for block in range(min(sizes.n_layers, len(file.shapes) + 1)):  # the number may be damaged
        expected |= {f"blk.{block}.{name}.weight": shape for name, shape in shapes.items()}
    found = file.shapes
    if wrong := sorted(name for name in expected | found if found.get(name) != expected.get(name)):
        what = f"{file.name} does not have the tensors that its sizes ask for, for example {wrong[0]}"
        raise PublishedProblem(f"{what}; download it again, or take another file")


def _fill(parts: Any, model: nn.Module, file: GgufFile) -> None:
    """Copy every tensor. A GGUF file has the rows of queries and keys interleaved already."""
    dequantize = {"Q4_1": parts.dequantize_q4_1, "Q8_0": parts.dequantize_q8_0}
    own = dict(model.named_parameters(remove_duplicate=False))
    with torch.no_grad():
        for name in file.shapes:
            values = file.tensor(name, dequantize)
            require_finite({name: values}, file.name, PublishedProblem, "download it again")
            own[_place_of(name)].copy_(values)


def _place_of(name: str) -> str:
    name = name.removesuffix(".weight")
    if name in _WHOLE:
        return f"{_WHOLE[name]}.weight"
    _, block, kind = name.split(".")
    return f"blocks.{block}.{_IN_BLOCKS[kind]}.weight"
