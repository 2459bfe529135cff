"""Pools of sandboxed workers, and attempts that the sandbox refuses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from grader.execution.errors import LearnerError
from grader.execution.sandbox.isolation import available
from grader.execution.worker import WorkerPool

LIMIT = 20.0
SECRET = "a word that only the server has 4711"


@contextmanager
def sandboxed_pool() -> Iterator[WorkerPool]:
    """Every layer except bubblewrap; skips tests if the machine lacks one of them. The grading process has a secret in its environment."""
    os.environ["SECRET_OF_THE_JUDGE"] = SECRET
    isolation = available(bubblewrap=False)
    if not (isolation.limits and isolation.seccomp and isolation.landlock):
        pytest.skip(f"this machine has only these layers: {isolation}")
    pool = WorkerPool(fork=True, isolation=isolation)
    yield pool
    pool.close()
    del os.environ["SECRET_OF_THE_JUDGE"]


def refused(attempt, *arguments, kinds=("PermissionError",)) -> str:
    """The attempt raises in the worker, because the kernel refused it."""
    with pytest.raises(LearnerError) as caught:
        attempt(*arguments)
    assert caught.value.type_name in kinds, f"{caught.value.type_name}: {caught.value}"
    return str(caught.value)
