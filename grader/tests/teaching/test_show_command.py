"""`headway show` as a person runs it: in a terminal, and without one."""

import sys

import pexpect
import pytest
from grader.course.source import definition, replace_definition
from grader.course.syllabus import load_syllabus
from grader.runner.run_page import Page, print_result
from grader.teaching.show.terminal import find_colour_system
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
def test_in_a_terminal_it_is_as_wide_and_as_colourful_as_the_terminal(wrong):
    child = pexpect.spawn(
        sys.executable, ["-m", "grader.cli", "show", "causal_mask"], cwd=str(wrong.root),
        env=wrong.environment(COLORTERM="truecolor"), dimensions=(40, 60), encoding="utf-8", timeout=SECONDS,
    )  # fmt: skip
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0 and "48;2;8;48;107" in child.before
    lines = ESCAPE.sub("", child.before).replace("\r", "").splitlines()
    assert max(map(len, lines)) <= 60
    assert "reference" in next(line for line in lines if "yours" in line), "side by side"


def test_a_terminal_gets_the_colours_that_it_has(monkeypatch):
    for environment, colours in (({"COLORTERM": "truecolor"}, "truecolor"), ({"COLORTERM": ""}, "256"), ({"NO_COLOR": "1"}, None)):
        with monkeypatch.context() as patch:
            for name in ("NO_COLOR", "COLORTERM"):
                patch.setenv(name, environment.get(name, ""))
            patch.setenv("TERM", "xterm")
            assert find_colour_system() == colours


def test_where_there_is_no_picture_it_lists_those_that_there_are(wrong):
    other = wrong.run("show", "is_validation", status=1)
    assert other.startswith("is_validation has no picture. These exercises have one:\n 8 Training: collate, cross_entr")
    chapter = wrong.run("show", "ch10")
    assert "KVCache, CachedSelfAttention" in chapter and "softmax" not in chapter
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
