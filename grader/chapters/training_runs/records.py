"""What a training run showed, as JSON keeps it; and the recordings of all cases.

This module imports no torch, so that a recorded run is shown at once.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "recordings"
SEEDS = (0, 1, 2)  # of the cases; of the right runs too
USUAL = 3  # the seed of the right run that is shown beside a case


def round_to(value: float, digits: int = 3) -> float:
    """Return the number with so many digits: recordings are small."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else value


class Record(dict):
    """What one run showed.

    curves: lists by name. figures: what was counted. samples, and the further looks: attention, batch, activations,
    positions, and cache or experts.
    """

    def add(self, **values: float) -> None:
        """Append to the curves of these names."""
        for name, value in values.items():
            self.setdefault("curves", {}).setdefault(name, []).append(round_to(value))


@cache
def read_records(name: str) -> tuple[Record, ...]:
    """The records of a case, by the name of its mistake, or of a setup's right run, in the order of their seeds."""
    return tuple(map(Record, json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))))


def usual_record(setup: str) -> Record:
    """The right run that is shown beside the cases of a setup."""
    return read_records(f"right_{setup}")[USUAL]
