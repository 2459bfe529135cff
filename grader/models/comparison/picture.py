"""The loss curves of two trainings as a picture, or as lines for a terminal.

The picture has a colour for each model, with a solid line for the validation loss and a dotted one for the training
loss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from grader.models.comparison.measuring import Comparison, Measured
from grader.models.training.curves import LABEL, draw_curves
from grader.teaching.drawing.charts import Points, curves
from rich.text import Text

MOST_POINTS = 80  # of the training loss; each is a mean, because single steps jump up and down
STYLES = ("cyan", "yellow")
TERMINAL_LINES = 8


def loss_curves(comparison: Comparison) -> dict[str, Points]:
    """The curves by their names: for each model the validation loss, then the training loss."""
    found: dict[str, Points] = {}
    for made in comparison.both:
        unit = _unit(made, comparison)
        validation = [(float(step), loss * unit) for step, loss in made.history["validation"] if math.isfinite(loss)]
        training = [(step, loss * unit) for step, loss in _means(made.history["losses"])]
        found |= {f"{made.name}, validation": validation, f"{made.name}, training": training}
    return {name: points for name, points in found.items() if points}


def terminal_lines(comparison: Comparison, width: int, unicode: bool) -> list[Text]:
    """The validation losses of both in a terminal, with a line that says which is which; nothing where there is no
    curve."""
    lines = loss_curves(comparison)
    drawn = [(lines.get(f"{made.name}, validation", ()), style) for made, style in zip(comparison.both, STYLES)]
    if any(len(points) < 2 for points, _ in drawn):
        return []
    legend = Text(" " * (LABEL + 2))
    for made, (_, style), mark in zip(comparison.both, drawn, ("⣀⣀", "⣀⣀") if unicode else ("**", "oo")):
        legend.append(f"{mark} {made.name}  ", style=style)
    legend.append("validation loss", style="dim")
    legend.truncate(width - 1)
    last = max(points[-1][0] for points, _ in drawn)
    return [*draw_curves(drawn, last, width - 1, TERMINAL_LINES, unicode), legend]


def draw(comparison: Comparison) -> str | None:
    """The picture as SVG; None if neither model was trained for a step."""
    lines: Mapping[str, Points] = loss_curves(comparison)
    if not lines:
        return None
    one, other = comparison.both
    unit = "loss, in nats a token" if comparison.same_tokenizer else "loss, in bits a character"
    looks = [(0 if name.startswith(f"{one.name}, ") else 1, 0 if name.endswith("validation") else 2) for name in lines]
    return curves(lines, f"{one.name} and {other.name}", x_name="steps of training", y_name=unit, looks=looks)


def _unit(made: Measured, comparison: Comparison) -> float:
    """What a recorded loss is multiplied with: bits a character where the tokenizers differ."""
    score = made.scores[0]
    return 1.0 if comparison.same_tokenizer or not score.loss else score.bits_per_character / score.loss


def _means(losses: Sequence[float]) -> list[tuple[float, float]]:
    size = -(-len(losses) // MOST_POINTS) or 1
    pieces = [losses[at : at + size] for at in range(0, len(losses), size)]
    return [
        (number * size + (len(piece) + 1) / 2, sum(piece) / len(piece))
        for number, piece in enumerate(pieces)
        if all(map(math.isfinite, piece))
    ]
