"""Chapter 0: the refresher is right, and the overview agrees with the course."""

from __future__ import annotations

import re

import torch
from grader.chapters.ch16_published_model.published.opening import EXERCISES as EXERCISES_OF_PUBLISHED
from grader.course.source import definition, read_source
from grader.course.stubs import BEGIN, END
from grader.course.syllabus import EXERCISES, ROOT, SOLUTIONS, load_syllabus
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
    assert [int(row[3]) for row in table_of_chapters().rows[1:]] == hours
    for path in (OVERVIEW, ROOT / "README.md"):
        text = path.read_text(encoding="utf-8")
        assert int(re.search(r"about (\d+) hours", text)[1]) == sum(hours)


def test_the_minutes_are_estimated_by_the_rule_that_the_overview_states_and_add_up_to_the_hours():
    """A minute for 60 words (an edited lesson may differ by ten minutes), ten for each exercise, three for each line of its solution."""
    course = load_syllabus()
    for chapter in course.chapters:
        words = len(read_source(EXERCISES / f"{chapter.name}.md").split())
        assert abs(chapter.reading - words / 60) <= 10, chapter.name
        for exercise in chapter.exercises:
            assert exercise.minutes == 5 * round((10 + 3 * lines_to_write(exercise)) / 5), exercise.name
    minutes = sum(chapter.reading + sum(exercise.minutes for exercise in chapter.exercises) for chapter in course.chapters)
    assert abs(sum(chapter.hours for chapter in course.chapters) - minutes / 60) < 2


def lines_to_write(exercise):
    written = definition(read_source(SOLUTIONS / f"{exercise.module}.py"), exercise.name, exercise.module).text
    blocks = re.findall(rf"{BEGIN}\n(.*?)(?:{END}|\Z)", written, re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return sum(bool(line) and not line.startswith("#") for line in lines)


def test_every_exercise_has_a_difficulty_that_fits_its_minutes():
    exercises = load_syllabus().exercises
    assert {exercise.difficulty for exercise in exercises} == {"easy", "medium", "hard"}
    assert [one.name for one in exercises if one.difficulty == "easy" and one.minutes > 40] == []
    assert [one.name for one in exercises if one.difficulty == "hard" and one.minutes < 35] == []
    assert [one.name for one in exercises if one.difficulty != "hard" and one.minutes >= 90] == []


def test_the_chapters_that_a_chapter_needs_are_those_that_its_code_imports_or_its_lesson_names():
    """With all that they need, they contain every chapter that the reference imports; none of them follows from another one."""
    course = load_syllabus()
    needs = {int(row[0].partition(" ")[0]): {int(number) for number in re.findall(r"\d+", row[2])} for row in table_of_chapters().rows[1:]}

    def closure(numbers):
        return numbers.union(*(closure(needs[number]) for number in numbers))

    for chapter in course.chapters:
        imported = {int(number) for number in re.findall(r"^from \.ch(\d+)_\w+ import", read_source(SOLUTIONS / f"{chapter.name}.py"), re.MULTILINE)}
        listed, named = needs[chapter.number], chapters_named(chapter)
        assert imported <= closure(listed), chapter.name
        assert listed <= {number for number in imported | named if number < chapter.number}, chapter.name
        assert [number for number in listed if number in closure(listed - {number})] == [], chapter.name
    tuned = {course.exercise(name).chapter for name in EXERCISES_OF_PUBLISHED}
    assert tuned == {"ch16"} and "`headway tune` of chapter 17 trains the model of chapter 16" in " ".join(read_source(OVERVIEW).split())


def chapters_named(chapter):
    """The chapters that a lesson names, by their number or by an exercise."""
    lesson, course = read_source(EXERCISES / f"{chapter.name}.md"), load_syllabus()
    homes = {exercise.name: course.chapter(exercise.chapter).number for exercise in course.exercises}
    return {int(number) for number in re.findall(r"[Cc]hapter (\d+)", lesson)} | {homes[word] for word in re.findall(r"`(\w+)`", lesson) if word in homes}


def test_the_text_of_the_overview_goes_on_to_the_last_chapter():
    text = read_source(OVERVIEW)
    section = text[text.index("More chapters go beyond this model") : text.index("\n## What came before")]
    assert [int(number) for number in re.findall(r"\(chapter (\d+)\)", section)] == [chapter.number for chapter in load_syllabus().chapters if chapter.number >= 10]
