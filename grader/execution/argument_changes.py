"""Finds out whether a call changed its arguments: packs them again after the call, and compares with how they were
packed before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grader.execution.values import CannotCross, pack, unpack

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

    for position, (now, then) in enumerate(zip(args, before_args)):
        if form(now) != form(then):
            return f" number {position + 1}" if len(args) > 1 else ""
    for name, then in before_options.items():
        if form(options.get(name)) != form(then):
            return f" `{name}`"
    return ""
