"""Many small tables of weights on one picture, with one colour scale for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.teaching.drawing.diagrams import scale
from grader.teaching.drawing.palette import FAINT, Colour, paint, shade
from grader.teaching.drawing.svg import box, card, write

CELL, GAP, LEFT, TOP = 14, 34, 44, 52


@dataclass(frozen=True)
class Map:
    """A table; each row and each column has a label of one or two characters, or an empty one."""

    name: str
    values: Sequence[Sequence[float]]
    rows: Sequence[str]
    columns: Sequence[str]


def draw_maps(panels: Sequence[Map], title: str, *, columns: int, row_name: str = "", column_name: str = "", causal: bool = True, cell: int = CELL) -> str:
    """Draw the tables in rows of `columns`. With `causal` the part above the diagonal stays empty. `cell` is the side of a cell."""
    high = max(value for panel in panels for row in panel.values for value in row)
    wide = max(len(panel.columns) for panel in panels) * cell + GAP
    tall = max(len(panel.rows) for panel in panels) * cell + GAP + 22
    marks: list[str] = []
    for number, panel in enumerate(panels):
        x, y = LEFT + 20 + number % columns * wide, TOP + 44 + number // columns * tall
        marks.append(write(x, y - 22, panel.name, bold=True))
        for r, row in enumerate(panel.values):
            marks.append(write(x - 6, y + (r + 0.5) * cell + 4, str(panel.rows[r]), anchor="end", colour=FAINT, size=10))
            shown = row[: r + 1] if causal else row
            marks += [_cell(x + c * cell, y + r * cell, shade(round(value, 3), 0.0, high), cell) for c, value in enumerate(shown)]
        marks += [write(x + c * cell + cell / 2, y - 6, str(label), anchor="middle", colour=FAINT, size=10) for c, label in enumerate(panel.columns)]
        marks.append(box(x, y, len(panel.columns) * cell, len(panel.rows) * cell, None))
    count = -(-len(panels) // columns)
    bottom = TOP + 44 + count * tall - GAP
    if row_name:
        marks.append(write(26, (TOP + bottom) / 2, row_name, anchor="middle", colour=FAINT, turned=True))
    if column_name:
        marks.append(write(LEFT + 20, TOP, column_name, colour=FAINT))
    marks += scale(LEFT + 20, bottom, 0.0, high)
    return card(marks, LEFT + 20 + min(columns, len(panels)) * wide, bottom + 32, title)


def _cell(x: float, y: float, fill: Colour, side: int) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{side}" height="{side}" {paint(fill)}/>'
