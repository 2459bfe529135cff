"""A graded run is one function: no pytest session, the same result in process and in a worker, and nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from contextlib import closing

import pytest
import torch
from boundaries import forks
from grader.course.source import replace_definition
from grader.course.syllabus import ROOT, load_syllabus
from grader.execution.host import reset_state
from grader.execution.target import Target, resolve
from grader.runner import graded_run
from grader.runner.graded_run import GradedRun
from grader.runner.graded_tests import NotATest, all_tests_of, graded_test
from grader.runner.judging import judge_of, run_exercise
from grader.runner.marks import exercise
from grader.tests.quality.benchmarks.workplace import solved_chapter
from grader.verdict.trial import Trial
from linux_processes import living_children
from pytest_runs import environment

SOFTMAX = load_syllabus().exercise("softmax")
WRONG = "def softmax(x, dim=-1):\n    print('softmax of', tuple(x.shape))\n    return torch.exp(x) / torch.exp(x).sum()\n"


def target(definition: str = "") -> Target:
    text = solved_chapter(SOFTMAX.module)
    return Target("target", None, {SOFTMAX.module: replace_definition(text, "softmax", definition) if definition else text})


def without_times(result):
    for test in result.tests:
        test.seconds = 0.0
    return result


@pytest.mark.parametrize("name", ["build_vocab", "AdamW"])
def test_the_reference_gets_all_points(name):
    result = run_exercise(load_syllabus().exercise(name), resolve("solutions"))
    assert result.outcome == "passed" and result.earned == result.exercise.points
    assert [test.name for test in result.tests] == [test.name for test in all_tests_of(result.exercise)]


def test_a_mistake_is_explained_and_named():
    result = run_exercise(SOFTMAX, target(WRONG))
    assert result.outcome == "failed" and result.diagnosis
    assert any("whole tensor sums to 1" in mistake.says for mistake in result.diagnosis.mistakes)
    first = result.failures[0]
    assert first.details and first.details.got and first.details.expected and "softmax of (" in first.details.printed


def test_an_example_begins_with_torchs_defaults_whatever_the_code_has_changed():
    """The test may compute before it asks the code for anything."""
    changing = "def softmax(x, dim=-1):\n    torch.set_default_dtype(torch.float64)\n    torch.set_grad_enabled(False)\n    return x\n"
    drawn = []
    with closing(Trial(target(changing))) as trial:
        trial.begin_test(SOFTMAX, "test")
        try:
            for _ in range(2):
                trial.begin_example()
                drawn.append(torch.rand(2, requires_grad=True))
                assert drawn[-1].dtype is torch.float32 and (drawn[-1] * 2).requires_grad and torch.equal(drawn[-1], drawn[0])
                trial.learner(SOFTMAX.chapter).softmax(torch.ones(2))
                assert torch.get_default_dtype() is torch.float64 and not torch.is_grad_enabled()
        finally:
            reset_state(0)


@pytest.mark.parametrize("in_worker", [False, pytest.param(True, marks=forks)])
def test_memory_that_was_never_written_holds_the_same_at_every_run(in_worker):
    torch.utils.deterministic.fill_uninitialized_memory = False  # as a training does
    empty = "def softmax(x, dim=-1):\n    return x * torch.empty_like(x), torch.empty(2, dtype=torch.int64)\n"
    with closing(Trial(target(empty), in_worker)) as trial:
        trial.begin_test(SOFTMAX, "test")
        trial.begin_example()
        floats, ids = trial.learner(SOFTMAX.chapter).softmax(torch.ones(2))
        assert floats.isnan().all() and (ids == torch.iinfo(torch.int64).max).all()


LAZY = """
import threading, time
_right, _started = softmax, []


def softmax(x, dim=-1):
    if not _started:
        _started.append(threading.Thread(target=time.sleep, args=(600,), name="started once", daemon=True))
        _started[0].start()
    return _right(x, dim)
