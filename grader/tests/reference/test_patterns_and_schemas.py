"""Chapter 25's automata against `re` and `regex`, and its guides against json and jsonschema, on random input."""

from __future__ import annotations

import json
import random
import re

import pytest

SINGLE = [
    *"ab", "é", "€", "😀", "\\.", "\\n", "-", "ā", "[ab]", "[^a]", "[a-c]", "[à-é]", "[^\\n€]", "[a\\-é]", "[\\d_]", "[^\\w]",
    ".", "\\d", "\\w", "\\s", "[^\\s]", "[ā-😀]", "[-a]", "[a-]", "[߿-ࠀ]",
]  # fmt: skip
REPEATS = ["?", "*", "+", "{2}", "{0,2}", "{1,3}", "{2,}", "{0}", "{0,}"]
LETTERS = [*"abc-.1_ \n\t", "é", "à", "ê", "€", "😀", "ā", "߿", "ࠀ", "\ud7ff", "\ue000", "\U0010ffff"]


def drawn_pattern(draw: random.Random, depth: int) -> str:
    kind = draw.random()
    if depth == 0 or kind < 0.3:
        return draw.choice(SINGLE)
    if kind < 0.6:
        return "".join(drawn_pattern(draw, depth - 1) for _ in range(draw.randint(0, 3)))
    if kind < 0.75:
        return "(" + "|".join(drawn_pattern(draw, depth - 1) for _ in range(draw.randint(1, 3))) + ")"
    return f"({drawn_pattern(draw, depth - 1)}){draw.choice(REPEATS)}"


def state_after(automaton, data: bytes) -> int | None:
    state, _, step = automaton
    for byte in data:
        state = step(state, byte)
        if state is None:
            return None
    return state


def accepts(automaton, text: str) -> bool:
    return state_after(automaton, text.encode()) in automaton[1]


def written_by(draw: random.Random, automaton) -> bytes:
    """At most 12 bytes that the automaton allows."""
    state, accepting, step = automaton
    data = b""
    while len(data) < 12 and not (state in accepting and draw.random() < 0.3):
        possible = [byte for byte in range(256) if step(state, byte) is not None]
        if not possible:
            break
        data += bytes([draw.choice(possible)])
        state = step(state, data[-1])
    return data


def patterns_with_automata(ours, seed: int, count: int):
    draw = random.Random(seed)
    for _ in range(count):
        pattern = drawn_pattern(draw, draw.randint(1, 4))
        try:
            yield draw, pattern, ours.build_automaton(pattern)
        except ValueError as problem:
            assert "more than" in str(problem), pattern


@pytest.mark.parametrize("seed", range(4))
def test_automata_accept_what_re_matches(ours, seed):
    matches = others = 0
    for draw, pattern, automaton in patterns_with_automata(ours, seed, 500):
        texts = {"".join(draw.choice(LETTERS) for _ in range(draw.randint(0, 5))) for _ in range(20)}
        for data in (written_by(draw, automaton) for _ in range(5)):
            text = data.decode(errors="ignore")
            texts |= {text, text[:-1], text + draw.choice(LETTERS)}
        for text in texts:
            expected = re.fullmatch(pattern, text, re.ASCII) is not None
            assert accepts(automaton, text) == expected, (pattern, text)
            matches, others = matches + expected, others + (not expected)
    assert matches > 1_000 and others > 5_000


def test_no_text_of_bytes_is_cut_or_malformed(ours):
    """Every accepted text is UTF-8, and every state leads to an end."""
    for draw, pattern, automaton in patterns_with_automata(ours, 5, 300):
        start, accepting, step = automaton
        after: dict[int, set[int]] = {}
        todo = [start]
        while todo:
            state = todo.pop()
            if state not in after:
                after[state] = {step(state, byte) for byte in range(256)} - {None}
                todo += after[state]
        living = set(accepting)
        while more := {state for state in after if state not in living and after[state] & living}:
            living |= more
        assert set(after) == living, pattern
        for data in (written_by(draw, automaton) for _ in range(5)):
            if state_after(automaton, data) in accepting:
                data.decode()


