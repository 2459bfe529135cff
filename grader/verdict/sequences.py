"""Explains how a wrong list, string, dict or integer differs from the right one; no sentence if nothing is certain."""

from __future__ import annotations

import unicodedata
from collections import Counter
from typing import Any

from grader.verdict.error_sentences import MISSING_RETURN
from grader.verdict.relations.phrases import join_words

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
        return [f"It is {_offset(got - expected)}."]
    kind = next((kind for kind in (str, dict, list) if isinstance(expected, kind)), None)
    if kind is None:
        return []
    same_kind = type(got) is list if kind is list else isinstance(got, kind)
    if not same_kind:
        return _explain_kind(got, expected)
    if not got:
        return ["It is empty."]
    if kind is str:
        return _explain_text(got, expected)
    if max(len(got), len(expected)) > MAX_ITEMS:
        return []
    return _explain_dict(got, expected) if kind is dict else _explain_list(got, expected)


def _first_true(*cases: tuple[bool, str]) -> list[str]:
    return next(([sentence] for holds, sentence in cases if holds), [])


def _explain_kind(got: Any, expected: Any) -> list[str]:
    """The right items in the wrong container, or another kind of value altogether."""
    name, wanted = _name(got), _name(expected)
    if isinstance(expected, list):
        joined = [" ".join(map(str, expected)), "".join(map(str, expected))]
        found = _first_true(
            (name == "tuple" and list(got) == expected, "The items are right, but in a tuple; it should be a list."),
            (
                name in ("set", "frozenset") and set(got) == set(expected),
                "It is a set, which has no order; it should be a list.",
            ),
            (name == "dict" and list(got) == expected, "It is a dict whose keys are the expected list."),
            (name == "string" and got in joined, "The items are right, but joined to one string; it should be a list."),
        )
    elif isinstance(expected, dict) and isinstance(got, list | tuple):
        pairs = sorted(got, key=repr) == sorted(expected.items(), key=repr)
        found = _first_true(
            (pairs, f"It is a {name} of (key, value) pairs; it should be a dict."),
            (list(got) == list(expected), f"It is a {name} of the right keys, without their values."),
        )
    elif isinstance(expected, str) and isinstance(got, list | tuple) and all(isinstance(item, str) for item in got):
        found = _first_true(
            ("".join(got) == expected, f"It is a {name} of strings; joined, they are right."),
            (" ".join(got) == expected, f"It is a {name} of strings; joined with a space between, they are right."),
        )
    else:
        is_encoded = isinstance(expected, str) and isinstance(got, bytes) and got == expected.encode()
        found = _first_true((is_encoded, "It is the right text as bytes, not yet decoded to a string."))
    return found or _first_true((name != wanted, f"It is {_article(name)}; it should be {_article(wanted)}."))


def _explain_list(got: list, expected: list) -> list[str]:
    if len(got) == len(expected) and (sentences := _explain_items(got, expected)):
        return sentences
    if Counter(got) == Counter(expected):
        order = "in reverse order" if got == expected[::-1] and len(got) > 2 else "in the wrong order"
        return [f"The items are right, but {order}."]
    for shorter, longer, verb in ((got, expected, "is missing"), (expected, got, "is unexpected")):
        at = _first_difference(shorter, longer)
        if len(longer) == len(shorter) + 1 and shorter[at:] == longer[at + 1 :]:
            position = "the first" if at == 0 else "the last" if at == len(shorter) else f"at index {at}"
            return [f"One item {verb}: {longer[at]!r}, {position}; the others are right."]
    at = _first_difference(got, expected)
    lengths = "" if len(got) == len(expected) else f"; it has {_count(len(got), 'item')} instead of {len(expected)}"
    repeated = len(set(got)) < len(got) and list(dict.fromkeys(got)) == expected
    if not repeated and at < min(len(got), len(expected)):
        return [f"It first differs at index {at}: {got[at]!r} instead of {expected[at]!r}{lengths}."]
    stops = f"It stops after {_count(len(got), 'item')} of {len(expected)}; up to there it is right."
    return _first_true(
        (repeated, "The items and their order are right, but some items occur more than once."),
        (len(got) < len(expected), stops),
        (len(got) > len(expected), f"It begins right but is too long: {len(got)} items instead of {len(expected)}."),
    )


