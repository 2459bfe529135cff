"""The lessons' formulas, from plain text to MathML, which browsers draw without a script or a font.

`mathml("attention(q, k, v) = softmax(q kᵀ / √d_head) v")` gives the markup; None for a text that is no formula, such as a table of
numbers or a line of Python. Juxtaposition binds closest, then / and ·, then + and -.
"""

from __future__ import annotations

import re
from html import escape

_TOKEN = re.compile(r"\d[\d,]*\.\d+|\d+|[A-Za-z]+[0-9]?(?:_\w+)?|[-+·/=()\[\],√ᵀ²³π]")
_RAISED = {"ᵀ": "<mi>T</mi>", "²": "<mn>2</mn>", "³": "<mn>3</mn>"}
_FUNCTIONS = ("sin", "cos", "tan", "exp", "log")
_CLOSING = {"(": ")", "[": "]"}


class _NoFormula(ValueError):
    """This text is not a formula."""


def mathml(text: str) -> str | None:
    """Return the formula as a block of MathML, lines aligned at their equals signs; None if `text` is not a formula."""
    lines = [line.strip() for line in text.strip("\n").split("\n")]
    try:
        rows = [_Reader(line).sides() for line in lines]
    except _NoFormula:
        return None
    if all(len(row) == 1 for row in rows) and not re.search("[·√]", text):
        return None
    inside = _joined(rows[0]) if len(rows) == 1 else _table(rows)
    return f'<math display="block">{inside}</math>'


def _joined(sides: list[str]) -> str:
    return "<mrow>" + "<mo>=</mo>".join(sides) + "</mrow>"


def _table(rows: list[list[str]]) -> str:
    lines = "".join("<mtr>" + "".join(f"<mtd>{_equals(i)}{side}</mtd>" for i, side in enumerate(row)) + "</mtr>" for row in rows)
    return f"<mtable>{lines}</mtable>"


def _equals(place: int) -> str:
    return "<mo>=</mo>" if place else ""


class _Reader:
    """A parser of one line, from left to right; each method reads the part that its name says and returns its markup."""

    def __init__(self, line: str) -> None:
        self._tokens: list[tuple[str, bool]] = []  # each with whether it touches the one before
        end = 0
        for match in _TOKEN.finditer(line):
            if line[end : match.start()].strip() or (self._tokens and match.start() - end > 2 and "=" not in (match[0], self._tokens[-1][0])):
                raise _NoFormula  # a sign unknown here, or columns of a table
            self._tokens.append((match[0], match.start() == end))
            end = match.end()
        if not self._tokens or line[end:].strip():
            raise _NoFormula
        self._at = 0

    def sides(self) -> list[str]:
        """Read the sides of the equation."""
        found = [self._sum()]
        while self._take("="):
            found.append(self._sum())
        if self._next() is not None:
            raise _NoFormula
        return found

    def _sum(self) -> str:
        out = "<mo>−</mo>" if self._take("-") else ""
        out += self._product()
        while (sign := self._take("+", "-")) is not None:
            out += f"<mo>{'−' if sign == '-' else '+'}</mo>{self._product()}"
        return f"<mrow>{out}</mrow>"

    def _product(self) -> str:
        out = self._ratio()
        while self._take("·"):
            out += f"<mo>·</mo>{self._ratio()}"
        return out

    def _ratio(self) -> str:
        above, bare = self._together()
        while self._take("/"):
            _, below = self._together()
            above = bare = f"<mfrac><mrow>{bare}</mrow><mrow>{below}</mrow></mfrac>"
        return above

    def _together(self) -> tuple[str, str]:
        """Read factors side by side; also return them without the outer parentheses, which a fraction does not need."""
        parts, words, start = [], [], self._at
        while (token := self._next()) is not None and token not in "+-·/=)],":
            is_word = token.isalpha() and token not in _FUNCTIONS and not self._called()
            if is_word:
                words.append(token)
                self._at += 1
            if words and not is_word:
                parts.append(_words(words))
                words = []
            if not is_word:
                if parts and not token.isdigit() and token not in "([":
                    parts.append('<mspace width="0.25em"/>')
                parts.append(self._atom())
        if words:
            parts.append(('<mspace width="0.25em"/>' if parts else "") + _words(words))
        if not parts:
            raise _NoFormula
        whole = "".join(parts)
        if len(parts) == 1 and self._tokens[start][0] == "(" and self._tokens[self._at - 1][0] == ")":
            return whole, whole.removeprefix('<mrow><mo>(</mo>').removesuffix('<mo>)</mo></mrow>')
        return whole, whole

    def _atom(self) -> str:
        token, _ = self._tokens[self._at]
        if token == "(":
            out = self._list()
        elif token == "√":
            self._at += 1
            if self._next() is None:
                raise _NoFormula
            return f"<msqrt>{self._atom()}</msqrt>"
        elif re.match(r"[\dA-Za-zπ]", token):
            self._at += 1
            out = _name(token)
        else:
            raise _NoFormula
        while (after := self._next()) is not None:
            if after in _RAISED:
                self._at += 1
                out = f"<msup>{out}{_RAISED[after]}</msup>"
            elif after in _CLOSING and self._tokens[self._at][1]:
                out = f"<mrow>{out}{self._list()}</mrow>"
            else:
                break
        return out

    def _list(self) -> str:
        opening = self._tokens[self._at][0]
        if opening not in _CLOSING:
            raise _NoFormula
        self._at += 1
        out = self._sum()
        while self._take(","):
            out += f"<mo>,</mo>{self._sum()}"
        if not self._take(_CLOSING[opening]):
            raise _NoFormula
        return f'<mrow><mo>{opening}</mo>{out}<mo>{_CLOSING[opening]}</mo></mrow>'

    def _called(self) -> bool:
        after = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else ("", False)
        return (after[0] in _CLOSING and after[1]) or after[0] in _RAISED

    def _next(self) -> str | None:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else None

    def _take(self, *wanted: str) -> str | None:
        token = self._next()
        if token not in wanted:
            return None
        self._at += 1
        return token


def _words(words: list[str]) -> str:
    """Single letters are quantities side by side; longer names are words."""
    if all(len(word) == 1 for word in words):
        return "".join(f"<mi>{word}</mi>" for word in words)
    return f"<mtext>{escape(' '.join(words))}</mtext>" if len(words) > 1 else _name(words[0])


def _name(token: str) -> str:
    """Write the index of d_head, x0 and W_q as a subscript."""
    if token[0].isdigit():
        return f"<mn>{token}</mn>"
    match = re.fullmatch(r"([A-Za-z]+)_(\w+)|([A-Za-z])([0-9])", token)
    if match is None:
        return f"<mi>{token}</mi>"
    name, index = match[1] or match[3], match[2] or match[4]
    below = f"<mn>{index}</mn>" if index.isdigit() else f"<mi>{index.replace('_', ' ')}</mi>"
    return f"<msub><mi>{name}</mi>{below}</msub>"
