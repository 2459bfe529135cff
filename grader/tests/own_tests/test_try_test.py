"""`headway try-test`: the learner's own tests, tried on correct and on wrong versions of an exercise in real processes."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from grader.course.known_mistakes import misconceptions
from grader.course.source import SourceProblem
from grader.course.syllabus import load_syllabus
from grader.execution.sandbox.isolation import Isolation
from grader.own_tests.own_file import check_tests
from grader.own_tests.trying import LONGEST_ANSWER, OwnTestsPool, try_versions
from grader.own_tests.versions import REFERENCE, Version, load_tasks, versions_of
from grader.tests.quality.benchmarks.workplace import environment
from kit_copy import Kit, posix
from linux_processes import descendants, still_running
from warm_runs import until

GOOD = Path(__file__).parent / "good"
PAGE = Path(__file__).parents[2] / "teaching" / "book" / "pages" / "writing_tests.md"
SOFTMAX = load_syllabus().exercise("softmax")
OFTEN = ("softmax_backward", "quantize_int8", "merge_attention")  # the quickest ones; the others are thorough


@pytest.fixture(scope="module")
def pool():
    pool = OwnTestsPool()
    yield pool
    pool.close()


def outcomes(pool, exercise, tests, versions):
    return dict(try_versions(pool, exercise, tests, "test_own.py", versions))


def on_reference(pool, tests):
    """The outcome on the reference of softmax."""
    (outcome,) = outcomes(pool, SOFTMAX, tests, versions_of(SOFTMAX)[:1]).values()
    return outcome


def counts(pool, exercise, tests):
    """How many correct versions are accepted, how many mistakes found, and how many of each there are."""
    found = outcomes(pool, exercise, tests, versions_of(exercise))
    correct, wrong = ([outcome.accepts for version, outcome in found.items() if version.is_correct is which] for which in (True, False))
    return sum(correct), len(correct), len(wrong) - sum(wrong), len(wrong)


@pytest.mark.parametrize("name", [pytest.param(path.stem, marks=() if path.stem in OFTEN else pytest.mark.thorough) for path in sorted(GOOD.glob("*.py"))])
def test_a_good_file_finds_every_mistake_and_accepts_every_variant(pool, name):
    exercise, tests = load_syllabus().exercise(name), (GOOD / f"{name}.py").read_text()
    check_tests(tests, name)
    found = outcomes(pool, exercise, tests, versions_of(exercise))
    assert [(version.says, outcome) for version, outcome in found.items() if version.is_correct and not outcome.accepts] == []
    assert [version.says for version, outcome in found.items() if not version.is_correct and outcome.accepts] == []
    assert sum(not version.is_correct for version in found) == len(misconceptions(exercise.module, name))


def test_ten_chapters_have_a_task_that_a_good_file_fulfils():
    tasks = load_tasks()
    assert {path.stem for path in GOOD.glob("*.py")} == set(tasks)
    assert len({load_syllabus().exercise(name).chapter for name in tasks}) == len(tasks) == 10
    assert all(0.5 <= task.share <= 1 for task in tasks.values())


@pytest.mark.thorough
def test_the_page_says_what_its_tests_find(pool):
    text, code, lines = PAGE.read_text(), "", []
    pieces = re.split(r"```python\n(.*?)```", text.partition("## Begin with an example")[2], flags=re.DOTALL)
    for block, prose in zip(pieces[1::2], pieces[2::2]):
        code += f"{block}\n\n"
        if said := re.search(r"\b(\d+) of (\d+)\b", prose):
            accepted, correct, found, mistakes = counts(pool, SOFTMAX, code)
            assert accepted == correct and (found, mistakes) == (int(said[1]), int(said[2])), prose[:80]
            lines.append(f"accepts {accepted} of {correct} correct versions, finds {found} of {mistakes} mistakes.")
    assert len(lines) == 6 and lines[0] in text


def test_the_page_names_the_tasks():
    named = PAGE.read_text().partition("## Ten tasks")[2]
    assert all(name in named for name in load_tasks())


def test_one_that_asserts_nothing_finds_nothing(pool):
    accepted, correct, found, _ = counts(pool, SOFTMAX, "def test_nothing(learner):\n    learner.softmax\n")
    assert accepted == correct and found == 0


# ---- processes


@pytest.mark.parametrize(
    "body, ended",
    [
        ("import os; os._exit(3)", "status 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed"),
        ("import os; os.closerange(3, 100)", "closed file descriptors"),
        ("import ctypes; ctypes.string_at(0)", "segmentation fault"),
    ],
)
def test_a_test_that_ends_its_process_costs_one_sentence(pool, body, ended):
    assert ended in on_reference(pool, f"def test_bad(learner):\n    {body}\n").ended


@pytest.mark.thorough
def test_a_test_that_does_not_end_is_stopped(pool):
    assert "did not end within" in on_reference(pool, "def test_loop(learner):\n    while True: pass\n").ended


def test_memory_is_limited(pool):
    outcome = on_reference(pool, "import torch\ndef test_memory(learner):\n    kept = [torch.ones(10**8) for _ in range(100)]\n")
    assert outcome.failed == "test_memory" and "memory" in outcome.said


def test_exits_and_floods_are_outcomes_of_that_test(pool):
    flood = on_reference(pool, "def test_flood(learner):\n    for _ in range(20_000): print('x' * 200)\n    raise SystemExit('y' * 99_999)\n")
    assert flood.failed == "test_flood" and flood.line == 3 and len(flood.said) < 1000 < LONGEST_ANSWER


def test_what_a_test_changes_does_not_reach_the_next_version(pool):
    """The second version would fail if the first one's changes were still there."""
    tests = (
        "import torch\nimport exercises.ch03_attention as chapter\nX = torch.ones(2, 3)\n"
        "def test_changes(learner):\n    assert X.sum() == 6 and not hasattr(torch, 'changed') and callable(chapter.softmax)\n"
        "    X.zero_()\n    torch.changed = True\n    chapter.softmax = None\n"
    )
    reference = versions_of(SOFTMAX)[0]
    same = [Version(f"{REFERENCE} {number}", reference.text, True) for number in range(4)]
    assert all(outcome.accepts for outcome in outcomes(pool, SOFTMAX, tests, same).values())


