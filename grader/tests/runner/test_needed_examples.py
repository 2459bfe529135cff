"""A run has the examples that a test needs and no others; where that is not known, or one of them fails, it has all."""

from __future__ import annotations

import json
import re
from contextlib import closing

import hypothesis
import pytest
from grader.course.syllabus import ROOT, load_syllabus
from grader.execution.target import Target, resolve
from grader.runner.example_runs import ExampleRuns
from grader.runner.graded_tests import GradedTest, all_tests_of
from grader.runner.judging import judge_of
from grader.runner.printed import Printed
from grader.verdict import needed_examples as needed_module
from grader.verdict.examples import seed_examples
from grader.verdict.needed_examples import needed_examples
from grader.verdict.recordings import Example, Recordings
from grader.verdict.trial import Trial
from pytest_runs import solution

NAME = "test_weights_are_exponentials_over_their_sum"
WRONG = "\n\n_right = softmax\n\n\ndef softmax(x, dim=-1):\n    return x if tuple(x.shape) in {shapes} else _right(x, dim)\n"


def drawn_of(test: GradedTest) -> list[Example]:
    """The common examples of a test, all of them."""
    seed_examples(test.function, test.name, 0)
    with closing(Trial(resolve("solutions"))) as trial, ExampleRuns(None).prepared(test, trial, Printed()) as examples:
        return examples.draw(0)


@pytest.fixture(scope="module")
def drawn() -> dict[str, tuple[int, int]]:
    """The shape of x in each example of a test of softmax, by the example's key."""
    (test,) = (test for test in all_tests_of(load_syllabus().exercise("softmax")) if test.name == NAME)
    shapes = {example.key: (example.sizes["T"], example.sizes["V"]) for example in drawn_of(test)}
    assert len(shapes) == 6 and len(set(shapes.values())) >= 5  # only the first two may have the same
    assert list(shapes.values())[0] == min(shapes.values())
    return shapes


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Run that test of softmax with this list of needed examples and these shapes wrong: how many examples begin, and
    the result without its time."""
    begun: list[int] = []
    begin = Trial.begin_example

    def note(self, *recorded):
        if self.target.label == "some code":
            begun.append(self.own_examples)
        return begin(self, *recorded)

    monkeypatch.setattr(Trial, "begin_example", note)
    monkeypatch.setattr(needed_module, "NEEDED", tmp_path / "needed_examples.toml")

    def run(needed: str, shapes: list[tuple[int, int]], seed: int = 0, recordings: bool = True):
        begun.clear(), needed_examples.cache_clear()
        needed_module.NEEDED.write_text(needed)
        trial = Trial(Target("some code", None, {"ch03_attention": solution("ch03") + WRONG.format(shapes=shapes)}), seed=seed)
        with closing(judge_of(trial, Recordings(tmp_path / "recordings") if recordings else None)) as judge:
            (test,) = (test for test in judge.tests_of(load_syllabus().exercise("softmax")) if test.name == NAME)
            result = judge.runner.run_test(test)
        details = result.details and [*(row.text for row in result.details.rows()), f"seed {result.seed}"]
        return len(begun), sum(begun), (result.outcome, result.message, details)

    yield run
    needed_examples.cache_clear()


def listed(*keys: str) -> str:
    return f"[softmax]\n{NAME} = {json.dumps(keys)}\n"


def test_only_needed_examples_run_and_a_recording_changes_nothing(run, drawn):
    keys = list(drawn)
    for _ in ("recording", "recorded"):
        assert run(listed(keys[2], keys[4]), [drawn[keys[3]]]) == (2, 0, ("passed", "", None))


def test_a_needed_example_that_fails_is_reported_as_if_all_ran(run, drawn):
    keys = list(drawn)
    wrong = [drawn[keys[2]], drawn[keys[4]]]
    begun, _, expected = run("", wrong)
    assert expected[0] == "failed" and begun > 6  # in order to find a smaller one
    run(listed(keys[4]), [])  # makes the recording
    for recordings in (True, False):
        assert run(listed(keys[4]), wrong, recordings=recordings)[2] == expected


def test_if_the_simplest_example_fails_too_no_other_is_looked_for(run, drawn):
    keys = list(drawn)
    wrong = [drawn[keys[0]], drawn[keys[2]]]
    expected = run("", wrong)[2]
    assert expected[0] == "failed"
    for _ in ("recording", "recorded"):
        assert run(listed(keys[2]), wrong)[::2] == (2, expected)


def test_the_example_with_the_largest_sizes_always_runs(run, drawn):
    keys, largest = list(drawn), max(drawn.values(), key=sum)
    assert largest == drawn[keys[2]] and run(listed(keys[4]), [])[0] == 2
    assert run(listed(keys[4]), [largest])[2][0] == "failed"


@pytest.mark.parametrize("needed", ["", "[softmax", listed(), listed("00000000"), "[softmax]\ntest_another = ['00000000']\n"])
def test_where_the_needed_ones_are_not_known_all_run(run, drawn, needed):
    assert run(needed, [])[0] == 6
    assert run(needed, [drawn[list(drawn)[-1]]])[2][0] == "failed"


def test_one_key_that_is_not_drawn_has_all_run(run, drawn):
    assert run(listed(next(iter(drawn)), "00000000"), [])[0] == 6


def test_a_seed_adds_an_example_that_is_not_the_simplest(run, drawn):
    keys = list(drawn)
    simplest = drawn[keys[0]]
    for _ in ("recording", "recorded"):
        assert run(listed(keys[2]), [simplest], seed=5) == (2, 1, ("passed", "", None))


def test_an_example_of_the_seed_that_fails_is_reported_and_not_a_common_one_that_no_run_has(run, drawn):
    """With the same seed a learner sees the same failure; without it, none."""
    keys = list(drawn)
    shapes = [(T, V) for T in range(2, 8) for V in range(2, 8) if (T, V) != drawn[keys[2]]]
    assert run(listed(keys[2]), shapes)[2][0] == "passed"
    _, own, (outcome, _, details) = run(listed(keys[2]), shapes, seed=5)
    assert outcome == "failed" and own > 1 and details[-1] == "seed 5"


@pytest.mark.thorough
def test_the_file_lists_examples_that_are_drawn():
    """With the version of hypothesis that Headway is tested with most: another may draw others."""
    pinned = re.search(r"^hypothesis==(.*)$", (ROOT / "constraints.txt").read_text(), re.M)
    if hypothesis.__version__ != pinned[1]:
        pytest.skip("another version of hypothesis")
    needed_examples.cache_clear()
    assert list(needed_examples()) == [exercise.name for exercise in load_syllabus().exercises if exercise.name in needed_examples()]
    for name, listed in needed_examples().items():
        tests = {test.name: test for test in all_tests_of(load_syllabus().exercise(name))}
        for test, keys in listed.items():
            again = f"`make proof ONLY='examples {name}'` writes it again"
            assert test in tests, f"{name} has no test {test}; {again}"
            known = [example.key for example in drawn_of(tests[test])]
            assert set(keys) < set(known) and "" not in known, f"{test} draws {known}, and {keys} are listed; {again}"
