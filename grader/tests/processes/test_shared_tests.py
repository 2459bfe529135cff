"""The tests of one run are divided among processes, and the results are those of one process."""

import os
import sys

import pytest
from warm_runs import timeless, write_softmax

pytestmark = [
    pytest.mark.alone,
    pytest.mark.thorough,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the server forks on Linux only"),
    pytest.mark.skipif(not sys.platform.startswith("linux") or len(os.sched_getaffinity(0)) == 1, reason="there is one processor: nothing is shared"),
]

SLOW = """import os, time; time.sleep(0.01)
try: open('seen.txt', 'a').write(f'{os.getpid()}\\n')
except OSError: pass  # in a worker
"""
LATE = "if x.isinf().any():"  # in the fifth to the seventh of eight tests


@pytest.fixture
def ask_shared(warm):
    """A run that several processes have shared: one that began when another processor was free."""

    def ask():
        file = warm.kit.root / "seen.txt"
        for _ in range(20):
            file.unlink(missing_ok=True)
            output = warm.ask()
            if len(set(file.read_text().split())) > 1:
                return output
        pytest.skip("no processor was free")

    return ask


@pytest.mark.parametrize("fault", ["", "print('scores', x.shape)\nx = x + x.abs()", f"{LATE} raise ValueError('minus infinity')"])
def test_shared_tests_are_reported_like_those_of_one_process(warm, ask_shared, fault):
    write_softmax(warm.kit, SLOW + fault)
    warm.ask()  # what is said only once, is said
    shared = ask_shared()
    everywhere = os.sched_getaffinity(warm.process.pid)
    os.sched_setaffinity(warm.process.pid, {min(everywhere)})  # its runs inherit that
    alone = warm.ask()
    os.sched_setaffinity(warm.process.pid, everywhere)
    assert timeless(shared.text) == timeless(alone.text)
    assert (shared.done, shared.outcomes) == (alone.done, alone.outcomes)


def test_a_crash_in_any_process_costs_only_the_tests_that_crash(warm, ask_shared):
    write_softmax(warm.kit, SLOW + f"{LATE} import ctypes; ctypes.string_at(0)")
    output = warm.ask()
    assert output.again == ["a crash inside native code (segmentation fault)"]
    assert output.outcomes["softmax"] == ["passed"] * 4 + ["error"] * 3 + ["passed"]
    assert warm.quiet()


def test_time_runs_out_as_often_as_in_one_process(warm, ask_shared):
    """Two endless tests are enough, in any process: the tests after them are not run."""
    write_softmax(warm.kit, SLOW + f"{LATE}\n    while True: pass")
    output = ask_shared()
    assert output.outcomes["softmax"] == ["passed"] * 4 + ["timeout"] * 4
    assert warm.quiet()
