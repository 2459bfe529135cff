"""`headway walk` as a command, in a copy of the kit: whose code runs, what is reported about it, and every way in which it can fail."""

import io
import re
import shutil
import signal
import subprocess
import sys

import pytest
from grader.classroom.handout.handout_folder import make_handout
from grader.course.syllabus import load_syllabus
from grader.teaching.terminal_drawing import grid
from grader.teaching.walks import list_walks, load, template_path
from grader.teaching.walks.guide import WalkPage
from kit_copy import Kit, posix
from rich.console import Console
from walk_runs import run_once

SECONDS = 120  # for anything to appear, also on a busy machine


def _walk(kit: Kit, name: str) -> tuple[str, str]:
    """Its standard output and standard error."""
    command = [sys.executable, "-m", "grader.cli", "walk", name]
    done = subprocess.run(command, cwd=kit.root, env=kit.environment(), capture_output=True, text=True, encoding="utf-8", stdin=subprocess.DEVNULL)
    assert "Traceback" not in done.stderr and done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr


def _prose(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def half(template, tmp_path_factory):
    """A learner who has done part of the course, and one run of the walk `inference`.

    Chapter 1 is not Python, chapter 2 does not import, chapter 5 is correct. In chapter 3 split_heads is not written, attention lacks its
    square root, softmax is correct, prints and refuses complex numbers, and merge_heads passes its tests but raises in the walk.
    """
    root = tmp_path_factory.mktemp("walked") / "kit"
    shutil.copytree(template, root)
    kit = Kit(root)
    for module in ("ch01_tokenizer", "ch02_embeddings", "ch03_attention", "ch05_layers"):
        kit.solve(module)
    kit.edit("ch01_tokenizer", "words = set()", "words = = set()")
    kit.edit("ch02_embeddings", "import math", "import math\nimport a_module_that_is_not_there")
    kit.edit("ch03_attention", "heads = x.reshape(B, T, n_heads, D // n_heads)", "raise NotImplementedError")
    kit.edit("ch03_attention", "q = q / math.sqrt(q.size(-1))", "q = q / q.size(-1)")
    kit.edit("ch03_attention", "largest = x.amax", 'print("HERE I AM")\n    if x.is_complex():\n        raise NotImplementedError\n    largest = x.amax')
    kit.edit("ch03_attention", "return x.transpose(1, 2)", 'if len(x) == 20:\n        raise RuntimeError("not twenty")\n    return x.transpose(1, 2)')
    return kit, *_walk(kit, "inference")


def test_each_part_is_the_learners_if_it_passes_and_ours_if_not(half):
    _, out, _ = half
    said = _prose(out)
    assert "Your own code: 6 of 27 parts. The reference: build_vocab, WordTokenizer, " in said
    assert "(scaled_dot_product_attention fails its tests)" in said
    assert "split_heads" not in said.partition("── 1")[0], "an unwritten exercise is not a failure"
    assert "ch01_tokenizer.py counts as not written yet: ch01_tokenizer.py, line" in said and "this is not valid Python" in said
    assert "ch02_embeddings.py counts as not written yet:" in said and "a_module_that_is_not_there" in said
    assert "Your merge_heads passes its tests but raised RuntimeError: not twenty here. So this walk uses the reference's code for it." in said


def test_the_walk_is_the_same_for_parts_of_any_author_and_ends_with_what_to_try_next(half):
    _, out, errors = half
    assert run_once("inference").text in out, "the same sums on the same seed"
    assert "HERE I AM" not in out + errors, "a print left in an exercise does not appear in the walk"
    assert "\x1b" not in out + errors and max(map(len, out.splitlines())) <= 80
    assert out.rstrip().endswith("headway check build_vocab")


@pytest.mark.thorough
def test_the_second_walk_tests_only_what_may_have_changed(half):
    kit, first, errors = half
    assert "testing 10 of your exercises ..." in errors
    kit.edit("ch05_layers", "return 0.5 * x * (1 + torch.erf", "return 0.6 * x * (1 + torch.erf")
    out, errors = _walk(kit, "inference")
    assert "testing 4 of your exercises ..." in errors, "gelu, FeedForward, which uses it, and chapter 2, which did not import: what it lacked may exist now"
    assert "gelu fail their tests" not in _prose(first)
    assert "(scaled_dot_product_attention and gelu fail their tests)" in _prose(out), "FeedForward passes with the reference's gelu"
    assert run_once("inference").text in out


def test_a_template_has_the_number_of_the_last_chapter_that_its_walk_needs():
    course = load_syllabus()
    for name in list_walks():
        last = max(course.exercise(exercise).chapter for exercise in load(name).REQUIRED_EXERCISES)
        assert template_path(name).name.startswith(f"{last}_")


def test_without_a_name_it_lists_every_walk(module_kit):
    out = module_kit.run("walk")
    assert [line for line in out.splitlines() if line in list_walks()] == list(list_walks())
    assert all(_prose(title) in _prose(out) for title in list_walks().values())


def test_wrong_use_gets_one_sentence(module_kit):
    assert module_kit.run("walk", "qvk", status=2) == "headway: there is no walk called 'qvk'; did you mean qkv?\n"


@posix
def test_control_c_stops_it_with_one_sentence(module_kit):
    command = [sys.executable, "-m", "grader.cli", "walk", "accumulation"]
    with subprocess.Popen(command, cwd=module_kit.root, env=module_kit.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not process.stderr.readline().startswith("training a small GPT"):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 130 and "Traceback" not in errors and errors.splitlines()[-1] == "headway: stopped"


def test_numbers_are_coloured_in_a_terminal():
    out = io.StringIO()
    WalkPage(Console(file=out, force_terminal=True, color_system="256")).show(grid([[0.0, 1.0]], ["a row"]))
    assert re.search(r"\x1b\[[0-9;]*48;", out.getvalue())


@pytest.mark.thorough
def test_a_handout_offers_only_the_walks_that_its_exercises_allow(tmp_path):
    handout = Kit(make_handout(tmp_path / "given", ["ch02", "ch03"], []).folder)
    out = handout.run("walk")
    assert [line for line in out.splitlines() if line in list_walks()] == ["qkv"]
    said = handout.run("walk", "training", status=2)
    assert re.fullmatch(r"headway: the walk training needs \w+ and \d+ more exercises, which are not in this handout\n", said)
    out, _ = _walk(handout, "qkv")
    assert run_once("qkv").text in out, "the sealed reference does the same sums"


@posix
def test_with_step_a_terminal_waits_after_each_section(module_kit):
    pexpect = pytest.importorskip("pexpect")
    command = ["-m", "grader.cli", "walk", "tiles", "--step"]
    child = pexpect.spawn(sys.executable, command, cwd=str(module_kit.root), env=module_kit.environment(), timeout=SECONDS, encoding="utf-8")
    seen = ""
    for section, answer in (("── 1  ", "\r"), ("── 2  ", "\r"), ("── 3  ", "q\r")):
        child.expect("Enter: the next section; q and Enter: stop ")
        seen += child.before
        assert section not in seen, "it waits before the section"
        child.send(answer)
    child.expect(pexpect.EOF)
    child.close()
    assert "── 1  " in seen and "── 2  " in seen and "── 3  " not in child.before and child.exitstatus == 0


def test_without_a_terminal_step_changes_nothing(module_kit):
    alone = module_kit.run("walk", "tiles")
    assert "Enter:" not in alone and module_kit.run("walk", "tiles", "--step") == alone
