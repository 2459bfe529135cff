"""Kernels in tests.

`launch` runs a kernel of the learner or the reference where it is, on the other side of the boundary. `watch` does the same, and runs it
once more with the memory on this side, which checks and counts each read and each write where the kernel cannot reach it. Each program has
its place in a random order, the same for the same seed.
"""

from __future__ import annotations

import torch
from grader.execution.errors import RuleBroken
from grader.execution.kernel_language import KernelProblem
from grader.execution.simulated_gpu import run_programs


def launch(kernel, grid, *arguments, seed=0, **constants):
    """The tensors among the arguments after a launch, and the bytes read and written."""
    from grader.execution import simulated_gpu

    arguments = [each.clone() if isinstance(each, torch.Tensor) else each for each in arguments]
    traffic = simulated_gpu.launch(kernel, grid, *arguments, seed=seed, **constants)
    return [each for each in arguments if isinstance(each, torch.Tensor)], traffic.bytes_read, traffic.bytes_written


def programs_of(kernel, arguments, constants, grid):
    from grader.execution.simulated_gpu import Programs

    return Programs(kernel, arguments, constants, grid)


def run(side, name, grid, *arguments, seed=0, **constants):
    """The tensors among the arguments after a launch, in their order."""
    return side.bring(launch)(getattr(side, name), grid, *arguments, seed=seed, **constants)[0]


def watch(side, name, grid, *arguments, seed=0, **constants):
    """The same, and what the kernel did: the Traffic of grader.execution.simulated_gpu."""
    copies = [each.clone() if isinstance(each, torch.Tensor) else each for each in arguments]
    sent = [each.dtype if isinstance(each, torch.Tensor) else each for each in arguments]
    problem = traffic = None
    programs = side.bring(programs_of)(getattr(side, name), sent, constants, (*grid, 1, 1)[:3])
    try:
        traffic = run_programs(programs, grid, copies, seed)
    except Exception as error:  # comes again in the launch below, whose call is shown, if the kernel does the same there
        problem = error
    side.bring(launch)(getattr(side, name), grid, *arguments, seed=seed, **constants)
    if isinstance(problem, KernelProblem):
        raise RuleBroken("KernelProblem", str(problem))
    if problem:
        raise problem
    return [each for each in copies if isinstance(each, torch.Tensor)], traffic


def unwritten(*shape, dtype=torch.float32):
    """A tensor of nan: what a kernel does not write stays nan."""
    return torch.full(shape, float("nan"), dtype=dtype)