"""


@pytest.mark.parametrize("in_worker", [False, pytest.param(True, marks=forks)])
def test_a_thread_that_only_the_first_call_starts_is_named_too(own_pool, in_worker):
    """hypothesis repeats a failing call, and the thread exists already when it does."""
    lazy = Target("target", None, {SOFTMAX.module: target().texts[SOFTMAX.module] + LAZY})
    (failure,) = run_exercise(SOFTMAX, lazy, in_worker=in_worker, pool=own_pool).failures
    assert "left a thread running (started once)" in failure.message


@forks
def test_a_submission_has_one_worker_at_a_time(worker_pool):
    """The worker of a chapter ends with the last of its tests, and so does what the reference made for them."""
    trial = Trial(resolve("solutions"), in_worker=True, pool=worker_pool)
    judge, seen = judge_of(trial), []

    def workers():
        return living_children(worker_pool.zygote.pid) if worker_pool.zygote else []

    others = set(workers())

    def note(test, _):
        seen.append([test.exercise.chapter, len(set(workers()) - others), len(trial._references)])

    tests = [test for name in ("sinusoidal_positions", "causal_mask") for test in judge.tests_of(load_syllabus().exercise(name))]
    judge.run_tests(tests, decided=note)
    assert {tuple(each) for each in seen} == {("ch02", 1, 1), ("ch03", 1, 1)} and not set(workers()) - others and not trial._references


@forks
def test_a_worker_gives_the_same_result(own_pool):
    here, there = (without_times(run_exercise(SOFTMAX, target(WRONG), in_worker=in_worker, pool=own_pool)) for in_worker in (True, False))
    assert here.earned == there.earned and [test.outcome for test in here.tests] == [test.outcome for test in there.tests]
    assert [test.message for test in here.tests] == [test.message for test in there.tests] and here.diagnosis == there.diagnosis


def test_a_run_leaves_streams_warnings_and_tests_as_they_were(capsys):
    before = sys.stdout, sys.stderr, list(warnings.filters)
    bodies = [getattr(test.function, "hypothesis", test.function) for test in all_tests_of(SOFTMAX)]
    inner = [getattr(body, "inner_test", body) for body in bodies]
    with pytest.raises(KeyboardInterrupt):
        run_exercise(SOFTMAX, InterruptedTarget("target", None, target().texts))
    run_exercise(SOFTMAX, target(WRONG))
    assert (sys.stdout, sys.stderr, list(warnings.filters)) == before and capsys.readouterr().out == ""
    assert [getattr(body, "inner_test", body) for body in bodies] == inner


ALONE = """
from grader.course.syllabus import load_syllabus
from grader.execution.target import resolve
from grader.runner.judging import run_exercise
result = run_exercise(load_syllabus().exercise("softmax"), resolve("solutions"))
print(result.outcome)
"""


def test_it_needs_no_session_of_pytest(tmp_path):
    """It runs where nothing has configured pytest, in any folder."""
    done = subprocess.run([sys.executable, "-c", ALONE], cwd=tmp_path, env=environment(PYTHONPATH=os.fspath(ROOT)), capture_output=True, text=True)
    assert done.stdout == "passed\n", done.stderr


def test_a_marked_function_that_cannot_be_graded_is_refused():
    @exercise("softmax")
    def test_with_a_fixture(learner, tmp_path):
        """A promise."""

    with pytest.raises(NotATest, match="test_with_a_fixture asks for tmp_path; a graded test takes only learner, reference and what hypothesis draws"):
        graded_test(test_with_a_fixture, ROOT / "tests" / "test_x.py")


def test_an_explanation_that_fails_ends_no_run(monkeypatch):
    """The outcome of the test stands, and a note says what is missing."""

    def broken(*_):
        raise ZeroDivisionError("in the kit")

    for name in ("explain_failure", "keep_example"):
        monkeypatch.setattr(graded_run, name, broken)
    run = GradedRun(Trial(target()), scripts=ROOT)
    test = all_tests_of(SOFTMAX)[0]
    run.trial.begin_test(SOFTMAX, test.name)
    result = run.record_test(test, 0.0, ValueError("the sum is 2"), "")
    assert (result.outcome, result.message) == ("failed", "ValueError: the sum is 2")
    assert len(run.notes) == 2 and "ZeroDivisionError: in the kit" in run.notes[0]


class InterruptedTarget(Target):
    """Control-C comes while the chapter is read."""

    def source(self, module: str):
        raise KeyboardInterrupt
