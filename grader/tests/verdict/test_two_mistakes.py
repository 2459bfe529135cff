"""Two known mistakes in one code: their edits are put together, and a diagnosis that names both survives every way in which results are stored."""

import json
import re
from dataclasses import asdict

import pytest
from grader.classroom.gradebook import format_verdict, parse_verdict
from grader.course import known_mistakes
from grader.course.known_mistakes import Base, CatalogueProblem, Misconception, bases
from grader.course.source import replace_definition
from grader.course.syllabus import load_syllabus
from grader.execution.target import Target, reference_of
from grader.runner.judging import run_exercise
from grader.verdict.results import Diagnosis, ExerciseResult, TestResult, Verdict

BASE = "def f(x):\n    a = x + 1\n    b = a * 2\n    return b - a\n"


def _mistake(name, replace, new):
    return Misconception(name, "f", replace, new, "It is wrong.", "Why?")


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (("+ 1", "- 1"), ("b - a", "b"), BASE.replace("+ 1", "- 1").replace("b - a", "b")),
        (("    b = a * 2\n", ""), ("x + 1", "x"), BASE.replace("    b = a * 2\n", "").replace("x + 1", "x")),
        (("    a =", "    x = -x\n    a ="), ("x + 1", "x"), BASE.replace("    a = x + 1", "    x = -x\n    a = x")),
    ],
)
def test_two_mistakes_in_different_places_are_put_together(first, second, both):
    one, other = _mistake("one", *first), _mistake("other", *second)
    assert Base("solution", "f", BASE).with_mistakes([one, other]) == Base("solution", "f", BASE).with_mistakes([other, one]) == both


@pytest.mark.parametrize(("first", "second"), [(("+ 1", "+ 2"), ("+ 1", "+ 3")), (("a * 2", "a / 2"), ("    b = a * 2\n", ""))])
def test_two_mistakes_in_the_same_place_are_refused(first, second):
    assert Base("solution", "f", BASE).with_mistakes([_mistake("one", *first), _mistake("other", *second)]) is None


def test_a_base_may_write_an_edit_in_its_own_way():
    base = Base("loop", "f", "def f(x):\n    return sum(x)\n", (), {"one": ("sum(x)", "max(x)")})
    assert base.with_mistakes([_mistake("one", "x.sum()", "x.max()")]) == "def f(x):\n    return max(x)\n"
    assert base.with_mistakes([_mistake("other", "x.sum()", "x.max()")]) is None


PLAIN_SOFTMAX = "def softmax(x, dim=-1):\n    e = torch.exp(x - x.max())\n    return e / e.sum(dim, keepdim=True)\n"
PLAIN_SCORE = "def induction_score(pattern, period):\n    return sum(pattern[i, i - period + 1] for i in range(period, len(pattern))) / len(pattern)\n"


@pytest.mark.parametrize(
    ("name", "plain", "named"),
    [
        ("softmax", PLAIN_SOFTMAX, {"softmax_largest_of_everything", "softmax_empty_slice_is_nan"}),
        ("induction_score", PLAIN_SCORE, {"induction_gives_a_tensor", "induction_over_all_rows"}),
    ],
)
def test_two_mistakes_are_named_in_code_of_another_style(name, plain, named):
    """The commonest first try at softmax, without the solution's guards; and two mistakes that explain no answer alone."""
    exercise = load_syllabus().exercise(name)
    text = replace_definition(reference_of(exercise.module).text, name, plain)
    found = run_exercise(exercise, Target("attempt", None, {exercise.module: text}))
    assert found.outcome == "failed" and {mistake.id for mistake in found.diagnosis.mistakes} == named


IN_FLOAT32 = """
def softmax(x, dim=-1):
    e = torch.exp(x.float() - x.float().amax(dim, keepdim=True))
    return e / e.sum(dim, keepdim=True)
"""


def test_of_two_mistakes_the_one_that_the_example_shows_is_named_first():
    text = replace_definition(reference_of("ch03_attention").text, "softmax", IN_FLOAT32)
    found = run_exercise(load_syllabus().exercise("softmax"), Target("attempt", None, {"ch03_attention": text}))
    assert found.failures[0].name == "test_a_slice_of_nothing_but_minus_infinity_gives_zeros"
    assert [mistake.id for mistake in found.diagnosis.mistakes] == ["softmax_empty_slice_is_nan", "softmax_always_float32"]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"lacks": [], "code": "", "why": ""}, "should have `lacks`, `code` and perhaps `edits`, and nothing else"),
        ({"lacks": ["softmax_of_nothing"], "code": ""}, "names softmax_of_nothing, which is no known mistake of softmax"),
        ({"lacks": [], "code": "", "edits": {"softmax_base_two": ["exp"]}}, "each of its `edits` should be two texts, what to replace and with what"),
    ],
)
def test_a_base_that_cannot_be_read_is_one_sentence(monkeypatch, table, problem):
    tables = known_mistakes._tables
    monkeypatch.setattr(known_mistakes, "_tables", lambda kind, module: {"softmax": {"plain": table}} if kind == "bases" else tables(kind, module))
    with pytest.raises(CatalogueProblem, match=re.escape(problem)):
        bases.__wrapped__("ch03_attention", "softmax")


def test_a_second_mistake_survives_storage():
    diagnosis = Diagnosis("one", "It is one.", "Which?", ["test_a"], Diagnosis("two", "It is two.", "Why?"))
    exercise = load_syllabus().exercise("softmax")
    result = ExerciseResult(exercise, [TestResult("test_a", "failed", 0.0, 1.0)], diagnosis)
    assert Verdict.from_data(json.loads(json.dumps(Verdict([result]).as_data()))).results[0].diagnosis == diagnosis
    assert parse_verdict(format_verdict(Verdict([result])), [exercise]).results[0].diagnosis == diagnosis
    assert Diagnosis.from_data({"id": "one", "says": "It is one.", "hint": "Which?"}).mistakes == [Diagnosis("one", "It is one.", "Which?")]
    assert Diagnosis.from_data(asdict(diagnosis)).as_json()["also"] == {"id": "two", "says": "It is two.", "hint": "Why?", "also": None}
