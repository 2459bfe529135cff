"""Pictures of what each exercise computes, for the book: the panels of `headway show`, of the reference only, as SVG."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: the same sums on every machine

from grader.course.syllabus import SOLUTIONS, Exercise  # noqa: E402
from grader.execution.target import Target  # noqa: E402
from grader.execution.worker import WorkerPool  # noqa: E402
from grader.teaching.drawing.charts import (
    curves,  # noqa: E402
    heatmap,  # noqa: E402
)
from grader.teaching.drawing.palette import CURVES, FAINT, paint  # noqa: E402
from grader.teaching.drawing.svg import card, write  # noqa: E402
from grader.teaching.show.catalog import find_subject, has_picture  # noqa: E402
from grader.teaching.show.panels import Bars, Chart, Grid, Panel  # noqa: E402
from grader.verdict.trial import Trial  # noqa: E402

BAR_WIDE, BAR_TALL = 240, 22


@dataclass(frozen=True)
class ExercisePictures:
    """One exercise's pictures: SVG by file name, and the text about them."""

    files: dict[str, str]
    titles: list[str]  # of each file, in order
    about: str
    look: str


def draw_exercises(exercises: Iterable[Exercise]) -> dict[str, ExercisePictures]:
    """Draw the exercises that have a picture; return the result by the exercise's name."""
    trial, found = Trial(Target("solutions", SOLUTIONS), pool=WorkerPool()), {}
    try:
        for exercise in filter(lambda one: has_picture(one.name), exercises):
            what = find_subject(exercise.name)
            trial.begin_test(exercise, "the picture")
            trial.begin_example()
            panels = what.draw(trial.reference(exercise.chapter))
            far = max([value for panel in panels if isinstance(panel, Bars) for value in panel.values if math.isfinite(value)], default=0.0)
            files = {f"{exercise.name}-{number}.svg": panel_to_svg(panel, far) for number, panel in enumerate(panels, start=1)}
            found[exercise.name] = ExercisePictures(files, [panel.title for panel in panels], what.about, what.look)
    finally:
        trial.close()
        trial.pool.close()
    return found


def panel_to_svg(panel: Panel, far: float = 0.0) -> str:
    """Draw one panel. The longest bar means `far`, so that the bars of several panels can be compared."""
    match panel:
        case Grid():
            title = panel.title + (f" (0: {panel.words[0]}, 1: {panel.words[1]})" if panel.words else "")
            return heatmap(panel.values, panel.rows, panel.columns, title, row_name=panel.row_name, column_name=panel.column_name)
        case Chart():
            lines = {name: [(x, y) for x, y in points if math.isfinite(x) and math.isfinite(y)] for name, points in panel.lines.items()}
            return curves(lines, panel.title, x_name=panel.x_name, y_name=panel.y_name)
        case Bars():
            return draw_bars(panel, far)


def draw_bars(panel: Bars, far: float = 0.0) -> str:
    """Draw a bar for each label, from zero to the right, followed by its number."""
    values = [round(value, 4) for value in panel.values]
    left = 28 + round(7.4 * max(len(label) for label in panel.labels))
    far = max([far, *(value for value in values if math.isfinite(value))]) or 1.0
    top, marks = 50, []
    for row, (label, value) in enumerate(zip(panel.labels, values)):
        y = top + row * (BAR_TALL + 6)
        marks.append(write(left - 8, y + 15, label, anchor="end"))
        wide = round(BAR_WIDE * max(value, 0.0) / far, 1) if math.isfinite(value) else 0.0
        marks.append(f'<rect x="{left:g}" y="{y:g}" width="{wide:g}" height="{BAR_TALL}" rx="2" {paint(CURVES[0])}/>')
        marks.append(write(left + wide + 8, y + 15, f"{value:.3g}" if math.isfinite(value) else "none", colour=FAINT))
    bottom = top + len(values) * (BAR_TALL + 6)
    if panel.name:
        marks.append(write(left, bottom + 14, panel.name, colour=FAINT))
    return card(marks, left + BAR_WIDE + 80, bottom + 28, panel.title)
