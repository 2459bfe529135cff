"""Pictures are well-formed, the same in every run, and match the reference."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
import torch
from grader.teaching.drawing.diagrams import colour, heatmap, token_rows
from grader.teaching.pictures import lesson_pictures, stale_lesson_pictures, write_lesson_pictures
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
    assert colour(0.0, 0.0, 1.0) == "#ffffff"
    assert colour(1.0, 0.0, 1.0) == "#08306b"
    assert colour(0.0, -1.0, 2.0) == "#ffffff"
    assert colour(float("nan"), 0.0, 1.0) == "none"
    assert colour(0.0, 0.0, 0.0) == "#ffffff"


def test_merged_tokens_are_one_coloured_box():
    svg = token_rows([("bytes", ["a", "b", " "]), ("merge", ["ab", " "])], "ab")
    boxes = [box for box in ElementTree.fromstring(svg).iter(f"{SVG}rect") if box.get("rx") == "3"]
    assert [box.get("fill") for box in boxes] == ["#ffffff"] * 3 + ["#9ecae1", "#ffffff"]
    assert texts(svg).count("\u2423") == 2


def test_lesson_pictures_are_drawn_alike_every_time():
    assert lesson_pictures() == lesson_pictures()
    for svg in lesson_pictures().values():
        ElementTree.fromstring(svg)


def test_the_numbers_of_the_attention_lesson():
    found = texts(lesson_pictures()["ch03_attention.svg"])
    for number in ("0.804", "0.196", "0.576", "0.284", "0.140", "0.786", "0.011", "0.191", "1.000"):
        assert number in found


def test_pictures_are_written_once_and_found_stale_when_changed(tmp_path):
    names = list(lesson_pictures())
    assert stale_lesson_pictures(tmp_path) == names == write_lesson_pictures(tmp_path)
    assert stale_lesson_pictures(tmp_path) == write_lesson_pictures(tmp_path) == []
    (tmp_path / names[0]).write_bytes((tmp_path / names[0]).read_bytes().replace(b"\n", b"\r\n"))
    assert stale_lesson_pictures(tmp_path) == []
    (tmp_path / names[0]).write_text("<svg/>", encoding="utf-8")
    assert stale_lesson_pictures(tmp_path) == [names[0]]


def test_the_stored_pictures_match_the_reference():
    assert stale_lesson_pictures() == []
