"""What a sandboxed worker learns about other processes, and memory that a limit might not count."""

from __future__ import annotations

import os
import sysconfig
import time
from pathlib import Path

import pytest
from boundaries import forks, make_boundary
from grader.execution.proxy import Implementation
from grader.execution.sandbox import limits, namespaces
from hostile import ATTACKS
from sandboxed import LIMIT, refused, sandboxed_pool

pytestmark = forks
LAST_WEEK = 7 * 24 * 3600 * 10**9


@pytest.fixture(scope="module")
def pool():
    with sandboxed_pool() as pool:
        yield pool


@pytest.fixture
def boundary(pool):
    boundary = make_boundary("fork", pool, ATTACKS, seconds=LIMIT)
    boundary.begin(1)
    yield boundary
    boundary.connection.close()


@pytest.fixture
def attack(boundary):
    return Implementation(boundary)


def test_processor_load_cannot_be_read(attack):
    for path in ("/sys/devices/system/cpu/cpu0/topology/core_id", "/sys/devices/system/cpu/cpuidle/current_driver", "/proc/loadavg", "/proc/meminfo", "/proc/stat"):
        refused(attack.read, path, kinds=("PermissionError", "FileNotFoundError"))
    refused(attack.names, "/sys/devices/system/cpu")
    assert attack.read("/sys/devices/system/cpu/online").strip()


def test_a_worker_has_no_administrator_rights(boundary):
    status = _status(boundary.connection.process)
    reading_any_file = 1 << 2
    assert int(status["CapEff"], 16) & ~reading_any_file == 0 and int(status["CapPrm"], 16) & ~reading_any_file == 0
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"


# ---- the worker's own view of the file system

hiding = pytest.mark.skipif(not namespaces.available(), reason="this system has no user namespaces")


@hiding
def test_other_processes_cannot_be_inspected(attack, boundary, pool):
    """The size of /proc/PID/fd is the number of files that a process has open: two workers could send numbers to each other."""
    for path in (f"/proc/{os.getpid()}", f"/proc/{pool.zygote.pid}/fd", f"/proc/{boundary.connection.process}/task", "/proc/self", "/proc/1", "/proc/net"):
        refused(attack.look, path, kinds=("FileNotFoundError",))
    assert Path(f"/proc/{os.getpid()}/fd").exists(), "it is hidden from the worker only"


@hiding
def test_reading_a_file_does_not_change_its_access_time(attack):
    path = Path(sysconfig.get_path("stdlib")) / "this.py"  # no other process reads it
    before = path.stat()
    try:
        os.utime(path, ns=(time.time_ns() - LAST_WEEK, before.st_mtime_ns))
    except OSError:
        pytest.skip("another user owns the access times of this Python")
    try:
        old = path.stat().st_atime_ns
        assert attack.read(str(path)) and path.stat().st_atime_ns == old
    finally:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


# ---- memory


@pytest.mark.parametrize("how", ["tensor", "private", "noreserve", "a file", "shared", "grows"])
def test_memory_is_limited_however_it_is_allocated(attack, boundary, how):
    before = _held(boundary.connection.process)
    had = attack.fill(how)
    after = _held(boundary.connection.process)
    assert had <= limits.MEMORY and after - before <= limits.MEMORY + (64 << 20), (had >> 20, before >> 20, after >> 20)
    if how in ("shared", "grows"):
        assert had == 0


def test_kinds_of_memory_share_one_limit(attack, boundary):
    before = _held(boundary.connection.process)
    had = sum(attack.fill(how) for how in ("a file", "private", "tensor", "noreserve", "shared"))
    assert 0 < had <= limits.MEMORY and _held(boundary.connection.process) - before <= limits.MEMORY + (64 << 20)


def test_address_space_is_limited_too(attack, boundary):
    """The page tables for 2**40 bytes of empty pages are memory as well."""
    assert attack.addresses() == "ENOMEM"
    assert attack.fill("read only") <= limits.MEMORY + limits.ADDRESSES
    hard = int(attack.limits()["RLIMIT_AS"][1])
    assert hard <= int(_status(boundary.connection.process)["VmPeak"].split()[0]) * 1024 + limits.MEMORY + limits.ADDRESSES


def _status(pid: int) -> dict[str, str]:
    lines = (line.partition(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: value.strip() for name, _, value in lines}


def _held(pid: int) -> int:
    """Bytes of this process's private memory, and of shared memory that it has touched."""
    status = _status(pid)
    return 1024 * sum(int(status[name].split()[0]) for name in ("RssAnon", "RssShmem", "VmPTE"))
