"""The lessons' formulas, from plain text to MathML, which browsers draw without a script or a font.

`mathml("attention(q, k, v) = softmax(q kᵀ / √d_head) v")` gives the markup; None for a text that is no formula, such as
a table of numbers or a line of Python. Juxtaposition binds closest, then / and ·, then + and -. An index is written
d_head, x0 or β₁, a power x², βᵗ or e^(-x), a sum Σ_i f_i, an estimate m̂ (the letter and U+0302).

`typeset_within` finds the roots and powers in a sentence: "divide by √d_head" or "e^x can no longer overflow".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape

_HIGH = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᵀᵗⁿ", "0123456789−Ttn"))
_LOW = dict(zip("₀₁₂₃₄₅₆₇₈₉ᵢⱼₜₙ", "0123456789ijtn"))
_TOKEN = re.compile(
    r"\d[\d,]*\.\d+|\d+|[A-Za-zα-ωΦ]\u0302|[A-Za-z]+[0-9]?(?:_\w+)?|[α-ωΦ](?:_\w+)?|Σ(?:_\w+)?"
    rf"|[{''.join(_HIGH)}]+|[{''.join(_LOW)}]+|[-+·/=≈≤≥<>()\[\],|√^]"
)
_RELATIONS = tuple("=≈≤≥<>")
_ENDS = ("", *"+-·/)],|", *_RELATIONS)  # what ends a row of factors
_CLOSING = {"(": ")", "[": "]"}
_FUNCTIONS = ("sin", "cos", "tan", "tanh", "erf", "exp", "log", "ln")
_SPACE = '<mspace width="0.25em"/>'
_PARENTHESES = re.compile(r"<mrow><mo[^>]*>\(</mo>(.*)<mo[^>]*>\)</mo></mrow>")
_GROUP = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_WITHIN = re.compile(
    rf"(?:(?<![\w.])\d+/)?√(?:{_GROUP}|\d+(?:\.\d+)?|[A-Za-z]\w*)"
    rf"|(?<![\w.)])(?:{_GROUP}|\d+(?:\.\d+)?|[A-Za-z]\w*)\^(?:{_GROUP}|-?\d+(?:\.\d+)?|-?[A-Za-z]\w*)"
)


class _NoFormula(ValueError):
    """This text is not a formula."""


def mathml(text: str) -> str | None:
    """Return the formula as a block of MathML, lines aligned at their equals signs; None if `text` is no formula."""
    try:
        rows = [_Reader(line.strip()).sides() for line in text.strip("\n").split("\n")]
    except _NoFormula:
        return None
    if all(len(row) == 1 for row in rows) and not re.search(r"[·√^Σ]|\d/\d", text):
        return None
    cells = ("".join(f"<mtd>{side}</mtd>" for side in row) for row in rows)
    table = "<mtable>" + "".join(f"<mtr>{row}</mtr>" for row in cells) + "</mtable>"
    return f'<math display="block">{table if len(rows) > 1 else _row(*rows[0])}</math>'


def mathml_of_code(text: str) -> str | None:
    """Return a formula that a lesson writes as code, such as `10000^(-2i / d_head)`; None if it is code."""
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


class _Reader:
    """A parser of one line, from left to right; each method reads what its name says and returns its markup."""

    def __init__(self, line: str) -> None:
        self._tokens: list[str] = []
        self._touches: list[bool] = []  # whether each token touches the one before
        self._at, self._in_exponent, end = 0, False, 0
        for match in _TOKEN.finditer(line):
            gap = line[end : match.start()]
            near_relation = not self._tokens or match[0] in _RELATIONS or self._tokens[-1] in _RELATIONS
            if gap.strip() or (len(gap) > 2 and not near_relation):
                raise _NoFormula  # an unknown sign, or columns of a table
            self._tokens.append(match[0])
            self._touches.append(not gap)
            end = match.end()
        if not self._tokens or line[end:].strip():
            raise _NoFormula

    def sides(self) -> list[str]:
        """Read the sides of the equation, each after the first with its sign."""
        found = [self._chain(self._sum, ",")]
        while sign := self._take(*_RELATIONS):
            found.append(f"<mo>{escape(sign)}</mo>{self._chain(self._sum, ',')}")
        if self._next():
            raise _NoFormula
        return found

    def _chain(self, read: Callable[[], str], *signs: str) -> str:
        out = read()
        while sign := self._take(*signs):
            out += f"<mo>{'−' if sign == '-' else sign}</mo>{read()}"
        return out

    def _sum(self) -> str:
        sign = "<mo>−</mo>" if self._take("-") else ""
        return _row(sign, self._chain(self._product, "+", "-"))

    def _product(self) -> str:
        return self._chain(self._ratio, "·")

    def _ratio(self) -> str:
        above = self._factors()
        while self._take("/"):
            below = self._factors()
            if self._in_exponent:  # two small lines could not be read
                above = _row(above, "<mo>/</mo>", below)
            else:
                above = f"<mfrac>{_row(_bare(above))}{_row(_bare(below))}</mfrac>"
        return above

    def _factors(self) -> str:
        parts: list[str] = []
        words: list[str] = []

        def add(markup: str, apart: bool) -> None:
            parts.append(_SPACE + markup if parts and apart else markup)

        while (token := self._next()) not in _ENDS:
            touches = self._touches[self._at]
            is_word = token.isalpha() and token not in _FUNCTIONS and token[0] != "Σ" and not self._has_suffix()
            if is_word and not (parts and not words and touches):
                words.append(self._read())
                continue
            if words:
                add(_words(words), apart=True)
                words = []
            add(self._atom(), apart=not (touches or token.isdigit() or token in _CLOSING))
        if words:
            add(_words(words), apart=True)
        if not parts:
            raise _NoFormula
        return parts[0] if len(parts) == 1 else _row(*parts)

    def _atom(self) -> str:
        if self._take("√"):
            return f"<msqrt>{_bare(self._atom())}</msqrt>"
        if self._next() in _CLOSING:
            out = self._group()
        elif (token := self._read()).startswith("Σ"):
            return f"<munder><mo>∑</mo><mi>{token[2:]}</mi></munder>" if token[1:] else "<mo>∑</mo>"
        else:
            out = _name(token)
        while after := self._next():
            if after[0] in _HIGH:
                out = f"<msup>{out}{_small(self._read(), _HIGH)}</msup>"
            elif after[0] in _LOW:
                out = f"<msub>{out}{_small(self._read(), _LOW)}</msub>"
            elif self._take("^"):
                out = f"<msup>{out}{self._exponent()}</msup>"
            elif after in _CLOSING and self._touches[self._at]:
                out = _row(out, self._group())
            else:
                break
        return out

    def _exponent(self) -> str:
        if self._next() != "(":
            return _row("<mo>−</mo>" if self._take("-") else "", _name(self._read()))
        outer, self._in_exponent = self._in_exponent, True
        inside = _bare(self._group())
        self._in_exponent = outer
        return _row(inside)

    def _group(self) -> str:
        opening = self._read()
        inside = self._chain(self._sum, ",", "|")
        if opening not in _CLOSING or not self._take(_CLOSING[opening]):
            raise _NoFormula
        sign = "<mo>" if re.search("<(?:mfrac|munder|msqrt|msup)", inside) else '<mo stretchy="false">'
        return _row(f"{sign}{opening}</mo>", inside, f"{sign}{_CLOSING[opening]}</mo>")

    def _has_suffix(self) -> bool:
        """Return whether the present token has an argument, an index or a power."""
        if self._at + 1 == len(self._tokens):
            return False
        after = self._tokens[self._at + 1]
        return (after in _CLOSING and self._touches[self._at + 1]) or after[0] in {"^", *_HIGH, *_LOW}

    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _read(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1] if self._at <= len(self._tokens) else ""

    def _take(self, *wanted: str) -> str:
        return self._read() if self._next() in wanted else ""


def _row(*parts: str) -> str:
    return f"<mrow>{''.join(parts)}</mrow>"


def _bare(markup: str) -> str:
    """Return a group without its outer parentheses, where a line or the size groups it."""
    return match[1] if (match := _PARENTHESES.fullmatch(markup)) else markup


def _small(token: str, meanings: dict[str, str]) -> str:
    written = "".join(meanings[letter] for letter in token)
    return f"<mi>{written}</mi>" if written.isalpha() else f"<mn>{written}</mn>"


def _words(words: list[str]) -> str:
    """Single letters are quantities side by side; longer names are words."""
    if all(len(word) == 1 for word in words):
        return "".join(f"<mi>{word}</mi>" for word in words)
    return f"<mtext>{escape(' '.join(words))}</mtext>" if len(words) > 1 else _name(words[0])


def _name(token: str) -> str:
    """Write a number or a name, with the index of d_head, x0 and W_q below it and the hat of an estimate above it."""
    if not re.match(r"[\dA-Za-zα-ωΦ]", token):
        raise _NoFormula
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
