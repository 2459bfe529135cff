"""Lesson 6 concludes what its measurement finds; test_lessons_measured.py compares the table."""

from __future__ import annotations

import pytest
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, resolve
from grader.teaching.measurements.depth import WAYS, main, measure

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def found():
    package = ChapterPackage(package_sources(resolve("solutions"), load_syllabus().chapter("ch06"), whole=True), "tested")
    yield measure(package.module("ch06_blocks"))
    package.close()


def test_what_the_lesson_concludes(found):
    pre, post, bare, neither = (found[way] for way in WAYS)
    assert all(abs(way.as_sent[11] - 1) < 0.1 for way in pre)
    assert all(abs(way.as_sent[0]) < 0.15 for ways in (post, bare, neither) for way in ways)
    assert all(0.1 < size < 10 for ways in (pre, post, bare) for way in ways for size in (way.sizes[0], way.sizes[11]))
    assert all(way.sizes[0] < 1e-6 for way in neither)
    assert all(way.alike > 0.995 for ways in (post, bare, neither) for way in ways) and all(way.alike < 0.9 for way in pre)


def test_the_table_is_printed(capsys):
    assert main([]) == 0
    out = capsys.readouterr().out
    for word in (*WAYS, "norm, 24", "as sent, 1", "neighbours"):
        assert word in out
