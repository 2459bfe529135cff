"""Common mistakes, written from the stub as learners write them and not as edits of the reference, are named all the same."""

from pathlib import Path

import pytest
from grader.course.source import replace_definition
from grader.course.syllabus import load_syllabus
from grader.execution.target import reference_of
from grader.quality.devcheck.pool import run_jobs
from grader.quality.devcheck.subjects import Subject
from grader.quality.devcheck.trying import TryJob

# Each text begins with a line `# EXERCISE: the mistakes that may be named`; alternatives are separated by "or".
# "nothing" is right where only part of what happens is known: a false name is worse than none.
TEXTS = (Path(__file__).parent / "freely_written.txt").read_text(encoding="utf-8").split("\n# ---\n")


def _read(text):
    head, _, code = text.strip().partition("\n")
    exercise, _, named = head.removeprefix("# ").partition(": ")
    return load_syllabus().exercise(exercise), [set(one.split(" and ")) - {"nothing"} for one in named.split(" or ")], code.strip() + "\n"


@pytest.fixture(scope="module")
def named():
    """What is named in each text, by its place."""
    jobs = {}
    for place, text in enumerate(TEXTS):
        exercise, _, code = _read(text)
        whole = replace_definition(reference_of(exercise.module).text, exercise.name, code)
        jobs.setdefault(exercise.name, []).append(Subject("free", str(place), whole))
    found = {}
    for _, results in run_jobs([TryJob(name, False, 0, tuple(subjects)) for name, subjects in jobs.items()], 2):
        found |= {int(one["name"]): set(one["names"]) for one in results}
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("place", range(len(TEXTS)), ids=[f"{place}-{text.strip().partition(':')[0].removeprefix('# ')}" for place, text in enumerate(TEXTS)])
def test_a_common_mistake_is_named_in_code_of_another_style(named, place):
    _, expected, _ = _read(TEXTS[place])
    assert named[place] in expected
