"""What a submission may use: one worker at a time, and a limit on how much memory a run of the server adds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from boundaries import forks
from pytest_runs import grade, module, solution

pytestmark = forks

COUNTING = '''
import json, os
from pathlib import Path

import pytest

FOUND = Path(os.environ["HEADWAY_COUNTED"])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    result = yield
    count(item, nextitem)
    return result


def _chapter_of(item):
    from grader.plugin.selection import graded_test_of
    return graded_test_of(item).exercise.chapter if item is not None else ""


def count(item, nextitem):
    from grader.plugin.hooks import RUN
    trial = item.config.stash[RUN].trial
    zygote = trial.pool.zygote.pid if trial.pool.zygote else 0
    workers = len(Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()) if zygote else 0
    with FOUND.open("a") as file:
        file.write(json.dumps([_chapter_of(item), _chapter_of(nextitem), workers, len(trial._references)]) + "\\n")
'''


@pytest.mark.thorough
def test_a_submission_has_one_worker_at_a_time(tmp_path):
    """The worker of a chapter ends with the last of its tests, and so does what the reference made for them."""
    for chapter in ("ch02", "ch03"):
        (tmp_path / f"{module(chapter)}.py").write_text(solution(chapter), encoding="utf-8")
    (tmp_path / "counting_workers.py").write_text(COUNTING, encoding="utf-8")
    counted = tmp_path / "counted"
    path = f"{tmp_path}:{Path(__file__).parents[3]}"
    options = ["--target", str(tmp_path), "--chapter", "ch02", "--chapter", "ch03", "--worker", "-p", "counting_workers"]
    found = grade(*options, results=tmp_path / "results.json", PYTHONPATH=path, HEADWAY_COUNTED=str(counted))
    assert found.status == 0, found.out
    after_each = [json.loads(line) for line in counted.read_text(encoding="utf-8").splitlines()]
    assert {chapter for chapter, *_ in after_each} == {"ch02", "ch03"}
    for chapter, following, workers, references in after_each:
        assert (workers, references) == ((1, 1) if chapter == following else (0, 0))


@pytest.mark.thorough
def test_a_mistake_is_still_named_when_its_worker_has_ended(tmp_path):
    (tmp_path / f"{module('ch03')}.py").write_text(solution("ch03") + "\n\ndef softmax(x, dim=-1):\n    return x\n", encoding="utf-8")
    runs = [grade("--target", str(tmp_path), "--exercise", "softmax", *options, results=tmp_path / f"{len(options)}.json") for options in ([], ["--worker"])]
    assert runs[0].exercise("softmax")["diagnosis"] == runs[1].exercise("softmax")["diagnosis"]


@pytest.mark.parametrize("how", ["bytearray(1 << 28)", "torch.ones(1 << 26)"])
def test_a_run_of_the_server_cannot_grow_beyond_its_limit(how):
    """It raises what Python and torch raise when memory runs out, and the process continues."""
    script = (
        "import torch\n"
        "from grader.processes import limits\n"
        "from grader.verdict.explanation import is_out_of_memory\n"
        "torch.ones(9)\n"
        "limits.limit_growth(1 << 27)\n"
        "bytearray(1 << 24)\n"
        f"try:\n    {how}\n"
        "except Exception as problem:\n    print(is_out_of_memory(problem))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240)
    assert done.stdout == "True\n", done.stderr
