"""Kernels in tests. Their programs run behind the boundary; their reads and writes come to this side, which has the memory and counts.

`run_kernel` launches a kernel of `learner` or `reference` and returns its Traffic; tensors are written where they are, as on a GPU.
"""

from __future__ import annotations

import torch
from grader.execution.errors import RuleBroken
from grader.execution.kernel_language import KernelProblem
from grader.execution.simulated_gpu import run_programs


def programs_of(kernel, arguments, constants, grid):
    from grader.execution.simulated_gpu import Programs

    return Programs(kernel, arguments, constants, grid)


def run_kernel(side, name, grid, *arguments, seed=0, **constants):
    sent = [each.dtype if isinstance(each, torch.Tensor) else each for each in arguments]
    programs = side.bring(programs_of)(getattr(side, name), sent, constants, (*grid, 1, 1)[:3])
    try:
        return run_programs(programs, grid, arguments, seed)
    except KernelProblem as problem:
        raise RuleBroken("KernelProblem", str(problem)) from None


def unwritten(*shape, dtype=torch.float32):
    """A tensor of nan: what a kernel does not write stays nan."""
    return torch.full(shape, float("nan"), dtype=dtype)
