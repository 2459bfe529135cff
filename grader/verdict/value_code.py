"""Values as Python code that evaluates to exactly the same value, with the fewest digits that do it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

MAX_SHOWN_NUMBERS = 12  # numbers in a tensor that a failure shows as code
_DEFAULTS = (torch.float32, torch.int64, torch.bool, torch.complex64)  # dtypes that torch.tensor infers
_MAX_DIGITS = 17


class NotCode(ValueError):
    """The value is too large for code, or no code makes it; the message says which."""


def value_code(value: Any, most: int = MAX_SHOWN_NUMBERS, name_of: Callable[[Any], str | None] = lambda _: None) -> str:
    """The code of a value. It uses `torch`, and `math` for inf and nan. `name_of` gives the code of objects. NotCode if
    there is none.

    `most` limits the numbers of each tensor and the items of each container.
    """
    if (known := name_of(value)) is not None:
        return known
    if value is None or type(value) in (bool, int, str, bytes):
        return repr(value)
    if type(value) is float:
        return float_code(value)
    if isinstance(value, Tensor):
        return tensor_code(value, most)
    if isinstance(value, torch.dtype):
        return str(value)
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    if isinstance(value, slice):
        return f"slice({', '.join(value_code(part, most, name_of) for part in (value.start, value.stop, value.step))})"
    if isinstance(value, list | tuple | dict | set | frozenset):
        return _container_code(value, most, name_of)
    raise NotCode(f"no code makes a {type(value).__name__}")


def _container_code(value: Any, most: int, name_of: Callable[[Any], str | None]) -> str:
    if len(value) > 4 * most:
        raise NotCode("a container of many items")
    if isinstance(value, dict):
        codes = [[value_code(part, most, name_of) for part in item] for item in value.items()]
        return f"{{{', '.join(': '.join(item) for item in codes)}}}"
    inside = ", ".join(value_code(item, most, name_of) for item in value)
    if isinstance(value, list):
        return f"[{inside}]"
    if isinstance(value, tuple):
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if not value:
        return f"{type(value).__name__}()"
    return f"frozenset({{{inside}}})" if isinstance(value, frozenset) else f"{{{inside}}}"


def float_code(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "math.nan" if math.isnan(value) else "math.inf" if value > 0 else "-math.inf"


def tensor_code(value: Tensor, most: int = MAX_SHOWN_NUMBERS) -> str:
    """`torch.tensor([[1.5, -2.0]])`, or `torch.zeros(2, 3)` for many equal values."""
    plain = value.detach().as_subclass(Tensor)
    shape, dtype = ", ".join(map(str, plain.shape)) or "()", plain.dtype
    named = "" if dtype == torch.float32 else f", dtype={dtype}"
    if plain.is_meta:
        return f'torch.empty({shape}{named}, device="meta")'
    if plain.numel() == 0:
        return f"torch.empty({shape}{named})"
    if plain.numel() > 4 and (constant := _constant_code(plain, shape, named)):
        return constant
    if plain.numel() > most:
        raise NotCode(f"a tensor of {plain.numel()} numbers")
    texts = iter(number_texts(plain.reshape(-1)))
    return f"torch.tensor({_nested(list(plain.shape), texts)}{'' if dtype in _DEFAULTS else f', dtype={dtype}'})"


def _constant_code(value: Tensor, shape: str, named: str) -> str:
    first = value.reshape(-1)[0]
    is_negative_zero = not value.is_complex() and not first and math.copysign(1.0, float(first)) < 0
    if is_negative_zero or not bool((value == first).all()):
        return ""
    number = first.item()
    if number in (0, 1):
        return f"torch.{'ones' if number else 'zeros'}({shape}{named})"
    return ""


def _nested(shape: list[int], texts: Any) -> str:
    if not shape:
        return next(texts)
    return "[" + ", ".join(_nested(shape[1:], texts) for _ in range(shape[0])) + "]"


def number_texts(flat: Tensor) -> list[str]:
    """Each number of a flat tensor as the shortest literal that this dtype reads as the same number."""
    numbers = flat.tolist()
    if not flat.is_floating_point():
        return [repr(number) for number in numbers]
    if flat.dtype == torch.float64:
        return [float_code(number) for number in numbers]
    texts = [float_code(number) for number in numbers]
    waiting = [at for at, number in enumerate(numbers) if math.isfinite(number)]
    for digits in range(1, _MAX_DIGITS):
        if not waiting:
            break
        tried = [repr(float(f"{numbers[at]:.{digits}g}")) for at in waiting]
        read = torch.tensor([float(text) for text in tried], dtype=torch.float64).to(flat.dtype).tolist()
        for at, text, number in zip(waiting, tried, read):
            if number == numbers[at]:
                texts[at] = text
        waiting = [at for at, number in zip(waiting, read) if number != numbers[at]]
    return texts
