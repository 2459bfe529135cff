"""One panel as SVG, for the book."""

from __future__ import annotations

from grader.teaching.drawing import CURVES, FAINT, card, curves, heatmap, paint, write
from grader.teaching.show.panels import Bars, Chart, Grid, Panel

BAR_WIDTH, BAR_HEIGHT, BAR_STEP = 240, 22, 28


def panel_to_svg(panel: Panel, longest: float = 0.0) -> str:
    """Draw one panel. The longest bar has at least the value `longest`."""
    match panel:
        case Grid():
            title = panel.title + (f" (0: {panel.words[0]}, 1: {panel.words[1]})" if panel.words else "")
            names = {"row_name": panel.row_name, "column_name": panel.column_name}
            return heatmap(panel.values, panel.rows, panel.columns, title, **names)
        case Chart():
            return curves(panel.lines, panel.title, x_name=panel.x_name, y_name=panel.y_name)
        case Bars():
            return _draw_bars(panel, longest)


def _draw_bars(panel: Bars, longest: float) -> str:
    """Draw a bar for each label, from zero to the right, or to the left if it is negative, and its number."""
    low, high = min(*panel.values, 0.0), max(*panel.values, longest)
    unit = BAR_WIDTH / ((high - low) or 1.0)
    left, top = 28 + round(7.4 * max(len(label) for label in panel.labels)), 50
    zero, marks = left - low * unit, []
    for row, (label, value) in enumerate(zip(panel.labels, panel.values)):
        y = top + row * BAR_STEP
        length = round(abs(value) * unit, 1)
        start, colour = (zero - length, CURVES[1]) if value < 0 else (zero, CURVES[0])
        marks.append(write(left - 8, y + 15, label, anchor="end"))
        marks.append(f'<rect x="{start:g}" y="{y}" width="{length:g}" height="{BAR_HEIGHT}" rx="2" {paint(colour)}/>')
        marks.append(write(max(start + length, zero) + 8, y + 15, f"{round(value, 4):.3g}", colour=FAINT))
    bottom = top + len(panel.values) * BAR_STEP
    if panel.name:
        marks.append(write(left, bottom + 14, panel.name, colour=FAINT))
    return card(marks, left + BAR_WIDTH + 80, bottom + 28, panel.title)
