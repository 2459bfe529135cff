"""The values that can cross the boundary, and how they are packed and unpacked.

`pack` turns a value into a tree that fits in JSON and a list of raw buffers; `unpack` rebuilds it. Runs in process and
in a worker both use them, so that a value means the same in each. An object of any other kind becomes a handle, which
the caller's `make_handle` makes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from math import prod
from typing import Any

import torch

MAX_BYTES = 32 * 1024 * 1024  # the largest answer in the whole course has 0.1 MB
MAX_META_BYTES = 4 * 1024**3  # bytes that a tensor on the device `meta` would need for its data
MAX_NODES = 200_000
MAX_KEYS = 4_000  # of dicts and sets together: keys that collide take time in proportion to their number squared
MAX_DEPTH = 40
MAX_TEXT_CHARACTERS = 1024 * 1024  # of all strings, and digits of all large numbers, together
MAX_INTEGER_BITS = 14_000  # Python reads at most 4300 digits

_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.nn.Parameter))
_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
        torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
    )
}  # fmt: skip

_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


class CannotCross(ValueError):
    """The value's kind or size is not allowed across the boundary; the message says why."""


def pack(value: Any, make_handle: Callable[[Any], list]) -> tuple[Any, list[bytes]]:
    """The value as a tree and its buffers; `make_handle` makes the handle of each object that has no plain form."""
    packer = _Packer(make_handle)
    return packer.tree(value, 0), packer.buffers


class _Packer:
    def __init__(self, make_handle: Callable[[Any], list]) -> None:
        self.make_handle = make_handle
        self.buffers: list[bytes] = []
        self.nodes = self.keys = self.bytes = self.text = 0

    def tree(self, value: Any, depth: int) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES or depth > MAX_DEPTH:
            raise CannotCross("a value with more parts, or nested more deeply, than any exercise needs")
        kind = type(value)
        if value is None or kind is bool or kind is float:
            return value
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
            self.count(len(value))
            return {"dict": [[self.tree(k, depth + 1), self.tree(v, depth + 1)] for k, v in dict.items(value)]}
        if kind in (set, frozenset):
            self.count(len(value))
            return {"set": sorted((self.tree(item, depth + 1) for item in value), key=repr)}
        if kind is torch.dtype:
            return {"dtype": str(value).removeprefix("torch.")}
        if kind is torch.device:
            return {"device": str(value)}
        if kind is slice:
            return {"slice": [self.tree(part, depth + 1) for part in (value.start, value.stop, value.step)]}
        return {"handle": self.make_handle(value)}

    def whole(self, value: int) -> int:
        if value.bit_length() > 64:
            if value.bit_length() > MAX_INTEGER_BITS:
                raise CannotCross(f"a whole number of {value.bit_length()} bits, more than any exercise needs")
            self.text += value.bit_length() // 3
        return value

    def string(self, value: str) -> str:
        self.text += len(value)
        if self.text > MAX_TEXT_CHARACTERS:
            raise CannotCross(f"more than {MAX_TEXT_CHARACTERS // 2**20} million characters of text")
        return value

    def count(self, keys: int) -> None:
        self.keys += keys
        if self.keys > MAX_KEYS:
            raise CannotCross(f"dicts or sets with more than {MAX_KEYS} entries")

    def buffer(self, data: bytes) -> int:
        self.bytes += len(data)
        if self.bytes > MAX_BYTES:
            raise CannotCross(f"more than {MAX_BYTES // 2**20} MiB of data at once")
        self.buffers.append(data)
        return len(self.buffers) - 1

    def tensor(self, value: torch.Tensor) -> dict:
        if type(value) not in _PLAIN_TENSORS:
            raise CannotCross(
                f"an object of class {type(value).__name__}, a subclass of torch.Tensor, where a plain tensor belongs"
            )
        if value.layout is not torch.strided or value.is_quantized or value.is_nested:
            kind = (
                "nested"
                if value.is_nested
                else "quantized"
                if value.is_quantized
                else str(value.layout).removeprefix("torch.")
            )
            raise CannotCross(f"a {kind} tensor, where an ordinary (dense) one belongs")
        dtype = _NAMES.get(value.dtype)
        if dtype is None:
            raise CannotCross(f"a tensor of dtype {str(value.dtype).removeprefix('torch.')}, which no exercise uses")
        shape = list(value.shape)
        if value.device.type == "meta":
            if value.numel() * value.element_size() > MAX_META_BYTES:
                raise CannotCross(f"a tensor of shape {tuple(shape)}, larger than any exercise needs")
            return {"tensor": [dtype, shape, "meta", -1]}
        if value.numel() * value.element_size() > MAX_BYTES:
            raise CannotCross(f"a tensor of shape {tuple(shape)}: more than {MAX_BYTES // 2**20} MiB")
        simple = value.is_cpu and not value.is_conj() and not value.is_neg() and value.is_contiguous()
        plain = value if simple else value.detach().to("cpu").resolve_conj().resolve_neg().contiguous()
        data = ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size()) if plain.numel() else b""
        return {"tensor": [dtype, shape, "cpu", self.buffer(data)]}


