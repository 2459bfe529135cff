"""A picture as plain data: tables, charts and bars of the reference, of the learner, and their difference.

A process with torch makes it; a process without torch shows it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, TypeVar

MAX_RELATIVE_ERROR = 1e-4  # numbers count as equal if they are this close, relative to the reference's largest
DIFFERENCE = "yours - reference"  # the heading of a panel that shows where they differ


@dataclass(frozen=True)
class Span:
    """The range of some numbers, and whether NaN or infinity is among them."""

    low: float
    high: float
    has_gaps: bool = False

    @classmethod
    def of(cls, values: Iterable[float]) -> Span:
        every = list(values)
        finite = [value for value in every if math.isfinite(value)]
        return cls(min(finite, default=0.0), max(finite, default=0.0), len(finite) < len(every))

    @property
    def largest(self) -> float:
        return max(abs(self.low), abs(self.high))


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
    near: float = MAX_RELATIVE_ERROR
    given: bool = False  # an input, the same for both sides

    @property
    def size(self) -> str:
        return f"{len(self.values)} x {len(self.values[0]) if self.values else 0}"

    @property
    def axes(self) -> str:
        named = (("down", self.row_name), ("across", self.column_name))
        return ", ".join(f"{where}: {name}" for where, name in named if name)

    def shown(self) -> list[float]:
        return [value for row in self.values for value in row]

    compared = shown

    def replaced(self, numbers: Iterator[float]) -> Grid:
        return replace(self, values=[[next(numbers) for _ in row] for row in self.values], words=None)


@dataclass(frozen=True)
class Chart:
    """Lines through (x, y) points over two axes."""

    title: str
    lines: dict[str, list[tuple[float, float]]]
    x_name: str
    y_name: str
    square: bool = False  # whether both axes have the same unit; then x is compared as well as y
    near: float = MAX_RELATIVE_ERROR
    given: bool = False

    @property
    def size(self) -> str:
        return ", ".join(f"{len(points)} points" for points in self.lines.values())

    @property
    def axes(self) -> str:
        return f"across: {self.x_name}, up: {self.y_name}"

    def shown(self) -> list[float]:
        return [y for points in self.lines.values() for _, y in points]

    def compared(self) -> list[float]:
        points = (point for line in self.lines.values() for point in line)
        return [value for x, y in points for value in ((x, y) if self.square else (y,))]

    def replaced(self, numbers: Iterator[float]) -> Chart:
        if not self.square:
            lines = {name: [(x, next(numbers)) for x, _ in points] for name, points in self.lines.items()}
            return replace(self, lines=lines)
        apart = {
            name: [(float(step), math.hypot(next(numbers), next(numbers))) for step in range(len(line))]
            for name, line in self.lines.items()
        }
        return Chart(self.title, apart, "point", "how far apart", near=self.near)


@dataclass(frozen=True)
class Bars:
    """A number for each label."""

    title: str
    labels: list[str]
    values: list[float]
    name: str = ""  # of the numbers
    near: float = MAX_RELATIVE_ERROR
    given: bool = False

    @property
    def size(self) -> str:
        return f"{len(self.values)} numbers"

    @property
    def axes(self) -> str:
        return self.name

    def shown(self) -> list[float]:
        return self.values

    compared = shown

    def replaced(self, numbers: Iterator[float]) -> Bars:
        return replace(self, values=list(numbers))


Panel = Grid | Chart | Bars
Kind = TypeVar("Kind", bound=Panel, covariant=True)
_KINDS: dict[str, type[Panel]] = {kind.__name__: kind for kind in (Grid, Chart, Bars)}


@dataclass(frozen=True)
class Pair(Generic[Kind]):
    """One panel of the reference, with the learner's panel and the difference, if there is a learner's panel.

    With the heading "yours", `reference` is a panel of the learner that stands alone.
    """

    reference: Kind
    yours: Kind | None = None
    differs: Kind | None = None
    note: str = ""  # a sentence, if the two cannot be subtracted
    heading: str = "reference"

    @property
    def panels(self) -> dict[str, Kind]:
        """The panels to show, by heading."""
        if self.reference.given:
            return {"given": self.reference}
        shown = {"yours": self.yours, self.heading: self.reference, DIFFERENCE: self.differs}
        return {heading: panel for heading, panel in shown.items() if panel is not None}

    def same_scale(self, panel: Panel) -> list[Kind]:
        """Return the panels that share the scale of this one: both sides do, and the difference has its own."""
        sharing = (self.differs,) if panel is self.differs else (self.reference, self.yours)
        return [one for one in sharing if one is not None]

    def span(self, panel: Panel) -> Span:
        """Return the range of the scale of this panel; that of a table of differences has both signs."""
        found = Span.of(value for one in self.same_scale(panel) for value in one.shown())
        is_difference = panel is self.differs and isinstance(panel, Grid)
        return Span(-found.largest, found.largest, found.has_gaps) if is_difference else found


def pair_panels(reference: Panel, yours: Panel) -> Pair:
    """Make a pair of the two; its `differs` is None if they agree."""
    if reference.given:
        return Pair(reference)
    if reference.size != yours.size:
        note = f"Your result is {yours.size} and the reference's is {reference.size}, so no difference can be shown."
        return Pair(reference, yours, note=note)
    expected = reference.compared()
    limit = reference.near * (Span.of(expected).largest or 1.0)
    found = [_subtract(a, b, limit) for a, b in zip(yours.compared(), expected)]
    return Pair(reference, yours, reference.replaced(iter(found)) if any(value != 0 for value in found) else None)


def count_differences(pair: Pair) -> tuple[int, int]:
    """Return how many of the compared numbers differ, or of the points where x is compared as well, and how many there
    are."""
    if pair.reference.given:
        return 0, 0
    if pair.differs is None:
        return 0, len(pair.reference.compared())
    found = pair.differs.compared()
    return sum(value != 0 for value in found), len(found)


def _subtract(yours: float, expected: float, limit: float) -> float:
    """Return the difference: 0 if it is below the limit, NaN if one of them is no number and the other differs."""
    if yours == expected or (math.isnan(yours) and math.isnan(expected)):
        return 0.0
    if not (math.isfinite(yours) and math.isfinite(expected)):
        return math.nan
    return yours - expected if abs(yours - expected) > limit else 0.0


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
        data = asdict(self)
        for pair, packed in zip(self.pairs, data["pairs"]):
            for side in ("reference", "yours", "differs"):
                if packed[side] is not None:
                    packed[side]["kind"] = type(getattr(pair, side)).__name__
        return data

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Picture:
        pairs = []
        for pair in data["pairs"]:
            reference, yours, differs = (_unpack_panel(pair[side]) for side in ("reference", "yours", "differs"))
            pairs.append(Pair(reference, yours, differs, pair["note"], pair["heading"]))
        return cls(**data | {"pairs": pairs})


def _unpack_panel(data: dict[str, Any] | None) -> Any:
    """Return the panel; JSON has made lists of its tuples."""
    if data is None:
        return None
    fields = {name: value for name, value in data.items() if name != "kind"}
    if fields.get("words"):
        fields["words"] = tuple(fields["words"])
    if data["kind"] == "Chart":
        fields["lines"] = {name: [(x, y) for x, y in points] for name, points in fields["lines"].items()}
    return _KINDS[data["kind"]](**fields)