def _explain_items(got: list, expected: list) -> list[str]:
    """Something that is true for every item."""
    if all(type(b) is int for b in expected):
        same_offset = all(type(a) is int for a in got) and len({a - b for a, b in zip(got, expected)}) == 1
        floats = all(type(a) is float for a in got) and got == expected
        return _first_true(
            (got == [str(b) for b in expected], "The numbers are right, but each is a string; use int."),
            (floats, "The numbers are right, but each is a float; use int."),
            (same_offset, f"Every number is {_offset(got[0] - expected[0]) if same_offset else ''}."),
        )
    if all(isinstance(item, str) for item in [*got, *expected]):
        return _first_true(
            ([a.lower() for a in got] == [b.lower() for b in expected], "Only upper and lower case differ."),
            ([a.strip() for a in got] == expected, "Only white space around the words differs."),
        )
    return []


def _explain_dict(got: dict, expected: dict) -> list[str]:
    pairs = all(isinstance(key, tuple) and len(key) == 2 for key in [*got, *expected])
    swapped = pairs and list(got.values()) == list(expected.values()) and [key[::-1] for key in got] == list(expected)
    whole = _first_true(
        (got == expected, "Keys and values are right, but in the wrong order."),
        (swapped, "The two parts of each key are swapped."),
    )
    if whole or (len(got) == len(expected) and got == {value: key for key, value in expected.items()}):
        return whole or ["Keys and values are swapped."]
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
    if len(expected) == 1:
        return [f"The key is right; its value is {by or 'wrong'}."]
    if numbers and len({got[key] - expected[key] for key in expected}) == 1:
        return [f"The keys are right; every value is {by}."]
    first = f"at {wrong[0]!r} it is {by}" if numbers else f"the first at {wrong[0]!r}"
    are = "is" if len(wrong) == 1 else "are"
    return [f"The keys are right; {len(wrong)} of {len(expected)} values {are} wrong: {first}."]


def _describe_keys(keys: list, what: str) -> str:
    named = join_words(map(repr, keys) if len(keys) <= 4 else [*map(repr, keys[:3]), f"{len(keys) - 3} more"])
    return f"The key {named} is {what}." if len(keys) == 1 else f"The keys {named} are {what}."


def _explain_text(got: str, expected: str) -> list[str]:
    unicode = "It looks the same, but its characters are encoded differently (Unicode has two ways to write é)."
    at = _first_difference(got, expected)
    return _first_true(
        (got.lower() == expected.lower(), "Only upper and lower case differ."),
        (unicodedata.normalize("NFC", got) == unicodedata.normalize("NFC", expected), unicode),
        (got.strip() == expected.strip(), "Only white space at the beginning or end differs."),
        ("".join(got.split()) == "".join(expected.split()), "Only white space differs."),
        (got == expected[::-1], "It is the right text in reverse."),
        (at == len(got), f"It stops after {_count(at, 'character')} of {len(expected)}; up to there it is right."),
        (at == len(expected), f"It begins right but is too long: {len(got)} characters instead of {len(expected)}."),
        (at > 0, f"It first differs at character {at}: {got[at : at + 8]!r} instead of {expected[at : at + 8]!r}."),
    )


def _first_difference(one: Any, other: Any) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def _offset(difference: int) -> str:
    return f"{abs(difference)} too {'high' if difference > 0 else 'low'}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _name(value: Any) -> str:
    names = {str: "string", int: "integer", float: "float", bool: "bool"}
    kind = next((kind for kind in (dict, list, tuple) if isinstance(value, kind)), type(value))
    return names.get(type(value), kind.__name__)


def _article(noun: str) -> str:
    return ("an " if noun[0].lower() in "aeiou" else "a ") + noun
