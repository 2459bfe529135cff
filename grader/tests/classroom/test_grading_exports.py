"""What an instructor gets: each format is read back by the tool that reads it in practice, with strangers' text in every field."""

import csv
import io
import json
import os
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from example_class import EXERCISES, HOSTILE, RULES, VERSIONS, a_class, one_test, submission, verdict_of
from grader.classroom.exports import feedback_page, gradescope_results, write_all, write_grades, write_gradescope
from grader.classroom.gradebook import Gradebook
from grader.classroom.intake.submissions import GradingProblem
from grader.classroom.judging.marks import GradedClass, Person, compute_mark, compute_marks, compute_total
from grader.course.syllabus import ROOT
from grader.verdict.results import ExerciseResult, Failure, Verdict
from markdown_it import MarkdownIt
from pytest_runs import grade, solution


def hostile_class(folder: Path) -> GradedClass:
    """A class from a real gradebook, with hostile text in every field that a stranger can fill."""
    hostile = submission(HOSTILE, slug="hostile", digest="0125" * 16, notes=(HOSTILE,))
    people = [*a_class(6), hostile, submission(f"=HYPERLINK({HOSTILE})", slug="hostile-2", problem=f"the file {HOSTILE} is empty")]
    with Gradebook(folder) as book:
        book.start_run(3, EXERCISES, VERSIONS)
        for one in book.submissions_to_do(people):
            verdict = verdict_of(one.digest, said=HOSTILE if one is hostile else "")
            if one is hostile:
                verdict.notes.append(HOSTILE)
                verdict.results[0].forbidden.append(HOSTILE)
                verdict.broken[EXERCISES[-1].module] = Failure("", message=HOSTILE, where=HOSTILE)
            book.store_verdict(one.digest, verdict)
        return book.graded_class(RULES)


def one(*results: ExerciseResult, **more) -> GradedClass:
    """A class of one person, graded in these exercises."""
    exercises = tuple(result.exercise for result in results) or EXERCISES
    marks = compute_marks(results, exercises, RULES.points_of)
    person = Person(**{"name": "Alpha", "slug": "alpha", "digest": "d", "results": results, "marks": marks, "total": compute_total(marks.values())} | more)
    return GradedClass((person,), exercises, 0, VERSIONS)


def result(*outcomes: str, **more) -> ExerciseResult:
    return ExerciseResult(EXERCISES[0], [one_test(EXERCISES[0], number, outcome) for number, outcome in enumerate(outcomes, 1)], **more)


def harmless(text: str) -> bool:
    """The text contains no terminal command, no change of writing direction and no half character."""
    return all(c.isprintable() or c in "\n\u200c\u200d" for c in text)


def first_of(graded: GradedClass) -> tuple[Person, GradedClass]:
    return graded.people[0], graded


# As Gradescope documents it: gradescope-autograders.readthedocs.io/en/latest/specs/
KEYS = {"score", "output", "output_format", "test_output_format", "test_name_format", "stdout_visibility", "extra_data", "tests"}
KEYS_OF_TEST = {"name": str, "number": str, "score": float, "max_score": float, "status": str, "output": str, "tags": list, "visibility": str}


@pytest.fixture(scope="module")
def graded(tmp_path_factory) -> GradedClass:
    return hostile_class(tmp_path_factory.mktemp("grades"))


# ---- all of them


def test_every_export_is_utf8_text_without_terminal_commands(graded, tmp_path):
    paths = write_all(graded, tmp_path)
    assert len(paths) == len(set(paths)) == 1 + 2 * len(graded.people)
    for path in paths:
        assert harmless(path.read_text(encoding="utf-8-sig").replace("\r\n", "\n")), path


def test_writing_again_changes_nothing_and_removes_files_of_people_who_left(graded, tmp_path):
    paths = write_all(graded, tmp_path)
    before = {path: path.read_bytes() for path in paths}
    assert write_all(graded, tmp_path) == paths
    assert {path: path.read_bytes() for path in paths} == before
    (tmp_path / "feedback" / "mine.md").write_text("a note of the instructor's")
    (tmp_path / "gradescope" / "mine.json").write_text("{}")
    fewer = replace(graded, people=[person for person in graded.people if person.slug != "hostile"])
    left = {*write_all(fewer, tmp_path), tmp_path / "feedback" / "mine.md", tmp_path / "gradescope" / "mine.json"}
    assert set(tmp_path.rglob("*.*")) == left and len(left) == len(paths)


def test_a_failed_write_gives_a_message_and_no_partial_file(graded, tmp_path):
    (tmp_path / "grades.csv").mkdir()
    with pytest.raises(GradingProblem) as caught:
        write_all(graded, tmp_path)
    assert str(caught.value) == f"could not write {tmp_path / 'grades.csv'}: is a directory"
    (tmp_path / "grades.csv").rmdir()
    (tmp_path / "feedback").write_text("a file")
    with pytest.raises(GradingProblem, match="^could not write .*feedback/[\\w-]+.md: "):
        write_all(graded, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"grades.csv", "gradescope", "feedback"}