def test_a_text_may_go_on_where_regex_finds_a_partial_match(ours):
    regex = pytest.importorskip("regex")
    yes = no = 0
    for draw, pattern, automaton in patterns_with_automata(ours, 6, 400):
        for _ in range(15):
            text = (written_by(draw, automaton).decode(errors="ignore") + draw.choice(["", *LETTERS]))[: draw.randint(0, 6)]
            expected = regex.fullmatch(pattern, text, regex.ASCII | regex.VERSION0, partial=True) is not None
            assert (state_after(automaton, text.encode()) is not None) == expected, (pattern, text)
            yes, no = yes + expected, no + (not expected)
    assert yes > 1_000 and no > 500


ENUM = ["red", "rose", "r", "é€", 'q"uo\\te', "\n\x01", 1, 10, 1.5, -3, True, False, None, "", 1e30]
VALUES = {"string": ["", "é€😀", 'a"b\\', "x\ny\t"], "number": [0, -1.5, 3.25, 10**14, 12], "integer": [0, -7, 10**14], "boolean": [True, False], "null": [None]}


def drawn_schema(draw: random.Random, depth: int) -> dict:
    kind = draw.choice([*VALUES, "enum"] + ["array", "object"] * (2 if depth else 0))
    if kind == "enum":
        return {"enum": draw.sample(ENUM, draw.randint(1, 5))}
    if kind == "array":
        return {"type": kind, "items": drawn_schema(draw, depth - 1)}
    if kind == "object":
        names = draw.sample(["a", "ab", "name", "é", '"', "b c", "", "abc"], draw.randint(0, 4))
        properties = {name: drawn_schema(draw, depth - 1) for name in names}
        return {"type": kind, "properties": properties, "required": [name for name in names if draw.random() < 0.5], "title": "x"}
    return {"type": kind}


def drawn_value(draw: random.Random, schema: dict):
    if "enum" in schema:
        return draw.choice(schema["enum"])
    if schema["type"] == "array":
        return [drawn_value(draw, schema["items"]) for _ in range(draw.randint(0, 3))]
    if schema["type"] == "object":
        chosen = [name for name in schema["properties"] if name in schema["required"] or draw.random() < 0.5]
        return {name: drawn_value(draw, schema["properties"][name]) for name in chosen}
    return draw.choice(VALUES[schema["type"]])


def guides(ours, seed: int, count: int):
    draw = random.Random(seed)
    for _ in range(count):
        schema = drawn_schema(draw, 3)
        try:
            yield draw, schema, ours.JsonGuide(schema)
        except ValueError as problem:
            assert "more than" in str(problem), schema


def test_whatever_a_guide_accepts_is_valid(ours):
    jsonschema = pytest.importorskip("jsonschema")
    complete = 0
    for draw, schema, guide in guides(ours, 3, 300):
        validator = jsonschema.Draft202012Validator(schema)
        for _ in range(4):
            text = b""
            while len(text) < 300:
                allowed = sorted(guide.allowed(text))
                assert allowed, (schema, text)
                if len(text) > 60:  # what ends something
                    allowed = [byte for byte in allowed if byte in (b"", b"]", b"}", b'"')] or allowed
                byte = draw.choice(allowed)
                if byte == b"":
                    validator.validate(json.loads(text.decode()))
                    complete += 1
                    break
                text += byte
    assert complete > 1_000


def test_a_guide_accepts_all_valid_values(ours):
    """And no value of another schema, if jsonschema says that it does not fit."""
    jsonschema = pytest.importorskip("jsonschema")
    right = wrong = 0
    for draw, schema, guide in guides(ours, 4, 600):
        validator = jsonschema.Draft202012Validator({**schema, "additionalProperties": False})
        for _ in range(4):
            text = json.dumps(drawn_value(draw, schema), ensure_ascii=False)
            assert accepts(guide.automaton, text), (schema, text)
            other = drawn_value(draw, drawn_schema(draw, 2))
            if not validator.is_valid(other):
                assert not accepts(guide.automaton, json.dumps(other, ensure_ascii=False)), (schema, other)
                wrong += 1
            right += 1
    assert right > 2_000 and wrong > 1_000
