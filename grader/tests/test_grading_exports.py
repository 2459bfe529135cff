"""What an instructor gets out: each format read back by what reads it in the world, with strangers' words in every place."""

import csv
import io
import json
import os
import re
import signal
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import jsonschema
import pytest
from graded_runs import grade, solution
from grader.grading import marking
from grader.grading.exports import csv as csv_export
from grader.grading.exports import feedback, gradescope, junit, write_all
from grader.grading.exports.feedback import fenced
from grader.grading.gradebook import Gradebook
from grader.grading.problems import GradingProblem
from grader.grading.record import GradedClass, Person
from grader.grading.seeds import own_seed
from grader.results import ExerciseResult, Failure, TestResult
from grader.syllabus import ROOT
from grader.verdict import Verdict
from kit_copy import posix
from made_up_class import EXERCISES, HOSTILE, RULES, VERSIONS, a_class, one_test, submission, verdict_of
from markdown_it import MarkdownIt

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
    """A class out of a real gradebook, with hostile words wherever a stranger can put any."""
    hostile = submission(HOSTILE, slug="hostile", digest="0125" * 16, notes=(HOSTILE,))
    people = [*a_class(6), hostile, submission(f"=HYPERLINK({HOSTILE})", slug="hostile-2", problem=f"the file {HOSTILE} is empty")]
    with Gradebook.open(tmp_path_factory.mktemp("grades")) as book:
        book.begin(3, EXERCISES, VERSIONS)
        for one in book.submissions_to_do(people):
            verdict = verdict_of(one.digest, said=HOSTILE if one is hostile else "")
            if one is hostile:
                verdict.broken[EXERCISES[-1].module] = Failure("", message=HOSTILE, where=HOSTILE)
            book.keep(one.digest, verdict)
        return book.graded(RULES)


def one(*results: ExerciseResult, **more) -> GradedClass:
    """A class of one person, graded in these exercises."""
    exercises = tuple(result.exercise for result in results) or EXERCISES
    marks = marking.marks_of(results, exercises, RULES.points_of)
    person = Person(**{"name": "Alpha", "slug": "alpha", "digest": "d", "results": results, "marks": marks, "total": marking.total(marks.values())} | more)
    return GradedClass((person,), exercises, 0, VERSIONS)


def result(*outcomes: str, **more) -> ExerciseResult:
    return ExerciseResult(EXERCISES[0], [one_test(EXERCISES[0], number, outcome) for number, outcome in enumerate(outcomes, 1)], **more)


def harmless(text: str) -> bool:
    """Nothing in it commands a terminal, turns the direction of writing or is half a character."""
    return all(c.isprintable() or c in "\n\u200c\u200d" for c in text)


# ---- all of them


def test_every_export_is_utf8_text_that_no_terminal_obeys(graded, tmp_path):
    paths = write_all(graded, tmp_path)
    assert len(paths) == len(set(paths)) == 2 + 2 * len(graded.people)
    for path in paths:
        assert harmless(path.read_text(encoding="utf-8-sig").replace("\r\n", "\n")), path


def test_writing_again_changes_nothing_and_who_has_left_leaves(graded, tmp_path):
    paths = write_all(graded, tmp_path)
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}
    assert write_all(graded, tmp_path) == paths
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in paths} == before
    (tmp_path / "feedback" / "mine.md").write_text("a note of the instructor's")
    (tmp_path / "gradescope" / "mine.json").write_text("{}")
    fewer = replace(graded, people=[person for person in graded.people if person.slug != "hostile"])
    left = {*write_all(fewer, tmp_path), tmp_path / "feedback" / "mine.md", tmp_path / "gradescope" / "mine.json"}
    assert set(tmp_path.rglob("*.*")) == left and len(left) == len(paths)


def test_what_cannot_be_written_is_told_and_nothing_is_left_half(graded, tmp_path):
    (tmp_path / "grades.csv").mkdir()
    with pytest.raises(GradingProblem) as caught:
        write_all(graded, tmp_path)
    assert str(caught.value) == f"could not write {tmp_path / 'grades.csv'}: is a directory"
    (tmp_path / "grades.csv").rmdir()
    (tmp_path / "feedback").write_text("a file")
    with pytest.raises(GradingProblem, match="^could not write .*feedback/[\\w-]+.md: "):
        write_all(graded, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"grades.csv", "gradescope", "junit.xml", "feedback"}


