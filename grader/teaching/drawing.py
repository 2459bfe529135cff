"""Pictures as SVG, without a dependency: colours for light and dark pages, curves, tables, and what both are made of.

An element has its light colour as an attribute and a class for each colour that it uses: `f-ink` fills with INK,
`s-line` strokes with LINE. A stored picture has a `<style>` that gives these classes their dark colours when the
reader's system is dark. A page that has the picture inline uses `without_style` and `theme_rules`. Numbers are rounded
before anything is drawn, so the same values give the same bytes on every machine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Colour:
    """A colour of the pictures: its name in class names, and its value on a light and on a dark page."""

    name: str
    light: str
    dark: str


def _mix(stops: Sequence[str], place: float) -> str:
    at = min(max(place, 0.0), 1.0) * (len(stops) - 1)
    index = min(int(at), len(stops) - 2)
    share = at - index
    mixed = [round(a + (b - a) * share) for a, b in zip(parts(stops[index]), parts(stops[index + 1]))]
    return "#" + "".join(f"{part:02x}" for part in mixed)


def parts(code: str) -> list[int]:
    return [int(code[i : i + 2], 16) for i in (1, 3, 5)]


def luminance(code: str) -> float:
    values = (part / 255 for part in parts(code))
    red, green, blue = (value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, as WCAG defines it: 1 for equal colours, 21 for black and white."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


# ---- colours that are the same for all values

INK = Colour("ink", "#1f2328", "#e3e7eb")
FAINT, LINE = Colour("faint", "#59636e", "#a3adb8"), Colour("line", "#d1d9e0", "#3a424c")
CARD, EMPTY = Colour("card", "#ffffff", "#16191d"), Colour("empty", "#f6f8fa", "#22272e")
CURVES = (  # distinguishable with colour blindness
    Colour("curve-0", "#0072b2", "#4aa5e6"),
    Colour("curve-1", "#d55e00", "#ff8c42"),
    Colour("curve-2", "#009e73", "#2fc795"),
    Colour("curve-3", "#cc79a7", "#e59bc4"),
    Colour("curve-4", "#56b4e9", "#a5dcff"),
    Colour("curve-5", "#e69f00", "#f4c04a"),
)

# ---- colours of diagrams: the fill and the border of a kind of box, the arrows

PLAIN = (Colour("plain", "#eef1f4", "#262c34"), Colour("plain-edge", "#848d97", "#7d8792"))
LEARNED = (Colour("learned", "#dcebfb", "#153556"), Colour("learned-edge", "#2f7dc0", "#58a6e8"))
FIXED = (Colour("fixed", "#fdf0d3", "#3d3012"), Colour("fixed-edge", "#b9821b", "#d0a245"))
FLOW, BADGE = Colour("flow", "#59636e", "#a3adb8"), Colour("badge", "#4b5560", "#c3ccd5")
SHORTCUT = Colour("shortcut", "#00875f", "#2fc795")

# ---- colours of values

SEQUENTIAL = ("#ffffff", "#d6e6f4", "#9ecae1", "#4a98c9", "#1764ab", "#08306b")  # white to dark blue
DIVERGING = ("#b35806", "#e68f2c", "#fdcf91", "#ffffff", "#c6cfe6", "#7f8fc6", "#3a4f9f")  # orange, white, indigo
_SEQUENTIAL_DARK = (CARD.dark, "#17395a", "#1d5b90", "#3187cb", "#7cbaec", "#d3e9fb")  # the page to light blue
_DIVERGING_DARK = ("#ffc080", "#d9822b", "#744315", CARD.dark, "#333f7d", "#6a7be0", "#c0c8ff")
BLUES = tuple(Colour(f"blue-{k}", _mix(SEQUENTIAL, k / 20), _mix(_SEQUENTIAL_DARK, k / 20)) for k in range(21))
BOTH_SIGNS = tuple(Colour(f"mix-{k}", _mix(DIVERGING, k / 24), _mix(_DIVERGING_DARK, k / 24)) for k in range(25))


def shade(value: float, low: float, high: float) -> Colour:
    """Return the colour of a value: one of BLUES from zero up, or of BOTH_SIGNS around zero for both signs."""
    steps = BOTH_SIGNS if low < 0 < high else BLUES
    return steps[round(_place(value, low, high) * (len(steps) - 1))]


def _place(value: float, low: float, high: float) -> float:
    if low < 0 < high:
        return min(max(0.5 + 0.5 * value / max(-low, high), 0.0), 1.0)
    largest = max(abs(low), abs(high))
    return min(abs(value) / largest, 1.0) if largest else 0.0


_ON = {"b": "#000000", "w": "#ffffff"}


def text_on(ground: Colour) -> Colour:
    """Return black or white for each of the two pages, whichever is easier to read on `ground`."""
    grounds = (ground.light, ground.dark)
    best = ["w" if contrast("#ffffff", code) > contrast("#000000", code) else "b" for code in grounds]
    return Colour(f"on-{''.join(best)}", *(_ON[one] for one in best))


def terminal_style(ground: Colour) -> str:
    """Return rich's style for text that can be read on this ground; a terminal gets the light colours."""
    return f"{text_on(ground).light} on {ground.light}"


