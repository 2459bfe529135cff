"""Structured output: automata, tables of tokens, masked logits, and how a form may go on."""

from __future__ import annotations

from typing import Any

import torch
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import make_bars, make_grid
from grader.teaching.show.panels import Panel

NUMBER = "-?(0|[1-9][0-9]*)(\\.[0-9]+)?"
BEGINNINGS = ("", "-", "0", "-1", "12", "12.", "12.5")
FOLLOWING = "-0159.e"
ANSWERS = "yes|no( way)?"
TOKENS = ("y", "ye", "yes", "n", "no", "not", "es", "s", "o", " ", " way", "way")
WRITTEN = ("", "y", "ye", "yes", "n", "no", "no ")
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "kind": {"enum": ["cat", "cow"]}},
    "required": ["age"],
}
FORMS = ("", "{", '{"', '{"name": "', '{"name": "A', '{"age": 1', '{"age": 1, "kind": "c')
NEXT = '{}":,-10acok '
LOGITS, CHOICES = (2.0, 1.0, 3.0, 0.5, 1.5, -1.0), ("A", "B", "C", "D", "E", "F")


def build_automaton(side: Implementation) -> list[Panel]:
    rows = side.bring(possible_bytes)(side.build_automaton, NUMBER, list(BEGINNINGS), FOLLOWING)
    title = "may this byte come next in a number? and may the text end?"
    return [_grid(title, rows, BEGINNINGS, [*FOLLOWING, "end"])]


def possible_bytes(build: Any, pattern: str, beginnings: list, following: str) -> list:
    """Go through each beginning with the automaton; this source is sent to the implementation's side."""
    state, accepting, step = build(pattern)
    start, rows = state, []
    for text in beginnings:
        state = start
        for byte in text.encode():
            state = None if state is None else step(state, byte)
        row = [float(state is not None and step(state, byte) is not None) for byte in following.encode()]
        rows.append([*row, float(state in accepting)])
    return rows


def token_table(side: Implementation) -> list[Panel]:
    tokens = [token.encode() for token in TOKENS]
    rows = side.bring(possible_tokens)(
        side.token_table, side.build_automaton, ANSWERS, tokens, [text.encode() for text in WRITTEN]
    )
    return [_grid(f"may this token come next in {ANSWERS}?", rows, WRITTEN, [repr(token)[1:-1] for token in TOKENS])]


def possible_tokens(make: Any, build: Any, pattern: str, tokens: list, beginnings: list) -> list:
    """Look up the state after each beginning; this source is sent to the implementation's side."""
    start, accepting, step = build(pattern)
    table, rows = make((start, accepting, step), tokens), []
    for text in beginnings:
        state = start
        for byte in text:
            state = None if state is None else step(state, byte)
        found = table.get(state, {})
        rows.append([float(i in found) for i in range(len(tokens))])
    return rows


def constrain(side: Implementation) -> list[Panel]:
    logits = torch.tensor(LOGITS)
    panels: list[Panel] = [make_bars("probabilities without a mask", CHOICES, logits.softmax(0), "probability")]
    for allowed in ([0, 1, 4], [3, 5]):
        names = " and ".join(CHOICES[i] for i in allowed)
        masked = side.constrain(logits, allowed)
        panels.append(make_bars(f"{names} are allowed", CHOICES, masked.softmax(0), "probability"))
    return panels


def json_guide(side: Implementation) -> list[Panel]:
    rows = side.bring(allowed_bytes)(side.JsonGuide, SCHEMA, [text.encode() for text in FORMS], NEXT)
    return [_grid("may this byte come next in the form? and may it end?", rows, FORMS, [*NEXT, "end"])]


def allowed_bytes(make: Any, schema: dict, beginnings: list, following: str) -> list:
    """Ask a guide for each beginning; this source is sent to the implementation's side."""
    guide = make(schema)
    found = [guide.allowed(text) for text in beginnings]
    return [[float(text in allowed) for text in [*(c.encode() for c in following), b""]] for allowed in found]


def _grid(title: str, rows: list[list[float]], texts: tuple[str, ...], columns: list[str]) -> Panel:
    labels = [text.replace(" ", "·") or "(nothing)" for text in texts]
    return make_grid(title, torch.tensor(rows), labels, [one.replace(" ", "·") for one in columns], ("written", "next"))
