"""The marks of a diagram: what each kind of box looks like, chapter badges, arrows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from grader.teaching.drawing.palette import BADGE, CARD, EMPTY, FIXED, INK, LEARNED, PLAIN, SHORTCUT, Colour, paint
from grader.teaching.drawing.svg import text_width, write

SIZE, TITLE_SIZE = 14, 15


def look(kind: str) -> tuple[Colour, Colour, str]:
    """Return the fill, the border and further attributes of a kind of box."""
    fill, edge = {"data": PLAIN, "learned": LEARNED, "idle": (EMPTY, PLAIN[1]), "cached": PLAIN, "new": (SHORTCUT, SHORTCUT)}.get(kind, FIXED)
    return fill, edge, ' stroke-width="1.5"' + ' stroke-dasharray="5 4"' * (kind in ("optional", "idle"))


def swatch(x: float, y: float, kind: str) -> Iterable[str]:
    if kind == "residual":
        yield f'<path d="M{x:g} {y:g}h22" {paint(None, SHORTCUT)} stroke-width="2.4"/>'
    elif kind == "chapter":
        yield from badge(x + 11, y, "n")
    else:
        fill, edge, more = look(kind)
        yield f'<rect x="{x:g}" y="{y - 8:g}" width="22" height="16" rx="{8 if kind == "data" else 2 if kind in ("cached", "new") else 4}" {paint(fill, edge)}{more}/>'


def badge(x: float, y: float, text: str) -> Iterable[str]:
    wide = badge_width(text)
    yield f'<rect x="{x - wide / 2:g}" y="{y - 10:g}" width="{wide:g}" height="20" rx="10" {paint(BADGE)}/>'
    yield write(x, y + 5, text, anchor="middle", colour=CARD, size=SIZE, bold=True)


def badge_width(text: str) -> float:
    return max(20.0, round(text_width(text, SIZE, bold=True) + 12))


def polyline(points: Sequence[tuple[float, float]], arrow: bool, colour: Colour, width: float, dashed: bool) -> Iterable[str]:
    (x1, y1), (x2, y2) = points[-2:]
    size = abs(x2 - x1) + abs(y2 - y1) or 1.0
    dx, dy = (x2 - x1) / size, (y2 - y1) / size
    drawn = [*points[:-1], (x2 - 6 * dx, y2 - 6 * dy)] if arrow else points
    way = " ".join(f"{x:g},{y:g}" for x, y in drawn)
    yield f'<polyline points="{way}" {paint(None, colour)} stroke-width="{width:g}" stroke-linejoin="round"' + ' stroke-dasharray="4 4"' * dashed + "/>"
    if arrow:
        corners = [(x2, y2), (x2 - 9 * dx - 4.5 * dy, y2 - 9 * dy - 4.5 * dx), (x2 - 9 * dx + 4.5 * dy, y2 - 9 * dy + 4.5 * dx)]
        yield f'<polygon points="{" ".join(f"{x:g},{y:g}" for x, y in corners)}" {paint(colour)}/>'


def sign(x: float, y: float, sign: str) -> Iterable[str]:
    fill, edge, more = look("fixed")
    yield f'<circle cx="{x:g}" cy="{y:g}" r="11" {paint(fill, edge)}{more}/>'
    way = f"M{x - 5:g} {y:g}h10M{x:g} {y - 5:g}v10" if sign == "+" else f"M{x - 4:g} {y - 4:g}l8 8M{x - 4:g} {y + 4:g}l8 -8"
    yield f'<path d="{way}" {paint(None, INK)} stroke-width="1.8"/>'
