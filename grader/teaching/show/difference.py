"""The difference of the learner's panel and the reference's: a third panel, or a sentence if the two cannot be subtracted."""

from __future__ import annotations

import math
from dataclasses import replace

from grader.teaching.show.panels import Bars, Chart, Grid, Pair, Panel


def pair_panels(reference: Panel, yours: Panel) -> Pair:
    """Make a pair of the two; its `differs` is None if they agree."""
    if reference.given:
        return Pair(reference)
    if _size(reference) != _size(yours):
        return Pair(reference, yours, note=f"Your result is {_size(yours)} and the reference's is {_size(reference)}, so no difference can be shown.")
    differs = _difference(reference, yours)
    return Pair(reference, yours, differs)


def count_differences(pair: Pair) -> tuple[int, int]:
    """Return how many of the numbers differ, and how many are compared."""
    count = 0 if pair.reference.given else len(_numbers(pair.reference))
    return (sum(value != 0 for value in _numbers(pair.differs)) if pair.differs else 0), count


def _difference(reference: Panel, yours: Panel) -> Panel | None:
    ours, theirs = _numbers(reference), _numbers(yours)
    greatest = max((abs(value) for value in ours if math.isfinite(value)), default=0.0)
    limit = reference.near * (greatest or 1.0)
    found = [_subtract(a, b, limit) for a, b in zip(theirs, ours)]
    if not any(value != 0 for value in found):
        return None
    return _replace_numbers(reference, found)


def _subtract(yours: float, ours: float, limit: float) -> float:
    """Return the difference: 0 if it is below the limit, NaN if only one of the two is finite or the two are different non-numbers."""
    if yours == ours or (math.isnan(yours) and math.isnan(ours)):
        return 0.0
    if not (math.isfinite(yours) and math.isfinite(ours)):
        return math.nan
    return yours - ours if abs(yours - ours) > limit else 0.0


def _size(panel: Panel) -> str:
    match panel:
        case Grid():
            return f"{len(panel.values)} x {len(panel.values[0]) if panel.values else 0}"
        case Chart():
            return ", ".join(f"{len(points)} points" for points in panel.lines.values())
        case Bars():
            return f"{len(panel.values)} numbers"


def _numbers(panel: Panel) -> list[float]:
    """Return all numbers that are compared. In charts with equal axes, x is compared as well as y."""
    match panel:
        case Grid():
            return [value for row in panel.values for value in row]
        case Chart():
            return [value for points in panel.lines.values() for x, y in points for value in ((x, y) if panel.square else (y,))]
        case Bars():
            return list(panel.values)


def _replace_numbers(panel: Panel, numbers: list[float]) -> Panel:
    """Return the same panel with these numbers."""
    left = iter(numbers)
    match panel:
        case Grid():
            return replace(panel, values=[[next(left) for _ in row] for row in panel.values], words=None)
        case Chart(square=True):
            apart = {name: [math.hypot(next(left), next(left)) for _ in points] for name, points in panel.lines.items()}
            lines = {name: [(float(step), y) for step, y in enumerate(steps)] for name, steps in apart.items()}
            return Chart(panel.title, lines, "point", "how far apart", near=panel.near)
        case Chart():
            return replace(panel, lines={name: [(x, next(left)) for x, _ in points] for name, points in panel.lines.items()})
        case Bars():
            return replace(panel, values=list(left))