def test_every_import_gives_the_version_that_is_tried(pool):
    tests = """
from exercises.ch03_attention import softmax
from exercises import ch03_attention as one
import exercises.ch03_attention as two
import ch03_attention as three
from exercises.ch02_embeddings import TokenEmbedding

def test_same(learner):
    assert one is two is three is learner and softmax is learner.softmax
    assert learner.softmax.__doc__ is None

class TestClass:
    @__import__("pytest").mark.parametrize("n", [1, 2])
    def test_method(self, learner, n):
        assert learner.softmax(__import__("torch").ones(n)).shape == (n,)
"""
    outcome = on_reference(pool, tests)
    assert outcome.accepts and outcome.ran == 3


def test_later_chapters_and_answers_cannot_be_imported(pool):
    for module in ("exercises.ch09_sampling", "solutions.ch03_attention", "tests.strategies"):
        outcome = on_reference(pool, f"from {module} import softmax\ndef test_a(): pass\n")
        assert outcome.failed == "" and outcome.line == 1 and "ModuleNotFoundError" in outcome.said


def test_hypothesis_draws_the_same_each_time_and_writes_nothing(pool):
    tests = """
import torch
from hypothesis import given, settings, strategies as st
@settings(derandomize=False, max_examples=60)
@given(x=st.floats(0, 1), n=st.integers(0, 1000))
def test_law(learner, x, n):
    assert n < 400, (x, torch.rand(1))
"""
    first, second = on_reference(pool, tests), on_reference(pool, tests)
    assert first == second and "n=400" in first.example and first.ran == 1 and first.line == 7


@pytest.mark.parametrize(
    "line, says",
    [
        ("import inspect", "the import of inspect"),
        ("from torch import os", "the import of os"),
        ("from solutions.ch03_attention import softmax", "the import of solutions.ch03_attention"),
        ("import importlib; importlib.import_module('solutions.ch03_attention')", "the import of importlib"),
        ("f.__code__", ".__code__"),
        ("f.__code__.co_code", ".co_code"),
        ("torch.sys.modules", ".sys"),
        ("open('x')", "open"),
        ("__builtins__", "__builtins__"),
        ("getattr(f, '__co' + 'de__')", "getattr"),
        ("getattr(f, '__globals__')", "getattr"),
        ("eval('1')", "eval"),
        ("\"{0.__code__}\".format(f)", ".format"),
        ("match f:\n        case object(__code__=code): pass", "__code__="),
    ],
)
def test_a_test_that_reads_code_is_refused(line, says):
    with pytest.raises(SourceProblem, match="line [23]: remove ") as refused:
        check_tests(f"def test_a(f, torch):\n    {line}\n", "test_own.py")
    assert says in str(refused.value)


@pytest.mark.thorough
@pytest.mark.parametrize("options", [{"fork": False}, {"isolation": Isolation()}, {"fork": False, "isolation": Isolation()}])
def test_it_works_without_forking_and_without_a_sandbox(options):
    pool = OwnTestsPool(**options)
    try:
        accepted, correct, found, _ = counts(pool, load_syllabus().exercise("quantize_int8"), (GOOD / "quantize_int8.py").read_text())
    finally:
        pool.close()
    assert accepted == correct and found == 18


# ---- the command


def write(kit, text):
    folder = kit.exercises / "my_tests"
    folder.mkdir(exist_ok=True)
    (folder / "test_softmax.py").write_text(text, encoding="utf-8")


def said(kit, status, name="softmax"):
    return " ".join(kit.run("try-test", name, status=status).split())


