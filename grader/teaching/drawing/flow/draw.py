"""A diagram as SVG: its panels, and below them what the colours mean."""

from __future__ import annotations

from collections.abc import Sequence

from grader.teaching.drawing.flow.items import Panel
from grader.teaching.drawing.flow.layout import Layout, Place
from grader.teaching.drawing.flow.marks import SIZE, TITLE_SIZE, swatch
from grader.teaching.drawing.palette import FAINT, LINE, paint
from grader.teaching.drawing.svg import card, text_width, write

WIDE = 400  # of a picture; with this width the letters are 12.6 px high on a phone of 360 px
MEANINGS = {
    "data": "data",
    "learned": "learned",
    "fixed": "operation",
    "optional": "optional operation",
    "idle": "expert without a token",
    "cached": "cached position",
    "new": "new position",
}


def flow(title: str, panels: Sequence[Panel], wide: int = WIDE) -> str:
    """Draw the panels from top to bottom, and below them what the colours mean."""
    marks: list[str] = []
    y, kinds = 50.0, set[str]()
    for panel in panels:
        layout = Layout(panel.upward)
        heading = 30.0 if any(column.heading for column in panel.columns) else 0.0
        height = max(layout.column(column) for column in panel.columns)
        for link in panel.links:
            layout.link(link)
        for column in panel.columns:
            if column.heading:
                marks.append(write(column.x, y + 16, column.heading, anchor="middle", size=TITLE_SIZE, bold=True))
        base = y + heading
        place: Place = (lambda t, low=base + height: low - t) if panel.upward else (lambda t, high=base: high + t)  # type: ignore[misc]
        for layer in (layout.behind, layout.lines, layout.boxes):
            marks += [text for mark in layer for text in mark(place)]
        kinds |= layout.kinds
        y = base + height + 26
    legend = [(MEANINGS[kind], kind) for kind in MEANINGS if kind in kinds]
    legend += [("residual connection", "residual")] * ("residual" in kinds) + [("chapter", "chapter")] * ("chapter" in kinds)
    marks.append(f'<line x1="20" y1="{y - 8:g}" x2="{wide - 20}" y2="{y - 8:g}" {paint(None, LINE)}/>')
    x = 20.0
    for meaning, kind in legend:
        needed = 32 + text_width(meaning, SIZE)
        if x + needed > wide - 14:
            x, y = 20.0, y + 26
        marks += swatch(x, y + 12, kind)
        marks.append(write(x + 30, y + 17, meaning, colour=FAINT, size=SIZE))
        x += needed + 18
    if text_width(title, 15, bold=True) > wide - 40:
        raise ValueError(f"the title {title!r} is wider than the picture")
    return card(marks, wide, y + 38, title)
