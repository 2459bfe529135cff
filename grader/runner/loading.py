"""Loads torch and all that a graded run needs, once for a process. Import this module before torch."""

from __future__ import annotations

import gc
import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch: forking after a parallel operation hangs the child
_collecting = gc.isenabled()
gc.disable()  # while torch and the kit are loaded, no object becomes garbage

import torch  # noqa: E402

torch.set_num_threads(1)

from grader.course.torch_internals import defer_compiler  # noqa: E402

defer_compiler()

import grader.runner.judging  # noqa: E402, F401

if _collecting:
    gc.enable()
