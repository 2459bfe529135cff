"""After a run the process of the next one is forked in advance. It takes that run, and no verdict depends on it."""

import os
import signal
import sys

import pytest
from grader.system.page_copies import PageList, copy_pages, own_pages
from warm_runs import WarmKit, until, write_softmax

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the server forks on Linux only, and /proc is Linux's")
FAILS = "raise ValueError(f'process {os.getpid()} ends')"


@pytest.fixture
def warm(warm):
    """The module's server, with a softmax that names its process."""
    write_softmax(warm.kit, FAILS, top="import os")
    return warm


def process_of_a_run(warm: WarmKit) -> int:
    """Run softmax; return the process that ran it, which its error names."""
    return int(warm.ask().text.partition("ValueError: process ")[2].split()[0])


def waiting(warm: WarmKit) -> int:
    """The process that waits for the next run."""
    assert until(lambda: len(warm.waiting()) == 1)
    return warm.waiting().pop()


def test_the_next_run_of_the_exercise_takes_the_process_that_waits(warm):
    process_of_a_run(warm)
    for _ in range(3):
        assert waiting(warm) == process_of_a_run(warm)
    assert warm.quiet()


def test_it_runs_the_code_that_was_saved_after_it_was_forked(warm):
    process_of_a_run(warm)
    waiting(warm)
    write_softmax(warm.kit)
    assert set(warm.ask().outcomes["softmax"]) == {"passed"}


def test_a_run_of_another_exercise_replaces_it(warm):
    process_of_a_run(warm)
    before = waiting(warm)
    assert set(warm.ask("causal_mask").outcomes["causal_mask"]) == {"passed"}
    assert waiting(warm) != before
    assert process_of_a_run(warm) > 0 and warm.quiet()


def test_a_run_does_without_it_if_it_has_been_killed(warm):
    process_of_a_run(warm)
    os.kill(waiting(warm), signal.SIGKILL)
    assert until(lambda: not warm.waiting())
    assert process_of_a_run(warm) > 0
    assert waiting(warm) == process_of_a_run(warm)


@pytest.mark.thorough
def test_it_ends_with_its_server(kit):
    write_softmax(kit, FAILS, top="import os")
    warm = WarmKit(kit)
    process_of_a_run(warm)
    waiting(warm)
    warm.process.kill()
    warm.process.wait()
    assert until(lambda: not warm.descendants())
    warm.close()


# ---- pages of memory


def in_a_fork(work) -> bytes:
    """What `work` returns in a process forked from this one."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, work())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        said = file.read()
    os.waitpid(pid, 0)
    return said


def pages(ranges) -> int:
    return sum(end - start for start, end in ranges) // os.sysconf("SC_PAGE_SIZE")


def test_pages_that_a_fork_writes_to_are_found_and_can_be_copied_ahead():
    large = bytearray(1 << 24)
    large[:] = b"\1" * len(large)
    found = PageList()

    def write_to_it() -> bytes:
        large[: 1 << 23] = b"\2" * (1 << 23)
        found.store(own_pages())
        return b""

    in_a_fork(write_to_it)
    assert pages(found.read()) >= 2048, "half of the pages were written to"
    assert int(in_a_fork(lambda: str(pages(own_pages())).encode())) < 2048

    def copy_them() -> bytes:
        copy_pages(found.read())
        return f"{pages(own_pages())} {large[0]} {large[-1]}".encode()

    copied, first, last = map(int, in_a_fork(copy_them).split())
    assert (first, last) == (1, 1)
    assert copied >= 2048 or not _kernel_can_copy()


def _kernel_can_copy() -> bool:
    return tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2]) >= (5, 14)


def test_a_list_of_pages_has_a_limit():
    small = PageList(most=2)
    small.store([(1, 2), (3, 4), (5, 6)])
    assert small.read() == [(1, 2), (3, 4)]
    small.clear()
    assert small.read() == []
