"""Chapter 21, first part: kernels that read rows once."""

from __future__ import annotations

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import close, same
from hypothesis import given, settings
from simulated_gpus import run, unwritten, watch
from strategies import distinct, seeds, tensor

few = settings(max_examples=5)


@exercise("softmax_kernel", weight=3)
@few
@given(n=distinct("rows", "columns", columns=(3, 30)), seed=seeds)
def test_each_row_gets_its_softmax(learner, n, seed):
    """Each row of out is the softmax of the same row of x."""
    x = tensor(seed, n.rows, n.columns)
    _, out = run(learner, "softmax_kernel", (n.rows,), x, unwritten(n.rows, n.columns), n.columns, n.columns, seed=seed, BLOCK=32)
    close(out, torch.softmax(x, 1), "out")


@exercise("softmax_kernel", weight=2)
@few
@given(n=distinct("rows", "columns", columns=(3, 30)), seed=seeds)
def test_each_number_is_read_once(learner, n, seed):
    """Each number of x is read once."""
    x = tensor(seed, n.rows, n.columns)
    (_, out), traffic = watch(learner, "softmax_kernel", (n.rows,), x, unwritten(n.rows, n.columns), n.columns, n.columns, seed=seed, BLOCK=32)
    same(traffic.bytes_read, x.numel() * 4, "the bytes that all programs read")
    close(out, torch.softmax(x, 1), "out")
