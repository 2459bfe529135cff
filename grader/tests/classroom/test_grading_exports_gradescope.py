"""A results file has the form that Gradescope documents."""

import json

import pytest
from example_class import EXERCISES
from export_examples import first_of, hostile_class, one, result
from grader.classroom.exports import gradescope
from grader.classroom.judging.graded_class import GradedClass

# As Gradescope documents it: gradescope-autograders.readthedocs.io/en/latest/specs/
KEYS = {"score", "output", "output_format", "test_output_format", "test_name_format", "stdout_visibility", "extra_data", "tests"}
KEYS_OF_TEST = {"name": str, "number": str, "score": float, "max_score": float, "status": str, "output": str, "tags": list, "visibility": str}


@pytest.fixture(scope="module")
def graded(tmp_path_factory) -> GradedClass:
    return hostile_class(tmp_path_factory.mktemp("grades"))


def test_a_results_file_follows_gradescopes_documentation(graded, tmp_path):
    paths = gradescope.write(graded, tmp_path)
    assert [path.stem for path in paths] == [person.slug for person in graded.people]
    for path, person in zip(paths, graded.people):
        data = json.loads(path.read_text(encoding="utf-8"))
        assert data.keys() == KEYS and all({key: type(value) for key, value in test.items()} == KEYS_OF_TEST for test in data["tests"])
        assert "visibility" not in data and {test["visibility"] for test in data["tests"]} == {"visible"}
        assert data["score"] == float(person.total.earned)
        assert {data["output_format"], data["test_output_format"], data["test_name_format"]} == {"text"}
        numbers = [test["number"] for test in data["tests"]]
        assert len(set(numbers)) == len(numbers)
        assert round(sum(test["max_score"] for test in data["tests"]), 2) == float(person.total.points)
        assert [(test["name"], test["score"]) for test in data["tests"]] == [(one.name, float(person.marks[one.name].earned)) for one in EXERCISES]
        assert all((test["score"] == test["max_score"]) == (test["status"] == "passed") for test in data["tests"])


def test_an_entry_says_what_is_wrong_with_its_exercise():
    cases = {
        ("failed", "FAILED  test_law_2\n  promised  Law 2 of softmax holds."): result("passed", "failed", "error"),
        ("failed", "No points for this exercise: it calls `torch.softmax`."): result("passed", forbidden=["it calls `torch.softmax`"]),
        ("failed", "Some tests of this exercise were not run"): result("passed", partial=True, missing_weight=6.0),
        ("failed", "Not implemented yet."): result("todo"),
        ("passed", "All tests passed."): result("passed"),
    }  # fmt: skip
    for (status, says), found in cases.items():
        [entry] = gradescope.results(*first_of(one(found)))["tests"]
        assert (entry["status"], entry["number"]) == (status, "3.1") and says in entry["output"], entry
    data = gradescope.results(*first_of(one(problem="alpha.zip is empty")))
    assert data["score"] == 0 and {test["output"] for test in data["tests"]} == {"This submission could not be graded: alpha.zip is empty."}


def test_the_diagnosis_is_available_to_programs(graded):
    known = [entry for person in graded.people for entry in gradescope.results(person, graded)["extra_data"]["headway"]["diagnoses"].values()]
    assert {"id": "over_queries", "says": "It is normalised over the queries.", "hint": "Over what?", "also": None} in known
