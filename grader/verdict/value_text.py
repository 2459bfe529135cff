"""Values as text for a terminal: small tensors in full, large ones as statistics, everything else as a short repr; and
as Python code that makes the same value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

import torch
from grader.verdict.relations.pair import differing_values
from torch import Tensor

WIDTH = 76
MAX_PRINTED_VALUES = 64  # tensors with more values are described, not printed
MAX_CONTAINER_LINES = 20  # containers stop after about so many lines
CONTAINERS = (list, tuple, set, frozenset, dict)


def format_value(value: object, limit: int = MAX_PRINTED_VALUES, width: int = WIDTH) -> str:
    """A value as text, no line wider than `width` columns; tensors of up to `limit` values are printed in full."""
    try:
        return "\n".join(_lines(value, limit, width, 0))
    except Exception as problem:  # a container may be a learner's class
        return f"<{type(value).__name__} that cannot be shown: {type(problem).__name__}>"


def first_difference(got: Tensor, expected: Tensor, tol: float) -> str:
    """One line: where two tensors first differ, the two values there, how many values differ and by how much; "" if
    none differs.

    `tol` is relative to the expected values. For tensors of different shapes, the line gives the shapes.
    """
    if got.shape != expected.shape:
        return f"the shapes differ: got {_shape(got)}, expected {_shape(expected)}"
    if got.numel() == 0:
        return ""
    with torch.no_grad():
        wide = torch.complex128 if got.is_complex() or expected.is_complex() else torch.float64
        a, b = got.detach().to(wide), expected.detach().to(wide)
        apart = (a - b).abs()
        wrong = differing_values(a, b, tol if got.dtype == expected.dtype else max(tol, 1e-5))
        count = int(wrong.sum())
        if not count:
            return ""
        spot = wrong.nonzero()[0].tolist()
        values = _format_pair(got[tuple(spot)].item(), expected[tuple(spot)].item())
        largest = apart[wrong]
        largest = largest[largest.isfinite()]
    if got.numel() == 1:
        return f"differs: {values}"
    many = f"{count} of {got.numel()} values {'differs' if count == 1 else 'differ'}"
    measured = largest.numel() and got.dtype != torch.bool and expected.dtype != torch.bool
    by = f", by {'at most ' if count > 1 else ''}{_number(float(largest.max()))}" if measured else ""
    return f"first differs at {spot}: {values}; {many}{by}"


def _format_pair(got: object, expected: object) -> str:
    """Two different numbers, with enough digits to see the difference."""
    digits = next((n for n in (4, 6, 8, 10, 17) if _number(got, n) != _number(expected, n)), 17)
    return f"got {_number(got, digits)}, expected {_number(expected, digits)}"


def _lines(value: object, limit: int, width: int, depth: int) -> list[str]:
    if isinstance(value, Tensor):
        return _tensor(value, limit, width)
    if isinstance(value, CONTAINERS) and depth < 4 and _holds_tensors(value):
        return _container(value, limit, width, depth)
    return _wrap(_plain(value), width)


def _holds_tensors(value: Iterable[object], depth: int = 0) -> bool:
    """Whether one of the first items is a tensor, at any depth."""
    items = value.values() if isinstance(value, Mapping) else value
    for item in islice(items, 20):
        if isinstance(item, Tensor):
            return True
        if depth < 3 and isinstance(item, CONTAINERS) and _holds_tensors(item, depth + 1):
            return True
    return False


def _container(value: Iterable[object], limit: int, width: int, depth: int) -> list[str]:
    """Format each item as a paragraph, indented under its key or number."""
    kind, size = type(value).__name__, len(value)  # type: ignore[arg-type]
    lines = [f"{kind} of {size}:"]
    items = value.items() if isinstance(value, dict) else enumerate(value)
    shown = 0
    for key, item in items:
        if len(lines) > MAX_CONTAINER_LINES:
            break
        inner = _lines(item, limit, width - 4, depth + 1)
        label = f"  {_plain(key, most=30) if isinstance(value, dict) else f'[{key}]'}"
        if len(inner) == 1 and len(label) + len(inner[0]) + 2 <= width:
            lines.append(f"{label}: {inner[0]}")
        else:
            lines += [f"{label}:"] + ["    " + line for line in inner]
        shown += 1
    return lines + [f"  ... and {size - shown} more"] * (shown < size)


def _plain(value: object, depth: int = 0, most: int = 400) -> str:
    """A short repr of any object, on one line and without control characters."""
    try:
        if type(value) is float:
            text = repr(float(f"{value:.6g}"))
        elif isinstance(value, (str, bytes)) and len(value) > most // 2:
            text = f"{value[: most // 4]!r}... ({len(value)} {'characters' if isinstance(value, str) else 'bytes'})"
        elif isinstance(value, CONTAINERS) and len(value) > 0:
            text = _items(value, depth, most)
        elif type(value) is int and value.bit_length() > 400:
            text = f"an integer of {value.bit_length()} bits"
        elif isinstance(value, Tensor):
            text = _summary_name(value)
        else:
            text = repr(value)
    except Exception as problem:  # a repr may be a learner's code
        text = f"<{type(value).__name__} whose repr raises {type(problem).__name__}>"
    text = _printable(text)
    return text if len(text) <= most else text[: most - 4] + " ..."


def _items(value: Iterable[object], depth: int, most: int) -> str:
    if depth > 5:
        return "..."
    size, parts, room = len(value), list[str](), most - 24  # type: ignore[arg-type]
    inner = max(40, room - 40)
    for item in islice(value.items() if isinstance(value, dict) else value, 200):
        if isinstance(value, dict):
            part = ": ".join(_plain(each, depth + 1, inner // 2) for each in item)  # type: ignore[attr-defined]
        else:
            part = _plain(item, depth + 1, inner)
        room -= len(part) + 2
        if room < 0 and parts:
            break
        parts.append(part)
    if len(parts) < size:
        parts.append(f"... ({size} in all)")
    inside = ", ".join(parts)
    if isinstance(value, list):
        return f"[{inside}]"
    if isinstance(value, tuple):
        return f"({inside},)" if size == 1 else f"({inside})"
    return f"frozenset({{{inside}}})" if isinstance(value, frozenset) else f"{{{inside}}}"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text[:4000])


def _wrap(text: str, width: int, most: int = 6) -> list[str]:
    """Break at spaces where possible; after `most` lines, cut."""
    lines: list[str] = []
    while len(text) > width and len(lines) < most - 1:
        at = text.rfind(" ", width // 2, width + 1)
        at = width if at < 0 else at
        lines.append(text[:at])
        text = text[at:].lstrip(" ")
    return lines + [text if len(text) <= width else text[: width - 4] + " ..."]


def _number(value: object, digits: int = 4) -> str:
    """A number with up to `digits` significant digits."""
    if isinstance(value, complex):
        sign = "-" if value.imag < 0 or (value.imag == 0 and math.copysign(1, value.imag) < 0) else "+"
        return f"{_number(value.real, digits)}{sign}{_number(abs(value.imag), digits)}j"
    if not isinstance(value, float):
        return str(value)
    if math.isfinite(value) and value == round(value) and abs(value) < 1e7:
        return str(int(value))
    return f"{value:.{digits}g}"


def _shape(value: Tensor) -> str:
    return "(" + ", ".join(map(str, value.shape)) + ("," if value.ndim == 1 else "") + ")"


def _summary_name(value: Tensor) -> str:
    return f"tensor {_shape(value)} {str(value.dtype).removeprefix('torch.')}"


def _tensor(value: Tensor, limit: int, width: int) -> list[str]:
    try:
        with torch.no_grad():
            plain = value.detach().as_subclass(Tensor)
            name = _summary_name(plain)
            if plain.is_meta:
                return [f"{name} on the device meta, which stores no values"]
            if plain.ndim == 0:
                return [_number(plain.item())]
            if plain.numel() == 0:
                return [f"an empty {name}"]
            lines = _whole(plain, width) if plain.numel() <= limit and plain.ndim <= 4 else None
            return lines or _wrap(_statistics(plain, name), width)
    except Exception as problem:  # sparse, quantised: no printing here
        return [f"a tensor that cannot be shown ({type(problem).__name__})"]


def _whole(value: Tensor, most: int) -> list[str] | None:
    """Aligned rows in brackets; None if a row would be too wide."""
    cells = [_number(item) for item in value.reshape(-1).tolist()]
    if value.is_floating_point():
        cells = _same_digits(value, cells)
    width = max(map(len, cells))
    columns = value.shape[-1]
    if columns * (width + 2) + 2 * value.ndim > most:
        return None
    cells = [cell.rjust(width) for cell in cells]
    rows = ["[" + ", ".join(cells[at : at + columns]) + "]" for at in range(0, len(cells), columns)]
    return _nest_rows(rows, list(value.shape[:-1]))


def _same_digits(value: Tensor, cells: list[str]) -> list[str]:
    """The same number of decimals in every cell, except small values that would look like zero: 4e-05."""
    finite = value[value.isfinite()].to(torch.float64)
    if not finite.numel() or bool((finite == finite.round()).all()):
        return cells
    largest = float(finite.abs().max())
    if not 1e-2 <= largest < 1e5:
        return cells
    decimals = max(0, min(4, 3 - math.floor(math.log10(largest))))
    return [_decimal(item, decimals) for item in value.reshape(-1).tolist()]


def _decimal(item: float, decimals: int) -> str:
    text = f"{item:.{decimals}f}" if math.isfinite(item) else str(item)
    return f"{item:.0e}" if item and math.isfinite(item) and float(text) == 0 else text


def _nest_rows(rows: list[str], shape: list[int]) -> list[str]:
    """Rows put into as many brackets as there are axes, indented by one column for each bracket."""
    if not shape:
        return rows
    step = len(rows) // shape[0]
    blocks = [_nest_rows(rows[at : at + step], shape[1:]) for at in range(0, len(rows), step)]
    lines: list[str] = []
    for index, block in enumerate(blocks):
        block = [" " + line for line in block]
        if index == 0:
            block[0] = "[" + block[0][1:]
        block[-1] += "]" if index == len(blocks) - 1 else ","
        lines += block
    return lines


def _statistics(value: Tensor, name: str) -> str:
    if value.dtype == torch.bool:
        return f"{name}: {int(value.sum())} of {value.numel()} True"
    if value.is_complex():
        sizes = value.to(torch.complex128).abs()
        return f"{name}: absolute values from {_number(float(sizes.min()))} to {_number(float(sizes.max()))}"
    wide = value.to(torch.float64) if value.numel() <= 4_000_000 else value.to(torch.float32)
    finite = wide[wide.isfinite()]
    nan, infinite = int(wide.isnan().sum()), int(wide.isinf().sum())
    bad = f", {nan} NaN" * bool(nan) + f", {infinite} infinite" * bool(infinite)
    if not finite.numel():
        return f"{name}{bad}"
    parts = {"mean": finite.mean(), "std": finite.std(correction=0), "min": finite.min(), "max": finite.max()}
    text = ", ".join(f"{label} {_number(float(part))}" for label, part in parts.items())
    return f"{name}: {text}{bad}"


# ---- values as Python code

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
    """`torch.tensor([[1.5, -2.0]])`, or `torch.zeros(2, 3)` for many zeros, ones or nans."""
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
    if bool(value.isnan().all()):
        return f"torch.full(({shape}{',' if value.dim() == 1 else ''}), math.nan{named})"
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
