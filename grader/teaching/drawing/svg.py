"""The elements of every picture: text, boxes, and the white card behind them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

INK, FAINT, LINE = "#1f2328", "#59636e", "#d1d9e0"
FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def box(x: float, y: float, wide: float, tall: float, fill: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{tall:g}" rx="3" fill="{fill}" stroke="{LINE}"/>'


def write(
    x: float, y: float, text: str, anchor: str = "start", colour: str = INK, size: int = 13, font: str = "", bold: bool = False, turned: bool = False
) -> str:
    more = f' font-family="{font}"' * bool(font) + ' font-weight="600"' * bold + f' transform="rotate(-90 {x:g} {y:g})"' * turned
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{more}>{escape(_legal(text), quote=False)}</text>'


def _legal(text: str) -> str:
    """Replace characters that XML does not allow with U+FFFD."""
    return "".join(c if c in "\t\n" or (" " <= c and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff") else "\ufffd" for c in text)


def card(marks: Iterable[str], width: float, height: float, title: str) -> str:
    """Put the picture on a white card, so that it is readable on dark and light pages."""
    wide, tall = math.ceil(width), math.ceil(height)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall}" width="{wide}" height="{tall}" font-family="{FONT}" role="img">',
            f"<title>{escape(_legal(title), quote=False)}</title>",
            f'<rect x="0.5" y="0.5" width="{wide - 1}" height="{tall - 1}" rx="8" fill="#ffffff" stroke="{LINE}"/>',
            write(20, 29, title, size=15, bold=True),
            *marks,
            "</svg>\n",
        ]
    )
