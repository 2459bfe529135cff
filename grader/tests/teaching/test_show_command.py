"""`headway show` as a person runs it: in a terminal, without one, into a file, and at the watch's key s."""

import sys

import pexpect
import pytest
from grader.course.source import definition, replace_definition
from grader.course.syllabus import load_syllabus
from grader.runner.layout import Page, print_result
from grader.verdict.results import ExerciseResult, Failure, TestResult
from kit_copy import posix
from watching import ESCAPE, SECONDS

STUB = "    raise NotImplementedError"
WRONG = "    return torch.ones(q_len, k_len or q_len, dtype=torch.bool).tril()"


def write_wrong_mask(kit):
    """A learner who treats the queries as the first positions."""
    file = kit.file("ch03_attention")
    text = file.read_text(encoding="utf-8")
    file.write_text(replace_definition(text, "causal_mask", definition(text, "causal_mask").text.replace(STUB, WRONG)), encoding="utf-8")
    return kit


@pytest.fixture(scope="module")
def wrong(module_kit):
    return write_wrong_mask(module_kit)


def test_without_a_terminal_it_is_plain_text(wrong):
    shown = wrong.run("show", "causal_mask", COLORTERM="truecolor")
    assert shown.startswith("causal_mask: which keys each query may see\n")
    assert "Your result differs from the reference's in 12 of 70 numbers.\n" in shown
    assert "\x1b" not in shown and "yours - reference" in shown and "# may attend   . hidden" in shown
    assert max(map(len, shown.splitlines())) <= 80


@posix
@pytest.mark.parametrize(
    "environment, code, columns",
    [({"COLORTERM": "truecolor"}, "48;2;8;48;107", 100), ({"COLORTERM": ""}, "48;5;", 60), ({"NO_COLOR": "1"}, "", 60)],
)
def test_in_a_terminal_it_has_the_colours_of_the_terminal(wrong, environment, code, columns):
    child = pexpect.spawn(
        sys.executable, ["-m", "grader.cli", "show", "causal_mask"], cwd=str(wrong.root),
        env=wrong.environment(**environment), dimensions=(40, columns), encoding="utf-8", timeout=SECONDS,
    )  # fmt: skip
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0 and (code in child.before if code else "\x1b[48" not in child.before)
    assert ("48;2;" in child.before) == (environment.get("COLORTERM") == "truecolor")
    lines = ESCAPE.sub("", child.before).replace("\r", "").splitlines()
    assert max(map(len, lines)) <= columns
    side_by_side = next(line for line in lines if "yours" in line)
    assert "reference" in side_by_side


def test_into_a_file(wrong, tmp_path):
    target = tmp_path / "a folder" / "mask.SVG"
    said = wrong.run("show", "causal_mask", "--out", str(target))
    assert "in 12 of 70 numbers. The picture is" in " ".join(said.split()) and "mask.SVG" in said
    assert "yours - reference" in target.read_text(encoding="utf-8")


def test_a_picture_that_cannot_be_drawn_is_one_sentence(wrong, tmp_path):
    misspelt = wrong.run("show", "causal_musk", status=2)
    assert misspelt == "headway: there is no exercise or chapter called 'causal_musk'; did you mean causal_mask?\n"
    other_kind = wrong.run("show", "causal_mask", "--out", "mask.jpg", status=2)
    assert other_kind.endswith("the picture is an SVG, so give a file that ends in .svg; 'mask.jpg' does not\n")
    (tmp_path / "file").write_text("")
    assert wrong.run("show", "gelu", "--out", str(tmp_path / "file" / "mask.svg"), status=1).count("\n") == 1


def test_without_a_name_it_lists_the_pictures(wrong):
    listed = wrong.run("show")
    assert listed.startswith("The next exercise, softmax,") or listed.startswith("softmax: scores as weights"), listed
    other = wrong.run("show", "is_validation", status=1)
    assert other.startswith("is_validation has no picture. These exercises have one:\n 8 Training: collate, cross_entr")
    chapter = wrong.run("show", "ch10")
    assert "KVCache, CachedSelfAttention, kv_cache_bytes" in chapter and "softmax" not in chapter
    assert "headway show NAME" in chapter


def last_lines(name: str, outcome: str) -> list[str]:
    lines: list[str] = []
    test = TestResult("test_law", outcome, 0.1, 1.0, details=Failure("A law holds."))
    print_result(Page(lambda text, **_: lines.append(text), 80), ExerciseResult(load_syllabus().exercise(name), [test]))
    return lines


def test_a_failing_test_offers_it():
    hint, picture = "For a hint: headway hint causal_mask", "For a picture: headway show causal_mask"
    assert last_lines("causal_mask", "failed")[-2:] == [hint, picture]
    assert last_lines("causal_mask", "timeout")[-1] == last_lines("causal_mask", "error")[-1] == hint
    assert last_lines("is_validation", "failed")[-1] == "For a hint: headway hint is_validation"
