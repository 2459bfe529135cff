"""Pictures of what exercises compute, in the book: the numbers that are drawn are those of the reference."""

import re
from xml.etree import ElementTree

import pytest
from grader.course.syllabus import load_syllabus
from grader.teaching.book.exercise_pictures import draw_exercises, panel_to_svg
from grader.teaching.show.catalog import exercises_with_pictures
from grader.teaching.show.panels import Bars, Chart, Grid

COURSE = load_syllabus()
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg):
    return [mark.text for mark in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.fixture(scope="module")
def made():
    return draw_exercises(COURSE.exercises)


def test_every_exercise_that_has_a_picture_has_it_and_no_other(made):
    assert list(made) == [exercise.name for exercise in exercises_with_pictures(COURSE)]
    for name, one in made.items():
        assert one.files and len(one.files) == len(one.titles)
        for file, title in zip(one.files, one.titles):
            assert file.startswith(name) and title in texts(one.files[file])[0]
            assert not re.search(r"https?:|href|<script|<image", one.files[file].replace("http://www.w3.org/2000/svg", ""))


def test_the_numbers_are_the_references(made):
    mask = made["causal_mask"].files["causal_mask-1.svg"]
    cells = [text for text in texts(mask) if text in ("0", "1")]
    assert cells == ["1" if key <= query else "0" for query in range(7) for key in range(7)]
    for svg in made["scaled_dot_product_attention"].files.values():
        weights = [float(text) for text in texts(svg) if re.fullmatch(r"[01]\.\d{3}", text)]
        assert [sum(weights[row * 7 : row * 7 + 7]) for row in range(7)] == [pytest.approx(1, abs=0.004)] * 7
    cut = [float(text) for text in texts(made["top_k_filter"].files["top_k_filter-2.svg"]) if re.fullmatch(r"0|0\.\d+", text)]
    assert sum(value > 0 for value in cut) == 3 and sum(cut) == pytest.approx(1, abs=0.002)


def test_each_kind_of_panel_is_drawn_with_its_labels():
    grid = panel_to_svg(Grid("t", [[0.5, float("nan")]], ["row"], ["a", "b"], "rows", "columns", ("no", "yes")))
    assert texts(grid) == ["t (0: no, 1: yes)", "0.500", "row", "a", "b", "rows", "columns"]
    chart = panel_to_svg(Chart("t", {"one": [(0, 0), (1, 2), (2, float("inf"))]}, "x name", "y name"))
    assert {"t", "one", "x name", "y name"} <= set(texts(chart))
    assert ElementTree.fromstring(chart).find(f"{SVG}polyline").get("points").count(",") == 2
    bars = panel_to_svg(Bars("t", ["a", "b", "c"], [0.25, 0.5, float("nan")], "share"), far=1.0)
    assert texts(bars) == ["t", "a", "0.25", "b", "0.5", "c", "none", "share"]
    wide = [float(bar.get("width")) for bar in ElementTree.fromstring(bars).iter(f"{SVG}rect")][1:]
    assert wide[0] * 2 == wide[1] and wide[2] == 0
