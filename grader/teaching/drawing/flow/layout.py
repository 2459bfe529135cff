"""The layout of a panel: where each box is, and the arrows between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from grader.teaching.drawing.flow.items import Box, Column, Group, Item, Link, Residual, Side, Sign, Split
from grader.teaching.drawing.flow.marks import SIZE, TITLE_SIZE, badge, badge_width, look, polyline, sign
from grader.teaching.drawing.palette import FLOW, INK, SHORTCUT, paint
from grader.teaching.drawing.svg import MONO, text_width, write

LABELLED_GAP, GAP = 36, 26  # between two boxes, with and without a label
Place = Callable[[float], float]
Mark = Callable[[Place], Iterable[str]]


@dataclass(frozen=True)
class _End:
    """Where an arrow begins: the right-angled line so far ends at (x, t); straight arrows may leave between low and high."""

    x: float
    t: float
    low: float
    high: float
    label: str = ""


@dataclass
class Layout:
    """The marks of one panel. Places along the flow are called t; they become y when the panel's height is known."""

    upward: bool
    behind: list[Mark] = field(default_factory=list)
    lines: list[Mark] = field(default_factory=list)
    boxes: list[Mark] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    badges: dict[str, float] = field(default_factory=dict)  # half the width of a badge, which lies on the right border
    begin: float = 0.0  # where the first box of a column is
    places: dict[str, tuple[float, float, float, float]] = field(default_factory=dict)  # left, start, right, end

    def column(self, column: Column) -> float:
        """Lay the column out; return where it ends."""
        begin, first = 0.0, column.items[0]
        if column.beside and isinstance(first, Box):
            _, start, _, end = self.places[column.beside]
            begin = (start + end - height(first)) / 2
        ends = self._items(column.x, column.items, column.wide, [], 0.0, begin)
        return max(end.t for end in ends)

    def _items(self, x: float, items: Sequence[Item], wide: float, ends: list[_End], room: float, start: float = 0.0) -> list[_End]:
        """Lay out items from `ends` on; `room` is how far the first arrow must reach beyond its label."""
        self.begin = start
        for item in items:
            if isinstance(item, str):
                ends = [_End(end.x, end.t, end.low, end.high, item) for end in ends]
                continue
            match item:
                case Box() | Sign():
                    ends = self._node(x, item, wide, ends, room)
                case Residual():
                    ends = self._residual(x, item, wide, ends, room)
                case Group():
                    ends = self._group(x, item, wide, ends)
                case Split():
                    ends = self._split(x, item, wide, ends)
            room = 0.0
        return ends

    def _node(self, x: float, item: Box | Sign, wide: float, ends: list[_End], room: float) -> list[_End]:
        half, tall = (11.0, 22.0) if isinstance(item, Sign) else ((item.wide or wide) / 2, height(item))
        away = [end for end in ends if abs(end.x - x) > half - 8]
        needed = [end.t + (LABELLED_GAP if end.label else GAP) + (12 if end in away else 0) for end in ends]
        start = max(needed, default=self.begin) + room
        if isinstance(item, Sign):
            self.boxes.append(lambda place: sign(x, place(start + 11), item.sign))
        else:
            self._box(x, start, half, tall, item)
        for end in ends:
            if end in away:
                self._line([(end.x, end.t), (end.x, start - 15), (x, start - 15), (x, start)], arrow=True)
            else:
                self._line([(end.x, end.t), (end.x, start)], arrow=True)
            self._label(end.x, end.t + (start - room - end.t) / 2 if end not in away else (end.t + start - 15) / 2, end.label)
        key = item.key or (item.title if isinstance(item, Box) else "")
        self.badges[key] = badge_width(item.chapter) / 2 if isinstance(item, Box) and item.chapter else 0.0
        self.places[key] = (x - half, start, x + half, start + tall)
        return [_End(x, start + tall, x - half + 8, x + half - 8)]

    def _box(self, x: float, start: float, half: float, tall: float, item: Box) -> None:
        corner = badge_width(item.chapter) if item.chapter else 0.0
        for text, bold in ((item.title, item.kind != "text"), (item.note, False)):
            needed = text_width(text, TITLE_SIZE if bold else SIZE, bold=bold) + (corner + 8 if corner else 12)
            if item.kind != "text" and text and needed > 2 * half:
                raise ValueError(f"{text!r} needs {needed:.0f} and its box is {2 * half:.0f} wide")
        self.kinds |= {kind for kind, shown in ((item.kind, item.kind != "text"), ("cached", item.cells[0]), ("new", item.cells[1])) if shown}
        if item.chapter:
            self.kinds.add("chapter")

        def mark(place: Place) -> Iterable[str]:
            middle = place(start + tall / 2)
            if item.kind != "text":
                fill, edge, more = look(item.kind)
                radius = 17 if item.kind == "data" else 6
                yield f'<rect x="{x - half:g}" y="{middle - tall / 2:g}" width="{2 * half:g}" height="{tall:g}" rx="{radius}" {paint(fill, edge)}{more}/>'
            yield write(x, middle + (-4 if tall == 56 else 5), item.title, anchor="middle", size=TITLE_SIZE, bold=item.kind != "text")
            if item.note:
                yield write(x, middle + 16, item.note, anchor="middle", colour=INK, size=SIZE)
            old, new = item.cells
            size = item.block or max(old + new, 1)
            places = -(-(old + new) // size) * size
            left = x - 9 * places - 4 * (places // size - 1)
            for number in range(places):
                colours = paint(stroke=FLOW) + ' stroke-dasharray="2 3"'  # of an empty place
                if number < old + new:
                    fill, edge, more = look("cached" if number < old else "new")
                    colours = paint(fill, edge) + more
                at = left + 18 * number + 8 * (number // size) + 1
                yield f'<rect x="{at:g}" y="{middle + 4:g}" width="16" height="16" rx="2" {colours}/>'
            if item.chapter:
                yield from badge(x + half, middle, item.chapter)

        self.boxes.append(mark)

    def _residual(self, x: float, item: Residual, wide: float, ends: list[_End], room: float) -> list[_End]:
        self.kinds.add("residual")
        branch = max(end.t + (LABELLED_GAP if end.label else GAP) for end in ends) + room - 16
        inner = self._items(x, item.items, wide, ends, room + 4)
        after = self._node(x, Sign("+", item.key), wide, inner, 0.0)
        side, end = x - wide / 2 - 17, after[0].t - 11
        self._line([(x, branch), (side, branch), (side, end), (x - 11, end)], arrow=True, residual=True)
        return after

    def _group(self, x: float, item: Group, wide: float, ends: list[_End]) -> list[_End]:
        low = max((end.t + (LABELLED_GAP - 4 if end.label else 12) for end in ends), default=0.0)
        before, after = (24, 36) if self.upward else (38, 20)
        room = before if ends else 0.0
        inner = self._items(x, item.items, wide, ends, room)
        high = max(end.t for end in inner) + after
        left, right = x - wide / 2 - 34 - item.left, x + wide / 2 + 20 + item.right
        needed = text_width(item.title, TITLE_SIZE, bold=True) + (badge_width(item.chapter) + 8 if item.chapter else 0.0)
        begin = left + 12 if left + 12 + needed < x - 6 else x + 14
        if begin + needed > right - 4:
            raise ValueError(f"the title {item.title!r} needs {needed:.0f} on one side of the arrow")

        def mark(place: Place) -> Iterable[str]:
            top = min(place(low), place(high))
            frame = f'<rect x="{left:g}" y="{top:g}" width="{right - left:g}" height="{high - low:g}" rx="10" {paint(None, FLOW)}'
            yield f'{frame} stroke-width="1.2" stroke-dasharray="2 4"/>'
            yield write(begin, top + 23, item.title, size=TITLE_SIZE, bold=True)
            if item.chapter:
                yield from badge(begin + needed - badge_width(item.chapter) / 2, top + 18, item.chapter)

        self.behind.append(mark)
        if item.chapter:
            self.kinds.add("chapter")
        self.places[item.title] = (left, low, right, high)
        return [_End(end.x, high, end.low, end.high) for end in self._extend(inner, high)]

    def _extend(self, ends: Sequence[_End], t: float) -> Sequence[_End]:
        for end in ends:
            self._line([(end.x, end.t), (end.x, t)])
        return ends

    def _split(self, x: float, item: Split, wide: float, ends: list[_End]) -> list[_End]:
        found: list[_End] = []
        bus = max((end.t + (LABELLED_GAP - 6 if end.label else 12) for end in ends), default=0.0)
        for end in ends:
            self._label(end.x, (end.t + bus) / 2, end.label)
        for distance, items in item.columns:
            at = x + distance
            begin: list[_End] = []
            for end in ends:
                if end.low <= at <= end.high and not end.label:
                    begin.append(_End(at, end.t, end.low, end.high))
                else:
                    self._line([(end.x, end.t), (end.x, bus), (at, bus)])
                    begin.append(_End(at, bus, at, at))
            found += self._items(at, items, wide, begin, 0.0)
        return found

    def link(self, link: Link) -> None:
        """Draw an arrow between two boxes that are already there."""
        a, b = self.places[link.start], self.places[link.end]
        (x1, t1), (x2, t2) = _spot(a, link.sides[0], 0.0), _spot(b, link.sides[1], link.place)
        x1 += self.badges.get(link.start, 0.0) if link.sides[0] == "right" else 0.0
        x2 += self.badges.get(link.end, 0.0) if link.sides[1] == "right" and abs(link.place) < 10 else 0.0
        if link.sides[0] in ("left", "right") and link.sides[1] in ("left", "right"):
            bend = link.bend if link.bend is not None else (x1 + x2) / 2
            points = [(x1, t1), (bend, t1), (bend, t2), (x2, t2)] if t1 != t2 else [(x1, t1), (x2, t2)]
        elif link.sides[0] in ("left", "right"):
            points = [(x1, t1), (x2, t1), (x2, t2)]
        elif link.sides[1] in ("left", "right"):
            points = [(x1, t1), (x1, t2), (x2, t2)] if link.bend is None else [(x1, t1), (x1, t1 + 16), (link.bend, t1 + 16), (link.bend, t2), (x2, t2)]
        else:
            points = [(x1, t1), (x1, (t1 + t2) / 2), (x2, (t1 + t2) / 2), (x2, t2)]
        self._line(points, arrow=True, faint=link.faint)
        if link.label:
            longest = max(zip(points, points[1:]), key=lambda pair: abs(pair[0][1] - pair[1][1]))
            self._label(longest[0][0], (longest[0][1] + longest[1][1]) / 2, link.label)

    def _label(self, x: float, t: float, text: str) -> None:
        if text:
            self.boxes.append(lambda place: [write(x + 9, place(t) + 5, text, colour=INK, size=SIZE, font=MONO)])

    def _line(self, points: Sequence[tuple[float, float]], arrow: bool = False, residual: bool = False, faint: bool = False) -> None:
        self.lines.append(lambda place: polyline([(x, place(t)) for x, t in points], arrow, SHORTCUT if residual else FLOW, 2.2 if residual else 1.6, faint))


def height(box: Box) -> float:
    return 22.0 if box.kind == "text" else 56.0 if box.note or any(box.cells) else 36.0


def _spot(place: tuple[float, float, float, float], side: Side, shift: float) -> tuple[float, float]:
    left, start, right, end = place
    middle = (start + end) / 2 + shift
    return {"left": (left, middle), "right": (right, middle), "top": ((left + right) / 2, end), "bottom": ((left + right) / 2, start)}[side]