_DIAGRAM = (*PLAIN, *LEARNED, *FIXED, FLOW, SHORTCUT, BADGE)
_ALL = {one.name: one for one in (INK, FAINT, LINE, CARD, EMPTY, *_DIAGRAM, *CURVES, *BLUES, *BOTH_SIGNS)}
_ALL |= {f"on-{light}{dark}": Colour(f"on-{light}{dark}", _ON[light], _ON[dark]) for light in _ON for dark in _ON}

# ---- attributes and CSS

_PROPERTIES = {"f": "fill", "s": "stroke"}
_STYLE = re.compile(r"<style>.*?</style>\n?", re.DOTALL)


def paint(fill: Colour | None = None, stroke: Colour | None = None) -> str:
    """Return the attributes of an element with these colours; without a fill it is transparent."""
    names = " ".join(f"{kind}-{colour.name}" for kind, colour in (("f", fill), ("s", stroke)) if colour)
    return f'class="{names}" fill="{fill.light if fill else "none"}"' + (f' stroke="{stroke.light}"' if stroke else "")


def dark_style(marks: Iterable[str]) -> str:
    """Return the `<style>` that gives the classes in `marks` their dark colours when the reader's system is dark."""
    rules = "".join(f".{name}{{{prop}:{colour.dark}}}" for name, prop, colour in _classes(marks))
    return f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>"


def without_style(svg: str) -> str:
    """Return a picture to place inline in a page: without `<style>`, which a strict Content-Security-Policy forbids.

    The page's stylesheet needs the rules of `theme_rules` for the same picture. Without them the picture stays light.
    """
    return _STYLE.sub("", svg)


def theme_rules(pictures: Iterable[str]) -> str:
    """Return the CSS rules for inline pictures, one a line: `.drawing .f-ink { fill: light-dark(#1f2328, #e3e7eb); }`.

    The rules cover every class that occurs in `pictures`. The colours follow the page's `color-scheme` property, so a
    theme button that sets it changes the pictures too. The root element of every picture has the class `drawing`.
    """
    rule = ".drawing .{} {{ {}: light-dark({}, {}); }}\n"
    return "".join(rule.format(name, prop, one.light, one.dark) for name, prop, one in _classes(pictures))


def _classes(texts: Iterable[str]) -> list[tuple[str, str, Colour]]:
    """Return the colour classes in the texts, sorted, each with its property and its colour."""
    found = {name for text in texts for names in re.findall(r'class="([^"]*)"', text) for name in names.split()}
    colours = sorted(name for name in found if name[1:2] == "-" and name[2:] in _ALL)
    return [(name, _PROPERTIES[name[0]], _ALL[name[2:]]) for name in colours]


Points = Sequence[tuple[float, float]]

DASHES = ("", "7 4", "2 3", "9 3 2 3", "12 4", "4 2")
CHART_WIDTH, CHART_HEIGHT = 460, 250
MAX_NUMBERED_CELLS = 100  # in larger tables the cells have no numbers
MAX_LABELS = 12  # of more rows or columns, only some have a label


# ---- curves


