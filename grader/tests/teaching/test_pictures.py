"""The lessons' pictures: well-formed, those that the reference draws, readable in their colours and sizes; and diagrams tell the truth about shapes."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
import torch
from grader.course.source import read_source
from grader.course.syllabus import EXERCISES, SOLUTIONS
from grader.teaching.drawing import (
    BLUES,
    BOTH_SIGNS,
    CARD,
    CURVES,
    EMPTY,
    FAINT,
    INK,
    contrast,
    heatmap,
    text_on,
    text_width,
    theme_rules,
    without_style,
)  # fmt: skip
from grader.teaching.pictures import PICTURES, stale_lesson_pictures, write_lesson_pictures
from hypothesis import given, settings
from hypothesis import strategies as st

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_a_heatmap_shows_every_label_and_number():
    svg = heatmap([[0.25, 0.75], [1.0, 0.0]], ["fish", "crane"], ["a", "b"], "Weights", row_name="query", column_name="key")
    found = texts(svg)
    for word in ("Weights", "fish", "crane", "a", "b", "query", "key", "0.250", "0.750", "1.000", "0.000"):
        assert word in found


def test_text_is_escaped():
    svg = heatmap([[1.0]], ["<b>&\x1b"], ['"]]>'], "<script>alert(1)</script>")
    assert "<script>" not in svg
    assert "<script>alert(1)</script>" in texts(svg)
    assert "<b>&\ufffd" in texts(svg)


@settings(max_examples=8, deadline=None)
@given(rows=st.integers(1, 14), columns=st.integers(1, 14), label=st.text(max_size=8), scale=st.sampled_from([0.0, 1e-9, 1.0, 1e9]))
def test_any_table_is_well_formed_and_inside_its_frame(rows, columns, label, scale):
    values = torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows)) * scale
    values[0, 0] = torch.nan
    svg = heatmap(values, [label] * rows, [str(i) for i in range(columns)], label)
    root = ElementTree.fromstring(svg)
    width, height = (float(root.get(side)) for side in ("width", "height"))
    for box in root.iter(f"{SVG}rect"):
        assert 0 <= float(box.get("x")) and float(box.get("x")) + float(box.get("width")) <= width
        assert 0 <= float(box.get("y")) and float(box.get("y")) + float(box.get("height")) <= height


def test_colours_are_readable_on_both_pages():
    for cell in (*BLUES, *BOTH_SIGNS):
        text = text_on(cell)
        assert min(contrast(text.light, cell.light), contrast(text.dark, cell.dark)) >= 4.5, cell
    for ground in (CARD, EMPTY):
        for text in (INK, FAINT):
            assert min(contrast(text.light, ground.light), contrast(text.dark, ground.dark)) >= 4.5, text
    assert min(contrast(curve.dark, CARD.dark) for curve in CURVES) >= 4.5


def coloured(svg: str) -> dict[str, set[str]]:
    """The colours that the attributes of a picture use: those with a class, and those without one, which would stay light."""
    found: dict[str, set[str]] = {"with": set(), "without": set()}
    for element in ElementTree.fromstring(svg).iter():
        for kind, attribute in (("f", "fill"), ("s", "stroke")):
            if (code := element.get(attribute)) not in (None, "none"):
                own = [name for name in (element.get("class") or "").split() if name.startswith(f"{kind}-")]
                found["with" if own else "without"].add(f"{own[0]}: {code}" if own else str(code))
    return found


@pytest.mark.parametrize("path", sorted(PICTURES.glob("*.svg")), ids=lambda path: path.stem)
def test_every_lesson_picture_follows_the_readers_colours(path):
    svg = read_source(path)
    colours = coloured(svg)
    assert not colours["without"]
    style = next(ElementTree.fromstring(svg).iter(f"{SVG}style")).text or ""
    assert style.startswith("@media (prefers-color-scheme:dark){") and style.count(":#") == len(colours["with"])
    rule = re.compile(r"\.drawing \.([\w-]+) \{ (fill|stroke): light-dark\((#\w{6}), (#\w{6})\); \}")
    rules = [rule.fullmatch(line) for line in theme_rules([svg]).splitlines()]
    assert {f"{rule[1]}: {rule[3]}" for rule in rules} == colours["with"]
    assert all(f".{rule[1]}{{{rule[2]}:{rule[4]}}}" in style for rule in rules)
    inline = ElementTree.fromstring(without_style(svg))
    assert inline.get("class") == "drawing" and not list(inline.iter(f"{SVG}style")) and "style=" not in svg


def test_pictures_are_written_once_and_found_stale_when_changed(tmp_path):
    names = write_lesson_pictures(tmp_path)
    assert {name: (tmp_path / name).read_bytes() for name in names} == {name: (PICTURES / name).read_bytes() for name in names}
    (tmp_path / names[0]).write_bytes((tmp_path / names[0]).read_bytes().replace(b"\n", b"\r\n"))
    (tmp_path / names[1]).write_text("<svg/>", encoding="utf-8")
    assert stale_lesson_pictures(tmp_path) == [names[1]]


# ---- readable labels


STORED = sorted(PICTURES.glob("ch*.svg"))
DIAGRAMS = [path for path in STORED if path.stem.endswith("_diagram") or path.stem == "ch00_transformer"]
PHONE, SMALLEST = 360, 12  # px
SIZE = r"(?:T[qk]|[A-Z]|d_\w+|n_\w+|block|[dkn]|\d+)"
SHAPE = re.compile(rf"\((?:(?:\.\.\.|{SIZE}(?: [*+] {SIZE})*)(?:, |,(?=\))|(?=\))))*\)")


Area = tuple[float, float, float, float]  # left, top, right, bottom


def overlap(one: Area, other: Area) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def contains(outer: Area, inner: Area) -> bool:
    return outer[0] <= inner[0] and inner[2] <= outer[2] and outer[1] <= inner[1] and inner[3] <= outer[3]


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
        return x - 0.7 * size, y - wide + before, x, y + before
    return x - before, y - 0.7 * size, x - before + wide, y


def written_areas(root: ElementTree.Element) -> list[tuple[str, Area, str]]:
    return [(mark.text or "", text_area(mark), mark.get("class", "")) for mark in root.iter(f"{SVG}text")]


def problems(svg: str) -> list[str]:
    """What a reader could not read in a picture."""
    root = ElementTree.fromstring(svg)
    written, found = written_areas(root), []
    bordered = [numbers(mark, "x", "y", "width", "height") for mark in root.iter(f"{SVG}rect") if mark.get("stroke")]
    boxes = [(x, y, x + wide, y + tall) for x, y, wide, tall in bordered]  # boxes, cells and frames
    arrows: list[Area] = []  # their straight pieces
    for mark in root.iter(f"{SVG}polyline"):
        points = [tuple(map(float, point.split(","))) for point in mark.get("points", "").split()]
        arrows += [(min(a, c) - 0.5, min(b, d) - 0.5, max(a, c) + 0.5, max(b, d) + 0.5) for (a, b), (c, d) in zip(points, points[1:])]
    for number, (text, area, look) in enumerate(written):
        if not contains((0, 0, *numbers(root, "width", "height")), area):
            found.append(f"{text!r} leaves the picture")
        if "f-card" not in look:  # the number of a chapter lies on a border, on a ground of its own
            found += [f"{text!r} crosses a border" for box in boxes if overlap(box, area) and not contains(box, area)]
        found += [f"{text!r} and {other!r} overlap" for other, place, _ in written[:number] if overlap(place, area)]
        found += [f"an arrow crosses {text!r}" for line in arrows if "f-flow" in svg and overlap(line, area)]
    return found


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_every_label_is_large_enough_and_touches_nothing(path):
    svg = read_source(path)
    root = ElementTree.fromstring(svg)
    shrunk = min(1.0, PHONE / float(root.get("width"))) if path in DIAGRAMS else 1.0  # diagrams are read on a phone, too
    assert min(float(mark.get("font-size")) for mark in root.iter(f"{SVG}text")) * shrunk >= SMALLEST
    assert problems(svg) == []


def test_a_picture_in_the_first_part_of_a_lesson_is_described_whole():
    for lesson in sorted(EXERCISES.glob("ch*.md")):
        text, number = read_source(lesson), lesson.stem[2:4]
        shown = re.findall(r"^!\[([^\]]*)\]\(pictures/([\w.]+)\)$", text, re.MULTILINE)
        assert len(shown) == text.count("](pictures/"), lesson.name
        assert {file for _, file in shown} <= {path.name for path in STORED}, lesson.name
        if number != "00":
            idea = text[text.index("## The idea") : text.index("## A worked example")]
            described = [words for words, file in shown if f"(pictures/{file})" in idea]
            assert all(len(words) > 150 and words.endswith(".") for words in described), lesson.name
    everywhere = "".join(read_source(lesson) for lesson in EXERCISES.glob("ch*.md"))
    assert [path.name for path in STORED if f"(pictures/{path.name})" not in everywhere] == []


@pytest.mark.parametrize("path", DIAGRAMS, ids=lambda path: path.stem)
def test_each_shape_of_a_diagram_occurs_in_the_lesson_or_the_code(path):
    """In those of its own chapter, and of the chapters whose numbers are on its boxes."""
    written = written_areas(ElementTree.fromstring(read_source(path)))
    chapters = {path.stem[2:4], *(f"{int(number):02d}" for text, _, look in written if "f-card" in look and text != "n" for number in text.split(", "))}
    sources = [file for number in chapters for file in (*EXERCISES.glob(f"ch{number}_*.md"), *SOLUTIONS.glob(f"ch{number}_*.py"))]
    known = "".join(re.sub(r"!\[[^\]]*\]", "", read_source(source)) for source in sources)
    shapes = {shape for text, _, _ in written for shape in SHAPE.findall(text)}
    assert shapes
    assert {shape for shape in shapes if shape not in known} == set()
