"""boundary: measures a call through the boundary, in process and in a worker, against the same call made directly.

The call has three tensors of 2 x 4 x 8 numbers, `scaled_dot_product_attention(q, k, v)`. It is sent, run and answered
once for each measurement, so the median is what every call of a graded test costs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from grader.course.syllabus import load_syllabus
from grader.execution.proxy import Implementation
from grader.execution.sandbox.isolation import available
from grader.execution.target import Target
from grader.execution.worker import WorkerPool
from grader.quality.benchmarks.figures import machine, print_figure
from grader.quality.benchmarks.workplace import solved_chapter
from grader.verdict.trial import Trial

NAME = "scaled_dot_product_attention"


def run(arguments: list[str]) -> int:
    description = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m grader.quality.benchmarks boundary", description=description)
    parser.add_argument("--calls", type=int, default=1000, help="calls of each kind (default 1000)")
    calls = parser.parse_args(arguments).calls
    print(f"boundary: {machine()}\nmedians of {calls} calls of {NAME}\n")
    torch.set_num_threads(1)
    tensors = list(torch.randn(3, 2, 4, 8).unbind())
    direct = _direct(tensors, calls)
    local, worker = (_through(in_worker, tensors, calls) for in_worker in (False, True))
    parts = f"the call itself takes {direct:.0f} us"
    found = f"{local:.0f} us in process and {worker:.0f} us in a worker"
    print_figure(f"A call through the boundary takes {found}; {parts}.")
    return 0


def _through(in_worker: bool, tensors: list[torch.Tensor], calls: int) -> float:
    """Microseconds of a call, with the right code in the learner's place."""
    exercise = load_syllabus().exercise(NAME)
    pool = WorkerPool(isolation=available()) if in_worker else WorkerPool()
    trial = Trial(Target("learner", None, {exercise.module: solved_chapter(exercise.module)}), in_worker, pool=pool)
    try:
        trial.begin_test(exercise, "the benchmark")
        trial.begin_example()
        function = getattr(Implementation(trial.boundary(exercise.chapter)), NAME)
        return _microseconds(lambda: function(*tensors), calls)
    finally:
        trial.close()
        pool.close()


def _direct(tensors: list[torch.Tensor], calls: int) -> float:
    space: dict = {}
    exec(compile(solved_chapter(load_syllabus().exercise(NAME).module), "<right>", "exec"), space)
    return _microseconds(lambda: space[NAME](*tensors), calls)


def _microseconds(function: Callable[[], object], count: int) -> float:
    took = []
    for _ in range(10 + count):
        began = time.perf_counter()
        function()
        took.append(time.perf_counter() - began)
    return median(took[10:]) * 1e6
