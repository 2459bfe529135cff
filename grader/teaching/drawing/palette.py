"""The colours of every picture, each for a light and for a dark page, and the CSS that switches between them.

An element has its light colour as an attribute and a class for each colour that it uses: `f-ink` fills with INK,
`s-line` strokes with LINE. A stored picture has a `<style>` that gives these classes their dark colours when the
reader's system is dark. A page that has the picture inline uses `without_style` and `theme_rules`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


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
