"""A calculator for + - * / ** and parentheses that reads a text itself: nothing of it is ever run."""

from __future__ import annotations

import math
import re

MOST_CHARACTERS, MOST_DEPTH, MOST_BITS = 200, 50, 2_000
TOKEN = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+|\*\*|[-+*/()])", re.ASCII)
LEVELS = {"+": 0, "-": 0, "*": 1, "/": 1, "**": 3}  # what binds more tightly has a higher one
SIGN_LEVEL = 2  # -2 ** 2 is -(2 ** 2), and -2 * 3 is (-2) * 3


def calculator(input: str) -> str:  # the argument has the name that it has in a call
    """Compute an expression, whole numbers exactly. Raises a ValueError that says what is wrong."""
    if len(input) > MOST_CHARACTERS:
        raise ValueError(f"an expression has at most {MOST_CHARACTERS} characters")
    if unknown := TOKEN.sub("", input).strip():
        raise ValueError(f"{unknown[:20]!r} is no number and none of + - * / ** ( )")
    tokens = TOKEN.findall(input)[::-1]  # the next one is the last
    value = _value(tokens, 0, MOST_DEPTH)
    if tokens:
        raise ValueError(f"{tokens[-1]!r} cannot come where it is")
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _value(tokens: list[str], level: int, depth: int) -> int | float:
    """Take a value from the end of the list, as far as the operators are at least at this level."""
    token = tokens.pop() if tokens else "the end"
    if depth == 0:
        raise ValueError(f"the expression is more than {MOST_DEPTH} deep")
    if token in ("+", "-"):
        value = _value(tokens, SIGN_LEVEL, depth - 1)
        value = -value if token == "-" else value
    elif token == "(":
        value = _value(tokens, 0, depth - 1)
        if not tokens or tokens.pop() != ")":
            raise ValueError("a ( is never closed")
    elif token[0] in ".0123456789":
        value = float(token) if "." in token else int(token)
    else:
        raise ValueError(f"a number is missing before {token}")
    while tokens and LEVELS.get(tokens[-1], -1) >= level:
        sign = tokens.pop()
        value = _apply(sign, value, _value(tokens, LEVELS[sign] + (sign != "**"), depth - 1))
    return value


def _apply(sign: str, a: int | float, b: int | float) -> int | float:
    try:
        if sign == "**":
            if isinstance(a, int) and isinstance(b, int) and a.bit_length() * b > MOST_BITS:
                raise OverflowError
            result = a**b
        elif sign == "/":
            result = a // b if isinstance(a, int) and isinstance(b, int) and b and a % b == 0 else a / b
        else:
            result = a * b if sign == "*" else a + b if sign == "+" else a - b
        if isinstance(result, complex):
            raise ValueError(f"{a} ** {b} is no real number")
        if math.isfinite(result):  # OverflowError for a whole number of more than 308 digits
            return result
    except ZeroDivisionError:
        raise ValueError("nothing can be divided by 0") from None
    except OverflowError:
        pass
    raise ValueError(f"{str(a)[:20]} {sign} {str(b)[:20]} is too large for this calculator")
