"""What a server answers: runs side by side, invalid callers, a changed kit, and in which order."""

import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from grader.processes.client import NoServer
from grader.processes.job import read
from grader.verdict.results import Verdict
from linux_processes import kilobytes_in_huge_pages, may_have_huge_pages
from warm_runs import CHAPTER, WarmKit, until, write_softmax

pytestmark = [pytest.mark.alone, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the server forks on Linux only, and /proc is Linux's")]


def test_two_runs_at_once_both_come_out_right(warm):
    write_softmax(warm.kit, "import time; time.sleep(0.01)")
    with ThreadPoolExecutor() as pool:
        softmax, mask = pool.map(warm.ask, ["softmax", "causal_mask"])
    assert set(softmax.outcomes["softmax"]) == set(mask.outcomes["causal_mask"]) == {"passed"}
    assert list(softmax.outcomes) == ["softmax"] and list(mask.outcomes) == ["causal_mask"]


def test_silent_or_invalid_callers_harm_no_other_run(warm):
    write_softmax(warm.kit)
    where = ("127.0.0.1", warm.address.port)
    callers = [socket.create_connection(where) for _ in range(20)]
    token = warm.address.token
    nonsense = [b"\n", b"GET / HTTP/1.0\r\n\r\n", b"x" * (1 << 20), b"[" * 5000 + b"\n", b'{"token": "wrong", "job": {}}\n', b"\xff\xfe\n"]
    for job in ("{}", "7", '{"name": 1}', '{"name": "softmax", "cwd": "/", "columns": "x", "colour": false, "in_worker": false}'):
        nonsense.append(f'{{"token": "{token}", "job": {job}}}\n'.encode())
    for caller, words in zip(callers, nonsense):
        try:
            caller.sendall(words)
        except OSError:
            pass  # it has disconnected in the middle, as it should
    silent = warm.address.ask(warm.job())  # it never reads
    assert set(warm.ask().outcomes["softmax"]) == {"passed"}
    for caller in callers:
        caller.settimeout(30)
        try:
            assert caller.recv(100) == b""  # the server does not wait for silent callers either
        except ConnectionError:
            pass
        caller.close()
    silent.close()
    assert warm.alive and warm.quiet()


def test_a_moment_after_a_run_the_server_puts_its_memory_into_huge_pages(warm):
    """From there, the process of the next run begins several milliseconds earlier."""
    if not may_have_huge_pages():
        pytest.skip("this system has no huge pages")
    write_softmax(warm.kit)
    warm.ask()
    assert until(lambda: kilobytes_in_huge_pages(warm.process.pid) > 0)


@pytest.mark.thorough
def test_the_server_of_a_changed_kit_does_not_answer(kit):
    write_softmax(kit)
    warm = WarmKit(kit)
    assert set(warm.ask().outcomes["softmax"]) == {"passed"}
    suite = kit.root / "tests" / f"test_{CHAPTER}.py"
    suite.write_text(suite.read_text() + "\n# changed\n")
    with pytest.raises(NoServer):
        warm.ask()
    assert warm.gone()
    warm.close()


def test_the_tests_that_failed_last_time_run_first_and_the_first_failure_is_sent_at_once(warm):
    """The verdict is the same in any order."""
    write_softmax(warm.kit, "if x.isinf().any(): x = x * 0")
    usual = warm.ask()
    failed = tuple(test.name for test in usual.verdict.result("softmax").failures)
    assert 0 < len(failed) < 4
    messages = list(messages_of(warm, first=failed))
    kinds = [(kind, message[kind]) for message in messages for kind in ("begun", "failed", "verdict") if kind in message]
    first = usual.verdict.result("softmax").failures[0]
    assert kinds[0] == ("begun", first.name) and [words for kind, words in kinds if kind == "failed"] == [first.message]
    assert [kind for kind, _ in kinds].index("failed") < [kind for kind, _ in kinds].index("verdict")
    again = Verdict.from_data(kinds[-1][1])
    for verdict in (again, usual.verdict):
        for test in verdict.result("softmax").tests:
            test.seconds = 0.0
    assert again == usual.verdict


def messages_of(warm, first):
    with warm.address.ask(replace(warm.job(), first=first)) as sock:
        yield from read(sock)
