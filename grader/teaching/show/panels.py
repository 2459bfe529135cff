"""A picture as plain data: tables, charts and bars of numbers with labels. A process with torch makes it, a process without torch shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

NEAR = 1e-4  # numbers count as equal if they are this close, relative to the reference's largest
DIFFERENCE = "yours - reference"  # the heading of a panel that shows where they differ


@dataclass(frozen=True)
class Grid:
    """A table of numbers, as colours."""

    title: str
    values: list[list[float]]
    rows: list[str]
    columns: list[str]
    row_name: str = ""
    column_name: str = ""
    words: tuple[str, str] | None = None  # what 0 and 1 mean, in a table of only these
    near: float = NEAR
    given: bool = False  # an input, the same for both sides


@dataclass(frozen=True)
class Chart:
    """Lines through (x, y) points over two axes."""

    title: str
    lines: dict[str, list[tuple[float, float]]]
    x_name: str
    y_name: str
    square: bool = False  # whether both axes have the same unit
    near: float = NEAR
    given: bool = False


@dataclass(frozen=True)
class Bars:
    """A number for each label."""

    title: str
    labels: list[str]
    values: list[float]
    name: str = ""  # of the numbers
    near: float = NEAR
    given: bool = False


Panel = Grid | Chart | Bars
Kind = TypeVar("Kind", bound=Panel, covariant=True)


@dataclass(frozen=True)
class Pair(Generic[Kind]):
    """One panel of the reference, with the learner's panel and the difference, if there is a learner's panel."""

    reference: Kind
    yours: Kind | None = None
    differs: Kind | None = None
    note: str = ""  # a sentence, if the two cannot be subtracted

    @property
    def panels(self) -> dict[str, Kind]:
        """The panels to show, by heading."""
        if self.reference.given:
            return {"given": self.reference}
        shown = {"yours": self.yours, "reference": self.reference, DIFFERENCE: self.differs}
        return {heading: panel for heading, panel in shown.items() if panel is not None}


@dataclass(frozen=True)
class Picture:
    exercise: str
    about: str  # one line: what the picture shows
    look: str  # a sentence: what to look for
    verdict: str  # a sentence: how far the learner's side agrees
    pairs: Sequence[Pair]
    agrees: bool = False

    def as_data(self) -> dict[str, Any]:
        """Return data for JSON, in Python's dialect with NaN and infinity."""
        pairs = [{name: _pack_panel(getattr(pair, name)) for name in ("reference", "yours", "differs")} | {"note": pair.note} for pair in self.pairs]
        return asdict(self) | {"pairs": pairs}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Picture:
        pairs = [Pair(_panel(*pair["reference"]), _unpack_panel(pair["yours"]), _unpack_panel(pair["differs"]), pair["note"]) for pair in data["pairs"]]
        return cls(**data | {"pairs": pairs})


_KINDS = {kind.__name__: kind for kind in (Grid, Chart, Bars)}


def _pack_panel(panel: Panel | None) -> list | None:
    return None if panel is None else [type(panel).__name__, asdict(panel)]


def _unpack_panel(data: list | None) -> Panel | None:
    return None if data is None else _panel(*data)


def _panel(kind: str, fields: dict[str, Any]) -> Panel:
    if kind == "Chart":
        fields = fields | {"lines": {name: [(x, y) for x, y in points] for name, points in fields["lines"].items()}}
    if kind == "Grid" and fields["words"]:
        fields = fields | {"words": tuple(fields["words"])}
    return _KINDS[kind](**fields)
