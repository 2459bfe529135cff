"""`headway train` as a command: its sentences, its exit statuses, Control-C and a second one."""

import json
import os
import signal
import subprocess
import sys
import tomllib

import pytest
from grader.cli.main import app
from grader.course.syllabus import ROOT
from grader.models.packages import MODELS
from kit_copy import posix
from typer.testing import CliRunner

WRONG_USES = {
    "a preset": (["--preset", "huge"], "'huge' is not one of 'mini', 'tiny', 'small'"),
    "steps and minutes": (["--steps", "3", "--minutes", "1"], "give one of them"),
    "a path as name": (["--name", "../up"], "--name is the name of a folder"),
    "settings of a resumed training": (["--resume", "--heads", "2"], "leave out --heads"),
    "experts with RoPE": (["--model", "moe", "--positions", "rope"], "experts have no rope positions"),
}


@pytest.mark.parametrize(("options", "says"), WRONG_USES.values(), ids=WRONG_USES)
def test_wrong_use_is_a_sentence(options, says):
    result = CliRunner().invoke(app, ["train", *options])
    assert result.exit_code == 2 and says in result.output


def test_a_training_and_its_end(kit):
    """With half-solved chapters: it says whose code runs, trains, saves, and resuming it says that it is finished."""
    kit.solve("ch05_layers")
    kit.edit("ch05_layers", "    if p == 1:\n        return x * 0\n", "    if p == 1:\n        return x * 1\n")
    said = " ".join(kit.run("train", "--preset", "mini", "--steps", "2", "--name", "two").split())
    assert "Your own code: " in said and "dropout fails its tests" in said and "step 2 of 2" in said and "at step 0: " in said
    assert "headway play two" in said and "judge_fit says" in said
    data = json.loads((kit.root / "checkpoints" / "two" / "checkpoint.json").read_text())
    assert "gelu" in data["record"]["parts"]["learner"] and "dropout" in data["record"]["parts"]["reference"]
    assert "two is trained to its end, 2 steps" in kit.run("train", "--resume")


@posix
def test_control_c_saves_and_a_second_one_ends(kit):
    command = [sys.executable, "-m", "grader.cli.main", "train", "--preset", "mini", "--steps", "4000", "--name", "long"]
    running = subprocess.Popen(command, cwd=kit.root, env=kit.environment(PYTHONUNBUFFERED="1"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    for line in running.stdout:
        lines.append(line)
        if "step 0 of 4000" in line:
            break
    running.send_signal(signal.SIGINT)
    said = "".join(lines) + running.stdout.read()
    assert running.wait() == 130, said
    assert "and saved. To go on:" in said and "headway train --resume --name long" in said and "Traceback" not in said
    assert sorted(os.listdir(kit.root / "checkpoints" / "long")) == ["checkpoint.json", "model.safetensors", "optimizer.safetensors"]


def test_a_missing_package_is_named_before_anything_runs(monkeypatch):
    """safetensors uses numpy and does not install it."""
    monkeypatch.setitem(sys.modules, "numpy", None)
    for command, *arguments in (["train"], ["compare", "rope", "alibi"], ["play"]):
        result = CliRunner().invoke(app, [command, *arguments])
        assert result.exit_code != 0
        assert result.stderr == f'headway: `headway {command}` needs numpy, which is not installed: run pip install -c constraints.txt -e ".[play]"\n'


def test_make_learn_installs_what_training_needs():
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["play"]
    assert sorted(each.partition(">")[0] for each in extra) == sorted(MODELS)
    assert '$(PIP) -e ".[play]"' in (ROOT / "Makefile").read_text()
