"""The message of an expected error: whether it contains the required values, and an example line that raises it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

Naming = Mapping[str, Any] | tuple[Any, ...]

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_GROUPED = re.compile(r"(?<![\d.])\d{1,3}(?:[,_' ]\d{3})+(?!\d)")


def missing_values(message: str, naming: Naming) -> list[str]:
    """The values that the message should contain but does not: "d_model = 13" if the name is known, else "13"."""
    return [_labelled(name, value) for name, value in _items(naming) if not mentions(message, value)]


def list_values(naming: Naming) -> str:
    """All values that a message should contain: "d_model = 13 and n_heads = 4"."""
    return _join_words(_labelled(name, value) for name, value in _items(naming))


def mentions(message: str, value: Any) -> bool:
    """Whether a message contains a number or a word by itself: 7 is in "(2, 7)" and in "7.0", and not in "17" or "7.5"."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return re.search(rf"(?<!\w){re.escape(str(value))}(?!\w)", message) is not None
    return any(math.isclose(number, value, rel_tol=1e-6, abs_tol=1e-12) for number in _numbers(message))


def raise_line(kind: str, naming: Naming, because: str, example: str | None = None) -> str:
    """A line that raises the error; if the values have names, it is an f-string that the learner can copy."""
    if example is None and isinstance(naming, Mapping) and naming:
        first, *others = (f"{name} = {{{name}{'!r' if isinstance(value, str) else ''}}}" for name, value in naming.items())
        example = f"{first} is not possible" + (f" with {_join_words(others)}" if others else "")
    if example is not None:
        return f'raise {kind}(f"{example}")'
    return f'raise {kind}("{because}")'


def _items(naming: Naming) -> Iterable[tuple[str, Any]]:
    return naming.items() if isinstance(naming, Mapping) else (("", value) for value in naming)


def _labelled(name: str, value: Any) -> str:
    return f"{name} = {value!r}" if name else str(value)


def _numbers(message: str) -> Iterable[float]:
    """Every number in a text; with a minus sign before it, as a negative number too."""
    for match in _NUMBER.finditer(message):
        yield float(match[0])
        if message[: match.start()].endswith(("-", "\N{MINUS SIGN}")):
            yield -float(match[0])
    for match in _GROUPED.finditer(message):
        yield float(re.sub(r"\D", "", match[0]))


def _join_words(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
