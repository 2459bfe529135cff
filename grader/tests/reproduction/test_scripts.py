"""A failure leaves a script that makes it again: with the same inputs, the learner's own function, and nothing that the failure does not need."""

import contextlib
import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from grader.course.source import read_source
from grader.course.syllabus import SOLUTIONS, load_syllabus
from grader.execution.proxy import gradients, load, parameters, randomise
from grader.execution.target import Target
from grader.reproduction.example import keep_example
from grader.reproduction.files import store_script
from grader.reproduction.running import StillRunning, agrees, run_script, verdict_of
from grader.reproduction.statements import parameter_names
from grader.verdict import comparing
from grader.verdict.comparing import close, holds
from grader.verdict.explanation import explain_failure
from grader.verdict.trial import Trial

X = torch.arange(6.0).reshape(2, 3) / 7


@dataclass
class Left:
    """The script of a failure, and the learner's file."""

    path: Path
    text: str
    facts: dict[str, Any]
    file: Path

    def run(self, seconds: float | None = None):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            run = run_script(self.path, seconds)
        return verdict_of(run, self.facts), run, printed.getvalue()

    def fix(self) -> None:
        self.file.write_text(read_source(SOLUTIONS / self.file.name), encoding="utf-8")


@pytest.fixture
def leave(tmp_path):
    """Run a test on the solution with one edit; the script that its failure leaves."""
    trials = []

    def leave(name, old, new, test, call_seconds=5.0, replaced=(), also=("", "")) -> Left:
        exercise = load_syllabus().exercise(name)
        file = tmp_path / f"{exercise.module}.py"
        text = read_source(SOLUTIONS / file.name)
        assert text.count(old) >= 1
        file.write_text(text.replace(old, new, 1).replace(*also, 1), encoding="utf-8")
        trial = Trial(Target(str(tmp_path), tmp_path), call_seconds=call_seconds)
        trial.replaced = replaced
        trials.append(trial)
        trial.begin_test(exercise, "test_it")
        trial.begin_example()
        with pytest.raises(BaseException) as caught:
            test(trial.learner(exercise.chapter), trial.reference(exercise.chapter))
        trial.end_test("failed")
        words = explain_failure(caught.value, "A promise.", trial.current_boundary, comparing.current)
        example = keep_example(caught.value, trial.current_boundary, comparing.current, exercise, "test_it", words.message, trial.example_seed)
        assert example is not None
        script = store_script(example, trial, tmp_path / "repro")
        assert script is not None
        return Left(tmp_path / "repro" / f"{name}.py", script.text, script.facts, file)

    yield leave
    for trial in trials:
        trial.close()


def wrong_softmax(leave, test):
    return leave("softmax", "sum(dim, keepdim=True)", "sum()", test)


def check_fails_until_fixed(left):
    verdict, run, _ = left.run()
    assert verdict == "wrong"
    left.fix()
    assert left.run()[0] == "right"
    return run


def test_parameters_have_the_names_of_the_definition_also_below_an_if():
    text = "if True:\n    def softmax(logits, axis): ...\n    try:\n        class GPT:\n            def forward(self, ids): ...\n    finally: pass\n"
    assert parameter_names([text]) == {"softmax": ["logits", "axis"], "GPT.forward": ["ids"]}


def test_a_wrong_value_is_wrong_again_and_right_when_the_code_is(leave):
    def test(learner, reference):
        close(learner.softmax(X, dim=1), reference.softmax(X, dim=1), "the weights")

    left = wrong_softmax(leave, test)
    assert "got = ch03.softmax(x, dim=1)  # the failed call" in left.text
    verdict, run, printed = left.run()
    assert verdict == "wrong" and printed.startswith("got\ntensor(") and "expected\ntensor(" in printed
    assert torch.equal(run.space["x"], X)
    left.fix()
    assert left.run()[0] == "right"


def test_what_the_test_computed_from_a_result_is_a_law_about_it(leave):
    def test(learner, reference):
        weights = learner.softmax(X)
        holds((weights.sum(-1) - 1).abs().max() < 1e-3, "a row does not sum to one")

    left = wrong_softmax(leave, test)
    verdict, _, printed = left.run()
    assert verdict == "wrong" and "result: tensor(" in printed and "a row does not sum to one" in printed.lower()
    left.fix()
    assert left.run()[0] == "changed"


