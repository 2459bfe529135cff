"""`headway capstone` as a process: its sentences, the model card, a conversation, Control-C, and a process that is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pexpect
import pytest
from grader.cli.main import app
from kit_copy import Kit, posix
from typer.testing import CliRunner

WRONG_USES = {
    "steps and minutes": (["--steps", "3", "--minutes", "1"], "give one of them"),
    "a path as name": (["--name", "../up"], "--name is the name of a folder"),
    "settings of a resumed run": (["--resume", "--seed", "1"], "leave out --seed"),
    "files without --compare": (["row.json"], "row.json is for --compare; leave it out, or add --compare"),
    "a comparison with a length": (["--compare", "--minutes", "3"], "--compare only reads finished runs; leave out --minutes"),
    "a comparison that is resumed": (["--compare", "--resume"], "leave out --resume"),
}


@pytest.mark.parametrize(("options", "says"), WRONG_USES.values(), ids=WRONG_USES)
def test_wrong_use_is_a_sentence(options, says):
    result = CliRunner().invoke(app, ["capstone", *options])
    assert result.exit_code == 2 and says in " ".join(result.output.split())


def test_without_a_finished_run_there_is_nothing_to_compare_or_resume(kit: Kit):
    assert "there is no finished capstone to compare; `headway capstone` makes one" in kit.run("capstone", "--compare", status=1)
    assert "there is no capstone yet; `headway capstone` makes one" in kit.run("capstone", "--resume", status=1)
    said = kit.run("capstone", "--compare", "nowhere.json", status=1)
    assert "left out: could not read nowhere.json" in said and "there is no finished capstone" in said


def start(kit: Kit, *options: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "grader.cli", "capstone", *options]
    return subprocess.Popen(command, cwd=kit.root, env=kit.environment(PYTHONUNBUFFERED="1"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def read_until(running: subprocess.Popen, words: str) -> str:
    lines = []
    for line in running.stdout:
        lines.append(line)
        if words in line:
            break
    return "".join(lines)


def in_a_terminal(kit: Kit, *options: str) -> str:
    """What a person sees, who then talks to the model and leaves."""
    command, size = ["-m", "grader.cli", "capstone", *options], (50, 100)
    child = pexpect.spawn(sys.executable, command, cwd=str(kit.root), env=kit.environment(), dimensions=size, encoding="utf-8", timeout=900)
    child.expect(r"Now\? \[y/N\] ")
    said = child.before
    child.send("y\r")
    child.expect("lists the commands")
    child.send("There was a boy named Ben.\r")
    child.expect("There was a boy named Ben.")
    child.send("/quit\r")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    return said


@pytest.mark.thorough
@posix
def test_a_run_that_is_stopped_and_killed_ends_with_the_row_of_an_undisturbed_one(kit: Kit):
    """With a half-solved chapter. The end names whose code ran, and a command that talks to the result."""
    kit.solve("ch05_layers")
    kit.edit("ch05_layers", "    if p == 1:\n        return x * 0\n", "    if p == 1:\n        return x * 1\n")
    said = " ".join(kit.run("capstone", "--steps", "2", "--name", "whole").split())
    for part in (
        "dropout fails its tests", "Pretraining on stories", "step 2 of 2", "training on rewards, step 2 of 2", "loss after pretraining",
        "Right answers: no answer changed", "The pretraining was short: 2 steps", "model_card.html", "headway play whole",
    ):  # fmt: skip
        assert part in said, part

    running = start(kit, "--steps", "2", "--name", "disturbed")
    read_until(running, "step 0 of 2")
    running.send_signal(signal.SIGINT)
    rest = " ".join(running.stdout.read().split())
    assert running.wait() == 130 and "Stopped, and saved. To go on: headway capstone --resume --name disturbed" in rest
    running = start(kit, "--resume")
    read_until(running, "test 2 of 3")
    running.kill()
    running.wait()
    running.stdout.close()
    said = in_a_terminal(kit, "--resume")
    assert "reading the text" not in said and "at step 0" not in said and "Every number" in said
    rows = [json.loads((kit.root / "checkpoints" / name / "capstone.json").read_text()) for name in ("whole", "disturbed")]
    for name in ("right", "tokens", "characters", "learner", "reference", "changed"):
        assert rows[0][name] == rows[1][name], name
    for model, nats in rows[0]["nats"].items():
        assert rows[1]["nats"][model] == pytest.approx(nats, rel=1e-4), model
    assert "gelu" in rows[0]["learner"] and "dropout" in rows[0]["reference"] and len(rows[0]["right"]["before"]) == 96
    for name in ("disturbed", "disturbed/stories"):
        command = [sys.executable, "-m", "grader.cli", "play", name]
        done = subprocess.run(command, cwd=kit.root, env=kit.environment(), input="There was a boy named Ben.\n", capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.startswith("There was a boy named Ben."), done.stderr

    said = " ".join(kit.run("capstone", "--compare").split())
    assert "The difference from " in said and said.count("may be chance") == 2
    path = kit.root / "checkpoints" / "whole" / "capstone.json"
    path.write_text(path.read_text()[:99])
    said = kit.run("capstone", "--compare", status=1)
    assert "left out: " in said and "disturbed" in said
    assert "is finished. Its model card is " in kit.run("capstone", "--resume", "--name", "disturbed")
    assert "is not JSON" in kit.run("capstone", "--resume", "--name", "whole", status=1)


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_a_sentence(kit: Kit):
    (kit.root / "checkpoints").mkdir(mode=0o500)
    assert "could not write" in kit.run("capstone", "--steps", "1", status=1)
