"""Explains how a wrong list, string, dict or integer differs from the right one; no sentence if nothing is certain."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

from grader.verdict.error_sentences import MISSING_RETURN
from grader.verdict.relations.phrases import join_words

MOST = 2000  # items; longer values are not explained


def explain_plain(got: Any, expected: Any) -> list[str]:
    """At most two sentences, each true for these two values."""
    if got is None and expected is not None:
        return [] if isinstance(expected, float) else [f"The result is None. {MISSING_RETURN}"]  # a float may be a part, such as a gradient
    try:
        return _explain(got, expected)[:2]
    except (TypeError, ValueError, OverflowError, RuntimeError):  # values that cannot be hashed, compared or counted, such as tensors
        return []


def _explain(got: Any, expected: Any) -> list[str]:
    if isinstance(expected, str):
        return _explain_text(got, expected) if isinstance(got, str) else _explain_kind(got, expected)
    if isinstance(expected, dict):
        return _explain_dict(got, expected) if isinstance(got, dict) else _explain_kind(got, expected)
    if isinstance(expected, list):
        return _explain_list(list(got), expected) if type(got) is list else _explain_kind(got, expected)
    if type(expected) is int and type(got) is int:
        return [f"It is {_offset(got - expected)}."]
    return []


def _explain_kind(got: Any, expected: Any) -> list[str]:
    """The right items in the wrong container, or another kind of value altogether."""
    name, wanted = _name(got), _name(expected)
    if isinstance(expected, list):
        if isinstance(got, tuple) and list(got) == expected:
            return ["The items are right, but in a tuple; it should be a list."]
        if isinstance(got, set | frozenset) and sorted(got) == sorted(set(expected)):
            return ["It is a set, which has no order; it should be a list."]
        if isinstance(got, dict) and list(got) == expected:
            return ["It is a dict whose keys are the expected list."]
        if isinstance(got, str) and got in (" ".join(map(str, expected)), "".join(map(str, expected))):
            return ["The items are right, but joined to one string; it should be a list."]
    if isinstance(expected, dict) and isinstance(got, list | tuple):
        if sorted(got, key=repr) == sorted(expected.items(), key=repr):
            return [f"It is a {name} of (key, value) pairs; it should be a dict."]
        if list(got) == list(expected):
            return [f"It is a {name} of the right keys, without their values."]
    if isinstance(expected, str):
        if isinstance(got, bytes) and got == expected.encode():
            return ["It is the right text as bytes, not yet decoded to a string."]
        if isinstance(got, list | tuple) and all(isinstance(item, str) for item in got):
            joined = {" ".join(got): " with a space between", "".join(got): ""}
            if expected in joined:
                return [f"It is a {name} of strings; joined{joined[expected]}, they are right."]
    return [f"It is {_article(name)}; it should be {_article(wanted)}."] if name != wanted else []


def _explain_list(got: list, expected: list) -> list[str]:
    if max(len(got), len(expected)) > MOST:
        return []
    if not got:
        return ["It is empty."]
    sentences = _explain_items(got, expected)
    if sentences:
        return sentences
    if Counter(got) == Counter(expected):
        order = "in reverse order" if got == expected[::-1] and len(got) > 2 else "in the wrong order"
        return [f"The items are right, but {order}."]
    for shorter, longer, verb in ((got, expected, "is missing"), (expected, got, "is unexpected")):
        at = _index_of_extra(shorter, longer)
        if at is not None:
            return [f"One item {verb}: {longer[at]!r}, {_position(at, len(longer))}; the others are right."]
    if len(set(got)) < len(got) and list(dict.fromkeys(got)) == expected:
        return ["The items and their order are right, but some items occur more than once."]
    if len(got) < len(expected) and got == expected[: len(got)]:
        return [f"It stops after {_count(len(got), 'item')} of {len(expected)}; up to there it is right."]
    if len(got) > len(expected) and got[: len(expected)] == expected:
        return [f"It begins right but is too long: {len(got)} items instead of {len(expected)}."]
    return _describe_first(got, expected)


def _explain_items(got: list, expected: list) -> list[str]:
    """Something that is true for every item."""
    if len(got) != len(expected):
        return []
    if all(type(b) is int for b in expected):
        if all(isinstance(a, str) for a in got) and got == [str(b) for b in expected]:
            return ["The numbers are right, but each is a string; use int."]
        if all(type(a) is float for a in got) and got == expected:
            return ["The numbers are right, but each is a float; use int."]
        if all(type(a) is int for a in got) and len({a - b for a, b in zip(got, expected)}) == 1:
            return [f"Every number is {_offset(got[0] - expected[0])}."]
    if all(isinstance(a, str) and isinstance(b, str) for a, b in zip(got, expected)):
        if [a.lower() for a in got] == [b.lower() for b in expected]:
            return ["Only upper and lower case differ."]
        if [a.strip() for a in got] == expected:
            return ["Only white space around the words differs."]
    return []


def _explain_dict(got: dict, expected: dict) -> list[str]:
    if max(len(got), len(expected)) > MOST:
        return []
    if not got:
        return ["It is empty."]
    if got == expected:
        return ["Keys and values are right, but in the wrong order."]
    if len(got) == len(expected) and got == {value: key for key, value in expected.items()}:
        return ["Keys and values are swapped."]
    if list(got.values()) == list(expected.values()) and all(isinstance(k, tuple) and len(k) == 2 for k in [*got, *expected]):
        if [key[::-1] for key in got] == list(expected):
            return ["The two parts of each key are swapped."]
    missing, extra = [k for k in expected if k not in got], [k for k in got if k not in expected]
    sentences = []
    if len(missing) == len(expected):
        kinds = {_name(key) for key in got}
        if len(kinds) == 1 and kinds != {_name(key) for key in expected}:
            return [f"Its keys are each {_article(kinds.pop())}; they should be {_article(_name(next(iter(expected))))}."]
        return ["All its keys are wrong."]
    for keys, what in ((missing, "missing"), (extra, "unexpected")):
        if keys:
            named = join_words([repr(key) for key in keys[:4]]) if len(keys) <= 4 else f"{', '.join(map(repr, keys[:3]))} and {len(keys) - 3} more"
            sentences.append(f"{'The key' if len(keys) == 1 else 'The keys'} {named} {'is' if len(keys) == 1 else 'are'} {what}.")
    if sentences:
        return sentences
    wrong = [key for key in expected if got[key] != expected[key]]
    numbers = all(type(got[key]) is int and type(expected[key]) is int for key in expected)
    if numbers and len(expected) > 1 and len({got[key] - expected[key] for key in expected}) == 1:
        return [f"The keys are right; every value is {_offset(got[wrong[0]] - expected[wrong[0]])}."]
    if len(expected) == 1:
        return [f"The key is right; its value is {_offset(got[wrong[0]] - expected[wrong[0]]) if numbers else 'wrong'}."]
    of = f"{len(wrong)} of {_count(len(expected), 'value')}"
    first = f"at {wrong[0]!r} it is {_offset(got[wrong[0]] - expected[wrong[0]])}" if numbers else f"the first at {wrong[0]!r}"
    return [f"The keys are right; {of} {'is' if len(wrong) == 1 else 'are'} wrong: {first}."]


def _explain_text(got: str, expected: str) -> list[str]:
    if not got:
        return ["It is empty."]
    if got.lower() == expected.lower():
        return ["Only upper and lower case differ."]
    if unicodedata.normalize("NFC", got) == unicodedata.normalize("NFC", expected):
        return ["It looks the same, but its characters are encoded differently (Unicode has two ways to write é)."]
    if got.strip() == expected.strip():
        return ["Only white space at the beginning or end differs."]
    if "".join(got.split()) == "".join(expected.split()):
        return ["Only white space differs."]
    if got == expected[::-1]:
        return ["It is the right text in reverse."]
    at = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b), min(len(got), len(expected)))
    if at == len(got):
        return [f"It stops after {_count(at, 'character')} of {len(expected)}; up to there it is right."]
    if at == len(expected):
        return [f"It begins right but is too long: {len(got)} characters instead of {len(expected)}."]
    if at == 0:
        return []  # visible in the output
    return [f"It first differs at character {at}: {got[at : at + 8]!r} instead of {expected[at : at + 8]!r}."]


def _index_of_extra(shorter: Sequence, longer: Sequence) -> int | None:
    """The index in `longer` of the one item that is missing in `shorter`."""
    if len(longer) - len(shorter) != 1:
        return None
    at = next((i for i, (a, b) in enumerate(zip(shorter, longer)) if a != b), len(shorter))
    return at if list(shorter[at:]) == list(longer[at + 1 :]) else None


def _describe_first(got: list, expected: list) -> list[str]:
    at = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b), None)
    lengths = "" if len(got) == len(expected) else f"; it has {_count(len(got), 'item')} instead of {len(expected)}"
    return [] if at is None else [f"It first differs at index {at}: {got[at]!r} instead of {expected[at]!r}{lengths}."]


def _position(at: int, size: int) -> str:
    return "the first" if at == 0 else "the last" if at == size - 1 else f"at index {at}"


def _offset(difference: int) -> str:
    return f"{abs(difference)} too {'high' if difference > 0 else 'low'}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _name(value: Any) -> str:
    names = {str: "string", int: "integer", float: "float", bool: "bool"}
    return names.get(type(value), next((kind.__name__ for kind in (dict, list, tuple) if isinstance(value, kind)), type(value).__name__))


def _article(noun: str) -> str:
    return ("an " if noun[0].lower() in "aeiou" else "a ") + noun
