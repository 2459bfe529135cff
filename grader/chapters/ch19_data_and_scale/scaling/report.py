"""What the experiment found: tables and sentences, and the curves as a picture."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from grader.chapters.ch19_data_and_scale.scaling.experiment import Found
from grader.chapters.ch19_data_and_scale.scaling.record import Trained
from grader.teaching.drawing import Points, curves
from grader.teaching.measurements import result_table
from rich.table import Table

PARABOLA_PIECES = 40


def describe(found: Found, bits_per_byte: Callable[[float], float]) -> Iterator[Table | str]:
    columns = ("FLOPs", "parameters", "tokens", "loss", "bits a byte")

    def row(one: Trained) -> tuple[str, ...]:
        bits = f"{bits_per_byte(one.loss):.3f}"
        return f"{one.budget:.1e}", f"{one.parameters:,}", f"{one.tokens:,}", f"{one.loss:.3f}", bits

    rows = [row(one) for curve in found.curves for one in curve.trained]
    yield result_table("Held-out loss, the mean of two seeds", columns, rows)
    lowest = [(f"{c.trained[0].budget:.1e}", f"{math.exp(c.best):,.0f}", f"{c.lowest:.3f}") for c in found.curves]
    yield result_table("The lowest point of each parabola", ("FLOPs", "parameters", "loss"), lowest)
    for curve in found.curves:
        sizes = [one.parameters for one in curve.trained]
        if not min(sizes) <= math.exp(curve.best) <= max(sizes):
            yield f"At {curve.trained[0].budget:.1e} FLOPs, the lowest point is outside of the sizes that were tried."
    (a, b), (limit, factor, power), test = found.exponents, found.power_law, found.tests[0]
    yield f"The best number of parameters grows like C^{a:.2f}, that of tokens like C^{b:.2f}; C is the FLOPs."
    yield f"The lowest losses are {limit:.3f} + {factor:.3g} · C^(-{power:.3f})."
    yield (
        f"Predicted for {test.budget:.1e} FLOPs: {found.parameters:,.0f} parameters and {found.tokens:,.0f} tokens are "
        f"best, with the loss {found.loss:.3f}."
    )
    yield result_table("The test", columns, map(row, found.tests))
    scatter, off = found.scatter, test.loss - found.loss
    yield (
        f"The loss {test.loss:.3f} is {abs(off):.3f} {'above' if off > 0 else 'below'} the prediction. For comparison: "
        f"between two seeds of a small model, a loss has a standard deviation of {scatter:.3f}."
    )
    for one in found.tests[1:]:
        more = one.loss - test.loss
        how = "no real difference" if abs(more) <= scatter else "worse" if more > 0 else "better"
        yield f"With {one.parameters / test.parameters:.2g} times as many parameters, it changes by {more:+.3f}: {how}."


def draw(found: Found) -> str:
    """The trained models as points, a parabola for each budget, and the tests, as SVG."""
    lines: dict[str, Points] = {}
    for curve in found.curves:
        points = _points(curve.trained)
        (low, _), (high, _) = points[0], points[-1]
        way = [low * (high / low) ** (i / PARABOLA_PIECES) for i in range(PARABOLA_PIECES + 1)]
        lines[f"{curve.trained[0].budget:.1e} FLOPs"] = [
            (x, curve.lowest + curve.bend * (math.log(x) - curve.best) ** 2) for x in way
        ]
        lines[f"trained, {curve.trained[0].budget:.1e}"] = points
    lines["lowest points"] = [(math.exp(curve.best), curve.lowest) for curve in found.curves]
    lines["prediction"] = [(found.parameters, found.loss)]
    lines[f"trained, {found.tests[0].budget:.1e}"] = _points(found.tests)
    looks = [(0, 0), (0, 0), (1, 0), (1, 0), (2, 0), (2, 0), (4, 2), (4, 0), (3, 0)]
    dots = [name for name in lines if name.startswith(("trained", "prediction"))]
    title, x_name = "Loss by size, at equal FLOPs", "parameters"
    y_name = "held-out loss, in nats per token"
    return curves(lines, title, x_name=x_name, y_name=y_name, log_x=True, looks=looks, dots=dots)


def _points(trained: Sequence[Trained]) -> list[tuple[float, float]]:
    return sorted((one.parameters, one.loss) for one in trained)
