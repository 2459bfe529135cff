"""What an instructor gets: each format is read back by the tool that reads it in practice, with strangers' text in every field."""

import csv
import io
import json
import os
import re
from dataclasses import replace
from decimal import Decimal

import pytest
from example_class import EXERCISES, RULES, VERSIONS, one_test, submission
from export_examples import first_of, harmless, hostile_class, one, result
from grader.classroom.exports import csv as csv_export
from grader.classroom.exports import feedback, gradescope, write_all
from grader.classroom.gradebook.gradebook import Gradebook
from grader.classroom.intake.problems import GradingProblem
from grader.classroom.judging import scoring
from grader.classroom.judging.graded_class import GradedClass
from grader.course.syllabus import ROOT
from grader.verdict.results import ExerciseResult, Failure
from grader.verdict.summary import Verdict
from markdown_it import MarkdownIt
from pytest_runs import grade, solution


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
    [path] = csv_export.write(graded, tmp_path)
    assert path.read_bytes().startswith(b"\xef\xbb\xbfname,total,of,late,problem,notes,softmax,")
    rows = list(csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline="")))
    assert list(rows[0]) == ["name", "total", "of", "late", "problem", "notes", *(exercise.name for exercise in EXERCISES)]
    assert len(rows) == len(graded.people)
    for row, person in zip(rows, graded.people):
        assert [Decimal(row[exercise.name]) for exercise in EXERCISES] == [person.marks[exercise.name].earned for exercise in EXERCISES]
        assert Decimal(row["total"]) == person.total.earned and Decimal(row["of"]) == person.total.points
    late = next(row for row in rows if row["name"] == "zéro late")
    assert late["late"].startswith("1 day late (submitted 2026-05-02 10:00, ") and late["notes"].startswith("there were two files")


def test_no_note_is_cut_off_in_the_table(tmp_path):
    notes = tuple(f"there are several versions of chapter {number}, and this is a long sentence about them{' and them' * 10}" for number in range(20))
    [path] = csv_export.write(one(notes=notes), tmp_path)
    [_, row] = csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline=""))
    assert row[5] == "; ".join(notes)


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r=", "\n=", " =", "\x1b[1m=", "\x00=", "\u202e=", "\uff1d", "\u00a0@", "\ufeff="])
def test_no_cell_is_a_formula(start, tmp_path):
    words = f"{start}1+cmd|' /C calc'!A0"
    [path] = csv_export.write(one(name=words, problem=words, late=words, notes=(words, "b")), tmp_path)
    [_, row] = csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline=""))
    for cell in row:
        assert re.match(r"['⟨]|\d+(\.\d+)?$|$", cell), cell
        assert not re.search(r"[\t\r\n]", cell)


@pytest.mark.parametrize("inside", ["x;=1+1", "x; =1+1", "x;;@SUM(1)", 'x;"=1+1"', "x|-1+1", "x;\t+1", "x;\uff1d1+1", "x;\n=1", '";=1', ";@x"])
def test_no_cell_is_a_formula_if_semicolons_separate_cells(inside, tmp_path):
    """A spreadsheet that uses the system's separator recognises quotes only at the beginning of a cell."""
    [path] = csv_export.write(one(name=inside, problem=inside, late=inside, notes=(inside, "b")), tmp_path)
    text = path.read_bytes().decode("utf-8-sig")
    for delimiter in ";|":
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            assert not [cell for cell in row if re.match("[\\s\"]*[=+@\\-\uff1d]", cell)], row
    [_, row] = csv.reader(io.StringIO(text, newline=""))
    assert {cell.replace("'", "") for cell in row[3:5]} == {" ".join(inside.split())}


def test_every_export_shows_what_was_not_tested(tmp_path):
    person = replace(one().people[0], broken={"ch05_layers": Failure("", message="invalid syntax")})
    graded = replace(one(), people=(person,))
    data = gradescope.results(person, graded)
    assert [test["output"] for test in data["tests"][2:]] == [
        "No test of this exercise was run.", "No test of this exercise was run. ch05_layers.py does not import."
    ]  # fmt: skip
    assert sum(test["max_score"] for test in data["tests"]) == 32 and "ch05_layers.py does not import.\n  problem   invalid syntax" in data["output"]
    assert "ch05_layers.py does not import" in csv_export.write(graded, tmp_path)[0].read_text(encoding="utf-8-sig")
    text = feedback.page(person, graded)
    assert "So the tests of these exercises could not run: `LayerNorm` 0 of 8." in text and "- `softmax` 0 of 8\n" in text


# ---- feedback


def test_feedback_shows_what_the_learner_would_have_seen():
    failed = result("passed", "failed", "timeout")
    text = feedback.page(*first_of(one(failed, notes=("two files",), late="1 day late.")))
    assert text.startswith("# Feedback for Alpha\n\n**2.67 of 8 points.**\n\n1 day late.\n\n- Two files.\n\n## `softmax` 2.67 of 8\n\n```text\n")
    assert "\nFAILED  test_law_2\n  promised  Law 2 of softmax holds.\n  sizes     B=2 T=3\n" in text
    assert "\n  also timeout: test_law_3\n\nFor a hint: headway hint softmax\nFor a picture: headway show softmax\n```\n" in text


def test_feedback_lists_passed_and_open_exercises():
    todo = ExerciseResult(EXERCISES[1], [one_test(EXERCISES[1], 1, "todo")])
    text = feedback.page(*first_of(one(result("passed"), todo)))
    assert text.endswith("## Passed\n\n- `softmax` 8 of 8\n\n## Still to do\n\n- `causal_mask` 0 of 8: not implemented yet\n"), text


def test_feedback_shows_a_broken_chapter_once_and_a_problem_alone():
    error = result("error", "error")
    text = feedback.page(*first_of(one(error, broken={"ch03_attention": Failure("", message="invalid syntax", where="ch03_attention.py, line 3")})))
    assert text.count("invalid syntax") == 1 and "## ch03_attention.py does not import\n" in text
    assert text.endswith("So the tests of these exercises could not run: `softmax` 0 of 8.\n")
    assert feedback.page(*first_of(one(problem="alpha.zip is empty"))).endswith("**0 of 32 points.**\n\nThis submission could not be graded: alpha.zip is empty.\n")
    assert "Some tests of this exercise were not run" in feedback.page(*first_of(one(result("passed", missing_weight=1.0))))


def test_text_from_a_submission_stays_inside_its_block(graded):
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
def test_a_block_encloses_any_text(inside):
    text = feedback.page(*first_of(one(broken={"ch03_attention": Failure("", message=inside)})))
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
    [fence] = [token.content for token in MarkdownIt().parse(feedback.page(graded.people[0], graded)) if token.type == "fence"]
    printed = [line.rstrip() for line in run.out.splitlines()]
    printed = [line for line in printed[printed.index("── softmax ".ljust(80, "─")) + 1 :] if not line.startswith("  run again ")]
    assert fence.splitlines() == printed[: len(fence.splitlines())] and "printed   ```" in fence
    assert fence.endswith("\nFor a hint: headway hint softmax\nFor a picture: headway show softmax\n")
    assert graded.people[0].marks["softmax"].earned == scoring.compute_mark(softmax, 8).earned
