"""Lesson 6 states what its measurement finds."""

from __future__ import annotations

import re

import pytest
from grader.course.syllabus import EXERCISES
from grader.teaching.measurements.depth import WAYS, main, measure, rows

pytestmark = pytest.mark.thorough

LESSON = (EXERCISES / "ch06_blocks.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def found():
    return measure()


def printed(name: str) -> list[str]:
    """The entries of the lesson's row of this name."""
    line = next(line for line in LESSON.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.strip("|").split("|")[1:]]


def numbers(cell: str) -> list[float]:
    """Least and greatest; one number is both."""
    values = [float(word) for word in cell.split(" to ")]
    return [values[0], values[-1]]


def test_the_lessons_table_is_what_is_measured(found):
    assert [word.strip() for word in re.search(r"\| \| (pre-norm.*) \|", LESSON)[1].split("|")] == list(WAYS)
    for name, *cells in rows(found):
        for said, now in zip(printed(name), cells, strict=True):
            assert numbers(said) == pytest.approx(numbers(now), rel=0.06, abs=1e-2 if "e-" not in said else 0.0), name


def test_what_the_lesson_concludes(found):
    pre, post, bare, neither = (found[way] for way in WAYS)
    assert all(abs(way.as_sent[11] - 1) < 0.1 for way in pre)
    assert all(abs(way.as_sent[0]) < 0.15 for ways in (post, bare, neither) for way in ways)
    assert all(0.1 < size < 10 for ways in (pre, post, bare) for way in ways for size in (way.sizes[0], way.sizes[11]))
    assert all(way.sizes[0] < 1e-6 for way in neither)
    assert all(way.alike > 0.995 for ways in (post, bare, neither) for way in ways) and all(way.alike < 0.9 for way in pre)


def test_the_table_is_printed(capsys):
    main()
    out = capsys.readouterr().out
    for word in (*WAYS, "norm, 24", "as sent, 1", "neighbours"):
        assert word in out
