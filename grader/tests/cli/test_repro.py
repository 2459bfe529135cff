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
    kit.edit("ch03_attention", "def softmax(", "def softMax(")
    said = " ".join(kit.run("repro", "softmax", status=2).split())
    assert "does not define softmax; `headway reset softmax` adds the stub at the end of the file" in said
    kit.edit("ch03_attention", "def softMax(", "def softmax(")
    kit.edit("ch03_attention", "total = exps.sum()", TOTAL)
    out = kit.run("repro", "softmax")
    assert "has changed since" in out and "The call now returns the expected value. Run headway check softmax for all tests." in " ".join(out.split())


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
    assert "there is no exercise or chapter called 'sofmax'" in kit.run("repro", "sofmax", status=2) and "headway check" in kit.run("repro", status=2)


def _debug(kit, keys):
    command = [sys.executable, "-m", "grader.cli", "repro", "softmax", "--pdb"]
    return subprocess.run(command, cwd=kit.root, env=kit.environment(), input=keys, capture_output=True, text=True).stdout
