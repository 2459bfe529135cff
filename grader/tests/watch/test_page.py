"""The page of the watch as text, without a terminal."""

import pytest
from grader.course.source import SourceProblem, excerpt, parse
from grader.course.syllabus import load_syllabus
from grader.verdict.results import Verdict
from grader.watch.page import KEYS, State, body_lines, status_lines
from grader.watch.terminal import Screen

SOFTMAX = load_syllabus().exercise("softmax")


def shown(lines) -> str:
    return "\n".join(line.plain for line in lines)


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("columns", [30, 44, 72, 80])
def test_the_keys_fit_and_quit_is_always_one_of_them(columns, pinned, monkeypatch, capsys):
    for name, value in (("COLUMNS", str(columns)), ("LINES", "24"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    Screen().draw(State(SOFTMAX, keys=True, pinned=pinned))
    line = capsys.readouterr().out.removesuffix("\x1b[K\x1b[J").splitlines()[-1]
    assert len(line) <= columns and line.startswith("h hint") and line.endswith("q quit")
    if columns == 80:
        assert all(f"{key} " in line for key, _ in KEYS) and ("p unpin" in line) == pinned and ("p pin" in line) != pinned


def test_a_file_problem_replaces_everything_from_before():
    state = State(SOFTMAX, keys=True, follow_note="You changed softmax, so it is tested now.", note="a note")
    text = "def softmax(x):\n    return (x\n"
    with pytest.raises(SourceProblem) as caught:
        parse(text, "ch03_attention.py")
    state.wait_for_save(caught.value, excerpt(text, caught.value))
    page, below = shown(body_lines(state, 80)), shown(status_lines(state, 80))
    assert "This is not valid Python ('(' was never closed)\n\n    1 | def softmax(x):\n    2 |     return (x\n" + " " * 19 + "^" in page
    assert below == "ch03_attention.py, line 2: this is not valid Python ('(' was never closed).\nWaiting for the next save."
    state.start_run()
    assert "not valid" not in shown(body_lines(state, 80)) + shown(status_lines(state, 80))


def test_a_missing_file_gets_the_command_that_creates_it():
    state = State(SOFTMAX, keys=True)
    state.wait_for_save(SourceProblem("there is no file ch99_gone.py in exercises", file="ch99_gone.py"), [])
    assert "To create the stub again: headway reset ch99" in shown(body_lines(state, 80))


def test_the_page_says_what_is_tested_and_that_it_is_pinned():
    state = State(SOFTMAX, keys=True, pinned=True, finished_at="12:00:00", follow_note="You changed softmax, so it is tested now.")
    assert shown(status_lines(state, 80)) == "You changed softmax, so it is tested now.\n12:00:00   verdict after 0.00 s   pinned"


def test_the_first_failure_is_shown_while_the_other_tests_run():
    state = State(SOFTMAX, keys=True)
    state.start_run()
    state.test, state.first_failure = "test_gradient_of_softmax", "The tensor of weights came out wrong."
    assert shown(status_lines(state, 80)) == "fails: The tensor of weights came out wrong."
    state.start_run()
    assert shown(status_lines(state, 80)) == "testing"


def test_the_last_report_is_marked_while_a_new_save_is_tested():
    state = State(SOFTMAX, keys=True, verdict=Verdict([]))
    assert "previous save" not in shown(body_lines(state, 80))
    state.start_run()
    state.first_failure, state.started_at = "It is wrong.", state.started_at - 3
    assert shown(body_lines(state, 80)).startswith("Of the previous save:")
    assert shown(status_lines(state, 80)) == "fails: It is wrong. (3 s so far)"
