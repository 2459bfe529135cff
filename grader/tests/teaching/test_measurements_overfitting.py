"""Lesson 8 states what its measurement finds."""

from __future__ import annotations

import pytest
from grader.course.syllabus import EXERCISES
from grader.teaching.measurements.overfitting import SHOWN, main, measure, rows

pytestmark = pytest.mark.thorough

LESSON = " ".join((EXERCISES / "ch08_training.md").read_text(encoding="utf-8").split())


@pytest.fixture(scope="module")
def found():
    return measure()


def test_the_lessons_table_is_what_is_measured(found):
    assert f"| epoch | {' | '.join(map(str, SHOWN))} |" in LESSON
    for name, *cells in rows(found):
        said = LESSON.partition(f"| {name} | ")[2].split(" | ")[: len(cells)]
        assert [float(word.strip(" |")) for word in said] == pytest.approx([float(cell) for cell in cells], rel=0.05), name


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
    main([])
    out = capsys.readouterr().out
    assert "training" in out and "validation" in out and "the lowest" in out
