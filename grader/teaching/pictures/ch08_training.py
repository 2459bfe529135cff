"""The picture of lesson 8."""

from __future__ import annotations

from types import ModuleType

from grader.teaching.drawing.charts import curves

WARMUP, TOTAL, PEAK, FLOOR = 100, 1000, 1.0, 0.1


def draw(chapter: ModuleType) -> str:
    """The schedule of the lesson, and a straight line through the same three points."""
    steps = range(0, TOTAL + 201, 10)
    cosine = [(step, chapter.warmup_cosine(step, WARMUP, TOTAL, PEAK, FLOOR)) for step in steps]
    line = [(0, 0.0), (WARMUP, PEAK), (TOTAL, FLOOR), (TOTAL + 200, FLOOR)]
    return curves(
        {"warmup_cosine": cosine, "straight lines": line},
        "The learning rate, as a share of its peak",
        x_name="step",
        y_name="learning rate / peak",
    )
