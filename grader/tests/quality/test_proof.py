"""`make proof` for real, on a small scale: it finds what it should find."""

import re
import subprocess
import sys
import tomllib

import pytest
from grade_command import mistake
from grader.course.syllabus import ROOT
from grader.tests.quality import proof
from grader.tests.quality.benchmarks.figures import run_by_name
from grader.tests.quality.benchmarks.workplace import copied_kit
from grader.tests.quality.devcheck.each_example import PINNED, EachExampleJob
from grader.tests.quality.devcheck.pool import run_jobs
from grader.tests.quality.devcheck.subjects import Subject
from grader.tests.quality.proof.examples import needed_keys, needed_of_exercise
from grader.verdict.needed_examples import NEEDED
from pytest_runs import environment, solution

pytestmark = pytest.mark.thorough

MODULE = "ch03_attention"
SUITE, PIN = "test_ch03_attention.py", "@example(n=at(B=1, T=2, V=3), dim=1, seed=0)"
OF_LUCK = '''
[softmax.of_luck]
replace = "x.amax(dim, keepdim=True).detach()"
with = "x.amax(dim, keepdim=True).detach() + (x if x.dim() == 3 and x.size(0) == 3 else 0)"
says = "Batches of 3 texts come out wrong."
hint = "Which sizes do the tests draw?"
'''


def prove(*arguments, root=ROOT):
    command = [sys.executable, "-m", "grader.tests.quality.proof", *arguments]
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
    styles = ["--style", "right", "--style", "wrong", "--style", "reference"]
    done = prove("fair", "--seeds", "1", "--from", "3", *styles, "--exercise", "causal_mask", root=wrong)
    assert done.returncode == 1, done.stdout + done.stderr
    sentence = r"^✗ wrong, seed 3, in a worker: causal_mask: 0 of \d+ points; test_\w+ \(failed\): "
    assert re.search(sentence, done.stdout, re.M), done.stdout
    table = re.findall(r"^\| (\w+) +\| (in process|in a worker) +\| +1 \| +([01]) \|$", done.stdout, re.M)
    full_marks = {f"{style} {place}": full for style, place, full in table}
    marks = {"right": "1", "wrong": "0", "reference": "1"}
    assert full_marks == {f"{style} in {place}": mark for style, mark in marks.items() for place in ("process", "a worker")}
    assert "1 exercise, seeds 3 to 3, in process and in workers: 4 of 6 runs earned full marks" in done.stdout


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


def test_unknown_names(capsys):
    assert run_by_name(proof, "proof", ["fairr"]) == 2
    assert "there is no proof called fairr; there are catches, examples, fair" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        run_by_name(proof, "proof", ["fair", "--exercise", "causal_mas"])
    assert "did you mean causal_mask" in capsys.readouterr().err


# ---- the examples that a test needs


def test_code_that_ends_its_process_or_never_ends_counts_for_nothing():
    """The code after it is tried; an example is named by its key, and pinned ones together."""
    right = solution("ch03")
    ends = "\n\ndef causal_mask(*args, **options):\n    import ctypes\n    ctypes.string_at(0)\n"
    hangs = "\n\ndef causal_mask(*args, **options):\n    while True:\n        try:\n            while True:\n                pass\n        except BaseException:\n            pass\n"
    texts = {"ends": right + ends, "hangs": right + hangs, "right": right, "wrong": mistake("causal_mask")}
    subjects = tuple(Subject("mutant", name, text) for name, text in texts.items())
    ((_, result),) = run_jobs([EachExampleJob("causal_mask", subjects, subject_seconds=20.0)], 1)
    ends, hangs, right, wrong = result["failing"]
    assert ends is hangs is None and not any(right.values())
    test = "test_a_query_may_attend_to_itself_and_earlier_keys"
    assert len(result["drawn"][test]) > 1 and wrong[test] and set(wrong[test]) <= {*result["drawn"][test], PINNED}


def test_the_second_example_is_chosen_and_the_fewest_others_that_catch_what_it_misses():
    assert needed_keys("abcde", [{"b", "e"}, {"a", "c"}, {"c", "d"}, {"d", "e", PINNED}, set()]) == ["b", "c"]
    failing = [{"one": ["c"], "two": ["a"]}, None, {"one": ["b"], "three": ["b"]}]
    drawn = {"one": list("abc"), "two": list("ab"), "three": list("ab")}
    assert needed_of_exercise(drawn, failing) == {"one": ["b", "c"], "three": ["b"]}


def test_the_tables_of_other_exercises_stay_and_all_are_in_the_order_of_the_course(uncertain):
    listed = uncertain / "tests" / NEEDED.name
    listed.write_text('[merge_heads]\ntest_kept = ["12345678"]\n')
    done = prove("examples", "softmax", "-j", "1", root=uncertain)
    assert done.returncode == 0 and re.search(r"^examples: \d+ of \d+ needed; 0 implementations ended", done.stdout, re.M), done.stdout
    chosen = tomllib.loads(listed.read_text())
    assert list(chosen) == ["softmax", "merge_heads"] and chosen["merge_heads"] == {"test_kept": ["12345678"]}
    assert all(0 < len(keys) < 6 for keys in chosen["softmax"].values())
