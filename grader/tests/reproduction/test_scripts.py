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
from grader.reproduction.leaving import make_script
from grader.reproduction.literals import value_key
from grader.reproduction.running import StillRunning, agrees, run_script, verdict_of
from grader.verdict import comparing
from grader.verdict.comparing import close, holds, same, shaped
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
        example = keep_example(caught.value, trial.current_boundary, comparing.current, exercise, "test_it", "A promise.", words.message, trial.example_seed)
        assert example is not None
        script = make_script(example, trial)
        assert store_script(script, name, tmp_path / "repro")
        return Left(tmp_path / "repro" / f"{name}.py", script.text, script.facts, file)

    yield leave
    for trial in trials:
        trial.close()


def wrong_softmax(leave, test, **options):
    return leave("softmax", "sum(dim, keepdim=True)", "sum()", test, **options)


def test_a_wrong_value_is_wrong_again_and_right_when_the_code_is(leave):
    def test(learner, reference):
        close(learner.softmax(X, dim=1), reference.softmax(X, dim=1), "the weights")

    left = wrong_softmax(leave, test)
    assert "got = ch03.softmax(x, dim=1)  # the failed call" in left.text and "seed" not in left.text
    verdict, run, printed = left.run()
    assert verdict == "wrong" and printed.startswith("got\ntensor(") and "expected\ntensor(" in printed
    assert torch.equal(run.space["x"], X)
    left.fix()
    assert left.run()[0] == "right"


def test_what_the_test_computed_from_the_result_is_in_the_script(leave):
    def test(learner, reference):
        weights = learner.softmax(X)
        close(weights.sum(-1), torch.ones(2), "the sum of each row")

    left = wrong_softmax(leave, test)
    assert "got = result.sum(-1)" in left.text.replace("(result)", "result") and left.run()[0] == "wrong"
    left.fix()
    assert left.run()[0] == "right"


def test_a_law_is_evaluated_again(leave):
    def test(learner, reference):
        weights = learner.softmax(X)
        holds((weights.sum(-1) - 1).abs().max() < 1e-3, "a row does not sum to one")

    left = wrong_softmax(leave, test)
    assert "holds = " in left.text and "a row does not sum to one" in left.run()[2].lower() and left.run()[0] == "wrong"
    left.fix()
    assert left.run()[0] == "right"


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
    assert left.run()[0] == "wrong"
    left.fix()
    assert left.run()[0] == "right"


def test_an_error_ends_in_the_learners_line(leave):
    def test(learner, reference):
        learner.softmax(X)

    left = leave("softmax", "sum(dim, keepdim=True)", "summ(dim)", test)
    verdict, run, _ = left.run()
    assert verdict == "wrong" and isinstance(run.error, AttributeError)
    last = run.error.__traceback__
    while last.tb_next:
        last = last.tb_next
    assert last.tb_frame.f_code.co_filename == str(left.file)
    left.fix()
    assert left.run()[0] == "right"


def test_an_argument_that_changes_in_its_last_digit_is_changed(leave):
    at_once = "    exps = torch.exp(x - largest)\n"
    script = leave("softmax", at_once, f"    x.data.mul_(1 + 2**-20)\n{at_once}", lambda learner, _: learner.softmax(X, -1))
    assert script.run()[0] == "wrong" and "before  # the call must not change its argument" in script.text
    script.fix()
    assert script.run()[0] == "right"


def test_a_result_that_is_nan_is_the_same_again():
    assert agrees(math.nan, math.nan, None) and agrees([1.0, {"a": math.nan}], [1.0, {"a": math.nan}], None)
    assert not agrees(1.0, math.nan, None) and not agrees([math.nan], [1.0], None)


def test_an_endless_loop_is_stopped(leave):
    def test(learner, reference):
        learner.softmax(X)

    left = leave("softmax", "    largest = ", "    while True: pass\n    largest = ", test, call_seconds=0.3)
    verdict, run, _ = left.run(seconds=0.3)
    assert verdict == "wrong" and isinstance(run.error, StillRunning)


def test_a_changed_argument_is_shown_before_and_after(leave):
    def test(learner, reference):
        learner.softmax(X)

    left = leave("softmax", "    largest = ", "    x += 1\n    largest = ", test)
    assert left.run()[0] == "wrong" and "before = copy.deepcopy(x)" in left.text
    left.fix()
    assert left.run()[0] == "right"


