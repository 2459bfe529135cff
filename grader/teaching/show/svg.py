"""A picture as SVG: each panel by itself for the book, or a whole picture in one file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace

from grader.teaching.drawing.charts import card, curves, heatmap, text_width, write
from grader.teaching.drawing.palette import CURVES, FAINT, paint, without_style
from grader.teaching.show.panels import Bars, Chart, Grid, Panel, Picture, Span

BAR_WIDTH, BAR_HEIGHT, BAR_STEP = 240, 22, 28
GAP, LINE_HEIGHT = 14, 20


def picture_to_svg(picture: Picture) -> str:
    """Draw a row of panels for each pair, below the sentences about the picture."""
    sentences = [picture.look, picture.verdict, *(pair.note for pair in picture.pairs if pair.note)]
    marks = [write(20, 52 + LINE_HEIGHT * row, text) for row, text in enumerate(sentences)]
    width, top = max(text_width(text, 13) for text in sentences) + 40, 46 + LINE_HEIGHT * len(sentences)
    for pair in picture.pairs:
        left, tallest = GAP, 0
        for heading, panel in pair.panels.items():
            svg = panel_to_svg(replace(panel, title=f"{panel.title}: {heading}"), span=pair.span(panel))
            wide, tall = map(int, re.findall(r'viewBox="0 0 (\d+) (\d+)"', svg)[0])
            marks.append(without_style(svg).replace("<svg ", f'<svg x="{left}" y="{top}" ', 1))
            left, tallest = left + wide + GAP, max(tallest, tall)
        width, top = max(width, left), top + tallest + GAP
    return card(marks, width, top, f"{picture.exercise}: {picture.about}")


def panel_to_svg(panel: Panel, longest: float = 0.0, span: Span | None = None) -> str:
    """Draw one panel, in this scale where it has one. The longest bar has at least the value `longest`."""
    title, span = panel.title, span or Span.of(panel.shown())
    match panel:
        case Grid():
            title += f" (0: {panel.words[0]}, 1: {panel.words[1]})" if panel.words else ""
            names = {"row_name": panel.row_name, "column_name": panel.column_name}
            return heatmap(panel.values, panel.rows, panel.columns, title, **names, limits=(span.low, span.high))
        case Chart():
            lines = {name: _finite(points) for name, points in panel.lines.items()}
            return curves(lines, title, x_name=panel.x_name, y_name=panel.y_name)
        case Bars():
            return _draw_bars(panel, title, Span(span.low, max(span.high, longest)))


def _finite(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    return [point for point in points if all(map(math.isfinite, point))]


def _draw_bars(panel: Bars, title: str, span: Span) -> str:
    """Draw a bar for each label, from zero to the right, or to the left if it is negative, and its number."""
    low, high = min(span.low, 0.0), max(span.high, 0.0)
    unit = BAR_WIDTH / ((high - low) or 1.0)
    left, top = 28 + round(7.4 * max(len(label) for label in panel.labels)), 50
    zero, marks = left - low * unit, []
    for row, (label, value) in enumerate(zip(panel.labels, panel.values)):
        y = top + row * BAR_STEP
        length = round(abs(value) * unit, 1) if math.isfinite(value) else 0.0
        start, colour = (zero - length, CURVES[1]) if value < 0 else (zero, CURVES[0])
        marks.append(write(left - 8, y + 15, label, anchor="end"))
        marks.append(f'<rect x="{start:g}" y="{y}" width="{length:g}" height="{BAR_HEIGHT}" rx="2" {paint(colour)}/>')
        said = f"{round(value, 4):.3g}" if math.isfinite(value) else "no number"
        marks.append(write(max(start + length, zero) + 8, y + 15, said, colour=FAINT))
    bottom = top + len(panel.values) * BAR_STEP
    if panel.name:
        marks.append(write(left, bottom + 14, panel.name, colour=FAINT))
    return card(marks, left + BAR_WIDTH + 80, bottom + 28, title)
