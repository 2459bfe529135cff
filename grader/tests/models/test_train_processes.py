"""`headway train` in several real processes, and on several hosts that are all this machine."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys

import pytest
import torch.distributed
from grader.cli.main import app
from kit_copy import posix
from linux_processes import alive, children_of, command_line, descendants, still_running
from typer.testing import CliRunner

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds processes in /proc")
TRAIN = [sys.executable, "-m", "grader.cli.main", "train"]
MINI = ["--preset", "mini"]

WRONG_USES = {
    "too many": (["--processes", "65"], 2, "'65' is too large; the largest value is 64"),
    "a GPU": (["--processes", "2", "--device", "cuda"], 2, "several processes train on the CPU; leave out --device cuda"),
    "one host": (["--hosts", "1"], 2, "'1' is too small; the smallest value is 2"),
    "not by torchrun": (["--torchrun"], 1, "the processes could not be joined"),
}


@pytest.mark.parametrize(("options", "status", "says"), WRONG_USES.values(), ids=WRONG_USES)
def test_wrong_use_is_a_sentence(options, status, says):
    result = CliRunner().invoke(app, ["train", *options])
    assert result.exit_code == status and says in " ".join(result.output.split())


def test_a_torch_without_gloo_is_a_sentence(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_gloo_available", lambda: False)
    result = CliRunner().invoke(app, ["train", "--processes", "2"])
    assert result.exit_code == 2 and "this torch was built without gloo" in result.output


def record_of(kit, name):
    return json.loads((kit.root / "checkpoints" / name / "checkpoint.json").read_text())["record"]


def losses_of(kit, name):
    return record_of(kit, name)["history"]["losses"]


class Running:
    """A training whose output is read while it runs."""

    def __init__(self, kit, *options):
        environment = kit.environment(PYTHONUNBUFFERED="1", OMP_NUM_THREADS="1")
        self.process = subprocess.Popen([*TRAIN, *options], cwd=kit.root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.said = ""

    def read_until(self, text):
        for line in self.process.stdout:
            self.said += line
            if text in line:
                return
        raise AssertionError(self.said)

    def end(self):
        self.said += self.process.stdout.read()
        assert "Traceback" not in self.said
        return self.process.wait()

    def followers(self):
        return [pid for pid in children_of(self.process.pid) if "models.training.data_parallel" in command_line(pid)]


@pytest.mark.thorough
@posix
@linux
def test_a_training_in_processes_is_interrupted_and_resumed_with_another_number(kit):
    """Its losses are those of one process. Control-C saves, and nothing stays."""
    kit.run("train", *MINI, "--steps", "48", "--name", "alone", OMP_NUM_THREADS="1")
    kit.solve("ch18_many_machines")
    first = Running(kit, *MINI, "--steps", "48", "--name", "shared", "--processes", "2")
    first.read_until("step 6 of 48")
    started = descendants(first.process.pid)
    assert len(first.followers()) == 1
    os.kill(first.process.pid, signal.SIGINT)
    assert first.end() == 130 and "and saved. To go on:" in first.said
    assert "2 processes train it" in first.said
    assert 6 <= record_of(kit, "shared")["steps_done"] < 48 and not still_running(started)
    said = kit.run("train", "--resume", "--name", "shared", "--processes", "3")
    assert "3 processes train it" in said and record_of(kit, "shared")["finished"]
    assert losses_of(kit, "shared") == pytest.approx(losses_of(kit, "alone"), abs=1e-3)
    assert losses_of(kit, "shared")[:5] == pytest.approx(losses_of(kit, "alone")[:5], abs=5e-6)
    assert "trained to its end" in kit.run("train", "--resume", "--name", "shared", "--processes", "2")


@pytest.mark.thorough
@linux
def test_a_killed_process_ends_the_training_with_a_sentence_and_a_checkpoint(kit):
    running = Running(kit, *MINI, "--steps", "4000", "--name", "long", "--processes", "3")
    running.read_until("step 0 of 4000")
    started = descendants(running.process.pid)
    pid = next(pid for pid in running.followers() if " 2 3 " in command_line(pid))
    os.kill(pid, signal.SIGKILL)
    assert running.end() == 1
    said = " ".join(running.said.split())
    assert re.search(r"process 2 was ended by the signal SIGKILL. The checkpoint from after \d+ steps stays: `headway train --resume", said)
    assert len(losses_of(kit, "long")) == record_of(kit, "long")["steps_done"]
    assert not still_running(started)


@pytest.mark.thorough
@linux
def test_when_the_first_process_is_killed_the_others_end(kit):
    running = Running(kit, *MINI, "--steps", "4000", "--name", "long", "--processes", "2")
    running.read_until("step 0 of 4000")
    (follower,) = running.followers()
    running.process.kill()
    running.process.wait()
    while alive(follower):  # the test's own time limit ends this
        pass


@pytest.mark.thorough
def test_code_that_raises_in_another_process_is_named(kit):
    kit.solve("ch18_many_machines")
    kit.edit("ch18_many_machines", "least, more = divmod(ids.size(0), size)", "least, more = divmod(ids.size(0), size if len(ids) < 14 else (1 - rank) * size)")
    said = " ".join(kit.run("train", *MINI, "--steps", "3", "--name", "bad", "--processes", "2", status=1).split())
    assert "process 1: your shard_batch raised ZeroDivisionError" in said


def test_more_processes_than_rows_is_a_sentence(trainings):
    result = CliRunner().invoke(app, ["train", "--steps", "1", "--processes", "40"])
    assert result.exit_code == 2 and "40 processes cannot share a batch of 4 rows; use at most 4" in " ".join(result.output.split())


@pytest.mark.thorough
def test_the_printed_command_trains_on_two_hosts(kit):
    """Both are this machine, at its loopback address."""
    kit.run("train", *MINI, "--steps", "4", "--name", "alone")
    said = kit.run("train", *MINI, "--steps", "4", "--name", "hosts", "--hosts", "2", "--processes", "2")
    command = next(shlex.split(line) for line in said.splitlines() if line.strip().startswith("torchrun"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    replaced = {socket.gethostname(): "127.0.0.1", "29500": str(port)}
    arguments = [replaced.get(word, word) for word in command[1:]]
    environment = kit.environment(GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1", PYTHONUNBUFFERED="1")
    place = arguments.index("--node-rank") + 1
    hosts = []
    for host in ("0", "1"):
        arguments[place] = host
        torchrun = [sys.executable, "-m", "torch.distributed.run", *arguments]
        hosts.append(subprocess.Popen(torchrun, cwd=kit.root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    outputs = [host.communicate()[0] for host in hosts]
    assert [host.returncode for host in hosts] == [0, 0], outputs
    assert "4 processes train it" in " ".join(outputs[0].split()) and "headway play hosts" in outputs[0] and "step" not in outputs[1]
    assert losses_of(kit, "hosts") == pytest.approx(losses_of(kit, "alone"), abs=1e-5)
