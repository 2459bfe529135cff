"""Lesson 8 states what its measurement finds; test_lessons_measured.py compares the table and the other numbers."""

from __future__ import annotations

import pytest
from grader.course.syllabus import EXERCISES, load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from grader.teaching.measurements.overfitting import main, measure

pytestmark = pytest.mark.thorough

LESSON = " ".join((EXERCISES / "ch08_training.md").read_text(encoding="utf-8").split())


@pytest.fixture(scope="module")
def found():
    package = ChapterPackage(package_sources(resolve("solutions"), load_syllabus().chapter("ch08"), whole=True), "tested")
    yield measure(*(package.module(name) for name in ("ch01_tokenizer", "ch07_models", "ch08_training")))
    package.close()


def test_what_the_lesson_says_about_it(found):
    assert "These are six of the twenty" in LESSON and found.held_out == 6
    best = min(found.validation)
    assert best == pytest.approx(found.validation[19], rel=0.05) and "lowest at epoch 20" in LESSON
    assert (found.judged[19], found.judged[39]) == ("learning", "overfitting")
    assert "eight words of the other six do not occur" in LESSON and found.unknown_words == 8
    assert found.memorised[0] == pytest.approx(4.17, rel=0.03) and found.memorised[-1] == pytest.approx(0.23, rel=0.1)
    assert f"{found.least:.3f}" in LESSON and found.least < found.memorised[-1]
    assert "`mat`" in LESSON and found.next_word == "mat"


def test_the_table_is_printed(capsys):
    assert main([]) == 0
    out = capsys.readouterr().out
    assert "training" in out and "validation" in out and "lowest possible" in out
