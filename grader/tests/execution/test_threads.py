"""Threads in a learner's code: one that is joined costs nothing, and one that is left running is named, with what to do."""

from __future__ import annotations

import textwrap

import pytest
from boundaries import QUICK_KINDS, make_boundary
from grader.execution.proxy import Implementation
from grader.execution.worker import WorkerPool
from pytest_runs import grade, solution

CHAPTER = textwrap.dedent('''
    import threading, time
    from concurrent.futures import ThreadPoolExecutor

    def in_a_pool(n):
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(lambda i: i * i, range(n)))


    def in_threads(n):
        found = {}
        threads = [threading.Thread(target=lambda i=i: found.update({i: i * i})) for i in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [found[i] for i in range(n)]
''')

LAZY = """
import threading, time

_right, _started = softmax, []


def softmax(x, dim=-1):
    if not _started:
        _started.append(threading.Thread(target=time.sleep, args=(600,), name="started once", daemon=True))
        _started[0].start()
    return _right(x, dim)
"""


@pytest.fixture(scope="module", params=QUICK_KINDS)
def chapter(request):
    pool = WorkerPool()
    boundary = make_boundary(request.param, pool, CHAPTER)
    boundary.begin(1)
    yield Implementation(boundary)
    boundary.connection.close()
    pool.close()


@pytest.mark.parametrize("name", ["in_a_pool", "in_threads"])
def test_joined_threads_cost_nothing(chapter, name):
    for _ in range(10):
        assert getattr(chapter, name)(6) == [0, 1, 4, 9, 16, 25]


@pytest.mark.parametrize("options", [[], ["--worker"]], ids=["local", "worker"])
def test_a_thread_that_only_the_first_call_starts_is_named_too(options, tmp_path):
    """hypothesis repeats a failing call, and the thread exists already when it does."""
    (tmp_path / "ch03_attention.py").write_text(solution("ch03") + LAZY, encoding="utf-8")
    found = grade("--target", str(tmp_path), "--exercise", "softmax", *options, results=tmp_path / "results.json").exercise("softmax")
    messages = [test["message"] for test in found["tests"] if test["outcome"] != "passed"]
    assert len(messages) == 1 and "left a thread running (started once)" in messages[0], messages
