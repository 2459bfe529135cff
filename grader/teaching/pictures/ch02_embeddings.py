"""The picture of lesson 2."""

from __future__ import annotations

from types import ModuleType

from grader.teaching.drawing.diagrams import heatmap


def draw(chapter: ModuleType) -> str:
    """The first positions of the sinusoidal table."""
    table = chapter.sinusoidal_positions(32, 16)
    return heatmap(
        table,
        [str(position) for position in range(32)],
        [str(column) for column in range(16)],
        "Sinusoidal positions, 32 of them in 16 features",
        row_name="position",
        column_name="feature",
    )
