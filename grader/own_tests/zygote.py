"""The parent of the workers that run a learner's tests: `python -m grader.own_tests.zygote FD ISOLATION`. Where forking
is not safe, `python -m grader.own_tests.zygote --alone PORT ISOLATION` is one worker.

It has torch, pytest and hypothesis loaded, and has used each once, since the first use takes a second.
"""

from __future__ import annotations

import os
import sys
import warnings
from types import ModuleType

os.environ["OMP_NUM_THREADS"] = "1"

from grader.execution import worker_process, zygote  # noqa: E402  # first: they load torch
from grader.own_tests.running import prepare, serve, try_tests  # noqa: E402
from grader.system.process_tree import redirect_to_null  # noqa: E402

_LAWS = """
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

@settings(max_examples=5)
@given(st.integers(0, 9), st.lists(st.floats(0, 1), max_size=2), st.sampled_from([1]), st.text(max_size=2), st.data())
def test_law(learner, number, numbers, one, text, data):
    x = torch.ones(2, requires_grad=True)
    (x * x).sum().backward()
    torch.testing.assert_close(x, x)

@given(st.integers(0, 9), st.data())
def test_that_fails(learner, number, data):
    torch.testing.assert_close(torch.zeros(data.draw(st.integers(2, 3))), torch.ones(2))
"""


def warm() -> None:
    """Do once what is slow the first time: a run of pytest with a law, a backward pass, and a failure."""
    redirect_to_null(1, 2)
    prepare()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try_tests(ModuleType("chapter"), _LAWS, "test_laws.py", shrink=False)


if __name__ == "__main__":
    if "--alone" in sys.argv:
        sys.argv.remove("--alone")
        worker_process.main(serve, warm)
    else:
        zygote.main(serve, warm)
