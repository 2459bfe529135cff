"""The picture of lesson 6."""

from __future__ import annotations

from types import ModuleType

from grader.teaching.drawing.charts import curves
from grader.teaching.measurements.depth import measure_way


def draw(chapter: ModuleType) -> str:
    """How much gradient reaches the input of each of 24 blocks, one draw a line; the draws of the stack without residuals differ."""
    ways = [("pre-norm", "pre-norm", 0), ("post-norm", "post-norm", 0)]
    ways += [(f"no residuals, draw {seed + 1}", "no residuals", seed) for seed in (0, 1)]
    ways += [("no residuals, no norms", "neither", 0)]
    lines = {name: list(enumerate(measure_way(chapter, way, seed).sizes, start=1)) for name, way, seed in ways}
    return curves(lines, "A gradient of norm 1, backpropagated through 24 blocks", x_name="at the input of block", y_name="norm of the gradient", log=True)