@posix
def test_what_a_killed_grader_was_writing_goes_with_the_next(graded, tmp_path):
    """Killed at the very moment in which a file, and later another one, would have been put in its place."""
    for killed_at in (0, 4):
        child = os.fork()
        if child == 0:
            _killed_in_the_middle(graded, tmp_path, killed_at)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
    (tmp_path / ".mine.tmp").touch()
    assert len(list(tmp_path.rglob(".*.tmp"))) == 2  # the second has swept away what the first had left
    paths = write_all(graded, tmp_path)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {*paths, tmp_path / ".mine.tmp"}


def _killed_in_the_middle(graded: GradedClass, folder: Path, after: int) -> None:
    left, put = iter(range(after, -1, -1)), os.replace
    os.replace = lambda *names: put(*names) if next(left) else os.kill(os.getpid(), signal.SIGKILL)
    try:
        write_all(graded, folder)
    finally:
        os._exit(1)


# ---- grades.csv


def test_the_table_has_a_row_a_person_and_a_column_an_exercise(graded, tmp_path):
    [path] = csv_export.write(graded, tmp_path)
    assert path.read_bytes().startswith(b"\xef\xbb\xbfname,total,of,late,problem,notes,softmax,")
    rows = list(csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline="")))
    assert list(rows[0]) == ["name", "total", "of", "late", "problem", "notes", *(exercise.name for exercise in EXERCISES)]
    assert len(rows) == len(graded.people)
    for row, person in zip(rows, graded.people):
        assert [Decimal(row[exercise.name]) for exercise in EXERCISES] == [person.marks[exercise.name].earned for exercise in EXERCISES]
        assert Decimal(row["total"]) == person.total.earned and Decimal(row["of"]) == person.total.points
    late = next(row for row in rows if row["name"] == "zéro late")
    assert late["late"].startswith("1 day late (handed in 2026-05-02 10:00, ") and late["notes"].startswith("there were two files")


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r=", "\n=", " =", "\x1b[1m=", "\x00=", "\u202e=", "\uff1d", "\u00a0@", "\ufeff="])
def test_no_cell_is_a_formula(start, tmp_path):
    words = f"{start}1+cmd|' /C calc'!A0"
    [path] = csv_export.write(one(name=words, problem=words, late=words, notes=(words, "b")), tmp_path)
    [_, row] = csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline=""))
    for cell in row:
        assert re.match(r"['⟨]|\d+(\.\d+)?$|$", cell), cell
        assert not re.search(r"[\t\r\n]", cell)


# ---- Gradescope


def test_a_results_file_is_what_gradescope_documents(graded, tmp_path):
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


def test_every_kind_of_outcome_has_a_status_that_gradescope_knows():
    data = gradescope.results(*_person(one(result("passed", "failed", "error", "timeout", "todo"))))
    assert [test["status"] for test in data["tests"]] == ["passed", "failed", "failed", "failed", "failed"]
    assert [test["extra_data"]["outcome"] for test in data["tests"]] == ["passed", "failed", "error", "timeout", "todo"]
    assert [test["number"] for test in data["tests"]] == ["3.1.1", "3.1.2", "3.1.3", "3.1.4", "3.1.5"]
    assert data["tests"][0]["name"] == "softmax: law 1" and data["tests"][0]["output"] == "Law 1 of softmax holds."
    assert "  got       0.1\n  expected  0.2\n" in data["tests"][1]["output"]


def test_what_earns_nothing_is_not_passed():
    data = gradescope.results(*_person(one(result("passed", "failed", forbidden=["it calls `torch.softmax`"]))))
    assert data["score"] == 0 and [test["status"] for test in data["tests"]] == ["failed", "failed"]
    assert data["tests"][0]["output"] == "No points for this exercise: it calls `torch.softmax`."
    data = gradescope.results(*_person(one(result("passed", partial=True, missing_weight=6.0))))
    assert [(test["score"], test["max_score"], test["status"]) for test in data["tests"]] == [(2, 2, "passed"), (0, 6, "failed")]
    data = gradescope.results(*_person(one(problem="alpha.zip is empty")))
    assert data["score"] == 0 and data["tests"][0]["status"] == "failed" and data["tests"][0]["output"] == "This submission could not be graded: alpha.zip is empty."
    data = gradescope.results(*_person(replace(one(result("passed")), exercises=EXERCISES[:2], people=(replace(one().people[0], results=(result("passed"),)),))))
    assert [test["name"] for test in data["tests"]] == ["softmax: law 1", "causal_mask: not tested"]


