"""A picture as a PNG or SVG file, drawn by matplotlib (the extra `pictures`)."""

from __future__ import annotations

import io
import logging
import math
import textwrap
from typing import Any

from grader.teaching.drawing.charts import DASHES, MAX_LABELS
from grader.teaching.drawing.palette import CURVES, DIVERGING, FAINT, INK, SEQUENTIAL
from grader.teaching.show.half_blocks import DOWN, NO_NUMBER, UP
from grader.teaching.show.panels import Bars, Chart, Grid, Pair, Panel, Picture
from grader.teaching.show.scales import Span, span_of_grids, span_of_values, span_of_x

KINDS = ("png", "svg")
INSTALL_HINT = "a picture in a file needs matplotlib: run `pip install matplotlib` in Headway's environment. In the terminal, `headway show` works without it"
INCHES, LEAST = 3.4, 1.6
NUMBERED = 64  # tables with at most this many cells show the numbers


class NoFigure(Exception):
    """No file can be made; the message is a sentence."""


def require_matplotlib() -> None:
    """Raise NoFigure if matplotlib is not installed."""
    try:
        logging.getLogger("matplotlib").setLevel(logging.ERROR)
        import matplotlib  # noqa: F401
    except ImportError:
        raise NoFigure(INSTALL_HINT) from None


def render_figure(picture: Picture, kind: str) -> bytes:
    """Return the file's content; `kind` is png or svg. The same picture gives the same bytes."""
    require_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    across = max(len(pair.panels) for pair in picture.pairs)
    heights = [LEAST + max(_panel_height(panel) for panel in pair.panels.values()) for pair in picture.pairs]
    head = _wrap_title(picture, across)
    with matplotlib.rc_context({"svg.hashsalt": "headway", "font.size": 9, "text.color": INK.light, "axes.edgecolor": FAINT.light, "savefig.facecolor": "white"}):
        drawn = Figure(figsize=(max(INCHES * across, 4.8), sum(heights) + 0.22 * head.count("\n") + 0.5), layout="constrained")
        drawn.suptitle(head, x=0.01, ha="left", fontsize=9.5)
        spots = drawn.subplots(len(picture.pairs), across, squeeze=False, height_ratios=heights)
        for pair, row in zip(picture.pairs, spots):
            _pair(drawn, pair, list(row))
        _fix_layout(drawn)
        out = io.BytesIO()
        drawn.savefig(out, format=kind, dpi=130, metadata={"Date": None} if kind == "svg" else {"Software": None})
    return out.getvalue()


def _fix_layout(drawn: Any) -> None:
    """Lay the figure out once with rounded numbers: the solver's last digits vary, and names in an SVG depend on them."""
    drawn.draw_without_rendering()
    drawn.set_layout_engine("none")
    for spot in drawn.axes:
        if spot.get_subplotspec() is not None:
            spot.set_position([round(edge, 6) for edge in spot.get_position().bounds])


def _wrap_title(picture: Picture, across: int) -> str:
    width = max(60, 46 * across)
    parts = [f"{picture.exercise}: {picture.about}", picture.look, picture.verdict, *(pair.note for pair in picture.pairs)]
    return "\n".join(line for part in parts if part for line in textwrap.wrap(_escape_mathematics(part), width))


def _escape_mathematics(text: str) -> str:
    """Escape what matplotlib would read as mathematics."""
    return text.replace("$", r"\$")


def _panel_height(panel: Panel) -> float:
    match panel:
        case Grid():
            return min(4.0, max(0.4, 0.16 * len(panel.rows)))
        case Bars():
            return 0.16 * len(panel.labels)
        case Chart(square=True):
            return 1.8
    return 1.2


def _pair(drawn: Any, pair: Pair, row: list) -> None:
    shared = [panel for panel in (pair.reference, pair.yours) if panel is not None]
    for spot, (heading, panel) in zip(row, pair.panels.items()):
        others: list[Any] = [panel] if panel is pair.differs else shared
        if isinstance(panel, Grid):
            _grid(drawn, spot, panel, span_of_grids(pair, heading))
        else:
            (_chart if isinstance(panel, Chart) else _bars)(spot, panel, others)
        title = textwrap.fill(_escape_mathematics(panel.title), 38) + "\n" if heading == next(iter(pair.panels)) else ""
        spot.set_title(title + heading, fontsize=9)
    for spot in row[len(pair.panels) :]:
        spot.set_axis_off()


