"""Two known mistakes in one code: their edits are put together, and a diagnosis that names both survives every way in which results are stored."""

import itertools
import json
import random
import re
from dataclasses import asdict

import pytest
from grader.classroom.gradebook import records
from grader.course import known_mistakes
from grader.course.known_mistakes import Base, CatalogueProblem, Misconception, StaleEdit, bases, misconceptions
from grader.course.source import SourceProblem, definition, replace_definition
from grader.course.syllabus import load_syllabus
from grader.execution.target import reference_of
from grader.quality.devcheck.pool import run_jobs
from grader.quality.devcheck.subjects import Subject
from grader.quality.devcheck.trying import TryJob
from grader.verdict.results import Diagnosis, ExerciseResult, TestResult
from grader.verdict.summary import Verdict

BASE = "def f(x):\n    a = x + 1\n    b = a * 2\n    return b - a\n"
# Chapters in which pairs are tried. Each chapter's exercises have mistakes of many kinds.
TRIED = ("softmax", "split_heads", "warmup_cosine", "top_k_filter", "merge_pair", "rope_angles")
PAIRS = 4  # of each


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


def test_a_mistake_is_named_in_code_without_the_solutions_guards():
    """The commonest first try at softmax: it overflows nowhere, but other rows underflow, and a row of -inf gives NaN."""
    exercise = load_syllabus().exercise("softmax")
    plain = "def softmax(x, dim=-1):\n    e = torch.exp(x - x.max())\n    return e / e.sum(dim, keepdim=True)\n"
    job = TryJob("softmax", False, 0, (Subject("attempt", "plain", replace_definition(reference_of(exercise.module).text, "softmax", plain)),))
    [(_, [found])] = run_jobs([job], 1)
    assert found["outcome"] == "failed" and found["names"] == ["softmax_largest_of_everything", "softmax_empty_slice_is_nan"]


def test_two_mistakes_are_named_that_explain_no_answer_alone():
    """Both change every number of the result, so no answer shows one of them."""
    exercise = load_syllabus().exercise("induction_score")
    plain = "def induction_score(pattern, period):\n    return sum(pattern[i, i - period + 1] for i in range(period, len(pattern))) / len(pattern)\n"
    job = TryJob("induction_score", False, 0, (Subject("attempt", "plain", replace_definition(reference_of(exercise.module).text, "induction_score", plain)),))
    [(_, [found])] = run_jobs([job], 1)
    assert sorted(found["names"]) == ["induction_gives_a_tensor", "induction_over_all_rows"]


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
    assert records.parse_verdict(records.format_verdict(Verdict([result])), [exercise]).results[0].diagnosis == diagnosis
    assert Diagnosis.from_data({"id": "one", "says": "It is one.", "hint": "Which?"}).mistakes == [Diagnosis("one", "It is one.", "Which?")]
    assert Diagnosis.from_data(asdict(diagnosis)).as_json()["also"] == {"id": "two", "says": "It is two.", "hint": "Why?", "also": None}


def _pairs(exercise, count):
    """Texts with two known mistakes whose edits fit together in either order, by the two names."""
    text, found = reference_of(exercise.module).text, {}
    pairs = list(itertools.combinations(misconceptions(exercise.module, exercise.name), 2))
    random.Random(17).shuffle(pairs)
    own = definition(text, exercise.name).text
    for first, second in pairs:
        try:
            both = second.applied_to(first.applied_to(own))
            if both == first.applied_to(second.applied_to(own)):
                whole = replace_definition(text, exercise.name, both)
                compile(whole, "both", "exec")
                found[f"{first.id} and {second.id}"] = whole
        except (StaleEdit, SourceProblem, SyntaxError):
            continue
        if len(found) == count:
            break
    return found


@pytest.mark.thorough
def test_of_two_known_mistakes_no_third_is_named():
    exercises = [load_syllabus().exercise(name) for name in TRIED]
    jobs = [TryJob(e.name, False, 0, tuple(Subject("two", names, text) for names, text in _pairs(e, PAIRS).items())) for e in exercises]
    results = [one for _, found in run_jobs(jobs, 2) for one in found if one["outcome"] == "failed"]
    named = [(set(one["name"].split(" and ")), set(one["names"])) for one in results]
    assert [(truth, said) for truth, said in named if not said <= truth] == []
    assert sum(bool(said) for _, said in named) >= 0.7 * len(named)
    assert sum(truth == said for truth, said in named) >= 0.3 * len(named)  # often one of the two cannot be seen where the other is