# ---- grades.csv


def test_the_table_has_a_row_per_person_and_a_column_per_exercise(graded, tmp_path):
    [path] = write_grades(graded, tmp_path)
    assert path.read_bytes().startswith(b"\xef\xbb\xbfname,total,of,late,problem,notes,softmax,")
    rows = list(csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline="")))
    assert list(rows[0]) == ["name", "total", "of", "late", "problem", "notes", *(exercise.name for exercise in EXERCISES)]
    assert len(rows) == len(graded.people)
    for row, person in zip(rows, graded.people):
        assert [Decimal(row[exercise.name]) for exercise in EXERCISES] == [person.marks[exercise.name].earned for exercise in EXERCISES]
        assert Decimal(row["total"]) == person.total.earned and Decimal(row["of"]) == person.total.points
    late = next(row for row in rows if row["name"] == "zéro late")
    assert late["late"].startswith("1 day late (submitted 2026-05-02 10:00, ") and late["notes"].startswith("there were two files")


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r=", " =", "\x1b[1m=", "\u202e=", "\uff1d", "\u00a0@"])
def test_no_cell_is_a_formula(start, tmp_path):
    words = f"{start}1+cmd|' /C calc'!A0"
    [path] = write_grades(one(name=words, problem=words, late=words, notes=(words, "b")), tmp_path)
    [_, row] = csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline=""))
    for cell in row:
        assert re.match(r"['⟨]|\d+(\.\d+)?$|$", cell), cell
        assert not re.search(r"[\t\r\n]", cell)


@pytest.mark.parametrize("inside", ["x; =1+1", "x;;@SUM(1)", 'x;"=1+1"', "x|-1+1", "x;\uff1d1+1", "x;\n=1", '";=1'])
def test_no_cell_is_a_formula_if_semicolons_separate_cells(inside, tmp_path):
    """A spreadsheet that uses the system's separator recognises quotes only at the beginning of a cell."""
    [path] = write_grades(one(name=inside, problem=inside, late=inside, notes=(inside, "b")), tmp_path)
    text = path.read_bytes().decode("utf-8-sig")
    for delimiter in ";|":
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            assert not [cell for cell in row if re.match("[\\s\"]*[=+@\\-\uff1d]", cell)], row
    [_, row] = csv.reader(io.StringIO(text, newline=""))
    assert {cell.replace("'", "") for cell in row[3:5]} == {" ".join(inside.split())}


def test_every_export_shows_what_was_not_tested(tmp_path):
    person = replace(one().people[0], broken={"ch05_layers": Failure("", message="invalid syntax")})
    graded = replace(one(), people=(person,))
    data = gradescope_results(person, graded)
    assert [test["output"] for test in data["tests"][2:]] == [
        "No test of this exercise was run.", "No test of this exercise was run. ch05_layers.py does not import."
    ]  # fmt: skip
    assert sum(test["max_score"] for test in data["tests"]) == 32 and "ch05_layers.py does not import.\n  problem   invalid syntax" in data["output"]
    assert "ch05_layers.py does not import" in write_grades(graded, tmp_path)[0].read_text(encoding="utf-8-sig")
    text = feedback_page(person, graded)
    assert "So the tests of these exercises could not run: `LayerNorm` 0 of 8." in text and "- `softmax` 0 of 8\n" in text


# ---- Gradescope


def test_a_results_file_follows_gradescopes_documentation(graded, tmp_path):
    paths = write_gradescope(graded, tmp_path)
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
    known = [entry for person in graded.people for entry in gradescope_results(person, graded)["extra_data"]["headway"]["diagnoses"].values()]
    assert {"id": "over_queries", "says": "It is normalised over the queries.", "hint": "Over what?", "also": None} in known


def test_an_entry_says_what_is_wrong_with_its_exercise():
    cases = {
        ("failed", "FAILED  test_law_2\n  promised  Law 2 of softmax holds."): result("passed", "failed", "error"),
        ("failed", "No points for this exercise: it calls `torch.softmax`."): result("passed", forbidden=["it calls `torch.softmax`"]),
        ("failed", "Some tests of this exercise were not run"): result("passed", partial=True, missing_weight=6.0),
        ("failed", "Not implemented yet."): result("todo"),
        ("passed", "All tests passed."): result("passed"),
    }  # fmt: skip
    for (status, says), found in cases.items():
        [entry] = gradescope_results(*first_of(one(found)))["tests"]
        assert (entry["status"], entry["number"]) == (status, "3.1") and says in entry["output"], entry
    data = gradescope_results(*first_of(one(problem="alpha.zip is empty")))
    assert data["score"] == 0 and {test["output"] for test in data["tests"]} == {"This submission could not be graded: alpha.zip is empty."}


