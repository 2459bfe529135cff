"""A results file has the form that Gradescope documents."""

import json
from dataclasses import replace

import jsonschema
import pytest
from example_class import EXERCISES
from export_examples import first_of, hostile_class, one, result
from grader.classroom.exports import gradescope
from grader.classroom.judging.graded_class import GradedClass

# As Gradescope documents it: gradescope-autograders.readthedocs.io/en/latest/specs/
VISIBILITY = {"enum": ["hidden", "after_due_date", "after_published", "visible"]}
FORMAT = {"enum": ["text", "html", "simple_format", "md", "ansi"]}
GRADESCOPE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["score", "tests"],
    "properties": {
        "score": {"type": "number"},
        "execution_time": {"type": "number"},
        "output": {"type": "string"},
        "output_format": FORMAT,
        "test_output_format": FORMAT,
        "test_name_format": FORMAT,
        "visibility": VISIBILITY,
        "stdout_visibility": VISIBILITY,
        "extra_data": {"type": "object"},
        "leaderboard": {"type": "array"},
        "tests": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["score", "max_score", "status", "name", "number"],
                "properties": {
                    "score": {"type": "number", "minimum": 0},
                    "max_score": {"type": "number", "minimum": 0},
                    "status": {"enum": ["passed", "failed"]},
                    "name": {"type": "string", "minLength": 1},
                    "name_format": FORMAT,
                    "number": {"type": "string", "pattern": r"^\d+(\.\d+)*$"},
                    "output": {"type": "string"},
                    "output_format": FORMAT,
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "visibility": VISIBILITY,
                    "extra_data": {"type": "object"},
                },
            },
        },
    },
}


@pytest.fixture(scope="module")
def graded(tmp_path_factory) -> GradedClass:
    return hostile_class(tmp_path_factory.mktemp("grades"))


def test_a_results_file_follows_gradescopes_documentation(graded, tmp_path):
    paths = gradescope.write(graded, tmp_path)
    assert [path.stem for path in paths] == [person.slug for person in graded.people]
    for path, person in zip(paths, graded.people):
        data = json.loads(path.read_text(encoding="utf-8"))
        jsonschema.validate(data, GRADESCOPE)
        assert "visibility" not in data and {test["visibility"] for test in data["tests"]} == {"visible"}
        assert data["score"] == float(person.total.earned)
        assert {data["output_format"], *(test["output_format"] for test in data["tests"])} == {"text"}
        numbers = [test["number"] for test in data["tests"]]
        assert len(set(numbers)) == len(numbers)
        assert round(sum(test["max_score"] for test in data["tests"]), 2) == float(person.total.points)
        for exercise in EXERCISES if not person.problem else ():
            mine = [test for test in data["tests"] if exercise.name in test["tags"]]
            assert round(sum(test["score"] for test in mine), 2) == float(person.marks[exercise.name].earned)
            assert all(test["score"] == (test["max_score"] if test["status"] == "passed" else 0) for test in mine)


def test_every_outcome_has_a_status_of_gradescopes_format():
    data = gradescope.results(*first_of(one(result("passed", "failed", "error", "timeout", "todo"))))
    assert [test["status"] for test in data["tests"]] == ["passed", "failed", "failed", "failed", "failed"]
    assert [test["extra_data"]["outcome"] for test in data["tests"]] == ["passed", "failed", "error", "timeout", "todo"]
    assert [test["number"] for test in data["tests"]] == ["3.1.1", "3.1.2", "3.1.3", "3.1.4", "3.1.5"]
    assert data["tests"][0]["name"] == "softmax: law 1" and data["tests"][0]["output"] == "Law 1 of softmax holds."
    assert "  got       0.1\n  expected  0.2\n" in data["tests"][1]["output"]


def test_tests_without_points_are_not_marked_as_passed():
    data = gradescope.results(*first_of(one(result("passed", "failed", forbidden=["it calls `torch.softmax`"]))))
    assert data["score"] == 0 and [test["status"] for test in data["tests"]] == ["failed", "failed"]
    assert data["tests"][0]["output"] == "No points for this exercise: it calls `torch.softmax`."
    data = gradescope.results(*first_of(one(result("passed", partial=True, missing_weight=6.0))))
    assert [(test["score"], test["max_score"], test["status"]) for test in data["tests"]] == [(2, 2, "passed"), (0, 6, "failed")]
    data = gradescope.results(*first_of(one(problem="alpha.zip is empty")))
    assert data["score"] == 0 and data["tests"][0]["status"] == "failed" and data["tests"][0]["output"] == "This submission could not be graded: alpha.zip is empty."
    data = gradescope.results(*first_of(replace(one(result("passed")), exercises=EXERCISES[:2], people=(replace(one().people[0], results=(result("passed"),)),))))
    assert [test["name"] for test in data["tests"]] == ["softmax: law 1", "causal_mask: not tested"]


def test_the_diagnosis_is_available_to_programs(graded):
    known = [entry for person in graded.people for entry in gradescope.results(person, graded)["extra_data"]["headway"]["diagnoses"].values()]
    assert {"id": "over_queries", "says": "It is normalised over the queries.", "hint": "Over what?", "also": None} in known
