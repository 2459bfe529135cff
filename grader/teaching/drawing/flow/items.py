"""What a diagram consists of.

A column is a list of items in the order in which the data flows: a `Box`, a label (a string, written beside the next
arrow), a `Residual`, a `Group`, or a `Split` into parallel columns. Arrows between neighbours are drawn automatically.
A `Panel` has columns side by side and `Link`s between boxes; a diagram is one panel above another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["data", "learned", "fixed", "optional", "idle", "text"]
Side = Literal["left", "right", "top", "bottom"]


@dataclass(frozen=True)
class Box:
    """A box with a title, a second line and the number of a chapter. The kind `text` has no border."""

    title: str
    note: str = ""
    kind: Kind = "fixed"
    chapter: str = ""
    wide: float = 0.0  # 0: as wide as the column's boxes
    cells: tuple[int, int] = (0, 0)  # a row of small cells instead of the note: so many old ones, so many new ones
    block: int = 0  # cells in blocks of so many, with dashed borders where a place is empty; 0: one row without gaps
    key: str = ""  # for a Link; the title if empty


@dataclass(frozen=True)
class Sign:
    """A small circle where arrows meet: + or ×."""

    sign: Literal["+", "×"]
    key: str = ""


@dataclass(frozen=True)
class Residual:
    """Items with a line around them, which ends in a plus."""

    items: Sequence[Item]
    key: str = ""  # of the plus


@dataclass(frozen=True)
class Group:
    """Items inside a border with a title, such as × N."""

    title: str
    items: Sequence[Item]
    chapter: str = ""
    left: float = 0.0  # more room on this side
    right: float = 0.0


@dataclass(frozen=True)
class Split:
    """Columns side by side, each with its distance from the centre; an empty one passes its input on."""

    columns: Sequence[tuple[float, Sequence[Item]]]


Item = Box | Sign | Residual | Group | Split | str


@dataclass(frozen=True)
class Link:
    """An arrow from one box to another, outside the order of the columns. `bend` is the x of its vertical part."""

    start: str
    end: str
    sides: tuple[Side, Side]
    label: str = ""
    bend: float | None = None
    faint: bool = False  # dashed, for what only looks at a value
    place: float = 0.0  # of the end, above or below the middle of the box


@dataclass(frozen=True)
class Column:
    x: float
    items: Sequence[Item]
    wide: float = 150.0  # of its boxes
    heading: str = ""
    beside: str = ""  # a box of an earlier column, beside which this column begins with a box


@dataclass(frozen=True)
class Panel:
    """Columns that begin at the same height. `upward`: the data flows from the bottom to the top."""

    columns: Sequence[Column]
    links: Sequence[Link] = ()
    upward: bool = True
