"""The stored pictures are readable: labels inside the picture, apart from borders and lines, and large enough; diagrams tell the truth about shapes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree import ElementTree

import pytest
from grader.course.source import read_source
from grader.course.syllabus import EXERCISES, SOLUTIONS
from grader.teaching.drawing.charts import text_width

SVG = "{http://www.w3.org/2000/svg}"
PICTURES = sorted((EXERCISES / "pictures").glob("ch*.svg"))
DIAGRAMS = [path for path in PICTURES if path.stem.endswith("_diagram") or path.stem == "ch00_transformer"]
PHONE, SMALLEST = 360, 12  # px
SIZE = r"(?:T[qk]|[A-Z]|d_\w+|n_\w+|block|[dkn]|\d+)"
SHAPE = re.compile(rf"\((?:(?:\.\.\.|{SIZE}(?: [*+] {SIZE})*)(?:, |,(?=\))|(?=\))))*\)")


@dataclass(frozen=True)
class Area:
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Area) -> bool:
        return self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom

    def contains(self, other: Area) -> bool:
        return self.left <= other.left and other.right <= self.right and self.top <= other.top and other.bottom <= self.bottom


def numbers(mark: ElementTree.Element, *names: str) -> list[float]:
    return [float(mark.get(name, "0")) for name in names]


def text_area(mark: ElementTree.Element) -> Area:
    """Where a text is, from its estimated width and the height of its small letters, so that close is allowed and touching is not."""
    x, y, size = numbers(mark, "x", "y", "font-size")
    text = mark.text or ""
    is_mono = "mono" in mark.get("font-family", "")
    wide = 0.61 * len(text) * size if is_mono else text_width(text, size, mark.get("font-weight") == "600")
    before = {"start": 0.0, "middle": wide / 2, "end": wide}[mark.get("text-anchor", "start")]
    if mark.get("transform", "").startswith("rotate(-90"):
        return Area(x - 0.7 * size, y - wide + before, x, y + before)
    return Area(x - before, y - 0.7 * size, x - before + wide, y)


def texts(root: ElementTree.Element) -> list[tuple[str, Area, str]]:
    return [(mark.text or "", text_area(mark), mark.get("class", "")) for mark in root.iter(f"{SVG}text")]


def boxes(root: ElementTree.Element) -> list[Area]:
    """The rectangles with a border, such as boxes, cells and frames."""
    found = [numbers(mark, "x", "y", "width", "height") for mark in root.iter(f"{SVG}rect") if mark.get("stroke")]
    return [Area(x, y, x + wide, y + tall) for x, y, wide, tall in found]


def lines(root: ElementTree.Element) -> list[Area]:
    """The straight pieces of arrows."""
    pieces = []
    for mark in root.iter(f"{SVG}polyline"):
        points = [tuple(map(float, point.split(","))) for point in mark.get("points", "").split()]
        pieces += [Area(min(a, c), min(b, d), max(a, c), max(b, d)) for (a, b), (c, d) in zip(points, points[1:])]
    return [Area(one.left - 0.5, one.top - 0.5, one.right + 0.5, one.bottom + 0.5) for one in pieces]


def problems(svg: str) -> list[str]:
    """What a reader could not read in a picture."""
    root = ElementTree.fromstring(svg)
    written, found = texts(root), []
    for number, (text, area, look) in enumerate(written):
        if not Area(0, 0, *numbers(root, "width", "height")).contains(area):
            found.append(f"{text!r} leaves the picture")
        if "f-card" not in look:  # the number of a chapter lies on a border, on a ground of its own
            found += [f"{text!r} crosses a border" for box in boxes(root) if box.overlaps(area) and not box.contains(area)]
        found += [f"{text!r} and {other!r} overlap" for other, place, _ in written[:number] if place.overlaps(area)]
        found += [f"an arrow crosses {text!r}" for line in lines(root) if "f-flow" in svg and line.overlaps(area)]
    return found


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_no_label_leaves_the_picture_or_touches_a_border_a_line_or_another_label(path):
    assert problems(read_source(path)) == []


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_letters_are_large_enough_and_those_of_diagrams_on_a_phone_too(path):
    root = ElementTree.fromstring(read_source(path))
    sizes = [float(mark.get("font-size")) for mark in root.iter(f"{SVG}text")]
    shrunk = min(1.0, PHONE / float(root.get("width"))) if path in DIAGRAMS else 1.0
    assert min(sizes) * shrunk >= SMALLEST


def test_each_lesson_shows_its_diagram_in_its_first_part_and_says_in_words_what_it_shows():
    for lesson in sorted(EXERCISES.glob("ch*.md")):
        text, number = read_source(lesson), lesson.stem[2:4]
        shown = re.findall(r"^!\[([^\]]*)\]\(pictures/([\w.]+)\)$", text, re.MULTILINE)
        assert len(shown) == text.count("](pictures/"), lesson.name
        assert {file for _, file in shown} <= {path.name for path in PICTURES}, lesson.name
        if number != "00":
            alt = {file: words for words, file in shown}[f"ch{number}_diagram.svg"]
            assert len(alt) > 150 and alt.endswith("."), lesson.name
            assert text.index("## The idea") < text.index(f"(pictures/ch{number}_diagram.svg)") < text.index("## A worked example"), lesson.name
    everywhere = "".join(read_source(lesson) for lesson in EXERCISES.glob("ch*.md"))
    assert [path.name for path in PICTURES if f"(pictures/{path.name})" not in everywhere] == []


@pytest.mark.parametrize("path", DIAGRAMS, ids=lambda path: path.stem)
def test_each_shape_of_a_diagram_occurs_in_the_lesson_or_the_code(path):
    """In those of its own chapter, and of the chapters whose numbers are on its boxes."""
    written = texts(ElementTree.fromstring(read_source(path)))
    chapters = {path.stem[2:4], *(f"{int(number):02d}" for text, _, look in written if "f-card" in look and text != "n" for number in text.split(", "))}
    sources = [file for number in chapters for file in (*EXERCISES.glob(f"ch{number}_*.md"), *SOLUTIONS.glob(f"ch{number}_*.py"))]
    known = "".join(re.sub(r"!\[[^\]]*\]", "", read_source(source)) for source in sources)
    shapes = {shape for text, _, _ in written for shape in SHAPE.findall(text)}
    assert path.stem == "ch01_diagram" or shapes
    assert {shape for shape in shapes if shape not in known} == set()


def test_the_big_picture_has_a_chapter_on_every_box_and_a_shape_at_every_arrow():
    root = ElementTree.fromstring(read_source(EXERCISES / "pictures" / "ch00_transformer.svg"))
    parts = [mark for mark in root.iter(f"{SVG}rect") if mark.get("class") in ("f-learned s-learned-edge", "f-fixed s-fixed-edge")]
    parts = [mark for mark in parts if float(mark.get("width")) > 30]  # not those of the legend
    badges = [numbers(mark, "x", "y", "width", "height") for mark in root.iter(f"{SVG}rect") if mark.get("class") == "f-badge"]
    middles = {(x + wide / 2, y + tall / 2) for x, y, wide, tall in badges}
    assert len(parts) >= 11
    for x, y, wide, tall in (numbers(part, "x", "y", "width", "height") for part in parts):
        assert (x + wide, y + tall / 2) in middles
    tips = [tuple(map(float, mark.get("points").split()[0].split(","))) for mark in root.iter(f"{SVG}polygon") if mark.get("class") == "f-flow"]
    labels = [numbers(mark, "x", "y") for mark in root.iter(f"{SVG}text") if "mono" in mark.get("font-family", "")]
    assert len(tips) > 14
    for x, y in tips:
        assert [label for label in labels if label[0] == x + 9 and y < label[1] < y + 70], (x, y)


LABELLED_ARROW = """<svg xmlns="http://www.w3.org/2000/svg" width="400" height="200" class="f-flow">
<rect x="150" y="20" width="100" height="36" stroke="#000"/>
<polyline points="200,56 200,94"/>
<text x="209" y="80" font-size="14">(B, T)</text>
</svg>"""


def test_a_label_that_crosses_something_or_leaves_the_picture_is_found():
    assert problems(LABELLED_ARROW) == []
    assert problems(LABELLED_ARROW.replace('x="209"', 'x="199"')) == ["an arrow crosses '(B, T)'"]
    assert "'(B, T)' leaves the picture" in problems(LABELLED_ARROW.replace('x="209"', 'x="380"'))
    assert "'(B, T)' crosses a border" in problems(LABELLED_ARROW.replace('y="80"', 'y="60"'))
