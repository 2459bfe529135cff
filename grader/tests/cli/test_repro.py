"""`headway repro` after a real failure: still wrong, in the debugger, right after the fix, and what it says without a failure."""

import subprocess
import sys

import pytest

TOTAL = "total = exps.sum(dim, keepdim=True)"


def test_a_failure_is_run_again_until_it_is_fixed(kit):
    kit.solve("ch03_attention")
    kit.edit("ch03_attention", TOTAL, "total = exps.sum()")
    assert "headway check softmax" in kit.run("repro", "softmax", status=2)
    assert "run again headway repro softmax" in kit.run("check", "softmax", status=1)
    out = kit.run("repro", status=1)
    assert "expected" in out and "result is still wrong" in " ".join(out.split()) and "changed since" not in out
    kit.edit("ch03_attention", "total = exps.sum()", TOTAL)
    out = kit.run("repro", "softmax")
    assert "has changed since" in out and "The call now returns the expected value. Run headway check softmax for all tests." in " ".join(out.split())


def test_exercises_whose_tests_have_one_name_have_their_own_scripts(kit):
    """test_only_differences_of_logits_count is a test of both filters."""
    kit.solve("ch09_sampling")
    kit.edit("ch09_sampling", "torch.softmax(ordered, dim=-1)", "ordered.exp() / ordered.exp().sum(-1, keepdim=True)")
    kit.edit("ch09_sampling", "torch.softmax(logits, dim=-1)  # (..., V)", "logits.exp() / logits.exp().sum(-1, keepdim=True)")
    kit.run("check", "ch09", status=1)
    for name in ("top_p_filter", "min_p_filter"):
        assert f".{name}(" in (kit.exercises / ".headway" / "repro" / f"{name}.py").read_text()


@pytest.mark.thorough
def test_the_debugger_stops_at_the_failure_and_a_pass_removes_the_script(kit):
    kit.solve("ch03_attention")
    kit.edit("ch03_attention", TOTAL, "total = exps.sum()")
    kit.run("check", "softmax", status=1)
    debugged = _debug(kit, "s\nnext\np x.shape\ncontinue\n")
    assert "def softmax(x: Tensor" in debugged and "torch.Size([2, 3])" in debugged
    kit.edit("ch03_attention", "total = exps.sum()", "total = exps.summ(dim)")
    assert "-> total = exps.summ(dim)" in _debug(kit, "continue\nq\n")
    kit.edit("ch03_attention", "total = exps.summ(dim)", TOTAL)
    kit.run("check", "softmax")
    assert not list((kit.exercises / ".headway" / "repro").iterdir())
    assert "there is no exercise called 'sofmax'" in kit.run("repro", "sofmax", status=2) and "headway check" in kit.run("repro", status=2)


def _debug(kit, keys):
    command = [sys.executable, "-m", "grader.cli", "repro", "softmax", "--pdb"]
    return subprocess.run(command, cwd=kit.root, env=kit.environment(), input=keys, capture_output=True, text=True).stdout


def test_a_renamed_function_is_named_with_the_command_that_adds_its_stub(kit):
    kit.solve("ch01_tokenizer")
    kit.edit("ch01_tokenizer", "return sorted(words)", "return list(words)[::-1]")
    kit.run("check", "build_vocab", status=1)
    kit.edit("ch01_tokenizer", "def build_vocab(", "def buildVocab(")
    said = " ".join(kit.run("repro", "build_vocab", status=2).split())
    assert "does not define build_vocab; `headway reset build_vocab` adds the stub at the end of the file" in said
    assert "does not define `build_vocab` (it defines `buildVocab`)" in " ".join(kit.run("check", "build_vocab", status=1).split())
