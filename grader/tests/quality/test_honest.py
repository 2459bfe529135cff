"""Five honest courses, each in a style of its own, are graded as a class: each has every point.

Twenty seeds, runs in process and in workers, and the courses' own earlier chapters are for `make proof ONLY=fair`, which takes an hour.
"""

import subprocess

import pytest
from grade_command import command, marks
from grader.course.syllabus import load_syllabus
from grader.quality.proof.fair import HONEST, styles
from pytest_runs import environment

STYLES = ["einsum", "functional", "loops", "terse", "typed"]
PATIENCE = 1200.0  # a minute where nothing else goes on


def test_there_are_five_whole_courses():
    chapters = [chapter.name for chapter in load_syllabus().chapters]
    assert {style: list(sources) for style, sources in styles().items()} == dict.fromkeys(STYLES, chapters)


@pytest.mark.thorough
@pytest.mark.alone
def test_honest_courses_get_full_marks(tmp_path):
    asked = command("grade", HONEST, "--out", tmp_path / "grades", "--jobs", 2)
    done = subprocess.run(asked, env=environment(), capture_output=True, text=True, encoding="utf-8", stdin=subprocess.DEVNULL, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    found = marks(tmp_path / "grades")
    assert sorted(found) == STYLES
    course = load_syllabus().exercises
    short = {f"{style}: {exercise.name}": row[exercise.name] for style, row in found.items() for exercise in course if row[exercise.name] != f"{exercise.points:g}"}
    assert not short, done.stdout
    assert {row["total"] for row in found.values()} == {f"{sum(chapter.points for chapter in load_syllabus().chapters):g}"}
