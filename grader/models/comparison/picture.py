"""The loss curves of two trainings in one picture: a colour for each model, a solid line for the validation loss and a dotted one for training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from grader.models.comparison.measuring import Comparison, Measured
from grader.teaching.drawing.charts import Points, curves

MOST_POINTS = 80  # of the training loss; each is a mean, because single steps jump up and down


def loss_curves(comparison: Comparison) -> dict[str, Points]:
    """The curves by their names: for each model the validation loss, then the training loss."""
    found: dict[str, Points] = {}
    for made in comparison.both:
        unit = _unit(made, comparison)
        validation = [(float(step), loss * unit) for step, loss in made.history["validation"] if math.isfinite(loss)]
        training = [(step, loss * unit) for step, loss in _means(made.history["losses"])]
        found |= {f"{made.name}, validation": validation, f"{made.name}, training": training}
    return {name: points for name, points in found.items() if points}


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
    return [(number * size + (len(piece) + 1) / 2, sum(piece) / len(piece)) for number, piece in enumerate(pieces) if all(map(math.isfinite, piece))]