def test_what_was_not_tested_is_told_everywhere(tmp_path):
    person = replace(one().people[0], broken={"ch05_layers": Failure("", message="invalid syntax")})
    graded = replace(one(), people=(person,))
    data = gradescope.results(person, graded)
    assert [(test["extra_data"]["outcome"], test["output"]) for test in data["tests"][2:]] == [
        ("todo", "No test of this exercise was run."), ("error", "No test of this exercise was run. ch05_layers.py does not import.")
    ]  # fmt: skip
    assert sum(test["max_score"] for test in data["tests"]) == 32 and "ch05_layers.py does not import.\n  problem   invalid syntax" in data["output"]
    suite = ElementTree.fromstring(junit.document(graded))[0]
    assert [case[0].tag for case in suite] == ["skipped", "skipped", "skipped", "error"]
    assert "ch05_layers.py does not import" in csv_export.write(graded, tmp_path)[0].read_text(encoding="utf-8-sig")
    text = feedback.page(person, graded)
    assert "So none of its tests could run: `LayerNorm` 0 of 8." in text and "- `softmax` 0 of 8\n" in text


def test_the_mistake_is_there_for_programs(graded):
    known = [entry["diagnosis"] for person in graded.people for entry in gradescope.results(person, graded)["extra_data"]["headway"]["exercises"].values()]
    assert {"id": "over_queries", "says": "It is normalised over the queries.", "hint": "Over what?"} in known and None in known


def _person(graded: GradedClass) -> tuple[Person, GradedClass]:
    return graded.people[0], graded


# ---- JUnit


def test_junit_is_well_formed_and_counts_what_it_holds(graded, tmp_path):
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


# What junit-10.xsd, by which Jenkins validates, lets stand: an element's attributes (with how each is written), those it must have, its children.
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
            assert len(set(names)) == len(names)  # of two alike, what shows them keeps one


def test_each_outcome_is_what_a_ci_system_shows():
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


# ---- feedback


def test_feedback_is_what_they_would_have_seen_themselves():
    failed = result("passed", "failed", "timeout")
    text = feedback.page(*_person(one(failed, notes=("two files",), late="1 day late.")))
    assert text.startswith("# Feedback for Alpha\n\n**2.67 of 8 points.**\n\n1 day late.\n\n- Two files.\n\n## `softmax` 2.67 of 8\n\n```text\n")
    assert "\nFAILED  test_law_2\n  promised  Law 2 of softmax holds.\n  sizes     B=2 T=3\n" in text
    assert "\n  also timeout: test_law_3\n\nFor a hint: headway hint softmax\nSee it: headway show softmax\n```\n" in text


def test_feedback_lists_what_passed_and_what_is_to_do():
    todo = ExerciseResult(EXERCISES[1], [one_test(EXERCISES[1], 1, "todo")])
    text = feedback.page(*_person(one(result("passed"), todo)))
    assert text.endswith("## Passed\n\n- `softmax` 8 of 8\n\n## Still to do\n\n- `causal_mask` 0 of 8: nothing is written yet\n"), text


def test_feedback_tells_a_broken_chapter_once_and_a_problem_alone():
    error = result("error", "error")
    text = feedback.page(*_person(one(error, broken={"ch03_attention": Failure("", message="invalid syntax", where="ch03_attention.py, line 3")})))
    assert text.count("invalid syntax") == 1 and "## ch03_attention.py does not import\n" in text
    assert text.endswith("So none of its tests could run: `softmax` 0 of 8.\n")
    assert feedback.page(*_person(one(problem="alpha.zip is empty"))).endswith("**0 of 32 points.**\n\nThis submission could not be graded: alpha.zip is empty.\n")
    assert "Some tests of this exercise were not run" in feedback.page(*_person(one(result("passed", missing_weight=1.0))))


