"""Explains how a wrong list, string, dict or integer differs from the right one; no sentence if nothing is certain."""

from __future__ import annotations

from collections import Counter
from typing import Any

from grader.counts import format_count
from grader.verdict.error_sentences import MISSING_RETURN
from grader.verdict.relations.pair import Locating
from grader.verdict.results import join_names

MAX_ITEMS = 2000  # of a value that is explained


def explain_plain(got: Any, expected: Any) -> list[str]:
    """At most two sentences, each true for these two values."""
    if got is None and expected is not None:
        # a float may be a part, such as a gradient
        return [] if isinstance(expected, float) else [f"The result is None. {MISSING_RETURN}"]
    try:
        return _explain(got, expected)[:2]
    # values that cannot be hashed, compared or counted, such as tensors
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return []


def _explain(got: Any, expected: Any) -> list[str]:
    if type(expected) is int and type(got) is int:
        return [Locating(f"It is {_offset(got - expected)}.")]
    kind = next((kind for kind in (str, dict, list) if isinstance(expected, kind)), None)
    if kind is None:
        return []
    same_kind = type(got) is list if kind is list else isinstance(got, kind)
    if not same_kind:
        items = kind is list and isinstance(got, tuple | dict) and list(got) == expected
        right = "The items are right, but it" if items else "It"
        return [f"{right} is {_article(_name(got))}; it should be {_article(_name(expected))}."]
    if not got:
        return ["It is empty."]
    if kind is str:
        return _explain_text(got, expected)
    if max(len(got), len(expected)) > MAX_ITEMS:
        return []
    return _explain_dict(got, expected) if kind is dict else _explain_list(got, expected)


def _explain_list(got: list, expected: list) -> list[str]:
    if len(got) == len(expected) and all(type(item) is int for item in [*got, *expected]):
        offsets = {a - b for a, b in zip(got, expected)}
        if len(offsets) == 1:
            return [f"Every number is {_offset(offsets.pop())}."]
    if len(got) == len(expected) and got == [str(item) for item in expected]:
        return [f"The values are right, but each is a string; it should be {_article(_name(expected[0]))}."]
    if Counter(got) == Counter(expected):
        order = "in reverse order" if got == expected[::-1] and len(got) > 2 else "in the wrong order"
        return [f"The items are right, but {order}."]
    for shorter, longer, verb in ((got, expected, "is missing"), (expected, got, "is unexpected")):
        at = _first_difference(shorter, longer)
        if len(longer) == len(shorter) + 1 and shorter[at:] == longer[at + 1 :]:
            position = "the first" if at == 0 else "the last" if at == len(shorter) else f"at index {at}"
            return [f"One item {verb}: {longer[at]!r}, {position}; the others are right."]
    return _explain_difference(got, expected, "index", "item")


def _explain_dict(got: dict, expected: dict) -> list[str]:
    if got == expected:
        return ["Keys and values are right, but in the wrong order."]
    missing, extra = [key for key in expected if key not in got], [key for key in got if key not in expected]
    if len(missing) == len(expected):
        kinds, wanted = {_name(key) for key in got}, {_name(key) for key in expected}
        if len(kinds) == 1 and kinds != wanted:
            should = _article(_name(next(iter(expected))))
            return [f"Its keys are each {_article(kinds.pop())}; they should be {should}."]
        return ["All its keys are wrong."]
    if missing or extra:
        return [_describe_keys(keys, what) for keys, what in ((missing, "missing"), (extra, "unexpected")) if keys]
    wrong = [key for key in expected if got[key] != expected[key]]
    numbers = all(type(value) is int for value in [*got.values(), *expected.values()])
    by = _offset(got[wrong[0]] - expected[wrong[0]]) if numbers else ""
    if numbers and len({got[key] - expected[key] for key in expected}) == 1:
        return [f"The keys are right; every value is {by}."]
    first = f"at {wrong[0]!r} it is {by}" if numbers else f"the first at {wrong[0]!r}"
    are = "is" if len(wrong) == 1 else "are"
    return [f"The keys are right; {len(wrong)} of {len(expected)} values {are} wrong: {first}."]


def _describe_keys(keys: list, what: str) -> str:
    named = join_names(map(repr, keys) if len(keys) <= 4 else [*map(repr, keys[:3]), f"{len(keys) - 3} more"])
    return f"The key {named} is {what}." if len(keys) == 1 else f"The keys {named} are {what}."


def _explain_text(got: str, expected: str) -> list[str]:
    if got.lower() == expected.lower():
        return [Locating("Only upper and lower case differ.")]
    if "".join(got.split()) == "".join(expected.split()):
        return [Locating("Only white space differs.")]
    return _explain_difference(got, expected, "character", "character") if got[0] == expected[:1] else []


def _explain_difference(got: Any, expected: Any, place: str, noun: str) -> list[str]:
    at = _first_difference(got, expected)
    if at == len(got):
        return [f"It stops after {format_count(at, noun)} of {len(expected)}; up to there it is right."]
    if at == len(expected):
        return [Locating(f"It begins right but is too long: {len(got)} {noun}s instead of {len(expected)}.")]
    mine, theirs = (value[at : at + 8] if noun == place else value[at] for value in (got, expected))
    lengths = "" if len(got) == len(expected) else f"; it has {len(got)} {noun}s instead of {len(expected)}"
    return [Locating(f"It first differs at {place} {at}: {mine!r} instead of {theirs!r}{lengths}.")]


def _first_difference(one: Any, other: Any) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def _offset(difference: int) -> str:
    return f"{abs(difference)} too {'high' if difference > 0 else 'low'}"


def _name(value: Any) -> str:
    names = {str: "string", int: "integer", float: "float", bool: "bool"}
    kind = next((kind for kind in (dict, list, tuple) if isinstance(value, kind)), type(value))
    return names.get(type(value), kind.__name__)


def _article(noun: str) -> str:
    return ("an " if noun[0].lower() in "aeiou" else "a ") + noun
