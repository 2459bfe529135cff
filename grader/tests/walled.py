"""Nurseries whose workers are walled in, and attempts that the walls refuse."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from grader.execution.errors import LearnerError
from grader.execution.sandbox.isolation import available
from grader.execution.worker import Nursery

LIMIT = 20.0
SECRET = "a word that only the judge knows 4711"


@contextmanager
def walled_nursery() -> Iterator[Nursery]:
    """With every wall but bubblewrap; the tests that want it are skipped where the machine lacks one. Its judge has a secret."""
    os.environ["SECRET_OF_THE_JUDGE"] = SECRET
    walls = available(bubblewrap=False)
    if not (walls.limits and walls.seccomp and walls.landlock):
        pytest.skip(f"this machine has only these walls: {walls}")
    nursery = Nursery(fork=True, isolation=walls)
    yield nursery
    nursery.close()
    del os.environ["SECRET_OF_THE_JUDGE"]


def refused(attempt, *arguments, kinds=("PermissionError",)) -> str:
    """The attempt raises on the far side, and by what the kernel said."""
    with pytest.raises(LearnerError) as caught:
        attempt(*arguments)
    assert caught.value.type_name in kinds, f"{caught.value.type_name}: {caught.value}"
    return str(caught.value)