def _grid(drawn: Any, spot: Any, grid: Grid, span: Span) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    low, high = span.ends
    palette = DIVERGING if low < 0 < high else SEQUENTIAL[::-1] if high < low else SEQUENTIAL
    colours = LinearSegmentedColormap.from_list("headway", palette).with_extremes(bad=NO_NUMBER)
    least, most = (low, high) if low < high else (high, low) if high < low else (0.0, 1.0)
    values = [[value if math.isfinite(value) else math.nan for value in line] for line in grid.values]
    shown = spot.imshow(values, cmap=colours, vmin=least, vmax=most, aspect="equal", interpolation="nearest")
    rows, columns = len(grid.rows), len(grid.columns)
    spot.set_yticks(*_ticks(grid.rows))
    steep = max(map(len, grid.columns), default=0) > 2
    spot.set_xticks(*_ticks(grid.columns), rotation=60 if steep else 0, ha="right" if steep else "center", rotation_mode="anchor" if steep else "default")
    spot.tick_params(length=0)
    spot.set_ylabel(grid.row_name)
    spot.set_xlabel(grid.column_name)
    if rows * columns <= NUMBERED and not grid.words:
        for r, line in enumerate(values):
            for c, value in enumerate(line):
                dark = abs(value) > 0.6 * max(abs(least), abs(most)) if value == value else False
                spot.text(c, r, _number(value), ha="center", va="center", fontsize=6, color="white" if dark else INK.light)
    elif not grid.words:
        drawn.colorbar(shown, cax=spot.inset_axes([1.03, 0, 0.04, 1]))  # as tall as the table
    else:
        spot.set_xlabel(f"{grid.column_name}  (dark: {grid.words[1]})".strip())


def _ticks(labels: list[str]) -> tuple[list[int], list[str]]:
    step = 1
    room = 2 * MAX_LABELS if max(map(len, labels), default=0) > 2 or len(labels) <= 10 else MAX_LABELS
    while len(labels) / step > room:
        step *= 2
    return list(range(0, len(labels), step)), [_escape_mathematics(label) for label in labels[::step]]


def _chart(spot: Any, chart: Chart, others: list[Chart]) -> None:
    x, y = span_of_x(others), span_of_values(others)
    for number, (name, points) in enumerate(chart.lines.items()):
        dash = (0, tuple(map(float, DASHES[number % len(DASHES)].split()))) if DASHES[number % len(DASHES)] else "-"
        few = "o" if len(points) <= 12 else None
        spot.plot(*zip(*points), color=CURVES[number % len(CURVES)].light, linestyle=dash, marker=few, markersize=3, linewidth=1.6, label=_escape_mathematics(name))
    spot.set_xlim(*_margins(x))
    spot.set_ylim(*_margins(y))
    if chart.square:
        spot.set_aspect("equal")
    spot.axhline(0, color=FAINT.light, linewidth=0.5, zorder=0)
    spot.set_xlabel(chart.x_name)
    spot.set_ylabel(chart.y_name)
    spot.legend(fontsize=7, frameon=False)


def _margins(span: Span) -> tuple[float, float]:
    edge = 0.05 * ((span.high - span.low) or abs(span.high) or 1.0)
    return span.low - edge, span.high + edge


def _bars(spot: Any, bars: Bars, others: list[Bars]) -> None:
    span = span_of_values(others)
    values = [value if math.isfinite(value) else 0.0 for value in bars.values]
    places = range(len(values))
    spot.barh(places, values, color=[UP if value >= 0 else DOWN for value in values])
    spot.set_yticks(places, [_escape_mathematics(label) for label in bars.labels])
    spot.invert_yaxis()
    low, high = min(span.low, 0.0), max(span.high, 0.0)
    room = 0.28 * ((high - low) or 1.0)
    spot.set_xlim(low - (room if low < 0 else 0), high + (room if high > 0 or low == 0 else 0))
    for place, value in zip(places, bars.values):
        words = f" {value:.3g} " if math.isfinite(value) else " no number "
        spot.text(values[place], place, words, va="center", ha="right" if value < 0 else "left", fontsize=7)
    spot.set_xlabel(bars.name)
    for side in ("top", "right"):
        spot.spines[side].set_visible(False)


def _number(value: float) -> str:
    """Write a number for a small cell: two decimals at most."""
    if not math.isfinite(value):
        return "?"
    return f"{round(value, 2) + 0.0:g}" if abs(value) < 100 else f"{value:.3g}"
