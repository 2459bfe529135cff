"""Draws what a terminal showed as a picture: lines of coloured text in a window, in the reader's fonts."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import escape

from grader.teaching.drawing.svg import MONO
from rich.style import Style
from rich.text import Text

WIDE, TALL = 8.4, 19  # of one character
EDGE, BAR = 18, 34
PAPER, BAND, PALE, DIM = "#16191d", "#252b33", "#e3e7eb", "#9aa5b1"
COLOURS = {1: "#ff9b8e", 2: "#7ee2a8", 3: "#f2cc60", 4: "#79bdf0", 5: "#d8a2e8", 6: "#79c8f0"}  # by their ANSI numbers: red, green, yellow, blue, ...


def window(panes: Sequence[tuple[str, Sequence[Text]]], title: str, columns: int = 80) -> str:
    """Panes one below the other, each with its heading: the screen at one moment after another."""
    marks, y = [], 0.0
    for heading, lines in panes:
        marks.append(f'<rect x="1" y="{y + 1:g}" width="{columns * WIDE + 2 * EDGE - 2:g}" height="{BAR - 2}" rx="7" fill="{BAND}"/>')
        marks.append(f'<text x="{EDGE}" y="{y + 22:g}" fill="{DIM}" font-size="13">{escape(heading, quote=False)}</text>')
        y += BAR + 6
        for line in lines:
            marks += _line(line, EDGE, y + 14, columns)
            y += TALL
        y += 12
    wide, tall = math.ceil(columns * WIDE + 2 * EDGE), math.ceil(y)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {tall}" width="{wide}" height="{tall}" '
            f'font-family="{MONO}" font-size="14" role="img">',
            f"<title>{escape(title, quote=False)}</title>",
            f'<rect width="{wide}" height="{tall}" rx="8" fill="{PAPER}"/>',
            *marks,
            "</svg>\n",
        ]
    )


def _line(line: Text, x: float, y: float, columns: int) -> list[str]:
    """Draw each run of one style at the place of its first character, in its exact width, so that any font fits."""
    line = line.copy()
    line.truncate(columns)
    marks, at = [], 0
    for text, style in _runs(line):
        look = f' fill="{_colour(style)}"' + (' font-weight="700"' if style.bold else "")
        for words in re.finditer(r"\S+(?: \S+)*", text):  # wider gaps follow from the position of the next word
            place, width = x + (at + words.start()) * WIDE, len(words[0]) * WIDE
            marks.append(f'<text x="{place:g}" y="{y:g}" textLength="{width:g}" lengthAdjust="spacingAndGlyphs"{look}>{escape(words[0], quote=False)}</text>')
        at += len(text)
    return marks


def _runs(line: Text) -> list[tuple[str, Style]]:
    """Cut the line where its style changes."""
    base = line.style if isinstance(line.style, Style) else Style.parse(line.style)
    styles = [base for _ in line.plain]
    for span in line.spans:
        style = span.style if isinstance(span.style, Style) else Style.parse(span.style)
        for place in range(span.start, min(span.end, len(styles))):
            styles[place] += style
    runs: list[tuple[str, Style]] = []
    for letter, style in zip(line.plain, styles):
        if runs and runs[-1][1] == style:
            runs[-1] = (runs[-1][0] + letter, style)
        else:
            runs.append((letter, style))
    return runs


def _colour(style: Style) -> str:
    if style.color is not None and style.color.number in COLOURS:
        return COLOURS[style.color.number]
    return DIM if style.dim else PALE
