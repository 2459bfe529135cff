"""The tests of one run are divided among processes, and the results are those of one process."""

import os
import sys

import pytest
from grader.processes.shared_tests import count_processes, map_in_two_processes
from warm_runs import checked, write_softmax

pytestmark = [
    pytest.mark.alone,
    pytest.mark.thorough,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the server forks on Linux only"),
    pytest.mark.skipif(count_processes() == 1, reason="there is one processor: nothing is shared"),
]

SLOW = """import os, time; time.sleep(0.01)
try: open('seen.txt', 'a').write(f'{os.getpid()}\\n')
except OSError: pass  # in a worker
"""
LATE = "if x.isinf().any():"  # in the fifth to the seventh of eight tests


@pytest.fixture
def processes(warm):
    """How many processes have run the learner's code since."""
    file = warm.kit.root / "seen.txt"
    file.unlink(missing_ok=True)
    return lambda: len(set(file.read_text().split()))


@pytest.mark.parametrize("fault", ["", f"{LATE} x = x * 2", "print('scores', x.shape)\nx = x + x.abs()", f"{LATE} raise ValueError('minus infinity')"])
def test_shared_tests_are_reported_like_those_of_one_process(warm, processes, fault):
    write_softmax(warm.kit, SLOW + fault)
    shared = checked(warm.kit)
    assert processes() > 1
    aside = warm.file.with_suffix(".aside")
    warm.file.rename(aside)
    alone = checked(warm.kit)
    aside.rename(warm.file)
    assert shared == alone


def test_a_crash_in_any_process_costs_only_the_tests_that_crash(warm, processes):
    write_softmax(warm.kit, SLOW + f"{LATE} import ctypes; ctypes.string_at(0)")
    output = warm.ask()
    assert output.again == ["a crash inside native code (segmentation fault)"]
    assert processes() > 1
    assert output.outcomes["softmax"] == ["passed"] * 4 + ["error"] * 3 + ["passed"]
    assert warm.quiet()


def test_time_runs_out_as_often_as_in_one_process(warm, processes):
    """Two endless tests are enough, in any process: the tests after them are not run."""
    write_softmax(warm.kit, SLOW + f"{LATE}\n    while True: pass")
    output = warm.ask()
    assert processes() > 1
    assert output.outcomes["softmax"] == ["passed"] * 4 + ["timeout"] * 4
    assert warm.quiet()


def test_code_that_has_started_threads_is_tested_in_one_process(warm, processes):
    """A copy of the process would lack the threads and could wait for them for ever."""
    write_softmax(warm.kit, SLOW, top="torch.set_num_threads(2); torch.ones(600, 600) @ torch.ones(600, 600)")
    output = warm.ask()
    assert output.outcomes["softmax"] == ["passed"] * 8 and not output.again
    assert processes() == 1


def test_a_request_for_many_tests_is_shared_too():
    def compute(number):
        return number, os.getpid()

    found = map_in_two_processes(compute, range(7))
    assert [number for number, _ in found] == list(range(7))
    assert len({pid for _, pid in found}) == (2 if len(os.listdir("/proc/self/task")) == 1 else 1)


def test_tests_of_a_lost_copy_are_run_in_this_process():
    here = os.getpid()
    assert map_in_two_processes(lambda number: number if os.getpid() == here else os._exit(1), range(5)) == list(range(5))
