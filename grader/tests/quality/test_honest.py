"""Three honest courses, each in its own style, are graded as a class: each gets every point.

Twenty seeds, in process and in workers, with the courses' own earlier chapters, are for `make proof ONLY=fair`.
"""

import subprocess

import pytest
from grade_command import command, marks
from grader.course.source import definition, read_source, replace_definition
from grader.course.syllabus import SOLUTIONS, load_syllabus
from grader.tests.quality.proof.fair import styles, with_missing_exercises
from pytest_runs import environment

STYLES = ["loops", "terse", "typed"]
GRADING_SECONDS = 1200.0  # takes a minute on an idle machine


def test_there_are_three_courses_with_every_chapter():
    chapters = [chapter.name for chapter in load_syllabus().chapters]
    assert {style: list(sources) for style, sources in styles().items()} == dict.fromkeys(STYLES, chapters)


def test_an_exercise_that_a_course_lacks_is_the_references():
    """Here sample_next_token and generate, with the helper and the imports that they use."""
    text = read_source(SOLUTIONS / "ch09_sampling.py")
    lacking = text
    for name in ("generate", "sample_next_token", "looking_at"):
        lacking = replace_definition(lacking, name, "")
    lacking = lacking.replace("import math\n", "import math as m\n").replace("math.inf", "m.inf")
    completed = with_missing_exercises("ch09_sampling", lacking)
    for name in ("sample_next_token", "generate", "looking_at", "top_k_filter"):
        expected = lacking if name == "top_k_filter" else text
        assert definition(completed, name).text.rstrip() == definition(expected, name).text.rstrip(), name
    assert completed.count("def top_k_filter") == completed.count("def generate") == 1
    assert with_missing_exercises("ch09_sampling", text) == text


def test_imports_of_the_references_exercise_are_added_if_the_course_lacks_them():
    text = read_source(SOLUTIONS / "ch09_sampling.py")
    lacking = replace_definition(text, "top_k_filter", "").replace("import math\n", "from math import inf\n")
    lacking = lacking.replace("math.inf", "inf")
    completed = with_missing_exercises("ch09_sampling", lacking)
    added = completed.removeprefix(lacking.rstrip("\n")).split("\n\n\n")
    assert [part.partition("(")[0].strip() for part in added] == ["", "import math", "def top_k_filter"]


def test_what_a_stub_gives_is_the_references_if_the_course_uses_and_lacks_it():
    """Here the parser of patterns, with its own helpers and constants."""
    text = read_source(SOLUTIONS / "ch25_structured_output.py")
    lacking = "import json\n\n\n" + "\n\n".join(
        definition(text, name).text for name in ("build_automaton", "parse_call", "run_tools")
    )
    completed = with_missing_exercises("ch25_structured_output", lacking)
    for name in ("parse_pattern", "_PatternReader", "byte_sequences", "number_states", "token_table"):
        assert definition(completed, name).text.rstrip() == definition(text, name).text.rstrip(), name
    compile(completed, "completed", "exec")


@pytest.mark.thorough
@pytest.mark.alone
def test_honest_courses_get_full_marks(tmp_path):
    for style, chapters in styles().items():
        for module, text in chapters.items():
            path = tmp_path / "courses" / style / f"{module}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    arguments = command("grade", tmp_path / "courses", "--out", tmp_path / "grades", "--jobs", 2)
    more = {"env": environment(), "stdin": subprocess.DEVNULL, "timeout": GRADING_SECONDS}
    done = subprocess.run(arguments, capture_output=True, text=True, encoding="utf-8", **more)
    assert done.returncode == 0, done.stdout + done.stderr
    found = marks(tmp_path / "grades")
    assert sorted(found) == STYLES
    course = load_syllabus().exercises
    for style, row in found.items():
        short = [exercise.name for exercise in course if row[exercise.name] != f"{exercise.points:g}"]
        assert not short, f"{style}: {short}\n{done.stdout}"
    total = sum(chapter.points for chapter in load_syllabus().chapters)
    assert {row["total"] for row in found.values()} == {f"{total:g}"}