def unpack(tree: Any, buffers: list[bytes], find_object: Callable[[list], Any]) -> Any:
    """The value of a packed tree; `find_object` returns the object of a handle.

    The tree may come from untrusted code: a tree that `pack` would not make is refused, and no tree costs more than a
    large value.
    """
    return _Unpacker(buffers, find_object).value(tree, 0)


class _Unpacker:
    def __init__(self, buffers: list[bytes], find_object: Callable[[list], Any]) -> None:
        self.buffers, self.find_object, self.nodes, self.keys = dict(enumerate(buffers)), find_object, 0, 0

    def value(self, tree: Any, depth: int) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES or depth > MAX_DEPTH:
            raise CannotCross("more parts than a value can have")
        if type(tree) is float:
            # a new object: each call's number has an identity, also where the code returns the same constant twice
            return tree * 1.0
        if tree is None or isinstance(tree, bool | int | float | str):
            return tree
        if isinstance(tree, list):
            return [self.value(item, depth + 1) for item in tree]
        (kind, body), *more = tree.items()
        if more:
            raise CannotCross("a malformed value")
        match kind:
            case "tensor":
                return self.tensor(*_listed(body))
            case "tuple":
                return tuple(self.value(item, depth + 1) for item in _listed(body))
            case "dict":
                return {self.key(k, depth): self.value(v, depth + 1) for k, v in _listed(body)}
            case "set":
                return {self.key(item, depth) for item in _listed(body)}
            case "bytes":
                return self.buffer(body)
            case "dtype":
                return _DTYPES[body]
            case "device":
                return torch.device(_text(body))
            case "slice":
                return slice(*[self.value(part, depth + 1) for part in _listed(body)])
            case "handle":
                return self.find_object(_listed(body))
        raise CannotCross("a malformed value")

    def key(self, tree: Any, depth: int) -> Any:
        self.keys += 1
        if self.keys > MAX_KEYS:
            raise CannotCross("more keys than a value can have")
        return self.value(tree, depth + 1)

    def buffer(self, index: Any) -> bytes:
        """Each buffer only once: a tree that used one buffer a thousand times would be a thousand times as large as
        what was sent."""
        if type(index) is not int or index not in self.buffers:
            raise CannotCross("a buffer that is not there")
        return self.buffers.pop(index)

    def tensor(self, name: str, shape: list, device: str, index: int) -> torch.Tensor:
        dtype = _DTYPES[_text(name)]
        if len(_listed(shape)) > 16 or not all(type(n) is int and 0 <= n < 2**48 for n in shape):
            raise CannotCross("a tensor with a malformed shape")
        # an empty tensor could be huge along its other axes, and become large when it is summed
        extent = prod(n or 1 for n in shape) * dtype.itemsize
        if extent > (MAX_META_BYTES if device == "meta" else MAX_BYTES):
            raise CannotCross("a tensor larger than any exercise needs")
        if device == "meta":
            return torch.empty(shape, dtype=dtype, device="meta")
        data = self.buffer(index)
        if len(data) != prod(shape) * dtype.itemsize:
            raise CannotCross(f"{len(data)} bytes for a tensor of shape {tuple(shape)}")
        if not data:
            return torch.empty(shape, dtype=dtype)
        if dtype is torch.bool and data.strip(b"\0\1"):
            raise CannotCross("a truth value that is neither true nor false")
        return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)


def _listed(body: Any) -> list:
    if not isinstance(body, list):
        raise CannotCross("a malformed value")
    return body


def _text(body: Any) -> str:
    if not isinstance(body, str):
        raise CannotCross("a malformed value")
    return body


Packed = tuple[Any, list[bytes]]  # a tree and its buffers


def changed_argument(
    target: Any,
    args: tuple,
    options: dict,
    original: Packed,
    make_handle: Callable[[Any], list],
    find_object: Callable[[list], Any],
) -> str | None:
    """None if no argument changed; else which one did, as " number 2" or " `mask`", or "" if that is not known."""
    try:
        again = pack([target, args, options], make_handle)
    except CannotCross:  # before the call it could
        return ""
    if again[1] == original[1] and repr(again[0]) == repr(original[0]):
        return None
    _, before_args, before_options = unpack(*original, find_object)

    def form(value: Any) -> tuple[str, list[bytes]]:
        tree, buffers = pack(value, make_handle)
        return repr(tree), buffers

    if form([args, options]) == form([before_args, before_options]):
        return None  # a replay calls a function that has another name in the learner's code
    for position, (now, then) in enumerate(zip(args, before_args)):
        if form(now) != form(then):
            return f" number {position + 1}" if len(args) > 1 else ""
    for name, then in before_options.items():
        if form(options.get(name)) != form(then):
            return f" `{name}`"
    return ""