def curves(
    lines: Mapping[str, Points],
    title: str,
    *,
    x_name: str = "",
    y_name: str = "",
    log: bool = False,
    log_x: bool = False,
    looks: Sequence[tuple[int, int]] = (),
    dots: Collection[str] = (),
) -> str:
    """Draw one line for each name through its (x, y) points.

    `log` makes the y axis logarithmic, and `log_x` the x axis.
    `looks` has a number of CURVES and one of DASHES for each line; without it, each line has its own colour and dashes.
    `dots` names those that are drawn as dots, not as a line.
    """
    scaled_x, scaled = (math.log10 if is_log else float for is_log in (log_x, log))
    drawn = {name: [(scaled_x(x), scaled(y)) for x, y in points] for name, points in lines.items()}
    everything = [point for points in drawn.values() for point in points]
    xs, ys = ([point[axis] for point in everything] for axis in (0, 1))
    if not xs or not all(math.isfinite(value) for value in (*xs, *ys)):
        raise ValueError("a chart needs points, all of them finite")
    x_ticks, y_ticks = _decades(xs) if log_x else _ticks(xs), _decades(ys) if log else _ticks(ys)
    left, top = 84, 56

    def place(x: float, y: float) -> tuple[float, float]:
        across = CHART_WIDTH * (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0])
        down = CHART_HEIGHT * (y_ticks[-1] - y) / (y_ticks[-1] - y_ticks[0])
        return round(left + across, 1), round(top + down, 1)

    marks: list[str] = []
    for tick in y_ticks:
        _, y = place(x_ticks[0], tick)
        marks.append(_line(left, y, left + CHART_WIDTH, y))
        marks.append(write(left - 8, y + 4, f"{10.0**tick if log else tick:.4g}", anchor="end", colour=FAINT))
    for tick in x_ticks:
        x, _ = place(tick, y_ticks[0])
        marks.append(_line(x, top + CHART_HEIGHT, x, top + CHART_HEIGHT + 5))
        name = _power_of_ten(tick) if log_x else f"{tick:.4g}"
        marks.append(write(x, top + CHART_HEIGHT + 20, name, anchor="middle", colour=FAINT))
    looks = looks or [(number, number) for number in range(len(drawn))]
    draw = {name: _dots if name in dots else _curve for name in drawn}
    for look, (name, points) in zip(looks, drawn.items()):
        marks.append(draw[name]([place(x, y) for x, y in points], look))
    for number, (name, look) in enumerate(zip(drawn, looks)):
        x, y = left + CHART_WIDTH + 18, top + 10 + 24 * number
        sample = [(x + 14, y)] if name in dots else [(x, y), (x + 28, y)]
        marks += [draw[name](sample, look), write(x + 36, y + 4, name, colour=INK)]
    if x_name:
        marks.append(write(left + CHART_WIDTH / 2, top + CHART_HEIGHT + 42, x_name, anchor="middle", colour=FAINT))
    if y_name:
        marks.append(write(22, top + CHART_HEIGHT / 2, y_name, anchor="middle", colour=FAINT, turned=True))
    width = left + CHART_WIDTH + 18 + 40 + round(7.4 * max(len(name) for name in drawn)) + 16
    return card(marks, width, top + CHART_HEIGHT + (56 if x_name else 34), title)


def _ticks(values: Sequence[float]) -> list[float]:
    """Return four to eight round numbers from the smallest to the largest value."""
    low, high = min(values), max(values)
    spread = high - low or abs(high) or 1.0
    size = 10.0 ** math.floor(math.log10(spread))
    step = next(size * factor for factor in (0.1, 0.2, 0.25, 0.5, 1, 2) if spread / (size * factor) <= 7)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * i, 10) for i in range(first, max(last, first + 1) + 1)]


