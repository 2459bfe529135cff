"""Pictures are well-formed, the same in every run, and match the reference."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
import torch
from grader.course.source import read_source
from grader.teaching.drawing.charts import heatmap
from grader.teaching.drawing.palette import (
    BLUES,
    BOTH_SIGNS,
    CARD,
    CURVES,
    EMPTY,
    FAINT,
    INK,
    contrast,
    shade,
    text_on,
    theme_rules,
    without_style,
)  # fmt: skip
from grader.teaching.pictures import PICTURES, lesson_pictures, stale_lesson_pictures, write_lesson_pictures
from hypothesis import given, settings
from hypothesis import strategies as st

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    return lesson_pictures()


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


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 30), columns=st.integers(1, 30), label=st.text(max_size=8), scale=st.sampled_from([0.0, 1e-9, 1.0, 1e9]))
def test_any_table_is_well_formed_and_inside_its_frame(rows, columns, label, scale):
    values = torch.randn(rows, columns, generator=torch.Generator().manual_seed(rows)) * scale
    values[0, 0] = torch.nan
    svg = heatmap(values, [label] * rows, [str(i) for i in range(columns)], label)
    root = ElementTree.fromstring(svg)
    width, height = (float(root.get(side)) for side in ("width", "height"))
    for box in root.iter(f"{SVG}rect"):
        assert 0 <= float(box.get("x")) and float(box.get("x")) + float(box.get("width")) <= width
        assert 0 <= float(box.get("y")) and float(box.get("y")) + float(box.get("height")) <= height


def test_rounding_errors_do_not_change_the_picture():
    values = torch.tensor([[0.1234, 0.5], [-0.7, 0.2]])
    assert heatmap(values, ["a", "b"], ["c", "d"], "") == heatmap(values + 1e-7, ["a", "b"], ["c", "d"], "")


def test_labels_must_fit_the_table():
    with pytest.raises(ValueError, match="2 rows needs as many row labels"):
        heatmap(torch.ones(2, 3), ["a"], ["a", "b", "c"], "")


def test_colours():
    for value, low, high, code in ((0.0, 0.0, 1.0, "#ffffff"), (1.0, 0.0, 1.0, "#08306b"), (0.0, -1.0, 2.0, "#ffffff"), (0.0, 0.0, 0.0, "#ffffff")):
        assert shade(value, low, high).light == code
    assert shade(0.0, 0.0, 1.0).dark == shade(0.0, -1.0, 2.0).dark == CARD.dark
    assert "f-empty" in heatmap([[float("nan"), 1.0]], ["a"], ["b", "c"], "")


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


def test_lesson_pictures_are_drawn_alike_every_time(drawn):
    assert lesson_pictures() == drawn


def test_the_numbers_of_the_attention_lesson(drawn):
    found = texts(drawn["ch03_attention.svg"])
    for number in ("0.804", "0.196", "0.576", "0.284", "0.140", "0.786", "0.011", "0.191", "1.000"):
        assert number in found


def test_pictures_are_written_once_and_found_stale_when_changed(tmp_path, drawn):
    names = list(drawn)
    assert stale_lesson_pictures(tmp_path) == names == write_lesson_pictures(tmp_path)
    assert stale_lesson_pictures(tmp_path) == write_lesson_pictures(tmp_path) == []
    (tmp_path / names[0]).write_bytes((tmp_path / names[0]).read_bytes().replace(b"\n", b"\r\n"))
    assert stale_lesson_pictures(tmp_path) == []
    (tmp_path / names[0]).write_text("<svg/>", encoding="utf-8")
    assert stale_lesson_pictures(tmp_path) == [names[0]]


def test_the_stored_pictures_match_the_reference():
    assert stale_lesson_pictures() == []
