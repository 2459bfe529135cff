"""The range of the numbers in some panels, which share one scale."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from grader.teaching.show.panels import DIFFERENCE, Bars, Chart, Grid, Pair, Panel


@dataclass(frozen=True)
class Span:
    low: float
    high: float
    holes: bool = False  # whether there are NaN or infinity among them

    @property
    def ends(self) -> tuple[float, float]:
        """The two ends of the colour scale: it starts at 0 if there is one sign, and is symmetric if there are two."""
        if self.low < 0 < self.high:
            far = max(-self.low, self.high)
            return -far, far
        return (0.0, self.high) if self.high > 0 else (0.0, self.low)


def span_of_values(panels: Iterable[Panel]) -> Span:
    """Return the range of the numbers of tables and bars, and of the y of charts."""
    return span(value for panel in panels for value in _values(panel))


def span_of_grids(pair: Pair[Grid], heading: str) -> Span:
    """Return the scale of one table of a pair: both sides share one scale; the difference has its own, with both signs."""
    if heading == DIFFERENCE:
        found = span_of_values([pair.panels[heading]])
        far = max(abs(found.low), abs(found.high))
        return Span(-far, far, found.holes)
    return span_of_values(panel for panel in (pair.reference, pair.yours) if panel is not None)


def span_of_x(panels: Iterable[Chart]) -> Span:
    return span(x for panel in panels for points in panel.lines.values() for x, _ in points)


def span(values: Iterable[float]) -> Span:
    every = list(values)
    seen = [value for value in every if math.isfinite(value)]
    return Span(min(seen, default=0.0), max(seen, default=0.0), len(seen) < len(every))


def equalise_units(x: Span, y: Span, wide: int, tall: int) -> tuple[Span, Span]:
    """Enlarge one of the ranges so that one unit of x takes as many pixels as one unit of y."""
    step = max((x.high - x.low) / (wide - 1), (y.high - y.low) / (tall - 1)) or 1.0
    return _about(x, step * (wide - 1)), _about(y, step * (tall - 1))


def _about(span: Span, length: float) -> Span:
    middle = (span.low + span.high) / 2
    return Span(middle - length / 2, middle + length / 2, span.holes)


def _values(panel: Panel) -> list[float]:
    match panel:
        case Grid():
            return [value for row in panel.values for value in row]
        case Chart():
            return [y for points in panel.lines.values() for _, y in points]
        case Bars():
            return panel.values