def _decades(values: Sequence[float]) -> list[float]:
    first, last = math.floor(min(values) + 1e-9), math.ceil(max(values) - 1e-9)
    step = max(1, (last - first) // 8)
    return [float(exponent) for exponent in range(first, max(last, first + 1) + step, step)]


def _power_of_ten(exponent: float) -> str:
    """Return 0.01 or 1000 for small exponents, and 10⁸ for large ones."""
    if abs(exponent) <= 3:
        return f"{10.0**exponent:g}"
    return "10" + f"{exponent:g}".translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _curve(points: Points, look: tuple[int, int]) -> str:
    colour, dash = CURVES[look[0] % len(CURVES)], DASHES[look[1] % len(DASHES)]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    way = " ".join(f"{x:g},{y:g}" for x, y in points)
    return f'<polyline points="{way}" {paint(None, colour)} stroke-width="2.2" stroke-linejoin="round"{dashed}/>'


def _dots(points: Points, look: tuple[int, int]) -> str:
    colour = paint(CURVES[look[0] % len(CURVES)])
    return "".join(f'<circle cx="{x:g}" cy="{y:g}" r="4.5" {colour}/>' for x, y in points)


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" {paint(None, LINE)}/>'


# ---- tables


def heatmap(
    values: Tensor | Sequence[Sequence[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    *,
    row_name: str = "",
    column_name: str = "",
) -> str:
    """Draw a table as coloured cells, with numbers if there are few cells; NaN leaves its cell empty."""
    listed = values.tolist() if hasattr(values, "tolist") else values
    table = [[round(float(value), 3) for value in row] for row in listed]
    if not table or any(len(row) != len(columns) for row in table) or len(table) != len(rows):
        raise ValueError(
            f"a table of {len(table)} rows needs as many row labels ({len(rows)}) and each row {len(columns)} values"
        )
    finite = [value for row in table for value in row if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    numbered = len(table) * len(columns) <= MAX_NUMBERED_CELLS
    wide, tall = (58, 36) if numbered else (22, 14)
    left = 24 + (26 if row_name else 0) + round(7.2 * max(len(str(label)) for label in rows))
    top = 62 + (20 if column_name else 0)
    width, height = wide * len(columns), tall * len(table)
    decimals = 3 if any(value != round(value) for value in finite) else 0
    marks: list[str] = []
    for r, row in enumerate(table):
        for c, value in enumerate(row):
            x, y = left + c * wide, top + r * tall
            if not math.isfinite(value):
                marks.append(box(x, y, wide, tall, EMPTY))
            elif numbered:
                fill, text = shade(value, low, high), f"{value:.{decimals}f}" if abs(value) < 1000 else f"{value:.3g}"
                middle = write(x + wide / 2, y + tall / 2 + 4, text, anchor="middle", colour=text_on(fill))
                marks += [box(x, y, wide, tall, fill), middle]
            else:
                marks.append(_plain_cell(x, y, wide, tall, shade(value, low, high)))
    if not numbered:
        marks.append(box(left, top, width, height, None))
    for r in _labelled(len(rows)):
        marks.append(write(left - 8, top + r * tall + tall / 2 + 4, str(rows[r]), anchor="end"))
    for c in _labelled(len(columns)):
        marks.append(write(left + c * wide + wide / 2, top - 8, str(columns[c]), anchor="middle"))
    if row_name:
        marks.append(write(20, top + height / 2, row_name, anchor="middle", colour=FAINT, turned=True))
    if column_name:
        marks.append(write(left + width / 2, top - 28, column_name, anchor="middle", colour=FAINT))
    if numbered:
        return card(marks, left + width + 20, top + height + 18, title)
    marks += _scale(left, top + height + 16, low, high)
    return card(marks, left + max(width + 20, 320), top + height + 44, title)


def _labelled(count: int) -> range:
    """Return which labels to draw: all if they fit, otherwise every second, fourth, eighth ..."""
    step = 1
    while count / step > MAX_LABELS:
        step *= 2
    return range(0, count, step)


def _plain_cell(x: float, y: float, wide: float, tall: float, fill: Colour) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{tall:g}" {paint(fill)}/>'


def _scale(x: float, y: float, low: float, high: float) -> Iterable[str]:
    """Draw a strip of the colours with numbers at its ends."""
    steps, start, end = 24, min(low, 0.0), max(high, 0.0)
    marks = [write(x, y + 11, f"{start:.3g}", colour=FAINT)]
    x += 12 + 7.2 * len(f"{start:.3g}")
    for i in range(steps):
        marks.append(_plain_cell(x + 6 * i, y, 6, 12, shade(start + (end - start) * i / (steps - 1), low, high)))
    return [*marks, write(x + 6 * steps + 10, y + 11, f"{end:.3g}", colour=FAINT)]


FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
NARROW, BROAD = " ()[]{}.,:;|!'ijltfrI-/", "mwMW%@…→×+"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def box(x: float, y: float, wide: float, tall: float, fill: Colour | None) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{tall:g}" rx="3" {paint(fill, LINE)}/>'


def write(
    x: float,
    y: float,
    text: str,
    anchor: str = "start",
    colour: Colour = INK,
    size: int = 13,
    *,
    bold: bool = False,
    turned: bool = False,
) -> str:
    place = f'x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" {paint(colour)}'
    more = ' font-weight="600"' * bold + f' transform="rotate(-90 {x:g} {y:g})"' * turned
    return f"<text {place}{more}>{escape(_legal(text), quote=False)}</text>"


def text_width(text: str, size: float, bold: bool = False) -> float:
    """Return about how wide a text is in a wide sans-serif font, so that it fits in narrower ones too."""
    share = sum(0.38 if c in NARROW else 0.97 if c in BROAD else 0.71 if c.isupper() else 0.62 for c in text)
    return share * size * (1.12 if bold else 1.0)


def _legal(text: str) -> str:
    """Replace characters that XML does not allow with U+FFFD."""
    return re.sub("[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)


def card(marks: Iterable[str], width: float, height: float, title: str) -> str:
    """Put the picture on a card, white on a light page and dark on a dark one, at least as wide as its title."""
    wide, tall = math.ceil(max(width, 40 + text_width(title, 15, bold=True))), math.ceil(height)
    inside = [
        f'<rect x="0.5" y="0.5" width="{wide - 1}" height="{tall - 1}" rx="8" {paint(CARD, LINE)}/>',
        write(20, 29, title, size=15, bold=True),
        *marks,
    ]
    size = f'viewBox="0 0 {wide} {tall}" width="{wide}" height="{tall}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} class="drawing" font-family="{FONT}" role="img">'
    named = f"<title>{escape(_legal(title), quote=False)}</title>"
    return "\n".join([head, named, dark_style(inside), *inside, "</svg>\n"])