def test_the_command_writes_a_file_that_finds_little_and_says_what_gets_through(kit):
    begun = said(kit, 1)
    assert "one test, which finds little" in begun and "A good test finds 80 % of the known mistakes." in begun
    printed = said(kit, 1)
    assert re.search(r"accepts (\d+) of \1 correct versions, finds [1-9] of \d\d mistakes\.", printed)
    assert "The first mistake that gets through: exp is applied to the scores directly" in printed
    assert "The task asks for 26." in printed


def test_every_starting_file_is_valid_and_accepted(kit, pool):
    for name in ("KVCache", "GPT", "clip_gradients"):
        kit.run("try-test", name, status=1)
        text = (kit.exercises / "my_tests" / f"test_{name}.py").read_text()
        check_tests(text, name)
        exercise = load_syllabus().exercise(name)
        assert all(outcome.accepts for outcome in outcomes(pool, exercise, text, versions_of(exercise)[:3]).values())


@pytest.mark.thorough
def test_a_done_task_ends_with_status_0(kit):
    write(kit, (GOOD / "softmax.py").read_text())
    assert "The task asks for 26, so you have done it." in said(kit, 0)


@pytest.mark.parametrize(
    "text, says",
    [
        pytest.param("def test_a(learner): pass", "Your tests assert nothing", marks=pytest.mark.thorough),
        ("def a(learner): pass", "has no test; write a function whose name begins with test_"),
        ("", "test_softmax.py is empty"),
        ("def test_a(:", "this is not valid Python"),
        ("import torh\ndef test_a(): pass", "cannot be imported, so no test ran, in line 1: import torh ModuleNotFoundError: No module named 'torh'"),
        pytest.param("def test_a(lerner): pass", "fixture 'lerner' not found", marks=pytest.mark.thorough),
        pytest.param("import pytest\n@pytest.mark.skip\ndef test_a(learner): assert 0", "No test ran. pytest runs functions whose names begin with test_.", marks=pytest.mark.thorough),
        ("import torch\ndef test_a(learner):\n    assert learner.softmax(torch.ones(2)).sum() == 2", "test_a fails on the reference solution, in line 3: assert learner.softmax(torch.ones(2)).sum() == 2"),
        ("import torch\ndef test_a(learner):\n    assert learner.softmax(torch.ones(2)).sum() == 2", "The reference solution does this, too, so it is no mistake. Assert what"),
    ],
)
def test_each_unusable_file_gets_one_clear_message(kit, text, says):
    write(kit, text)
    assert says in said(kit, 1)


def test_a_test_that_forbids_another_way_to_write_it_is_told(kit):
    write(kit, "import torch\n\ndef test_sum(learner):\n    x = torch.arange(4, dtype=torch.float64)\n    assert abs(learner.softmax(x).sum() - 1) < 1e-12\n")
    printed = said(kit, 1)
    assert "test_sum fails on correct code (a tiny number added to the sum), in line 5: assert abs(learner.softmax(x).sum() - 1) < 1e-12" in printed
    assert "This version keeps every promise of the exercise, so your test forbids something that is allowed. Assert only" in printed
    assert re.search(r"accepts 10 of 11 correct versions\. The known mistakes are tried when it accepts all\.", printed)


@posix
def test_an_unreadable_file_is_told(kit):
    (kit.exercises / "my_tests" / "test_softmax.py").mkdir(parents=True)
    assert "test_softmax.py cannot be read" in said(kit, 1)


def test_names(kit):
    assert "did you mean softmax?" in said(kit, 2, "sofmax")
    assert "is a chapter" in said(kit, 2, "ch03")
    listed = kit.run("try-test")
    assert all(name in listed for name in load_tasks())


@pytest.mark.thorough
def test_a_handout_has_the_same_versions(kit, tmp_path):
    kit.run("handout", str(tmp_path / "handout"), "--chapters", "ch03")
    handed_out = Kit(tmp_path / "handout")
    write(handed_out, (GOOD / "softmax.py").read_text())
    versions = versions_of(SOFTMAX)
    correct = sum(version.is_correct for version in versions)
    assert f"accepts {correct} of {correct} correct versions, finds 32 of {len(versions) - correct} mistakes" in said(handed_out, 0)
    assert [name for name in load_tasks() if name in handed_out.run("try-test")] == ["softmax"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_control_c_leaves_no_process(kit):
    write(kit, "def test_a(learner):\n    while True: pass\n")
    command = [sys.executable, "-m", "grader.cli.main", "try-test", "softmax"]
    process = subprocess.Popen(command, cwd=kit.root, env=environment(kit.root), stderr=subprocess.PIPE, start_new_session=True)
    assert process.stderr.readline()
    assert until(lambda: len(descendants(process.pid)) >= 2)  # the zygote and its worker
    members = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    assert b"stopped" in process.stderr.read() and process.wait() == 130
    assert until(lambda: not still_running(members))
