"""What may cross the door, by value, and how it is taken apart and put together.

`pack` turns a value into a tree that JSON can hold and a list of raw buffers; `unpack` builds it anew. Both doors use them, so that
a value means the same in process and out of it. What has no plain form becomes a handle, named by the caller's `keep`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from math import prod
from typing import Any

import torch

MAX_BYTES = 256 * 1024 * 1024
MAX_NODES = 2_000_000
MAX_DEPTH = 40
MAX_TEXT = 8 * 1024 * 1024  # characters of all strings together, and digits
MAX_BITS = 14_000  # of a whole number: Python reads no more than 4300 digits

_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.nn.Parameter))
_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
        torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
    )
}  # fmt: skip


class CannotCross(ValueError):
    """The value is of a kind, or of a size, that the door does not carry; the message says why."""


def pack(value: Any, keep: Callable[[Any], list]) -> tuple[Any, list[bytes]]:
    """The value as a tree and its buffers; `keep` is asked for the handle of whatever is not plain."""
    packer = _Packer(keep)
    return packer.tree(value, 0), packer.buffers


class _Packer:
    def __init__(self, keep: Callable[[Any], list]) -> None:
        self.keep, self.buffers, self.nodes, self.bytes, self.text = keep, [], 0, 0, 0

    def tree(self, value: Any, depth: int) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES or depth > MAX_DEPTH:
            raise CannotCross("a value with more parts, or nested more deeply, than any exercise needs")
        kind = type(value)
        if value is None or kind is bool or kind is float:
            return value
        if kind is int:
            return self.whole(value)
        if kind is str:
            return self.string(value)
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if kind.__module__ == "numpy" and getattr(value, "shape", None) == ():
            return self.tree(value.item(), depth + 1)
        if isinstance(value, bool | int):
            return self.whole(int.__int__(value))
        if isinstance(value, float):
            return float.__float__(value)
        if isinstance(value, str):
            return self.string(str.__str__(value))
        if isinstance(value, bytes | bytearray):
            return {"bytes": self.buffer(bytes(value))}
        if isinstance(value, list):
            return [self.tree(item, depth + 1) for item in list.__iter__(value)]
        if isinstance(value, tuple):
            return {"tuple": [self.tree(item, depth + 1) for item in tuple.__iter__(value)]}
        if isinstance(value, dict):
            return {"dict": [[self.tree(k, depth + 1), self.tree(v, depth + 1)] for k, v in dict.items(value)]}
        if kind in (set, frozenset):
            return {"set": sorted((self.tree(item, depth + 1) for item in value), key=repr)}
        if kind is torch.dtype:
            return {"dtype": str(value).removeprefix("torch.")}
        if kind is torch.device:
            return {"device": str(value)}
        if kind is slice:
            return {"slice": [self.tree(part, depth + 1) for part in (value.start, value.stop, value.step)]}
        return {"handle": self.keep(value)}

    def whole(self, value: int) -> int:
        if value.bit_length() > 64:
            if value.bit_length() > MAX_BITS:
                raise CannotCross(f"a whole number of {value.bit_length()} bits, more than any exercise needs")
            self.text += value.bit_length() // 3
        return value

    def string(self, value: str) -> str:
        self.text += len(value)
        if self.text > MAX_TEXT:
            raise CannotCross(f"more than {MAX_TEXT // 2**20} million characters of text")
        return value

    def buffer(self, data: bytes) -> int:
        self.bytes += len(data)
        if self.bytes > MAX_BYTES:
            raise CannotCross(f"more than {MAX_BYTES // 2**20} MiB of data at once")
        self.buffers.append(data)
        return len(self.buffers) - 1

    def tensor(self, value: torch.Tensor) -> dict:
        if type(value) not in _PLAIN_TENSORS:
            raise CannotCross(f"an object of class {type(value).__name__}, a subclass of torch.Tensor, where a plain tensor belongs")
        if value.layout is not torch.strided or value.is_quantized:
            raise CannotCross(f"a {str(value.layout).removeprefix('torch.')} tensor, where an ordinary (dense) one belongs")
        dtype = str(value.dtype).removeprefix("torch.")
        if dtype not in _DTYPES:
            raise CannotCross(f"a tensor of dtype {dtype}, which no exercise uses")
        shape = list(value.shape)
        if value.device.type == "meta":
            return {"tensor": [dtype, shape, "meta", -1]}
        if value.numel() * value.element_size() > MAX_BYTES:
            raise CannotCross(f"a tensor of shape {tuple(shape)}: more than {MAX_BYTES // 2**20} MiB")
        simple = value.is_cpu and not value.is_conj() and not value.is_neg() and value.is_contiguous()
        plain = value if simple else value.detach().to("cpu").resolve_conj().resolve_neg().contiguous()
        data = ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size()) if plain.numel() else b""
        return {"tensor": [dtype, shape, "cpu", self.buffer(data)]}


def unpack(tree: Any, buffers: list[bytes], find: Callable[[list], Any]) -> Any:
    """The value of a packed tree; `find` gives what a handle stands for. Sizes are checked: the tree may come from a stranger."""
    if tree is None or isinstance(tree, bool | int | float | str):
        return tree
    if isinstance(tree, list):
        return [unpack(item, buffers, find) for item in tree]
    (kind, body), *more = tree.items()
    if more:
        raise CannotCross("a malformed value")
    match kind:
        case "tensor":
            return _tensor(body, buffers)
        case "tuple":
            return tuple(unpack(item, buffers, find) for item in body)
        case "dict":
            return {unpack(k, buffers, find): unpack(v, buffers, find) for k, v in body}
        case "set":
            return {unpack(item, buffers, find) for item in body}
        case "bytes":
            return buffers[body]
        case "dtype":
            return _DTYPES[body]
        case "device":
            return torch.device(body)
        case "slice":
            return slice(*[unpack(part, buffers, find) for part in body])
        case "handle":
            return find(body)
    raise CannotCross(f"a malformed value of kind {kind!r}")


def _tensor(body: list, buffers: list[bytes]) -> torch.Tensor:
    name, shape, device, index = body
    dtype = _DTYPES[name]
    if not all(isinstance(n, int) and n >= 0 for n in shape) or len(shape) > 16:
        raise CannotCross("a tensor with a malformed shape")
    if device == "meta":
        return torch.empty(shape, dtype=dtype, device="meta")
    data = buffers[index]
    if len(data) != prod(shape) * dtype.itemsize:
        raise CannotCross(f"{len(data)} bytes for a tensor of shape {tuple(shape)}")
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)
