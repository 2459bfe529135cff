"""The examples of a graded test do not depend on the code that is loaded; every run has the common ones, and a seed adds its own."""

import re
import subprocess
import sys
from collections import Counter

import pytest
from grader.quality.benchmarks.workplace import copied_kit
from pytest_runs import environment, grade, solution

LOGGING = """

_apply_rope = apply_rope


def apply_rope(x, positions, base=10000.0):
    with open({log!r}, "a") as log:
        print(x.shape, float(x.sum()), file=log)
    return _apply_rope(x, positions, base)
"""
WRONG_SOFTMAX = """

_softmax = softmax


def softmax(x, dim=-1):
    return _softmax(x, dim) + float({})
"""
NUMBERS = "\nNUMBERS = [" + ", ".join(str(n) for n in range(101, 160)) + "]\n"


def calls(folder, extra: str, *arguments: str, **options) -> str:
    """The arguments with which the tests called a correct apply_rope, in a chapter with this text at its end."""
    folder.mkdir()
    log = folder / "calls.txt"
    name = "ch04_positions_in_attention"
    (folder / f"{name}.py").write_text(solution("ch04") + LOGGING.format(log=str(log)) + extra)
    run = grade("--target", str(folder), "--exercise", "apply_rope", *arguments, results=folder / "results.json", **options)
    assert run.exercise("apply_rope")["outcome"] == "passed", run.out
    return log.read_text()


@pytest.mark.thorough
def test_the_numbers_in_a_learners_code_do_not_change_the_examples(tmp_path):
    plain, numbered = calls(tmp_path / "plain", ""), calls(tmp_path / "numbered", NUMBERS)
    assert plain == numbered and len(set(plain.splitlines())) > 10


@pytest.mark.thorough
def test_what_else_is_imported_does_not_change_the_examples(tmp_path):
    (tmp_path / "beside.py").write_text(NUMBERS)
    path = environment().get("PYTHONPATH", "")
    beside = {"PYTHONPATH": f"{tmp_path}:{path}", "PYTEST_PLUGINS": "beside"}
    assert calls(tmp_path / "plain", "") == calls(tmp_path / "numbered", "", **beside)


def test_every_run_has_the_common_examples_and_a_seed_adds_its_own(tmp_path):
    """What the common examples catch is caught at every seed, so no known mistake is caught by luck."""
    common, seven, eight = (Counter(calls(tmp_path / seed, "", "--seed", seed).splitlines()) for seed in ("0", "7", "8"))
    assert common <= seven and common <= eight
    assert len(seven - common) > 5 and not (seven - common) <= eight


PINNED = '''

@exercise("softmax")
@example(n=at(T=5, V=3), seed=0)
@given(n=distinct("T", "V", T=(6, 7)), seed=seeds)
def test_pinned(learner, reference, n, seed):
    """Pinned and drawn examples have the right weights."""
    x = tensor(seed, n.T, n.V)
    n.T = 99
    close(learner.softmax(x), reference.softmax(x), "the tensor of weights")
'''


@pytest.mark.parametrize("wrong, shown", [("x.shape == (5, 3)", "T=5 V=3"), pytest.param("x.size(0) >= 5", "T=6 V=2", marks=pytest.mark.thorough)])
def test_a_pinned_example_is_run_last_and_shown_as_a_drawn_one(tmp_path, wrong, shown):
    """At every seed; and if a drawn example fails too, the smallest of those is shown."""
    with copied_kit() as root:
        with (root / "tests" / "test_ch03_attention.py").open("a", encoding="utf-8") as suite:
            suite.write(PINNED)
        (tmp_path / "ch03_attention.py").write_text(solution("ch03") + WRONG_SOFTMAX.format(wrong))
        for seed in ("0", "1"):
            arguments = ["-m", "pytest", "tests/test_ch03_attention.py::test_pinned", "--target", str(tmp_path), "--seed", seed, "-p", "no:cacheprovider"]
            run = subprocess.run([sys.executable, *arguments], cwd=root, env=environment(PYTHONPATH=str(root)), capture_output=True, text=True, timeout=600)
            assert re.search(rf"sizes +{shown}$", run.stdout, re.M), run.stdout + run.stderr
            assert re.search(r"called +softmax\(", run.stdout), run.stdout
