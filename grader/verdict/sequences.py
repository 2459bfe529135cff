"""What relation a wrong list, string, dict or whole number has to the right one, in sentences; silent where nothing is certain."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

from grader.verdict.relations.phrases import join_words

MOST = 2000  # items beyond which nothing is looked for


def explain_plain(got: Any, expected: Any) -> list[str]:
    """At most two sentences, each true of these two values."""
    if got is None and expected is not None:
        return ["None came back, as from a function without `return`; list.sort, append, set.add and dict.update give None too."]
    try:
        return _explain(got, expected)[:2]
    except (TypeError, ValueError, OverflowError, RuntimeError):  # values that cannot be hashed, compared or counted, such as tensors
        return []


def _explain(got: Any, expected: Any) -> list[str]:
    if isinstance(expected, str):
        return _text(got, expected) if isinstance(got, str) else _kind(got, expected)
    if isinstance(expected, dict):
        return _mapping(got, expected) if isinstance(got, dict) else _kind(got, expected)
    if isinstance(expected, list):
        return _list(list(got), expected) if type(got) is list else _kind(got, expected)
    if type(expected) is int and type(got) is int:
        return [f"It is {_by(got - expected)}."]
    return []


def _kind(got: Any, expected: Any) -> list[str]:
    """The right items in the wrong container, or another kind of value altogether."""
    name, wanted = _name(got), _name(expected)
    if isinstance(expected, list):
        if isinstance(got, tuple) and list(got) == expected:
            return ["The items are right; they are in a tuple, and a list is asked for."]
        if isinstance(got, set | frozenset) and sorted(got) == sorted(set(expected)):
            return ["It is a set: it has no order, and a list is asked for."]
        if isinstance(got, dict) and list(got) == expected:
            return ["It is a dict whose keys are the list that is asked for."]
        if isinstance(got, str) and got in (" ".join(map(str, expected)), "".join(map(str, expected))):
            return ["The items are right; they are joined to a string, and a list is asked for."]
    if isinstance(expected, dict) and isinstance(got, list | tuple):
        if sorted(got, key=repr) == sorted(expected.items(), key=repr):
            return [f"It is a {name} of (key, value) pairs, and a dict is asked for."]
        if list(got) == list(expected):
            return [f"It is a {name} of the right keys, without their values."]
    if isinstance(expected, str):
        if isinstance(got, bytes) and got == expected.encode():
            return ["It is the right text as bytes, not yet decoded to a string."]
        if isinstance(got, list | tuple) and all(isinstance(item, str) for item in got):
            joined = {" ".join(got): " with a space between", "".join(got): ""}
            if expected in joined:
                return [f"It is a {name} of strings; joined{joined[expected]}, they are right."]
    return [f"It is {_article(name)}, and {_article(wanted)} is asked for."] if name != wanted else []


def _list(got: list, expected: list) -> list[str]:
    if max(len(got), len(expected)) > MOST:
        return []
    if not got:
        return ["It is empty."]
    said = _items(got, expected)
    if said:
        return said
    if Counter(got) == Counter(expected):
        order = "from last to first" if got == expected[::-1] and len(got) > 2 else "in another order"
        return [f"The items are right; they stand {order}."]
    for shorter, longer, verb in ((got, expected, "is missing"), (expected, got, "is too many")):
        at = _one_out(shorter, longer)
        if at is not None:
            return [f"One item {verb}: {longer[at]!r}, {_place(at, len(longer))}; the others are right."]
    if len(set(got)) < len(got) and list(dict.fromkeys(got)) == expected:
        return ["The right items in the right order, but some of them more than once."]
    if len(got) < len(expected) and got == expected[: len(got)]:
        return [f"It stops after {_count(len(got), 'item')} of {len(expected)}; up to there it is right."]
    if len(got) > len(expected) and got[: len(expected)] == expected:
        return [f"It begins right and goes on too long: {len(got)} items for {len(expected)}."]
    return _first(got, expected)


def _items(got: list, expected: list) -> list[str]:
    """One thing that is so with every item."""
    if len(got) != len(expected):
        return []
    if all(type(b) is int for b in expected):
        if all(isinstance(a, str) for a in got) and got == [str(b) for b in expected]:
            return ["The numbers are right, but each is a string; use int."]
        if all(type(a) is float for a in got) and got == expected:
            return ["The numbers are right, but each is a float; whole numbers are asked for."]
        if all(type(a) is int for a in got) and len({a - b for a, b in zip(got, expected)}) == 1:
            return [f"Every number is {_by(got[0] - expected[0])}."]
    if all(isinstance(a, str) and isinstance(b, str) for a, b in zip(got, expected)):
        if [a.lower() for a in got] == [b.lower() for b in expected]:
            return ["It differs only in upper and lower case."]
        if [a.strip() for a in got] == expected:
            return ["It differs only in white space around the words."]
    return []


def _mapping(got: dict, expected: dict) -> list[str]:
    if max(len(got), len(expected)) > MOST:
        return []
    if not got:
        return ["It is empty."]
    if got == expected:
        return ["Keys and values are right; they stand in another order."]
    if len(got) == len(expected) and got == {value: key for key, value in expected.items()}:
        return ["Keys and values have changed places."]
    if list(got.values()) == list(expected.values()) and all(isinstance(k, tuple) and len(k) == 2 for k in [*got, *expected]):
        if [key[::-1] for key in got] == list(expected):
            return ["Each key has its two parts the wrong way round."]
    missing, extra = [k for k in expected if k not in got], [k for k in got if k not in expected]
    said = []
    if len(missing) == len(expected):
        kinds = {_name(key) for key in got}
        if len(kinds) == 1 and kinds != {_name(key) for key in expected}:
            return [f"Its keys are each {_article(kinds.pop())}; they should be {_article(_name(next(iter(expected))))}."]
        return ["None of its keys is right."]
    for keys, what in ((missing, "missing"), (extra, "too many")):
        if keys:
            named = join_words([repr(key) for key in keys[:4]]) if len(keys) <= 4 else f"{', '.join(map(repr, keys[:3]))} and {len(keys) - 3} more"
            said.append(f"{'The key' if len(keys) == 1 else 'The keys'} {named} {'is' if len(keys) == 1 else 'are'} {what}.")
    if said:
        return said
    wrong = [key for key in expected if got[key] != expected[key]]
    numbers = all(type(got[key]) is int and type(expected[key]) is int for key in expected)
    if numbers and len(expected) > 1 and len({got[key] - expected[key] for key in expected}) == 1:
        return [f"The keys are right; every value is {_by(got[wrong[0]] - expected[wrong[0]])}."]
    if len(expected) == 1:
        return [f"The key is right; its value is {_by(got[wrong[0]] - expected[wrong[0]]) if numbers else 'wrong'}."]
    of = f"{len(wrong)} of {_count(len(expected), 'value')}"
    first = f"at {wrong[0]!r} it is {_by(got[wrong[0]] - expected[wrong[0]])}" if numbers else f"the first at {wrong[0]!r}"
    return [f"The keys are right; {of} {'is' if len(wrong) == 1 else 'are'} wrong: {first}."]


def _text(got: str, expected: str) -> list[str]:
    if not got:
        return ["It is empty."]
    if got.lower() == expected.lower():
        return ["It differs only in upper and lower case."]
    if unicodedata.normalize("NFC", got) == unicodedata.normalize("NFC", expected):
        return ["It looks the same, but its characters are composed differently (Unicode has two ways to write é)."]
    if got.strip() == expected.strip():
        return ["It differs only in white space at its beginning or end."]
    if "".join(got.split()) == "".join(expected.split()):
        return ["It differs only in white space."]
    if got == expected[::-1]:
        return ["It is the right text backwards."]
    at = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b), min(len(got), len(expected)))
    if at == len(got):
        return [f"It stops after {_count(at, 'character')} of {len(expected)}; up to there it is right."]
    if at == len(expected):
        return [f"It begins right and goes on too long: {len(got)} characters for {len(expected)}."]
    if at == 0:
        return []  # it can be seen
    return [f"It first differs at character {at}: {got[at : at + 8]!r}, where {expected[at : at + 8]!r} should stand."]


def _one_out(shorter: Sequence, longer: Sequence) -> int | None:
    """The place in `longer` whose item, left out, makes it `shorter`."""
    if len(longer) - len(shorter) != 1:
        return None
    at = next((i for i, (a, b) in enumerate(zip(shorter, longer)) if a != b), len(shorter))
    return at if list(shorter[at:]) == list(longer[at + 1 :]) else None


def _first(got: list, expected: list) -> list[str]:
    at = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b), None)
    lengths = "" if len(got) == len(expected) else f"; it has {_count(len(got), 'item')} for {len(expected)}"
    return [] if at is None else [f"It first differs at index {at}: {got[at]!r}, where {expected[at]!r} should stand{lengths}."]


def _place(at: int, size: int) -> str:
    return "the first" if at == 0 else "the last" if at == size - 1 else f"at index {at}"


def _by(difference: int) -> str:
    return f"{abs(difference)} too {'high' if difference > 0 else 'low'}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _name(value: Any) -> str:
    names = {str: "string", int: "whole number", float: "float", bool: "bool"}
    return names.get(type(value), next((kind.__name__ for kind in (dict, list, tuple) if isinstance(value, kind)), type(value).__name__))


def _article(noun: str) -> str:
    return ("an " if noun[0].lower() in "aeiou" else "a ") + noun
