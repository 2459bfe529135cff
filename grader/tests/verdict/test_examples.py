"""The examples of a graded test do not depend on the code that is loaded; pinned examples are run last and shown as drawn ones."""

from contextlib import closing
from pathlib import Path

import pytest
from grader.execution.target import Target
from grader.runner.graded_tests import graded_test
from grader.runner.judging import judge_of
from grader.runner.marks import exercise
from grader.verdict.comparing import close, sizes
from grader.verdict.examples import Pinned
from grader.verdict.trial import Trial
from hypothesis import example, given
from hypothesis import strategies as st
from pytest_runs import environment, grade, solution

LOGGING = """

_apply_rope = apply_rope


def apply_rope(x, positions, base=10000.0):
    with open({log!r}, "a") as log:
        print(x.shape, float(x.sum()), file=log)
    return _apply_rope(x, positions, base)
"""
NUMBERS = "\nNUMBERS = [" + ", ".join(str(n) for n in range(101, 160)) + "]\n"


def calls(folder, extra: str, *arguments: str, **options) -> str:
    """The arguments with which the tests called a correct apply_rope, in a chapter with this text at its end."""
    folder.mkdir()
    log = folder / "calls.txt"
    (folder / "ch04_positions_in_attention.py").write_text(solution("ch04") + LOGGING.format(log=str(log)) + extra)
    run = grade("--target", str(folder), "--exercise", "apply_rope", *arguments, results=folder / "results.json", **options)
    assert run.exercise("apply_rope")["outcome"] == "passed", run.out
    return log.read_text()


@pytest.mark.thorough
def test_numbers_in_the_code_or_beside_it_do_not_change_the_examples(tmp_path):
    """grader/tests/plugin/test_plugin.py tries which examples another seed adds."""
    (tmp_path / "beside.py").write_text(NUMBERS)
    beside = {"PYTHONPATH": f"{tmp_path}:{environment().get('PYTHONPATH', '')}", "PYTEST_PLUGINS": "beside"}
    plain = calls(tmp_path / "plain", "")
    assert plain == calls(tmp_path / "numbered", NUMBERS) == calls(tmp_path / "beside", "", **beside) and len(set(plain.splitlines())) > 10


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("wrong, shown", [(lambda T, V: (T, V) == (5, 3), "T=5 V=3"), (lambda T, V: T >= 5, "T=6 V=2")])
def test_a_pinned_example_is_run_last_and_shown_as_a_drawn_one(seed, wrong, shown):
    """At every seed; and if a drawn example fails too, the smallest of those is shown."""

    @exercise("softmax")
    @example(n=Pinned(lambda: [5, 3]))
    @given(n=st.tuples(st.integers(6, 7), st.integers(2, 5)).map(list))
    def body(learner, n):
        sizes(T=n[0], V=n[1])
        close(learner.softmax(1.0 * wrong(*n)), 0.0, "the weight")
        n[0] = 99

    code = "def softmax(x, dim=-1):\n    return x\n"
    with closing(judge_of(Trial(Target("some code", None, {"ch03_attention": code}), whole=True, seed=seed))) as judge:
        result = judge.runner.run_test(graded_test(body, Path("elsewhere/test_softmax.py")))
    assert result.outcome == "failed" and result.details.sizes == shown and result.details.called[0].startswith("softmax(")