def test_only_the_objects_in_use_are_made_with_their_values(leave):
    def test(learner, reference):
        other, norm = learner.RMSNorm(4), learner.RMSNorm(3)
        randomise(other, 5)
        load(norm, {"weight": torch.tensor([1.0, 2.0, 3.0])})
        other(torch.ones(1, 4))
        theirs = reference.RMSNorm(3)
        load(theirs, {"weight": torch.tensor([1.0, 2.0, 3.0])})
        close(norm(X), theirs(X), "the output")

    left = leave("RMSNorm", "exact.square().mean(", "exact.square().sum(", test)
    assert left.text.count("RMSNorm(") == 1 and "set_parameters(" in left.text and "got = rms_norm(x)" in left.text
    check_fails_until_fixed(left)


def test_an_error_ends_in_the_learners_line(leave):
    def test(learner, reference):
        learner.softmax(X)

    left = leave("softmax", "sum(dim, keepdim=True)", "summ(dim)", test)
    run = check_fails_until_fixed(left)
    assert isinstance(run.error, AttributeError)
    last = run.error.__traceback__
    while last.tb_next:
        last = last.tb_next
    assert last.tb_frame.f_code.co_filename == str(left.file)


def test_an_argument_that_changes_in_its_last_digit_is_changed(leave):
    at_once = "    exps = torch.exp(x - largest)\n"
    left = leave("softmax", at_once, f"    x.data.mul_(1 + 2**-20)\n{at_once}", lambda learner, _: learner.softmax(X, -1))
    run = check_fails_until_fixed(left)
    assert "check_call(ch03.softmax, x, -1)" in left.text and "changed its argument" in str(run.error)


def test_a_result_that_is_nan_is_the_same_again():
    assert agrees(math.nan, math.nan, None) and agrees([1.0, {"a": math.nan}], [1.0, {"a": math.nan}], None)
    assert not agrees(1.0, math.nan, None) and not agrees([math.nan], [1.0], None)


def test_an_endless_loop_is_stopped(leave):
    def test(learner, reference):
        learner.softmax(X)

    left = leave("softmax", "    largest = ", "    while True: pass\n    largest = ", test, call_seconds=0.3)
    verdict, run, _ = left.run(seconds=0.3)
    assert verdict == "wrong" and isinstance(run.error, StillRunning)


def test_gradients_are_computed_again(leave):
    def test(learner, reference):
        got, expected = gradients(learner.softmax, X), gradients(reference.softmax, X)
        close(got.inputs[0], expected.inputs[0], "the gradient of x")

    left = leave("softmax", "exps / ", "exps.detach() / ", test)
    assert "result = gradients(ch03.softmax, x)  # the failed call\ngot = result.inputs[0]" in left.text
    check_fails_until_fixed(left)


def test_a_helper_of_the_test_is_in_the_script_as_source(leave):
    def twice(function, x):
        return function(function(x))

    def test(learner, reference):
        helper, theirs = learner.bring(twice), reference.bring(twice)
        close(helper(learner.softmax, X), theirs(reference.softmax, X), "the result")

    left = wrong_softmax(leave, test)
    assert "def twice(function, x):\n    return function(function(x))" in left.text and "got = twice(ch03.softmax, x)" in left.text
    assert left.run()[0] == "wrong"


def test_large_tensors_are_in_a_file_next_to_the_script(leave, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "numpy", lambda tensor: 1 / 0)  # torch does not install numpy

    def test(learner, reference):
        x = torch.arange(200.0).reshape(10, 20)
        close(learner.softmax(x), reference.softmax(x), "the weights")

    left = wrong_softmax(leave, test)
    assert 'x = saved["x"]' in left.text and left.run()[0] == "wrong" and len(left.text) < 1500


def test_the_random_state_is_that_of_the_test(leave):
    def test(learner, reference):
        dropped = learner.dropout(torch.ones(4, 5), 0.5, True)
        holds(not bool(dropped.isfinite().all()), "this law never holds")

    left = leave("dropout", "(1 - p)", "(1 - p + 0.1)", test)
    assert left.run()[0] == "wrong"


def test_what_was_read_from_an_object_is_read_again(leave):
    def test(learner, reference):
        close(parameters(learner.RMSNorm(3)), {"weight": torch.zeros(3)}, "the parameters")

    left = leave("RMSNorm", "torch.ones", "torch.ones", test)
    assert "parameters(rms_norm)" in left.text and left.run()[0] == "wrong"


def test_replaced_exercises_are_replaced_in_the_script_too(leave):
    def test(learner, reference):
        close(learner.scaled_dot_product_attention(X, X, X)[0], reference.scaled_dot_product_attention(X, X, X)[0], "the output")

    broken = ("    largest = ", "    return 7\n    largest = ")
    left = leave("scaled_dot_product_attention", "q / math.sqrt(q.size(-1))", "q / 1", test, replaced=("softmax",), also=broken)
    assert 'replaced=["softmax"]' in left.text and left.run()[0] == "wrong"
    assert isinstance(left.run()[1].space["got"], torch.Tensor)
