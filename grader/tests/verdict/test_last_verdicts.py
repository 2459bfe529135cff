"""The record of the last verdicts on the learner's exercises."""

from __future__ import annotations

import json

import pytest
from grader.course.syllabus import load_syllabus
from grader.verdict import last_verdicts
from grader.verdict.last_verdicts import (
    MAX_VERDICTS,
    code_fingerprint,
    find_verdict,
    last_asked,
    load_verdicts,
    record_verdicts,
)
from grader.verdict.results import NOT_IMPLEMENTED, ExerciseResult, TestResult


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(last_verdicts, "FILE", tmp_path / "verdicts.json")
    return last_verdicts.FILE


def result(outcome: str, message: str = "") -> dict[str, ExerciseResult]:
    return {"softmax": ExerciseResult(load_syllabus().exercise("softmax"), [TestResult("test_it", outcome, 0.1, 1.0, "It works.", message)])}


def record(state: str, code: str, results: dict[str, ExerciseResult], conditions: str = "these") -> None:
    record_verdicts({"softmax": state}, {"softmax": code}, conditions, results, {})


def test_a_verdict_is_found_for_the_same_code_under_the_same_conditions_only():
    record("failed", "one", result("failed", "It is wrong."))
    known = load_verdicts()
    found = find_verdict(known, "softmax", "one", "these")
    assert found and (found.state, found.says, found.asked) == ("failed", "It is wrong.", True)
    for exercise, code, conditions in (("softmax", "other", "these"), ("softmax", "one", "others"), ("gelu", "one", "these")):
        assert not find_verdict(known, exercise, code, conditions)


def test_the_verdict_on_an_exercise_that_another_one_uses_is_not_shown_as_the_last():
    record("failed", "one", result("failed", "It is wrong."))
    record("passed", "two", {})
    record("failed", "one", {})
    known = load_verdicts()
    assert [(verdict.code, verdict.asked) for verdict in known["softmax"]] == [("one", True), ("two", False)]
    assert find_verdict(known, "softmax", "two", "these").state == "passed"
    assert last_asked(known, "softmax").code == "one"


def test_a_stub_has_no_verdict_unless_there_was_code_before():
    record("failed", "stub", result("todo", NOT_IMPLEMENTED))
    assert load_verdicts() == {}
    record("passed", "one", result("passed"))
    record("failed", "stub", result("todo", NOT_IMPLEMENTED))
    assert last_asked(load_verdicts(), "softmax").state == "todo"


def test_the_oldest_verdicts_are_dropped():
    for number in range(MAX_VERDICTS + 3):
        record("passed", str(number), result("passed"))
    record("passed", str(MAX_VERDICTS), result("passed"))
    kept = [*range(3, MAX_VERDICTS), MAX_VERDICTS + 1, MAX_VERDICTS + 2, MAX_VERDICTS]
    assert [verdict.code for verdict in load_verdicts()["softmax"]] == [str(number) for number in kept]


OLD = '{"softmax": {"outcome": "passed", "says": "", "code": "one"}}'


@pytest.mark.parametrize("data", ["[", "[]", "7", OLD, '{"softmax": [[]]}', '{"softmax": [{"state": []}]}', "[" * 99_999])
def test_a_damaged_file_and_one_of_another_version_count_as_empty(file, data):
    file.write_text(data)
    assert load_verdicts() == {}
    record("passed", "one", result("passed"))
    assert find_verdict(load_verdicts(), "softmax", "one", "these") and json.loads(file.read_text())


def test_code_that_cannot_be_read_has_no_fingerprint():
    assert code_fingerprint("def softmax(x:", "softmax") == code_fingerprint("", "softmax") == ""
    one, other = "def softmax(x):\n    return x\n", "# a comment\ndef softmax(x):\n\n    return x  # more\n\ndef unused(): ...\n"
    assert code_fingerprint(one, "softmax") == code_fingerprint(other, "softmax") != code_fingerprint(one.replace("return x", "return -x"), "softmax")
