"""Puts two changes of one syntax tree together, like a merge of two branches. A tree is made of plain values, as `format` makes them."""

from __future__ import annotations

from typing import Any


class Conflict(ValueError):
    """Both changes concern the same place."""


def merge(base: Any, first: Any, second: Any) -> Any:
    """The tree `base` with the changes that lead to `first` and those that lead to `second`. Conflict if they concern the same place."""
    if first == base or first == second:
        return second
    if second == base:
        return first
    if isinstance(base, tuple | list) and type(base) is type(first) is type(second):
        if len(base) == len(first) == len(second) and (isinstance(base, list) or base[0] == first[0] == second[0]):
            return type(base)(merge(*children) for children in zip(base, first, second))
        if isinstance(base, list):
            return _merge_lists(base, list(first), list(second))
    raise Conflict("both changes concern the same place")


def _merge_lists(base: list, first: list, second: list) -> list:
    """Both changed regions, if one ends before the other begins."""
    (start, end), (other_start, other_end) = _changed_region(base, first), _changed_region(base, second)
    if start > other_start or (start, end) > (other_start, other_end):
        return _merge_lists(base, second, first)
    if end > other_start or (start, end) == (other_start, other_end):
        raise Conflict("both changes concern the same place")
    left = first[: len(first) - (len(base) - end)]
    return left + base[end:other_start] + second[other_start:]


def _changed_region(base: list, changed: list) -> tuple[int, int]:
    """The places of `base`, from the first to behind the last, that are different in `changed`."""
    shorter = min(len(base), len(changed))
    start = next((place for place in range(shorter) if base[place] != changed[place]), shorter)
    same = next((place for place in range(shorter - start) if base[-1 - place] != changed[-1 - place]), shorter - start)
    return start, len(base) - same
