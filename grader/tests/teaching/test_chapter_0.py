"""Chapter 0: the refresher is right, and the overview agrees with the course."""

from __future__ import annotations

import re

import torch
from grader.course.syllabus import EXERCISES, ROOT, load_syllabus
from lesson_tables import LessonTable, tables_of

REFRESHER = EXERCISES / "ch00_refresher.md"
OVERVIEW = EXERCISES / "ch00_big_picture.md"


def table_of_chapters() -> LessonTable:
    [table] = [table for table in tables_of(OVERVIEW) if table.rows[0][0] == "chapter"]
    return table


def test_a_broadcasting_table_says_what_torch_does():
    [table] = [table for table in tables_of(REFRESHER) if table.rows[0][0] == "left"]
    for left, right, result in table.rows[1:]:
        shapes = [tuple(map(int, re.findall(r"\d+", side))) for side in (left, right)]
        if result.startswith("an error"):
            try:
                torch.broadcast_shapes(*shapes)
            except RuntimeError:
                continue
            raise AssertionError(f"{left} and {right} fit")
        assert str(tuple(torch.broadcast_shapes(*shapes))) == re.match(r"\([\d, ]+\)", result)[0]


def test_the_overview_has_every_chapter_with_its_title_and_file():
    chapters = [chapter for chapter in load_syllabus().chapters if chapter.exercises]
    links = [f"{chapter.number} [{chapter.title}]({chapter.name}.md)" for chapter in chapters]
    assert [row[0] for row in table_of_chapters().rows[1:]] == links


def test_the_hours_are_those_of_the_syllabus_and_their_sum():
    hours = [chapter.hours for chapter in load_syllabus().chapters if chapter.exercises]
    assert [float(row[2]) for row in table_of_chapters().rows[1:]] == hours
    for path in (OVERVIEW, ROOT / "README.md"):
        text = path.read_text(encoding="utf-8")
        assert int(re.search(r"about (\d+) hours", text)[1]) == sum(hours)
