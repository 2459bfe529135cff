"""Pictures of what exercises compute, in the book: the numbers that are drawn are those of the reference."""

import re
from xml.etree import ElementTree

import pytest
from grader.course.syllabus import load_syllabus
from grader.teaching.book.pictures import draw_exercises
from grader.teaching.show.catalog import exercises_with_pictures

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
            svg = one.files[file].replace("http://www.w3.org/2000/svg", "")
            assert not re.search(r"https?:|href|<script|<image", svg)


def test_the_numbers_are_the_references(made):
    mask = made["causal_mask"].files["causal_mask-1.svg"]
    cells = [text for text in texts(mask) if text in ("0", "1")]
    assert cells == ["1" if key <= query else "0" for query in range(7) for key in range(7)]
    for svg in made["scaled_dot_product_attention"].files.values():
        weights = [float(text) for text in texts(svg) if re.fullmatch(r"[01]\.\d{3}", text)]
        assert [sum(weights[row * 7 : row * 7 + 7]) for row in range(7)] == [pytest.approx(1, abs=0.004)] * 7
    filtered = texts(made["top_k_filter"].files["top_k_filter-2.svg"])
    cut = [float(text) for text in filtered if re.fullmatch(r"0|0\.\d+", text)]
    assert sum(value > 0 for value in cut) == 3 and sum(cut) == pytest.approx(1, abs=0.002)