def test_a_gradient_is_plain_autograd(leave):
    def test(learner, reference):
        got, expected = gradients(learner.softmax, X), gradients(reference.softmax, X)
        close(got.inputs[0], expected.inputs[0], "the gradient of x")

    left = leave("softmax", "exps / ", "exps.detach() / ", test)
    assert ".backward()" in left.text and "got = x.grad" in left.text and "requires_grad=True" in left.text
    assert left.run()[0] == "wrong"
    left.fix()
    assert left.run()[0] == "right"


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
    assert "torch.manual_seed(" in left.text and left.run()[0] == "wrong"


def test_a_call_that_draws_numbers_has_its_seed_also_if_another_seed_gives_the_same_result(leave):
    def rough_mean(function):
        return round(float(function(torch.ones(4000), 0.5, True).mean()))

    def test(learner, reference):
        close(learner.bring(rough_mean)(learner.dropout), 2.0, "the mean")

    left = leave("dropout", "(1 - p)", "(1 - p + 0.1)", test)
    assert "torch.manual_seed(" in left.text and left.run()[0] == "wrong"


def test_values_that_are_set_need_no_seed(leave):
    def test(learner, reference):
        head = learner.SelfAttentionHead(4, 3)
        randomise(head, 5)
        shaped(head(X.new_ones(1, 2, 4))[0], (1, 2, 7), "the output")

    left = leave("SelfAttentionHead", "nn.Linear(", "torch.nn.Linear(", test)
    assert "torch.manual_seed(" not in left.text and "set_parameters(" in left.text and left.run()[0] == "wrong"


def test_what_was_read_from_an_object_is_read_again(leave):
    def test(learner, reference):
        same(sorted(parameters(learner.RMSNorm(3))), ["scale"], "the names")

    left = leave("RMSNorm", "torch.ones", "torch.zeros", test)
    assert "named_parameters" in left.text and left.run()[0] == "wrong"


def test_a_shape_is_compared_as_a_shape(leave):
    def test(learner, reference):
        shaped(learner.softmax(X), (2, 3), "the weights")

    left = leave("softmax", "    largest = ", "    x = x[0]\n    largest = ", test)
    assert "(2, 3)" in left.text and left.run()[0] == "wrong"
    left.fix()
    assert left.run()[0] == "right"


def test_replaced_exercises_are_replaced_in_the_script_too(leave):
    def test(learner, reference):
        close(learner.scaled_dot_product_attention(X, X, X)[0], reference.scaled_dot_product_attention(X, X, X)[0], "the output")

    broken = ("    largest = ", "    return 7\n    largest = ")
    left = leave("scaled_dot_product_attention", "scores / math.sqrt(q.size(-1))", "scores / 1", test, replaced=("softmax",), also=broken)
    assert 'replaced=["softmax"]' in left.text and left.run()[0] == "wrong"
    assert isinstance(left.run()[1].space["got"], torch.Tensor)


def test_equal_numbers_that_are_not_the_same_object_are_not_the_same_in_the_script(leave):
    def test(learner, reference):
        apart = (int("5000"), int("5001"))
        same(list(learner.merge_pair([5000, 5001], apart, 9)), [9], "the merged ids")

    left = leave("merge_pair", "(ids[i], ids[i + 1]) == tuple(pair)", "ids[i] is pair[0] and ids[i + 1] is pair[1]", test)
    assert 'merge_pair([5000, 5001], (int("5000"), int("5001")), 9)' in left.text and left.run()[0] == "wrong"
    left.fix()
    assert left.run()[0] == "right"


def test_a_changed_list_is_the_list_that_is_compared(leave):
    def test(learner, reference):
        learner.merge_pair([1, 2, 1, 2], (1, 2), 9)

    left = leave("merge_pair", "    merged = []", "    ids.append(0)\n    merged = []", test)
    assert "merge_pair(ids, (1, 2), 9)" in left.text and left.run()[0] == "wrong"


def test_scripts_need_no_numpy(monkeypatch):
    """A learner's environment has none, and torch raises a RuntimeError where it would need it."""

    def unavailable(*_):
        raise RuntimeError("Numpy is not available")

    monkeypatch.setattr(torch.Tensor, "numpy", unavailable)
    one = value_key([torch.tensor([1.0, 2.0]), {"a": torch.tensor(3)}])
    assert one == value_key([torch.tensor([1.0, 2.0]), {"a": torch.tensor(3)}])
    assert one != value_key([torch.tensor([1.0, 2.5]), {"a": torch.tensor(3)}]) and one != value_key([torch.tensor([[1.0], [2.0]]), {"a": torch.tensor(3)}])
