"""`headway compare` as a command: its sentences, its exit statuses, Control-C, a full disk."""

import os
import signal
import subprocess
import sys

import pytest
from kit_copy import posix

WRONG_USES = {
    "one name": (["stories"], "give two checkpoints", 2),
    "three names": (["pre", "post", "rope"], "give two checkpoints", 2),
    "steps and minutes": (["pre", "post", "--steps", "3", "--minutes", "1"], "give one of them", 2),
    "a device": (["pre", "post", "--device", "tpu"], "'tpu' is not one of 'auto', 'cpu', 'cuda'", 2),
    "the same design": (["learned", "dense"], "learned and dense are the same design", 2),
    "heads": (["heads=3", "heads=4"], "3 heads do not divide d_model", 2),
    "a translator": (["translate", "rope"], "'translate' is neither a checkpoint nor a design", 1),
    "a typing mistake": (["learnt", "rope"], "'learnt' is neither a checkpoint nor a design; did you mean learned?", 1),
    "an unknown name": (["xyz", "rope"], "'xyz' is neither a checkpoint nor a design; the designs are learned,", 1),
}


@pytest.mark.parametrize(("options", "says", "status"), WRONG_USES.values(), ids=WRONG_USES)
def test_wrong_use_is_a_sentence(options, says, status, capfd):
    from grader.cli.main import app
    from typer.testing import CliRunner

    result = CliRunner().invoke(app, ["compare", *options])
    assert result.exit_code == status and says in " ".join(result.output.split())


@pytest.mark.thorough
def test_two_designs_from_training_to_picture_and_what_can_go_wrong(kit):
    """In a learner's kit with real processes: it trains, compares, writes the picture; the second time it does not train."""
    said = kit.run("compare", "learned", "rope", "--steps", "2")
    assert "Training compare-learned." in said and "Training compare-rope." in said
    picture = kit.root / "checkpoints" / "compare-learned-and-compare-rope.svg"
    assert picture.read_text().startswith("<svg") and "checkpoints/compare-learned-and-compare-rope.svg" in said
    for name in ("positions", "validation loss", "perplexity", "tokens a second, writing", "headway play compare-learned"):
        assert name in said
    again = kit.run("compare", "learned", "rope", "--picture", "two.svg", "--prompt", "Mia had a")
    assert "Training" not in again and "compare-rope was trained in an earlier comparison" in again and "'Mia had a', seed 0" in again
    assert (kit.root / "two.svg").is_file()
    names = ("compare-learned", "compare-rope")
    assert "did you mean compare-rope?" in kit.run("compare", "compare-learned", "compare-roe", status=1)
    assert "compare-rope is a checkpoint and post is a design" in kit.run("compare", "compare-rope", "post", status=2)
    assert "--steps is for the training of two designs" in kit.run("compare", *names, "--steps", "3", status=2)
    assert "could not write the picture" in kit.run("compare", *names, "--picture", "two.svg/three.svg", status=1)
    (kit.root / "checkpoints" / "compare-rope" / "model.safetensors").write_bytes(b"nothing")
    assert "compare-rope/model.safetensors is damaged" in kit.run("compare", *names, status=1)


@posix
@pytest.mark.thorough
def test_control_c_saves_and_the_same_command_goes_on(kit):
    command = [sys.executable, "-m", "grader.cli.main", "compare", "pre", "post", "--steps", "3000"]
    running = subprocess.Popen(command, cwd=kit.root, env=kit.environment(PYTHONUNBUFFERED="1"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    for line in running.stdout:
        lines.append(line)
        if "step 0 of 3000" in line:
            break
    running.send_signal(signal.SIGINT)
    said = "".join(lines) + running.stdout.read()
    assert running.wait() == 130 and "Traceback" not in said, said
    assert "steps of compare-pre, and saved. The same command goes on from there." in " ".join(said.split())
    assert os.listdir(kit.root / "checkpoints") == ["compare-pre"]


@posix
@pytest.mark.thorough
def test_a_full_disk_is_a_sentence(kit):
    """Files cannot grow beyond 100 kB, so the checkpoint of the first design cannot be written."""
    limited = "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
    code = limited + "from grader.cli.main import main; sys.argv = ['headway', 'compare', 'learned', 'rope', '--steps', '1']; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=kit.root, env=kit.environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert "headway: could not write the checkpoint checkpoints/compare-learned: file too large. There is no checkpoint of this training yet." in done.stderr
    assert not list((kit.root / "checkpoints").glob("*"))
