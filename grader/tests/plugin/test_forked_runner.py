"""A call in plain pytest that does not return to Python, or that ends the process, costs its own test only."""

import sys

import pytest
from pytest_runs import grade, module, solution

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pytest forks on Linux only")

SOFTMAX = '''

import ctypes, itertools
_softmax = softmax


def softmax(x, dim=-1):
    if x.isinf().any():
        {}
    return _softmax(x, dim)
'''
BAD = {
    "a loop in C": ("sum(itertools.repeat(0))", "timeout", "The call did not end within 0.7 s."),
    "a crash": ("ctypes.string_at(0)", "error", "a crash inside native code"),
}


@pytest.fixture(scope="module", params=BAD)
def bad_run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("forked")
    line, outcome, words = BAD[request.param]
    (folder / f"{module('ch03')}.py").write_text(solution("ch03") + SOFTMAX.format(line))
    run = grade("--target", str(folder), "--exercise", "softmax", "-p", "no:cacheprovider", results=folder / "r.json", quick=folder)
    return run, line, outcome, words


def test_the_other_tests_have_their_results(bad_run):
    run, line, outcome, words = bad_run
    tests = run.exercise("softmax")["tests"]
    found = {test["outcome"] for test in tests}
    assert run.status == 1 and {"passed", outcome} <= found <= {"passed", outcome, "timeout"}, run.out  # a busy machine may need long for a new process
    assert [test["outcome"] for test in tests].count("passed") >= 4 and tests[0]["outcome"] == "passed"
    assert "Fatal Python error" not in run.out and "ran your code in a separate process" in run.out


def test_the_page_shows_the_call_and_the_line(bad_run):
    run, line, outcome, words = bad_run
    prose = " ".join(run.out.split())
    assert words in prose and "called softmax(torch.tensor(" in prose
    assert outcome != "timeout" or f"it was at ch03_attention.py, line {solution('ch03').count(chr(10)) + 9}: {line}" in prose, run.out
