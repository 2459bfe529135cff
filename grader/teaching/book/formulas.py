"""The lessons' formulas, from plain text to MathML, which browsers draw without a script or a font.

`mathml("attention(q, k, v) = softmax(q kᵀ / √d_head) v")` gives the markup; None for a text that is no formula, such as a table of
numbers or a line of Python. Juxtaposition binds closest, then / and ·, then + and -. An index is written d_head, x0 or β₁, a power x², βᵗ or
e^(-x), a sum Σ_i f_i, an estimate m̂ (the letter and U+0302).

`typeset_within` finds the roots and powers in a sentence: "divide by √d_head" or "e^x can no longer overflow".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape

_HIGH = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᵀᵗⁿ", "0123456789−Ttn"))
_LOW = dict(zip("₀₁₂₃₄₅₆₇₈₉ᵢⱼₜₙ", "0123456789ijtn"))
_TOKEN = re.compile(
    rf"\d[\d,]*\.\d+|\d+|[A-Za-zα-ωΦ]\u0302|[A-Za-z]+[0-9]?(?:_\w+)?|[α-ωΦ](?:_\w+)?|Σ(?:_\w+)?|[{''.join(_HIGH)}]+|[{''.join(_LOW)}]+|[-+·/=≈≤≥<>()\[\],|√^]"
)
_RELATIONS = "=≈≤≥<>"
_FUNCTIONS = ("sin", "cos", "tan", "tanh", "erf", "exp", "log", "ln")
_SPACE = '<mspace width="0.25em"/>'
_CLOSING = {"(": ")", "[": "]"}
_PARENTHESES = re.compile(r"<mrow><mo[^>]*>\(</mo>(.*)<mo[^>]*>\)</mo></mrow>")
_TALL = re.compile("<(?:mfrac|munder|msqrt|msup)")
_GROUP = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_WITHIN = re.compile(
    rf"(?:(?<![\w.])\d+/)?√(?:{_GROUP}|\d+(?:\.\d+)?|[A-Za-z]\w*)|(?<![\w.)])(?:{_GROUP}|\d+(?:\.\d+)?|[A-Za-z]\w*)\^(?:{_GROUP}|-?\d+(?:\.\d+)?|-?[A-Za-z]\w*)"
)


class _NoFormula(ValueError):
    """This text is not a formula."""


def mathml(text: str) -> str | None:
    """Return the formula as a block of MathML, lines aligned at their equals signs; None if `text` is not a formula."""
    lines = [line.strip() for line in text.strip("\n").split("\n")]
    try:
        rows = [_Reader(line).sides() for line in lines]
    except _NoFormula:
        return None
    if all(len(row) == 1 for row in rows) and not re.search(r"[·√^Σ]|\d/\d", text):
        return None
    inside = f"<mrow>{''.join(rows[0])}</mrow>" if len(rows) == 1 else _table(rows)
    return f'<math display="block">{inside}</math>'


def mathml_of_code(text: str) -> str | None:
    """Return a formula that a lesson writes as code, such as `10000^(-2i / d_head)`, for use in a sentence; None if it is code."""
    made = mathml(text) if re.search(r"[√^Σ]", text) else None
    return made.replace(' display="block"', "", 1) if made else None


def typeset_within(text: str, write: Callable[[str], str]) -> str:
    """Return a sentence with its roots and powers as formulas; `write` makes the HTML of the rest."""
    out, end = [], 0
    for match in _WITHIN.finditer(text):
        if formula := mathml_of_code(match[0]):
            out += [write(text[end : match.start()]), formula]
            end = match.end()
    return "".join([*out, write(text[end:])])


def _table(rows: list[list[str]]) -> str:
    return "<mtable>" + "".join("<mtr>" + "".join(f"<mtd>{side}</mtd>" for side in row) + "</mtr>" for row in rows) + "</mtable>"


class _Reader:
    """A parser of one line, from left to right; each method reads the part that its name says and returns its markup."""

    def __init__(self, line: str) -> None:
        self._tokens: list[tuple[str, bool]] = []  # each with whether it touches the one before
        end = 0
        for match in _TOKEN.finditer(line):
            if line[end : match.start()].strip() or (self._tokens and match.start() - end > 2 and not {match[0], self._tokens[-1][0]} & set(_RELATIONS)):
                raise _NoFormula  # a sign unknown here, or columns of a table
            self._tokens.append((match[0], match.start() == end))
            end = match.end()
        if not self._tokens or line[end:].strip():
            raise _NoFormula
        self._at = 0
        self._raised = 0  # exponents that are being read; a fraction in one is written with a slash, because two small lines cannot be read

    def sides(self) -> list[str]:
        """Read the sides of the equation, each after the first with its sign."""
        found = [self._terms()]
        while (sign := self._take(*_RELATIONS)) is not None:
            found.append(f"<mo>{escape(sign)}</mo>{self._terms()}")
        if self._next() is not None:
            raise _NoFormula
        return found

    def _terms(self) -> str:
        """Read one sum, or several with commas."""
        out = self._sum()
        while self._take(","):
            out += f"<mo>,</mo>{self._sum()}"
        return out

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
            whole, below = self._together()
            if self._raised:
                above = bare = f"<mrow>{above}<mo>/</mo>{whole}</mrow>"
                continue
            above = bare = f"<mfrac><mrow>{bare}</mrow><mrow>{below}</mrow></mfrac>"
        return above

    def _together(self) -> tuple[str, str]:
        """Read factors side by side; also return them without the outer parentheses, which a fraction does not need."""
        parts: list[str] = []
        words: list[str] = []
        start = self._at
        while (token := self._next()) is not None and token not in "+-·/)],|" + _RELATIONS:
            touches = self._tokens[self._at][1]
            is_word = token.isalpha() and token not in _FUNCTIONS and token[0] != "Σ" and not self._called() and not (parts and not words and touches)
            if is_word:
                words.append(token)
                self._at += 1
            if words and not is_word:
                parts.append((_SPACE if parts else "") + _words(words))
                words = []
            if not is_word:
                if parts and not token.isdigit() and token not in "([" and not touches:
                    parts.append(_SPACE)
                parts.append(self._atom())
        if words:
            parts.append((_SPACE if parts else "") + _words(words))
        if not parts:
            raise _NoFormula
        whole = "".join(parts)
        if len(parts) == 1 and self._tokens[start][0] == "(" and self._tokens[self._at - 1][0] == ")":
            return whole, _bare(whole)
        return whole, whole

    def _atom(self) -> str:
        token, _ = self._tokens[self._at]
        if token == "(":
            out = self._list()
        elif token == "√":
            self._at += 1
            if self._next() is None:
                raise _NoFormula
            return f"<msqrt>{_bare(self._atom())}</msqrt>"
        elif token[0] == "Σ":
            self._at += 1
            return f"<munder><mo>∑</mo><mi>{token[2:]}</mi></munder>" if token[1:] else "<mo>∑</mo>"
        elif re.match(r"[\dA-Za-zα-ωΦ]", token):
            self._at += 1
            out = _name(token)
        else:
            raise _NoFormula
        while (after := self._next()) is not None:
            if after[0] in _HIGH:
                self._at += 1
                out = f"<msup>{out}{_small(after, _HIGH)}</msup>"
            elif after[0] in _LOW:
                self._at += 1
                out = f"<msub>{out}{_small(after, _LOW)}</msub>"
            elif after == "^":
                self._at += 1
                out = f"<msup>{out}{self._exponent()}</msup>"
            elif after in _CLOSING and self._tokens[self._at][1]:
                out = f"<mrow>{out}{self._list()}</mrow>"
            else:
                break
        return out

    def _exponent(self) -> str:
        if self._next() == "(":
            self._raised += 1
            inside = _bare(self._list())
            self._raised -= 1
            return f"<mrow>{inside}</mrow>"
        sign = "<mo>−</mo>" if self._take("-") else ""
        token = self._next()
        if token is None or not re.match(r"[\dA-Za-zα-ωΦ]", token):
            raise _NoFormula
        self._at += 1
        return f"<mrow>{sign}{_name(token)}</mrow>"

    def _list(self) -> str:
        opening = self._tokens[self._at][0]
        if opening not in _CLOSING:
            raise _NoFormula
        self._at += 1
        out = self._sum()
        while (sign := self._take(",", "|")) is not None:
            out += f"<mo>{sign}</mo>{self._sum()}"
        if not self._take(_CLOSING[opening]):
            raise _NoFormula
        sign = "<mo>" if _TALL.search(out) else '<mo stretchy="false">'
        return f"<mrow>{sign}{opening}</mo>{out}{sign}{_CLOSING[opening]}</mo></mrow>"

    def _called(self) -> bool:
        after = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else ("", False)
        return (after[0] in _CLOSING and after[1]) or (bool(after[0]) and (after[0][0] in _HIGH or after[0][0] in _LOW or after[0] == "^"))

    def _next(self) -> str | None:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else None

    def _take(self, *wanted: str) -> str | None:
        token = self._next()
        if token not in wanted:
            return None
        self._at += 1
        return token


def _bare(group: str) -> str:
    """Return a group without its outer parentheses, where a line or the size groups it."""
    return match[1] if (match := _PARENTHESES.fullmatch(group)) else group


def _small(token: str, meanings: dict[str, str]) -> str:
    written = "".join(meanings[letter] for letter in token)
    return f"<mi>{written}</mi>" if written.isalpha() else f"<mn>{written}</mn>"


def _words(words: list[str]) -> str:
    """Single letters are quantities side by side; longer names are words."""
    if all(len(word) == 1 for word in words):
        return "".join(f"<mi>{word}</mi>" for word in words)
    return f"<mtext>{escape(' '.join(words))}</mtext>" if len(words) > 1 else _name(words[0])


def _name(token: str) -> str:
    """Write the index of d_head, x0 and W_q as a subscript, and the hat of an estimate above its letter."""
    if token[-1] == "\u0302":
        return f'<mover accent="true"><mi>{token[0]}</mi><mo>^</mo></mover>'
    if token[0].isdigit():
        return f"<mn>{token}</mn>"
    match = re.fullmatch(r"([A-Za-zα-ωΦ]+)_(\w+)|([A-Za-z])([0-9])", token)
    if match is None:
        return f"<mi>{token}</mi>"
    name, index = match[1] or match[3], match[2] or match[4]
    below = f"<mn>{index}</mn>" if index.isdigit() else f"<mi>{index.replace('_', ' ')}</mi>"
    return f"<msub><mi>{name}</mi>{below}</msub>"
