"""The group of chapter 18: the same laws for the simulated group and for real processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from grader.course.syllabus import ROOT
from grader.execution.simulated_group import run_ranks
from group_laws import LAWS

REAL = [pytest.param(size, marks=pytest.mark.thorough) for size in (2, 3)]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("law", LAWS)
def test_a_simulated_group_keeps_the_law(law, size):
    results, _ = run_ranks(LAWS[law].run, size)
    for rank, got in enumerate(results):
        LAWS[law].check(got, rank, size)


@pytest.fixture(scope="module", params=REAL)
def real_results(request, tmp_path_factory):
    """What each rank of a group of this many real processes has found, law by law."""
    size, folder = request.param, tmp_path_factory.mktemp("ranks")
    commands = [
        [sys.executable, "-m", "grader.tests.models.group_laws", f"file://{folder}/store", str(rank), str(size), str(folder / f"{rank}.pt")]
        for rank in range(size)
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ranks = [subprocess.Popen(command, env=environment, cwd=ROOT) for command in commands]
    assert [rank.wait() for rank in ranks] == [0] * size
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(size)]


@pytest.mark.parametrize("law", LAWS)
def test_real_processes_keep_the_law(law, real_results):
    for rank, got in enumerate(real_results):
        LAWS[law].check(got[law], rank, len(real_results))
