"""Files that people write, and our own files after damage: the syllabus, an instructor's rules, the record. The result is a sentence or nothing, never a traceback.

`test_fuzz.py` says how to try many more.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import tomllib
from datetime import timedelta

import pytest
from example_class import IN_TIME
from fuzzing import as_toml, fuzzed, mutated, toml_values, values
from grader.classroom.intake.submissions import GradingProblem, Submission
from grader.classroom.judging.marks import compute_marks, compute_total
from grader.classroom.term.course import read_course_file
from grader.course.progress import FILE, load_hint_levels, load_scores, record_scores
from grader.course.source import SourceProblem
from grader.course.status import read_course
from grader.course.syllabus import EXERCISES, UnknownName, load_syllabus
from hypothesis import given
from hypothesis import strategies as st

LATE = IN_TIME + timedelta(days=300)
DEEP = b"x = " + b"[" * 5000 + b"]" * 5000
LONG = b"x = " + b"1" * 5000


def toml(table: dict) -> bytes:
    return as_toml(table).encode("utf-8", "surrogatepass")


def one_line(problem: Exception) -> bool:
    return len(str(problem).splitlines()) == 1 and len(str(problem)) < 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("texts")


# ---- an instructor's rules

RULES = """
[points]
softmax = 20
ch05 = 50
[late]
grace = "15m"
per_day = 10
most = 50
last = 7
[assignments.week3]
chapters = ["ch03", "ch05"]
due = 2026-12-01T23:59:00+01:00
[extensions.week3]
"Alpha One" = 2026-12-03T23:59:00+01:00
"""
KEYS = {"points": ["softmax", "ch03", "ch05", "gelu", "3"], "late": ["grace", "per_day", "most", "last"], "assignments": ["due", "chapters", "weight"], "extensions": ["Alpha One", "Bo"]}
tables = st.fixed_dictionaries({}, optional={name: st.dictionaries(st.sampled_from(keys) | st.text(max_size=5), toml_values, max_size=4) for name, keys in KEYS.items()})


@st.composite
def edited_rules(draw):
    """The rules with one value replaced."""
    found = tomllib.loads(RULES)
    name = draw(st.sampled_from(list(found)))
    table = found[name].get("week3", found[name])
    table[draw(st.sampled_from(KEYS[name]))] = draw(toml_values)
    return found


documents = st.one_of(tables, edited_rules(), st.dictionaries(st.sampled_from(list(KEYS)) | st.text(max_size=5), toml_values, max_size=3))


@fuzzed(100)
@given(data=st.one_of(documents.map(toml), mutated([RULES.encode()]), st.sampled_from([DEEP, LONG])))
def test_rules_are_used_or_refused_in_a_sentence(folder, data):
    (folder / "course.toml").write_bytes(data)
    try:
        rules = read_course_file(folder / "course.toml").assignments[0].rules
    except GradingProblem as problem:
        assert one_line(problem)
        return
    for name in ("Alpha One", "Bo"):
        late = rules.compute_lateness(Submission(name, {}, submitted=LATE))
        assert 0 <= late.factor <= 1
    course = load_syllabus().exercises
    assert compute_total(compute_marks([], course, rules.points_of).values()).points >= 0
    assert all(isinstance(sentence, str) for sentence in rules.find_warnings([Submission("Bo", {})]))


# ---- the syllabus

SYLLABUS = tomllib.loads((EXERCISES / "syllabus.toml").read_text(encoding="utf-8"))
SHORT = {"chapter": [{**chapter, "exercise": chapter["exercise"][:2]} for chapter in SYLLABUS["chapter"][:2]]}
CHAPTER = list(SHORT["chapter"][0])
EXERCISE = ["name", "points", "promise", "why", "unlocks", "hints", "forbids", "gradient"]
NUMBERS = itertools.count()


@st.composite
def edited_syllabus(draw):
    """The first chapters, with one value replaced or removed."""
    chapters = [{**chapter, "exercise": [dict(exercise) for exercise in chapter["exercise"]]} for chapter in SHORT["chapter"]]
    entry = draw(st.sampled_from(chapters))
    if draw(st.booleans()):
        entry, key = draw(st.sampled_from(entry["exercise"])), draw(st.sampled_from(EXERCISE))
    else:
        key = draw(st.sampled_from([*CHAPTER, "forbids", "hidden"]))
    if draw(st.integers(0, 4)):
        entry[key] = draw(toml_values)
    else:
        entry.pop(key, None)
    return {"chapter": chapters}


@fuzzed(100)
@given(data=st.one_of(edited_syllabus().map(toml), mutated([toml(SHORT)]), st.sampled_from([DEEP, LONG])))
def test_a_syllabus_is_a_course_or_is_refused_in_a_sentence(folder, data):
    file = folder / f"{next(NUMBERS)}.toml"  # a syllabus is read once for each path
    file.write_bytes(data)
    try:
        course = read_course(file)
    except SourceProblem as problem:
        assert one_line(problem)
        return
    assert sum(chapter.points for chapter in course.chapters) >= 0
    assert all(isinstance(chapter.number, int) for chapter in course.chapters)
    for name in ("count_pairs", "ch01", "2", "nothing"):
        with contextlib.suppress(UnknownName):
            course.find(name)


# ---- the record

PROGRESS = b"# Points\nsoftmax 8/10\ncausal_mask 7/7\nLayerNorm 2.67/8\nunheard_of 3/4\n"
amounts = st.integers(0, 9).flatmap(lambda digit: st.sampled_from([1, 2, 20, 400]).map(lambda length: str(digit) * length))
lines = st.lists(st.builds("{} {}{}/{}".format, st.sampled_from(["softmax", "gelu", "x", ""]), amounts, st.sampled_from(["", ".5", "."]), amounts), max_size=4)


@fuzzed(60)
@given(data=st.one_of(mutated([PROGRESS]), st.binary(max_size=60), lines.map(lambda found: "\n".join(found).encode())))
def test_any_record_is_read_and_overwritten(folder, data):
    (folder / FILE).write_bytes(data)
    for score in load_scores(folder).values():
        assert 0 <= score.earned <= score.points < math.inf and str(score)
    assert record_scores({"softmax": 10.0}, folder) is None
    assert load_scores(folder)["softmax"].passed


@fuzzed(40)
@given(data=st.one_of(values.map(lambda value: json.dumps(value).encode()), mutated([b'{"softmax": 2, "gelu": 1}']), st.just(b"[" * 100_000)))
def test_any_record_of_hints_is_levels_or_nothing(folder, data):
    (folder / ".headway").mkdir(exist_ok=True)
    (folder / ".headway" / "hints.json").write_bytes(data)
    assert all(isinstance(name, str) and level > 0 for name, level in load_hint_levels(folder).items())
