"""The code of values in a script: on lines of a readable width, or none where the value is too large for code."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from grader.verdict.value_code import NotCode, value_code
from torch import Tensor

WIDTH = 110
WRITTEN = 30  # numbers of a tensor that is written out; a larger one is saved in a file


def literal(value: Any, name_of: Callable[[Any], str | None] = lambda _: None) -> str:
    """The value as code, on lines of a readable width; empty if it is too large for code. `name_of` gives the code of parts."""
    try:
        text = value_code(value, WRITTEN, name_of)
    except NotCode:
        return ""
    return "" if has_tensors(value) and len(text) > 3 * WIDTH else wrap_code(text)


def wrap_code(text: str) -> str:
    """The code of a value on lines of a readable width, broken after commas; code with strings stays on one line."""
    if len(text) <= WIDTH or "'" in text or '"' in text:
        return text
    lines = [""]
    for piece in re.split(r"(?<=, )", text):
        if len(lines[-1]) + len(piece) > WIDTH:
            lines.append("    ")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def value_key(value: Any) -> str:
    """Text that only equal values have."""
    if isinstance(value, Tensor):
        plain = value.detach().contiguous()
        numbers = b"" if plain.is_meta else bytes(plain.reshape(-1).view(torch.uint8).tolist())  # not through numpy, which torch does not need
        return f"{plain.dtype} {tuple(plain.shape)} {plain.device} {numbers!r}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(map(value_key, value))})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{key!r}: {value_key(part)}' for key, part in value.items())})"
    return repr(value)


def has_tensors(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return any(isinstance(part, Tensor) or has_tensors(part) for part in parts)
