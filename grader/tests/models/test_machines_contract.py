"""The group of chapter 18: the same laws for the simulated group and for real processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
import torch
from grader.course.syllabus import ROOT
from grader.execution.simulated_group import GroupProblem, run_ranks
from group_laws import LAWS

SIZE = 3  # of the group of real processes
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("law", LAWS)
def test_a_simulated_group_keeps_the_law(law, size):
    results, _ = run_ranks(LAWS[law].run, size)
    for rank, got in enumerate(results):
        LAWS[law].check(got, rank, size)


@pytest.mark.thorough
def test_real_processes_keep_every_law(tmp_path):
    commands = [
        [sys.executable, "-m", "grader.tests.models.group_laws", f"file://{tmp_path}/store", str(rank), str(SIZE), str(tmp_path / f"{rank}.pt")]
        for rank in range(SIZE)
    ]
    ranks = [subprocess.Popen(command, env=ENVIRONMENT, cwd=ROOT) for command in commands]
    assert [rank.wait() for rank in ranks] == [0] * SIZE
    for rank in range(SIZE):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        for name, law in LAWS.items():
            law.check(found[name], rank, SIZE)


# ---- real processes that do not answer

ONE_RANK = """
import sys
from datetime import timedelta
from grader.execution.simulated_group import GroupProblem
from grader.models import process_group
import torch
method, rank, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
print("loaded", flush=True)
sys.stdin.readline()
process_group.PATIENCE = timedelta(seconds=seconds)
group = process_group.join_group(method, rank, 2)
group.all_reduce(torch.ones(1))
if rank == 0:
    for call in (lambda: group.all_reduce(torch.ones(1)), lambda: group.broadcast(torch.ones(1), 0)):
        try:
            call()
        except GroupProblem as problem:
            print(problem, flush=True)
    group.leave()
else:
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("ending", "seconds", "says"), [(True, 600, "another rank has ended"), (False, 15, "another rank did not answer in time")], ids=["ended", "silent"])
def test_a_rank_that_does_not_answer_is_a_sentence(tmp_path, ending, seconds, says):
    """And every later call repeats it at once."""
    commands = [[sys.executable, "-c", ONE_RANK, f"file://{tmp_path}/store", str(rank), str(seconds)] for rank in range(2)]
    ranks = [subprocess.Popen(command, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for command in commands]
    assert [rank.stdout.readline() for rank in ranks] == ["loaded\n"] * 2
    for rank in ranks:  # both are ready, so joining takes less than the time limit that is tested
        rank.stdin.write("go\n")
        rank.stdin.flush()
    assert ranks[1].stdout.readline() == "ready\n"
    if ending:
        ranks[1].kill()
    said = ranks[0].stdout.read().splitlines()
    ranks[1].kill()
    for rank in ranks:
        rank.communicate()
    assert said == [f"rank 0 in all_reduce (call 2): {says}"] * 2


def test_a_group_that_torchrun_does_not_describe_and_a_port_in_use_are_sentences(monkeypatch):
    from grader.models.process_group import STARTED_BY_TORCHRUN, join_group

    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(GroupProblem, match="RANK"):
        join_group(STARTED_BY_TORCHRUN)
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(GroupProblem, match=f"port {port} of this machine is in use; choose another one with --master-port"):
            join_group(STARTED_BY_TORCHRUN)
