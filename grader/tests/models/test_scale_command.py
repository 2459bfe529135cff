"""`headway scale` as a process: its sentences, whose parts run, and Control-C."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from kit_copy import Kit, posix


@pytest.mark.parametrize(("options", "says"), [(["--minutes", "0"], "'0' is too small"), (["--seed", "-1"], "'-1' is too small")])
def test_wrong_use_is_a_sentence(options, says):
    from grader.cli.main import app
    from typer.testing import CliRunner

    result = CliRunner().invoke(app, ["scale", *options])
    assert result.exit_code == 2 and says in " ".join(result.output.split())


@pytest.mark.thorough
def test_it_says_whose_parts_run_and_how_much_time_is_needed(kit: Kit):
    kit.solve("ch19_data_and_scale")
    kit.edit("ch19_data_and_scale", "return loss_sum / math.log(2) / n_bytes", "return loss_sum / n_bytes")
    said = " ".join(kit.run("scale", "--minutes", "0.05", status=1).split())
    assert "Your own code: 3 of 31 parts." in said and "bits_per_byte fails its tests" in said
    assert "0.05 minutes are too short at the present speed of this machine" in said and "give more time: `headway scale --minutes" in said
    assert not (kit.root / "checkpoints").exists()


@posix
@pytest.mark.thorough
def test_control_c_says_how_to_go_on(kit: Kit):
    command = [sys.executable, "-m", "grader.cli", "scale", "--minutes", "600"]
    running = subprocess.Popen(
        command, cwd=kit.root, env=kit.environment(PYTHONUNBUFFERED="1"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    lines = []
    for line in running.stdout:
        lines.append(line)
        if "FLOPs" in line:
            break
    running.send_signal(signal.SIGINT)
    said = " ".join(("".join(lines) + running.stdout.read()).split())
    assert running.wait() == 130, said
    assert "To go on: headway scale --minutes 600 --seed 0" in said and "Traceback" not in said