# ---- feedback


def test_feedback_shows_what_the_learner_would_have_seen():
    failed, todo = result("passed", "failed", "timeout"), ExerciseResult(EXERCISES[1], [one_test(EXERCISES[1], 1, "todo")])
    assert feedback_page(*first_of(one(result("passed"), todo))).endswith(
        "## Passed\n\n- `softmax` 8 of 8\n\n## Still to do\n\n- `causal_mask` 0 of 8: not implemented yet\n"
    )
    text = feedback_page(*first_of(one(failed, notes=("two files",), late="1 day late.")))
    assert text.startswith("# Feedback for Alpha\n\n**2.67 of 8 points.**\n\n1 day late.\n\n- Two files.\n\n## `softmax` 2.67 of 8\n\n```text\n")
    assert "\nFAILED  test_law_2\n  promised  Law 2 of softmax holds.\n  sizes     B=2 T=3\n" in text
    assert "\n  also timeout: test_law_3\n\nFor a hint: headway hint softmax\nFor a picture: headway show softmax\n```\n" in text


def test_feedback_shows_a_broken_chapter_once_and_a_problem_alone():
    error = result("error", "error")
    text = feedback_page(*first_of(one(error, broken={"ch03_attention": Failure("", message="invalid syntax", where="ch03_attention.py, line 3")})))
    assert text.count("invalid syntax") == 1 and "## ch03_attention.py does not import\n" in text
    assert text.endswith("So the tests of these exercises could not run: `softmax` 0 of 8.\n")
    assert feedback_page(*first_of(one(problem="alpha.zip is empty"))).endswith("**0 of 32 points.**\n\nThis submission could not be graded: alpha.zip is empty.\n")
    assert "Some tests of this exercise were not run" in feedback_page(*first_of(one(result("passed", missing_weight=1.0))))


def test_text_from_a_submission_stays_inside_its_block(graded):
    for person in graded.people:
        text = feedback_page(person, graded)
        tokens = MarkdownIt("gfm-like", {"linkify": False, "html": True}).parse(text)
        kinds = {token.type for token in tokens} | {child.type for token in tokens for child in token.children or ()}
        assert kinds <= {"heading_open", "heading_close", "inline", "text", "text_special", "code_inline", "paragraph_open", "paragraph_close", "softbreak",
                         "strong_open", "strong_close", "bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close", "fence"}, kinds  # fmt: skip
        headings = [tokens[place + 1].content for place, token in enumerate(tokens) if token.type == "heading_open"]
        assert all(re.match(r"Feedback for |`\w+` [\d.]+ of [\d.]+$|ch\d\d_\w+.py does not import$|Passed$|Still to do$", heading) for heading in headings)
    hostile = next(person for person in graded.people if person.slug == "hostile")
    shown = MarkdownIt("commonmark", {"html": True}).render(feedback_page(hostile, graded))
    assert "<script" not in shown and shown.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 5
    assert MarkdownIt().parse(feedback_page(hostile, graded))[1].content.startswith("Feedback for red")


@pytest.mark.parametrize("inside", ["``````\n```", "~~~", "</pre><b>"])
def test_a_block_encloses_any_text(inside):
    text = feedback_page(*first_of(one(broken={"ch03_attention": Failure("", message=inside)})))
    [block] = [token.content for token in MarkdownIt().parse(text) if token.type == "fence"]
    assert [line.strip() for line in inside.splitlines()] == [line.removeprefix("  problem").strip() for line in block.splitlines()]


KEEP_VERDICT = """
import json
import pytest

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    from grader.plugin.hooks import RUN
    with open("verdict.json", "w") as file:
        json.dump(session.config.stash[RUN].verdict().as_data(), file)
"""


def test_feedback_equals_the_terminal_output(tmp_path):
    """A real mistake, really graded: the feedback contains what pytest prints about it, also after the gradebook has stored it."""
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
    with Gradebook(tmp_path / "grades") as book:
        book.start_run(0, [softmax.exercise], VERSIONS)
        book.submissions_to_do([alpha])
        book.store_verdict(alpha.digest, verdict)
        graded = book.graded_class(RULES)
    [fence] = [token.content for token in MarkdownIt().parse(feedback_page(graded.people[0], graded)) if token.type == "fence"]
    printed = [line.rstrip() for line in run.out.splitlines()]
    printed = [line for line in printed[printed.index("── softmax ".ljust(80, "─")) + 1 :] if not line.startswith("  run again ")]
    assert fence.splitlines() == printed[: len(fence.splitlines())] and "printed   ```" in fence
    assert fence.endswith("\nFor a hint: headway hint softmax\nFor a picture: headway show softmax\n")
    assert graded.people[0].marks["softmax"].earned == compute_mark(softmax, 8).earned
