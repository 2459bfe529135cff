"""Prestarted processes, as on macOS and Windows, give the same results through the same interface."""

import os
import signal
import sys

import pytest
from linux_processes import alive
from warm_runs import WarmKit, timeless, until, write_softmax

SERVER_OPTIONS = ["--prestarted"]
pytestmark = [pytest.mark.alone, pytest.mark.thorough, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what is left is read from /proc, which is Linux's")]


def test_a_prestarted_process_prints_what_a_forked_one_prints(warm):
    write_softmax(warm.kit, "x = x * 2")
    output = warm.ask()
    forked = warm.kit.run("check", "softmax", status=1)
    assert timeless(output.text) == timeless(forked) and output.done == 1


def test_a_crash_is_tested_once_more_in_a_separate_process(warm):
    write_softmax(warm.kit, "import ctypes\nif x.dtype == torch.bfloat16: ctypes.string_at(0)")
    output = warm.ask("softmax")
    assert output.again == ["a crash inside native code (segmentation fault)"]
    assert "Your code ended the process it ran in: a crash inside native code (segmentation fault)." in output.prose
    assert warm.alive and warm.quiet()


def test_limits_and_silence_apply_in_a_prestarted_process(warm):
    write_softmax(warm.kit, "import os\nos.write(2, b'x' * 10**6)\nwhile True: print('x' * 10000)")
    assert "softmax printed or wrote too much output for one run" in warm.ask().prose
    write_softmax(warm.kit, "torch.ones(5 * 10**8)")
    assert "softmax ran out of memory: it asked for 2,000,000,000 bytes at once." in warm.ask().prose


def test_a_client_that_disconnects_stops_its_run_before_and_after_its_start(warm):
    write_softmax(warm.kit, "import subprocess; subprocess.Popen(['sleep', '999'], start_new_session=True)\nwhile True: pass")
    sock = warm.address.ask(warm.job())
    assert until(lambda: warm.descendants() - warm.prestarted() - {warm.process.pid})  # it has started its subprocess
    sock.close()
    assert warm.quiet()
    warm.address.ask(warm.job()).close()  # the next process is still loading
    assert until(lambda: len(warm.prestarted()) == 1) and warm.quiet()
    assert warm.alive


def test_a_prestarted_process_that_dies_is_replaced(warm):
    write_softmax(warm.kit)
    killed = warm.prestarted()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    assert until(lambda: not any(map(alive, killed)))  # what has no environment any more may still be ending
    output = warm.ask()
    assert set(output.outcomes["softmax"]) == {"passed"} and not output.again


@pytest.mark.parametrize("ending", ["lifeline", "SIGTERM", "SIGKILL"])
def test_at_its_end_no_prestarted_process_is_left(kit, ending):
    warm = WarmKit(kit, "--prestarted")
    write_softmax(kit, "while True: pass")
    with warm.address.ask(warm.job()):
        assert until(lambda: len(warm.prestarted()) == 2)
        if ending == "lifeline":
            warm.process.stdin.close()
        else:
            os.kill(warm.process.pid, getattr(signal, ending))
        assert until(lambda: warm.process.poll() is not None and not warm.descendants())
    warm.close()
