"""junit.xml: a suite per person and a case per test, for continuous integration systems.

All times are 0, since measured ones would differ from run to run. Sanitized text contains no character that XML forbids, even as a reference.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from grader.classroom import sanitize
from grader.classroom.exports.files import write_if_changed
from grader.classroom.exports.result_text import NOT_RUN, UNTESTED, correction_sentences, format_test, problem_sentence
from grader.classroom.judging.graded_class import GradedClass, Person
from grader.verdict.results import ExerciseResult, TestResult

NAME = "junit.xml"


def write(graded: GradedClass, folder: Path) -> list[Path]:
    return [write_if_changed(folder / NAME, document(graded))]


def document(graded: GradedClass) -> str:
    suites = [_suite(person, graded) for person in graded.people]
    head = _attributes(name="headway", **_add_counts([counts for counts, _ in suites]))
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuites {head}>", *(text for _, text in suites), "</testsuites>", ""])


def _suite(person: Person, graded: GradedClass) -> tuple[dict[str, int], str]:
    results = {result.exercise.name: result for result in person.results}
    cases = [case for exercise in graded.exercises for case in _cases(person, results.get(exercise.name, ExerciseResult(exercise)))]
    cases = [_ungraded_entry(person)] if person.problem else cases
    kinds = [kind for kind, _ in cases]
    counts = {"tests": len(kinds), "failures": kinds.count("failure"), "errors": kinds.count("error"), "skipped": kinds.count("skipped")}
    head = _attributes(name=person.name, **counts, time="0")
    given = [f"  <property {_attributes(name='given by the instructor', value=sentence)}/>" for sentence in correction_sentences(person)]
    properties = [" <properties>", *given, " </properties>"] if given else []
    return counts, "\n".join([f" <testsuite {head}>", *properties, *(text for _, text in cases), " </testsuite>"])


def _cases(person: Person, result: ExerciseResult) -> list[tuple[str, str]]:
    if not result.tests:
        outcome = "error" if result.exercise.module in person.broken else "todo"
        return [_case(person, result, TestResult("not tested", outcome, 0.0, 0.0, message=UNTESTED))]
    missing = [TestResult("tests that were not run", "error", 0.0, 0.0, message=NOT_RUN)] if result.missing_weight else []
    return [_case(person, result, test) for test in [*result.tests, *missing]]


def _case(person: Person, result: ExerciseResult, test: TestResult) -> tuple[str, str]:
    """The kind of the inner element ("" for a passed test), and the test case. A test passed by a shortcut is a failure."""
    exercise = result.exercise
    head = _attributes(classname=f"{person.slug}.{exercise.module}.{exercise.name}", name=test.name, time="0")
    kind = {"passed": "", "todo": "skipped", "failed": "failure"}.get(test.outcome, "error")
    message, words = test.message, "" if test.outcome == "todo" else format_test(test)
    if result.forbidden and kind != "skipped":
        return "failure", _element(head, "failure", f"no points for this exercise: {'; '.join(result.forbidden)}", "failed", "")
    return kind, _element(head, kind, message, test.outcome, words)


def _ungraded_entry(person: Person) -> tuple[str, str]:
    head = _attributes(classname=f"{person.slug}.submission", name="the submission can be graded", time="0")
    return "error", _element(head, "error", problem_sentence(person), "error", "")


def _element(head: str, kind: str, message: str, outcome: str, words: str) -> str:
    if not kind:
        return f"  <testcase {head}/>"
    attributes = _attributes(message=message) if kind == "skipped" else _attributes(type=outcome, message=message)
    inside = f"<{kind} {attributes}>{escape(words)}</{kind}>" if words else f"<{kind} {attributes}/>"
    return f"  <testcase {head}>{inside}</testcase>"


def _add_counts(counts: list[dict[str, int]]) -> dict[str, int]:
    return {name: sum(count[name] for count in counts) for name in ("tests", "failures", "errors")} | {"time": 0}


def _attributes(**values: str | int) -> str:
    return " ".join(f"{name}={quoteattr(sanitize.line(str(value)))}" for name, value in values.items())