def test_no_word_of_a_stranger_leaves_its_block(graded):
    for person in graded.people:
        text = feedback.page(person, graded)
        tokens = MarkdownIt("gfm-like", {"linkify": False, "html": True}).parse(text)
        kinds = {token.type for token in tokens} | {child.type for token in tokens for child in token.children or ()}
        assert kinds <= {"heading_open", "heading_close", "inline", "text", "text_special", "code_inline", "paragraph_open", "paragraph_close", "softbreak",
                         "strong_open", "strong_close", "bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close", "fence"}, kinds  # fmt: skip
        headings = [tokens[place + 1].content for place, token in enumerate(tokens) if token.type == "heading_open"]
        assert all(re.match(r"Feedback for |`\w+` [\d.]+ of [\d.]+$|ch\d\d_\w+.py does not import$|Passed$|Still to do$", heading) for heading in headings)
    hostile = next(person for person in graded.people if person.slug == "hostile")
    shown = MarkdownIt("commonmark", {"html": True}).render(feedback.page(hostile, graded))
    assert "<script" not in shown and shown.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 5
    assert MarkdownIt().parse(feedback.page(hostile, graded))[1].content.startswith("Feedback for red")


@pytest.mark.parametrize("inside", ["```", "``````\n```", "~~~", "</pre><b>", "```text\n````"])
def test_a_fence_holds_whatever_is_in_it(inside):
    tokens = MarkdownIt().parse(f"before\n\n{fenced(inside)}\n\nafter\n")
    assert [token.content for token in tokens if token.type == "fence"] == [inside + "\n"] and tokens[-2].content == "after"


KEEP_VERDICT = """
import json
import pytest

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    from grader.plugin import RUN
    with open("verdict.json", "w") as file:
        json.dump(session.config.stash[RUN].verdict().as_data(), file)
"""


def test_feedback_says_what_the_terminal_says(tmp_path):
    """A real mistake, really graded: what pytest prints about it is what the feedback says, through the gradebook and back."""
    mistaken = "\n\ndef softmax(x, dim=-1):\n    print('```')\n    return x.exp() / x.exp().sum(0, keepdim=True)\n"
    text = solution("ch03").replace("def softmax(", "def softmax_(", 1) + mistaken
    (tmp_path / "alpha").mkdir()
    (tmp_path / "alpha" / "ch03_attention.py").write_text(text, encoding="utf-8")
    (tmp_path / "keep_verdict.py").write_text(KEEP_VERDICT)
    run = grade("--target", str(tmp_path / "alpha"), "--exercise", "softmax", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "keep_verdict",
                str(ROOT / "tests" / "test_ch03_attention.py"), cwd=tmp_path, PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]))  # fmt: skip
    verdict = Verdict.from_data(json.loads((tmp_path / "verdict.json").read_text()))
    [softmax] = verdict.results
    assert softmax.outcome == "failed", run.out
    alpha = submission("Alpha")
    with Gradebook.open(tmp_path / "grades") as book:
        book.begin(0, [softmax.exercise], VERSIONS)
        book.submissions_to_do([alpha])
        book.keep(alpha.digest, verdict)
        graded = book.graded(RULES)
    [fence] = [token.content for token in MarkdownIt().parse(feedback.page(graded.people[0], graded)) if token.type == "fence"]
    told = [line.rstrip() for line in run.out.splitlines()]
    told = told[told.index("── softmax ".ljust(80, "─")) + 1 :]
    assert fence.splitlines() == told[: len(fence.splitlines())] and "printed   ```" in fence
    assert fence.endswith("\nFor a hint: headway hint softmax\nSee it: headway show softmax\n")
    assert graded.people[0].marks["softmax"].earned == marking.mark(softmax, 8).earned


def test_a_submission_has_examples_of_its_own():
    """Answers written down for a seed that everybody knows are of no use: writing them down makes it another submission."""
    assert own_seed(0, "a" * 64) == own_seed(0, "a" * 64) != own_seed(0, "b" * 64) != own_seed(1, "b" * 64)
    assert len({own_seed(0, f"{n:064x}") for n in range(1000)}) == 1000
