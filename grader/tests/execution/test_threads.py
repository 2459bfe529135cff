"""Threads in a learner's code: one that is joined costs nothing, and one that is left running is named, with what to do."""

from __future__ import annotations

import gc
import textwrap
import weakref

import pytest
from boundaries import QUICK_KINDS, make_boundary
from grader.execution.errors import RuleBroken
from grader.execution.proxy import Implementation
from grader.execution.threads import running_threads
from grader.execution.worker import WorkerPool
from pytest_runs import grade, solution

CHAPTER = textwrap.dedent('''
    import threading, time
    from concurrent.futures import ThreadPoolExecutor

    POOL = ThreadPoolExecutor(2)


    def in_a_pool(n):
        with ThreadPoolExecutor(4) as pool:
            return list(pool.map(lambda i: i * i, range(n)))


    def in_a_pool_that_is_not_closed(n):
        pool = ThreadPoolExecutor(2)
        return [found.result() for found in [pool.submit(pow, i, 2) for i in range(n)]]


    def in_a_persistent_pool(n):
        return list(POOL.map(lambda i: i * i, range(n)))


    def in_threads(n):
        found = {}
        threads = [threading.Thread(target=lambda i=i: found.update({i: i * i})) for i in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [found[i] for i in range(n)]


    def left_running():
        POOL.submit(time.sleep, 600)


    def started_once(started=[]):
        if not started:
            started.append(threading.Thread(target=time.sleep, args=(600,), name="started once", daemon=True))
            started[0].start()
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


@pytest.mark.parametrize("name", ["in_a_pool", "in_a_pool_that_is_not_closed", "in_a_persistent_pool", "in_threads"])
def test_joined_threads_cost_nothing(chapter, name):
    for _ in range(10):
        assert getattr(chapter, name)(6) == [0, 1, 4, 9, 16, 25]


def test_unfinished_work_in_a_persistent_pool_is_a_thread_left_running(request):
    """Also if its threads existed, idle, before the call. (With a worker: in process, the pool would keep this test from ending.)"""
    pool = WorkerPool()
    request.addfinalizer(pool.close)
    boundary = make_boundary("fork" if pool.fork else "spawn", pool, CHAPTER)
    request.addfinalizer(boundary.connection.close)
    boundary.begin(1)
    learner = Implementation(boundary)
    learner.in_a_persistent_pool(6)
    with pytest.raises(RuleBroken, match=r"left a thread running \(ThreadPoolExecutor-.*\); join every thread .*, or compute inside `with ThreadPoolExecutor"):
        learner.left_running()


@pytest.mark.parametrize("options", [[], ["--worker"]], ids=["local", "worker"])
def test_a_thread_that_only_the_first_call_starts_is_named_too(options, tmp_path):
    """hypothesis repeats a failing call, and the thread exists already when it does."""
    (tmp_path / "ch03_attention.py").write_text(solution("ch03") + LAZY, encoding="utf-8")
    found = grade("--target", str(tmp_path), "--exercise", "softmax", *options, results=tmp_path / "results.json").exercise("softmax")
    messages = [test["message"] for test in found["tests"] if test["outcome"] != "passed"]
    assert len(messages) == 1 and "left a thread running (started once)" in messages[0], messages


def test_checking_the_threads_keeps_nothing_alive():
    """The caller's objects can be freed at once, without a garbage collection."""

    class Value:
        pass

    def look():
        value = Value()
        running_threads()
        return weakref.ref(value)

    gc.disable()
    try:
        assert look()() is None
    finally:
        gc.enable()
