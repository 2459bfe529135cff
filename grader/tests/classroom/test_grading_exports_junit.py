"""The JUnit file has the form that CI systems read: well-formed, valid, and each outcome shown correctly."""

import re
import xml.etree.ElementTree as ElementTree

import pytest
from example_class import EXERCISES
from export_examples import hostile_class, one, result
from grader.classroom.exports import junit
from grader.classroom.judging.graded_class import GradedClass
from grader.verdict.results import ExerciseResult, Failure, TestResult


@pytest.fixture(scope="module")
def graded(tmp_path_factory) -> GradedClass:
    return hostile_class(tmp_path_factory.mktemp("grades"))


def test_junit_is_well_formed_and_its_counts_are_right(graded, tmp_path):
    [path] = junit.write(graded, tmp_path)
    root = ElementTree.parse(path).getroot()
    assert root.tag == "testsuites" and [suite.get("name") for suite in root] == [person.name for person in graded.people]
    kinds = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    for suite, person in zip(root, graded.people):
        assert suite.tag == "testsuite" and set(suite.attrib) == {"name", "tests", "failures", "errors", "skipped", "time"}
        assert int(suite.get("tests")) == len(suite) == (1 if person.problem else sum(len(result.tests) for result in person.results))
        for attribute, tag in kinds.items():
            assert int(suite.get(attribute)) == len(suite.findall(f"testcase/{tag}"))
        for case in suite:
            assert case.tag == "testcase" and set(case.attrib) == {"classname", "name", "time"} and case.get("time") == "0"
            assert len(case) <= 1 and all(child.tag in kinds.values() and child.get("message") for child in case)
    assert int(root.get("tests")) == sum(len(suite) for suite in root)
    assert set(root.attrib) == {"name", "tests", "failures", "errors", "time"}


# What junit-10.xsd, with which Jenkins validates, allows: an element's attributes (with the form of each), required attributes, children.
WORDS, COUNT, SECONDS = r"(?s).*", r"\d+", r"\d+(\.\d+)?"
SUMS = dict.fromkeys(("tests", "failures", "errors", "disabled"), COUNT) | {"name": WORDS, "time": SECONDS}
SAID = {"message": WORDS, "type": WORDS}
PRINTED = {"system-out", "system-err"}
USUAL: dict[str, tuple[dict[str, str], set[str], set[str]]] = {
    "testsuites": (SUMS, set(), {"testsuite"}),
    "testsuite": (SUMS | {"skipped": COUNT, "timestamp": WORDS, "hostname": WORDS, "id": COUNT}, {"name", "tests"}, {"properties", "testcase"} | PRINTED),
    "testcase": ({"name": WORDS, "classname": WORDS, "time": SECONDS, "assertions": COUNT, "status": WORDS}, {"name"}, {"skipped", "error", "failure"} | PRINTED),
    "skipped": (SAID, set(), set()), "error": (SAID, set(), set()), "failure": (SAID, set(), set()),
}  # fmt: skip


def test_junit_is_valid_by_the_usual_schema(graded):
    everything = one(result("passed", "failed", "error", "timeout", "todo", forbidden=["it calls `torch.softmax`"], missing_weight=1.0))
    nothing = one(problem="the archive is damaged")
    for root in (ElementTree.fromstring(junit.document(whole).encode("utf-8")) for whole in (graded, everything, nothing)):
        assert root.tag == "testsuites"
        for element in root.iter():
            attributes, needed, children = USUAL[element.tag]
            assert needed <= set(element.attrib) <= set(attributes) and {child.tag for child in element} <= children, ElementTree.tostring(element)
            assert all(re.fullmatch(attributes[name], value) for name, value in element.attrib.items()), element.attrib
            assert element.tag in ("skipped", "error", "failure") or not (element.text or "").strip()
        for suite in root:
            names = [(case.get("classname"), case.get("name")) for case in suite]
            assert len(set(names)) == len(names)  # viewers show only one of two equal names


def test_each_outcome_has_its_junit_element():
    outcomes = ("passed", "failed", "error", "timeout", "todo")
    cases = ElementTree.fromstring(junit.document(one(result(*outcomes)))).findall("testsuite/testcase")
    assert [[(child.tag, child.get("type")) for child in case] for case in cases] == [
        [], [("failure", "failed")], [("error", "error")], [("error", "timeout")], [("skipped", None)]
    ]  # fmt: skip
    assert cases[1][0].get("message") == "the values differ" and "  promised  Law 2 of softmax holds.\n" in cases[1][0].text
    cases = ElementTree.fromstring(junit.document(one(result("passed", forbidden=["it calls `torch.softmax`"], missing_weight=1.0)))).findall("*/testcase/failure")
    assert [case.get("type") for case in cases] == ["failed", "failed"]


@pytest.mark.parametrize("number", [*range(32), 0x7F, 0x85, 0xD800, 0xFFFE, 0xFFFF, 0x1FFFF])
def test_no_character_breaks_the_xml(number):
    words = f"a{chr(number)}b]]>&lt;"
    failure = Failure(words, message=words, printed=words)
    test = TestResult(words, "failed", 0.0, 1.0, words, words, words, failure)
    root = ElementTree.fromstring(junit.document(one(ExerciseResult(EXERCISES[0], [test]), name=words)).encode("utf-8"))
    assert root[0].get("name").endswith("b]]>&lt;")
