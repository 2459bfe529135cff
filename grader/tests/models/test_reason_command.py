"""`headway reason` as a process: its sentences, the page, Control-C, a killed run and --resume, whose parts run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from full_disk import needs_mounts, run_on_full_disk
from grader.cli.main import app
from kit_copy import Kit, posix
from typer.testing import CliRunner

WRONG_USES = {
    "a path as name": (["--name", "../up"], "--name is the name of a folder"),
    "settings of a resumed run": (["--resume", "--minutes", "3"], "leave out --minutes"),
    "the seed of a resumed run": (["--resume", "--seed", "3"], "leave out --seed"),
    "no time": (["--minutes", "0"], "is too small; the smallest value is 0.05"),
}


@pytest.mark.parametrize(("options", "says"), WRONG_USES.values(), ids=WRONG_USES)
def test_wrong_use_is_a_sentence(options, says):
    result = CliRunner().invoke(app, ["reason", *options])
    assert result.exit_code == 2 and says in " ".join(result.output.split())


def test_nothing_to_resume_is_a_sentence(kit: Kit):
    assert "there is no run yet; `headway reason` makes one" in " ".join(kit.run("reason", "--resume", status=1).split())


def test_a_short_run_says_whose_code_runs_that_nothing_was_learned_and_where_the_page_is(kit: Kit):
    """With a half-solved chapter, so little time that no answer is right."""
    kit.solve("ch05_layers")
    kit.edit("ch05_layers", "torch.sigmoid(gate) * self.up(x)", "torch.sigmoid(gate) + self.up(x)")
    said = " ".join(kit.run("reason", "--minutes", "0.05", "--name", "one").split())
    for part in (
        "57+68= is answered by 78055612>125. or >125.", "Your own code: 1 of 34 parts.", "SwiGLU fails its tests",
        "Nothing was learned from rewards", "The run was short", "pass@32 0.000 0.000 0.000",
        "The page with the curves is checkpoints/one/report.html; open it in a browser.",
    ):  # fmt: skip
        assert part in said, part
    folder = kit.root / "checkpoints" / "one"
    assert sorted(os.listdir(folder)) == ["reason.safetensors", "report.html"]
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Nothing was learned from rewards" in page and "Your own code: 1 of 34 parts." in page
    again = " ".join(kit.run("reason", "--resume", "--name", "one").split())
    assert "Nothing was learned" in again and "training on" not in again, "a finished run is only shown"


def started(kit: Kit, *options: str) -> tuple[subprocess.Popen, list[str]]:
    """A run that has begun to train, and its lines so far."""
    command = [sys.executable, "-m", "grader.cli", "reason", *options]
    environment = kit.environment(PYTHONUNBUFFERED="1")
    running = subprocess.Popen(command, cwd=kit.root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    for line in running.stdout:
        lines.append(line)
        if "training on answers" in line:
            break
    return running, lines


@posix
def test_control_c_saves_a_killed_run_goes_on_and_its_checkpoint_stays(kit: Kit):
    running, lines = started(kit, "--minutes", "600", "--name", "long")
    running.send_signal(signal.SIGINT)
    said = " ".join(("".join(lines) + running.stdout.read()).split())
    assert running.wait() == 130, said
    assert "Stopped, and saved. To go on: headway reason --resume --name long" in said and "Traceback" not in said
    file = kit.root / "checkpoints" / "long" / "reason.safetensors"
    assert os.listdir(file.parent) == [file.name]

    before = file.stat().st_mtime_ns
    running, _ = started(kit, "--resume", "--name", "long")
    while file.stat().st_mtime_ns == before and running.poll() is None:  # it saves each 20 seconds
        time.sleep(0.1)
    running.kill()
    running.wait()
    assert file.stat().st_mtime_ns != before
    running, lines = started(kit, "--resume")
    assert "step 0 of" not in lines[-1], "it goes on after the steps that were saved"
    running.send_signal(signal.SIGINT)
    said = " ".join(running.stdout.read().split())
    assert running.wait() == 130, said


@pytest.mark.thorough
def test_the_usual_run_learns_from_rewards_within_its_time(kit: Kit):
    """On a quiet machine it takes about four of its eight minutes on one core. A busy one makes fewer steps; a quarter of
    them is enough."""
    said = " ".join(kit.run("reason").split())
    assert "Rewards taught something new" in said or "Rewards made right answers likelier" in said, said


@pytest.mark.thorough
@needs_mounts
def test_on_a_full_disk_the_last_checkpoint_stays_and_a_new_run_leaves_nothing(kit: Kit):
    running, _ = started(kit, "--minutes", "600", "--name", "one")
    running.send_signal(signal.SIGINT)
    running.communicate()
    for options in (["--resume", "--name", "one"], ["--minutes", "0.05", "--name", "two"]):
        said = run_on_full_disk(kit, "reason", *options)
        assert f"could not write checkpoints/{options[-1]}/reason.safetensors: no space left on device" in said
