"""The elements of every picture: text, boxes, and the card behind them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from html import escape

from grader.teaching.drawing.palette import CARD, INK, LINE, Colour, dark_style, paint

FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
NARROW, BROAD = " ()[]{}.,:;|!'ijltfrI-/", "mwMW%@…→×+"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def box(x: float, y: float, wide: float, tall: float, fill: Colour | None) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{tall:g}" rx="3" {paint(fill, LINE)}/>'


def write(
    x: float,
    y: float,
    text: str,
    anchor: str = "start",
    colour: Colour = INK,
    size: int = 13,
    *,
    bold: bool = False,
    turned: bool = False,
) -> str:
    place = f'x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" {paint(colour)}'
    more = ' font-weight="600"' * bold + f' transform="rotate(-90 {x:g} {y:g})"' * turned
    return f"<text {place}{more}>{escape(_legal(text), quote=False)}</text>"


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Return about how wide a text is in a wide sans-serif font, so that it fits in narrower ones too."""
    share = sum(0.38 if c in NARROW else 0.97 if c in BROAD else 0.71 if c.isupper() else 0.62 for c in text)
    return share * size * (1.12 if bold else 1.0)


def _legal(text: str) -> str:
    """Replace characters that XML does not allow with U+FFFD."""
    return re.sub("[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)


def card(marks: Iterable[str], width: float, height: float, title: str) -> str:
    """Put the picture on a card, white on a light page and dark on a dark one, at least as wide as its title."""
    wide, tall = math.ceil(max(width, 40 + text_width(title, 15, bold=True))), math.ceil(height)
    inside = [
        f'<rect x="0.5" y="0.5" width="{wide - 1}" height="{tall - 1}" rx="8" {paint(CARD, LINE)}/>',
        write(20, 29, title, size=15, bold=True),
        *marks,
    ]
    size = f'viewBox="0 0 {wide} {tall}" width="{wide}" height="{tall}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} class="drawing" font-family="{FONT}" role="img">'
    named = f"<title>{escape(_legal(title), quote=False)}</title>"
    return "\n".join([head, named, dark_style(inside), *inside, "</svg>\n"])
