"""Reads a GGUF file: its metadata, and its tensors as float32. The format is that of llama.cpp, version 2 and 3."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
MAX_ENTRIES = 1_000_000
MAX_STRING_BYTES = 1 << 20

_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9


class GgufProblem(Exception):
    """The file cannot be read; the message is a sentence."""


@dataclass(frozen=True)
class Layout:
    """How a kind of tensor is stored: weights and bytes of a block."""

    name: str
    weights: int
    bytes: int


LAYOUTS = {0: Layout("F32", 1, 4), 1: Layout("F16", 1, 2), 3: Layout("Q4_1", 32, 20), 8: Layout("Q8_0", 32, 34)}
Dequantize = Callable[[Tensor], Tensor]  # blocks (N, bytes) -> (N, weights)


@dataclass(frozen=True)
class _Place:
    shape: tuple[int, ...]
    layout: Layout
    offset: int


class GgufFile:
    """An open file. Tensors are read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as problem:
            raise GgufProblem(f"{path} cannot be read ({getattr(problem, 'strerror', None) or problem})") from None
        self._at = 0
        try:
            self._read_header()
        except (struct.error, UnicodeDecodeError, KeyError):
            raise GgufProblem(f"{path.name} is damaged or cut off; download it again") from None

    def _read_header(self) -> None:
        if self._memory[:4] != MAGIC:
            raise GgufProblem(f"{self.path.name} is not a GGUF file")
        self._at = 4
        version = self._number("<I")
        if version not in VERSIONS:
            raise GgufProblem(f"{self.path.name} has version {version} of GGUF; this reads {VERSIONS[0]} and {VERSIONS[1]}")
        tensors, entries = self._count(), self._count()
        self.metadata: dict[str, Any] = {}
        for _ in range(entries):
            name = self._string()
            self.metadata[name] = self._value(self._number("<I"))
        self._places: dict[str, _Place] = {}
        for _ in range(tensors):
            name = self._string()
            shape = tuple(reversed([self._number("<Q") for _ in range(self._number("<I"))]))
            kind, offset = self._number("<I"), self._number("<Q")
            if kind not in LAYOUTS:
                known = ", ".join(layout.name for layout in LAYOUTS.values())
                raise GgufProblem(f"{name} in {self.path.name} is stored in a way that this does not read; it reads {known}")
            self._places[name] = _Place(shape, LAYOUTS[kind], offset)
        alignment = int(self.metadata.get("general.alignment", DEFAULT_ALIGNMENT))
        self._data = -(-self._at // alignment) * alignment
        for name, place in self._places.items():
            if self._data + place.offset + self._size(place) > len(self._memory):
                raise GgufProblem(f"{self.path.name} ends before {name}: it is cut off; download it again")

    @property
    def names(self) -> list[str]:
        return list(self._places)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._places[name].shape

    def blocks(self, name: str) -> tuple[Layout, Tensor]:
        """How a tensor is stored, and its blocks: uint8 (N, bytes)."""
        place = self._places[name]
        start = self._data + place.offset
        data = torch.frombuffer(self._memory, dtype=torch.uint8, count=self._size(place), offset=start)
        return place.layout, data.view(-1, place.layout.bytes)

    def tensor(self, name: str, dequantize: dict[str, Dequantize]) -> Tensor:
        """A tensor as float32, in its shape. `dequantize` has the functions for Q4_1 and Q8_0."""
        layout, blocks = self.blocks(name)
        if layout.name == "F32":
            values = blocks.clone().view(torch.float32)
        elif layout.name == "F16":
            values = blocks.clone().view(torch.float16).float()
        else:
            values = dequantize[layout.name](blocks)
        return values.reshape(self.shape(name))

    def close(self) -> None:
        """Forget the file; tensors that share its memory keep it open until they are gone."""
        try:
            self._memory.close()
        except BufferError:
            pass

    # ---- reading from the current place on

    def _size(self, place: _Place) -> int:
        return prod(place.shape) // place.layout.weights * place.layout.bytes

    def _number(self, kind: str) -> Any:
        [value] = struct.unpack_from(kind, self._memory, self._at)
        self._at += struct.calcsize(kind)
        return value

    def _count(self) -> int:
        count = self._number("<Q")
        if count > MAX_ENTRIES:
            raise KeyError
        return count

    def _string(self) -> str:
        length = self._number("<Q")
        if length > MAX_STRING_BYTES or self._at + length > len(self._memory):
            raise KeyError
        self._at += length
        return self._memory[self._at - length : self._at].decode("utf-8")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            inner, count = self._number("<I"), self._count()
            if inner in _NUMBERS:
                form = f"<{count}{_NUMBERS[inner][1]}"
                values = struct.unpack_from(form, self._memory, self._at)
                self._at += struct.calcsize(form)
                return list(values)
            return [self._value(inner) for _ in range(count)]
        return self._number(_NUMBERS[kind])
