"""The sizes of an example that the shown call has. A test may draw a batch and then call the function with one row of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from grader.execution.calls import Call, Label
from grader.execution.proxy import Handle
from torch import Tensor

MOST_PARTS = 500  # of a call's arguments, and of the calls that made them, that are looked at
_WHOLE_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")


def sizes_of_calls(sizes: dict[str, Any], shown: list[Call], made: list[Call]) -> dict[str, Any]:
    """The sizes that one of the shown calls has in its arguments, or in those of the calls (`made`) that built its objects; all if no call is shown.

    A size is there as a dimension, a number or a length. The numbers in a list do not count: they are token ids or steps. A size that is itself a list
    (the lengths of pieces that a test feeds one after the other) belongs to several calls.
    """
    if not shown:
        return dict(sizes)
    sizes = {name: size for name, size in sizes.items() if isinstance(size, int)}
    makers = {call.result: call for call in reversed(made) if isinstance(call.result, Handle)}
    seen: set[int] = set()
    for call in shown:
        numbers = set(_numbers_of(call, makers))
        seen |= numbers | _factors(numbers, sizes)
    return {name: size for name, size in sizes.items() if size in seen}


def _factors(numbers: set[int], sizes: dict[str, int]) -> set[int]:
    """The other factor of a dimension that is the product of two sizes, one of which is in the call: d_head, where H and H * d_head are."""
    values = set(sizes.values())
    products = numbers - values
    return {other for size in values & numbers for other in values - numbers if size > 1 and size * other in products}


def _numbers_of(call: Call, makers: dict[Handle, Call]) -> Iterator[int]:
    waiting: list[Any] = [call]
    followed: set[int] = set()
    for _ in range(MOST_PARTS):
        if not waiting:
            return
        value = waiting.pop()
        parts: Iterable[Any] = ()
        if isinstance(value, Call) and id(value) not in followed:
            followed.add(id(value))
            yield from _numbers_in(value.what)
            parts = value.callee, *value.args, *value.options.values()
            yield from (part for part in parts if isinstance(part, int) and not isinstance(part, bool))
        elif isinstance(value, Tensor):
            yield from value.shape
        elif isinstance(value, Handle):
            yield from _numbers_in(object.__getattribute__(value, "_path"))
            parts = makers.get(value), object.__getattribute__(value, "_owner")
        elif isinstance(value, Label):
            yield from _numbers_in(value)
        elif isinstance(value, list | tuple | dict):
            yield len(value)
            parts = value.values() if isinstance(value, dict) else value
        waiting.extend(parts)


def _numbers_in(code: str) -> Iterator[int]:
    """The whole numbers in the code that made an object: `GPT(11, 8)`."""
    yield from map(int, _WHOLE_NUMBER.findall(code))
