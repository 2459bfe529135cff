"""Two known mistakes in one code: their edits are put together, and a diagnosis that names both survives every way in which results are stored."""

import ast
import itertools
import json
import random
from dataclasses import asdict

import pytest
from grader.classroom.gradebook import columns
from grader.course.known_mistakes import StaleEdit, misconceptions
from grader.course.sealed.format import join_statements, module_bytes, read_tree, split_statements
from grader.course.sealed.merge import Conflict, merge
from grader.course.source import SourceProblem, definition, replace_definition
from grader.course.syllabus import load_syllabus
from grader.execution.target import reference_of
from grader.quality.devcheck.pool import run_jobs
from grader.quality.devcheck.subjects import Subject
from grader.quality.devcheck.trying import TryJob
from grader.verdict.replay import text_with_mistake
from grader.verdict.results import Diagnosis, ExerciseResult, TestResult
from grader.verdict.summary import Verdict

BASE = "def f(x):\n    a = x + 1\n    b = a * 2\n    return b - a\n"
# Chapters in which pairs are tried. Each chapter's exercises have mistakes of many kinds.
TRIED = ("softmax", "split_heads", "warmup_cosine", "top_k_filter", "merge_pair", "rope_angles")
PAIRS = 4  # of each


def _merged(first, second, base=BASE):
    statements = merge(*(split_statements(module_bytes(text)) for text in (base, first, second)))
    return ast.unparse(read_tree(join_statements(statements)))


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (BASE.replace("+ 1", "- 1"), BASE.replace("b - a", "b"), BASE.replace("+ 1", "- 1").replace("b - a", "b")),
        (BASE.replace("    b = a * 2\n", ""), BASE.replace("x + 1", "x"), BASE.replace("    b = a * 2\n", "").replace("x + 1", "x")),
        (BASE.replace("    a =", "    x = -x\n    a ="), BASE.replace("    return", "    b = b + 1\n    return"),
         BASE.replace("    a =", "    x = -x\n    a =").replace("    return", "    b = b + 1\n    return")),
        (BASE.replace("x + 1", "x + 3"), BASE, BASE.replace("x + 1", "x + 3")),
    ],
)  # fmt: skip
def test_two_changes_of_different_places_are_put_together(first, second, both):
    assert _merged(first, second) == _merged(second, first) == ast.unparse(ast.parse(both))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (BASE.replace("+ 1", "+ 2"), BASE.replace("+ 1", "+ 3")),
        (BASE.replace("a * 2", "a / 2"), BASE.replace("    b = a * 2\n", "")),
        (BASE.replace("    b = a * 2\n", ""), BASE.replace("    b = a * 2\n    return b - a\n", "    return a\n")),
    ],
)
def test_two_changes_of_the_same_place_are_refused(first, second):
    for one, other in ((first, second), (second, first)):
        with pytest.raises(Conflict):
            _merged(one, other)


def test_known_mistakes_are_put_together_as_their_edits_are():
    """Also as whole chapters, as in a handout."""
    text, compared = reference_of("ch03_attention").text, 0
    for first, second in itertools.combinations(misconceptions("ch03_attention", "causal_mask"), 2):
        own = definition(text, "causal_mask").text
        try:
            both = replace_definition(text, "causal_mask", second.applied_to(first.applied_to(own)))
            merged = _merged(text_with_mistake("ch03_attention", first), text_with_mistake("ch03_attention", second), text)
        except (StaleEdit, Conflict):
            continue
        if first.applied_to(second.applied_to(own)) == second.applied_to(first.applied_to(own)):
            assert merged == ast.unparse(read_tree(module_bytes(both))), (first.id, second.id)
            compared += 1
    assert compared >= 10


def test_a_second_mistake_survives_storage():
    diagnosis = Diagnosis("one", "It is one.", "Which?", ["test_a"], Diagnosis("two", "It is two.", "Why?"))
    exercise = load_syllabus().exercise("softmax")
    result = ExerciseResult(exercise, [TestResult("test_a", "failed", 0.0, 1.0)], diagnosis)
    assert Verdict.from_data(json.loads(json.dumps(Verdict([result]).as_data()))).results[0].diagnosis == diagnosis
    _, _, tests, stored, forbidden, partial, missing = columns.make_row(result)
    assert columns.parse_result(exercise, tests, stored, forbidden, partial, missing).diagnosis == diagnosis
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
