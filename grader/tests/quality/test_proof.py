"""`make proof` for real, on a small scale: it finds what it should find."""

import re
import subprocess
import sys

import pytest
from grade_command import mistake
from grader.course.syllabus import ROOT
from grader.quality.benchmarks.workplace import copied_kit
from pytest_runs import environment

pytestmark = pytest.mark.thorough

MODULE = "ch03_attention"
FLAKY = '''

@exercise("causal_mask")
def test_fails_once(learner):
    """The first run of this test fails."""
    from pathlib import Path
    from grader.verdict.comparing import holds

    try:
        Path({marker!r}).touch(exist_ok=False)
    except FileExistsError:
        return
    holds(False, "this is the first run")
'''


SUITE, PIN = "test_ch03_attention.py", "@example(n=at(B=1, T=2, V=3), dim=1, seed=0)"
OF_LUCK = '''
[softmax.of_luck]
replace = "x.amax(dim, keepdim=True)"
with = "x.amax(dim, keepdim=True) + (x if x.dim() == 3 and x.size(0) == 3 else 0)"
says = "Batches of 3 texts come out wrong."
hint = "Which sizes do the tests draw?"
'''


def prove(*arguments, root=ROOT):
    command = [sys.executable, "-m", "grader.quality.proof", *arguments]
    more = {"env": environment(PYTHONPATH=str(root)), "stdin": subprocess.DEVNULL, "timeout": 600}
    return subprocess.run(command, cwd=root, capture_output=True, text=True, encoding="utf-8", **more)


@pytest.fixture(scope="module")
def wrong():
    """A kit with two courses that claim to be honest; one has a mistake in it."""
    with copied_kit() as root:
        honest = root / "grader" / "tests" / "honest"
        right = (root / "solutions" / f"{MODULE}.py").read_text(encoding="utf-8")
        for style, text in (("right", right), ("wrong", mistake("causal_mask"))):
            (honest / style).mkdir(parents=True)
            for path in (root / "solutions").glob("ch0[12]*.py"):
                (honest / style / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
            (honest / style / f"{MODULE}.py").write_text(text, encoding="utf-8")
        yield root


def test_a_course_that_does_not_get_its_points_is_named(wrong):
    styles = ["--style", "right", "--style", "wrong"]
    done = prove("fair", "--seeds", "1", "--from", "3", *styles, "--exercise", "causal_mask", root=wrong)
    assert done.returncode == 1, done.stdout + done.stderr
    sentence = r"^✗ wrong, seed 3, in a worker: causal_mask: 0 of \d+ points; test_\w+ \(failed\): "
    assert re.search(sentence, done.stdout, re.M), done.stdout
    table = dict(re.findall(r"^(\w+ +in (?:process|a worker)) +1 +([01])$", done.stdout, re.M))
    full_marks = {" ".join(name.split()): full for name, full in table.items()}
    right = {"right in process": "1", "right in a worker": "1"}
    assert full_marks == right | {"wrong in process": "0", "wrong in a worker": "0"}
    assert "1 exercise, seeds 3 to 3, in process and in workers: 2 of 4 runs earned full marks" in done.stdout


def test_a_test_that_fails_the_reference_now_and_then_is_named(wrong, tmp_path):
    suite = wrong / "tests" / "test_ch03_attention_heads.py"
    with suite.open("a", encoding="utf-8") as file:
        file.write(FLAKY.format(marker=str(tmp_path / "ran")))
    done = prove("steady", "--seeds", "4", "--exercise", "causal_mask", root=wrong)
    assert done.returncode == 1, done.stdout + done.stderr
    again = r"python -m pytest --target solutions --exercise causal_mask --seed \d"
    sentence = rf"(?mi)^✗ test_fails_once failed in 1 of 4 runs; {again}: .*the first run"
    assert re.search(sentence, done.stdout), done.stdout
    assert re.search(r"seeds 0 to 3: 4 runs, \d+ tests run, 1 failed \(1 different one;", done.stdout), done.stdout
    assert done.stdout.count("✗") == 1


@pytest.fixture
def uncertain():
    """A copy of the kit with a known mistake that shows at few sizes."""
    with copied_kit() as root:
        with (root / "tests" / "misconceptions" / "ch03_attention.toml").open("a", encoding="utf-8") as file:
            file.write(OF_LUCK)
        yield root


def count(root, *more):
    some = ["--exercise", "softmax", "--mistake", "of_luck", "--seeds", "20", "-j", "1"]
    return prove("catches", *some, *more, root=root)


def test_a_mistake_that_some_seeds_miss_is_found_and_a_pinned_example_catches_it(uncertain):
    done = count(uncertain, "--mistake", "softmax_base_two")
    assert done.returncode == 1, done.stdout + done.stderr
    missed = re.search(r"^✗ softmax: of_luck is caught at (\d+) of 20 seeds; not at \d", done.stdout, re.M)
    assert missed and 0 < int(missed[1]) < 20, done.stdout
    assert "2 known mistakes: 1 are caught in the same way at every seed" in done.stdout
    assert f"The smallest catch rate is {100 * int(missed[1]) / 20:.4g} %" in done.stdout
    assert done.stdout.count("✗") == 1

    suite = uncertain / "tests" / SUITE
    text = suite.read_text(encoding="utf-8")
    assert text.count(PIN) == 1
    suite.write_text(text.replace(PIN, f"{PIN}\n{PIN.replace('B=1', 'B=3')}"), encoding="utf-8")
    done = count(uncertain)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 known mistakes: 1 are caught in the same way at every seed" in done.stdout


def test_unknown_names():
    done = prove("steadi")
    assert done.returncode == 2 and "there is no proof called steadi; there are catches, fair" in done.stderr
    done = prove("fair", "--exercise", "causal_mas")
    assert done.returncode == 2 and "did you mean causal_mask" in done.stderr
