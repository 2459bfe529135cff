"""The sandbox itself: it exists however a worker was started, ends when the worker ends, and if a layer cannot be set up nothing runs."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from boundaries import forks, make_boundary
from grader.course.syllabus import ROOT
from grader.execution.errors import HostDied
from grader.execution.proxy import Implementation
from grader.execution.sandbox.isolation import Isolation, available
from grader.execution.worker import WorkerPool
from hostile import ATTACKS
from linux_processes import alive, children_of, living_children, parent_of
from sandboxed import LIMIT, refused, sandboxed_pool

pytestmark = forks


@pytest.fixture(scope="module")
def pool():
    with sandboxed_pool() as pool:
        yield pool


# ---- the layers themselves


def test_a_worker_started_without_a_zygote_has_the_same_sandbox(pool):
    own = WorkerPool(fork=False, isolation=pool.isolation)
    boundary = make_boundary("spawn", own, ATTACKS)
    boundary.begin(1)
    attack = Implementation(boundary)
    refused(attack.read, "/etc/passwd")
    refused(attack.make_socket, "AF_INET", "SOCK_STREAM")
    refused(attack.fork)
    assert attack.environment() == [1, [None] * 4] and attack.ordinary()[0]
    boundary.connection.close()
    own.close()


def test_a_process_that_leaves_its_group_is_ended_too():
    """A worker can start processes if calls are not filtered; none outlives it."""
    pool = WorkerPool(fork=True, isolation=Isolation(limits=True))
    boundary = make_boundary("fork", pool, ATTACKS)
    boundary.begin(1)
    assert Implementation(boundary).flee(600) == "fled"
    zygote, worker = pool.zygote.pid, boundary.connection.process
    fled = set(living_children(zygote)) - {worker}
    assert fled, "the process that left the group is now a child of the zygote"
    boundary.connection.close()
    assert not any(map(alive, fled)) and not alive(worker)
    pool.close()


def test_a_zygote_for_another_judge_has_the_same_sandbox_and_ends_with_it(pool):
    other_pool = WorkerPool(control=pool.new_zygote())
    boundary = make_boundary("fork", other_pool, ATTACKS, seconds=LIMIT)
    boundary.begin(1)
    attack = Implementation(boundary)
    refused(attack.read, "/etc/passwd")
    kinds = attack.open_files()
    assert sorted(kinds.values()) == ["device"] * 3 + ["socket"], "no descriptor of the other zygote is open"
    zygote = parent_of(boundary.connection.process)
    other_pool.close()
    deadline = time.monotonic() + 20
    while alive(zygote) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(zygote) and not alive(boundary.connection.process)
    boundary.connection.sock.close()


def test_servers_that_disconnect_early_leave_no_zombies(pool):
    """Each has two workers and does not read the answer to the second: zombies must not fill the zygote that all others are forked from."""
    for _ in range(2):
        other_pool = WorkerPool(control=pool.new_zygote())
        sock, worker = other_pool.start()
        ours, theirs = socket.socketpair()
        socket.send_fds(other_pool.control, [b"fork"], [theirs.fileno()])
        assert select.select([other_pool.control], [], [], 60)[0], "no answer"
        first = parent_of(parent_of(worker))
        for end in (other_pool.control, sock, ours, theirs):
            end.close()
    deadline = time.monotonic() + 60
    while len(dead := _dead(first)) > 1 and time.monotonic() < deadline:
        pool.new_zygote().close()
        time.sleep(0.05)
    assert len(dead) <= 1, "more than the last zygote"


def _dead(parent: int) -> list[int]:
    return [pid for pid in children_of(parent) if not alive(pid)]


def test_if_a_layer_cannot_be_set_up_nothing_runs(pool):
    program = (
        "import os, sys\n"
        "from grader.execution.sandbox.entering import Sandbox, enter\n"
        "from grader.execution.sandbox.isolation import Isolation\n"
        "try:\n"
        "    enter(Sandbox(Isolation(landlock=True), -1), os.getppid(), 2)\n"
        "except OSError:\n"
        "    sys.exit(7)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 7


def test_bubblewrap_is_refused_if_it_would_contain_nothing():
    for pool in (WorkerPool(fork=False, isolation=Isolation(bubblewrap=True)), WorkerPool(warm=True, isolation=Isolation(bubblewrap=True))):
        with pytest.raises(ValueError, match="bubblewrap"):
            pool.start()
        pool.close()


# ---- bubblewrap


@pytest.fixture(scope="module")
def bubble():
    isolation = available()
    if not isolation.bubblewrap:
        pytest.skip("bubblewrap is not to be had here")
    pool = WorkerPool(fork=True, isolation=isolation)
    yield pool
    pool.close()


def test_inside_bubblewrap_other_files_have_no_names(bubble, tmp_path):
    boundary = make_boundary("fork", bubble, ATTACKS, seconds=LIMIT)
    boundary.begin(1)
    attack = Implementation(boundary)
    assert attack.ordinary()[0]
    theirs = (ROOT / "solutions" / "ch03_attention.py", ROOT / "README.md", ROOT / "exercises", tmp_path)
    for path in ("/etc/passwd", f"/proc/{os.getpid()}/stat", *map(str, theirs)):
        refused(attack.look, path, kinds=("FileNotFoundError", "PermissionError"))
    refused(attack.write, "/tmp/a")
    refused(attack.write, "/dev/shm/a")
    refused(attack.fork)
    assert boundary.connection.process < 1000, "the worker has its own process numbers"
    with pytest.raises(HostDied):
        attack.signal_to(boundary.connection.process, 9)
    boundary.begin(2)
    assert Implementation(boundary).answer(1, 2) == 3
    boundary.connection.close()


def test_bubblewrap_alone_protects_the_disk():
    """Without the inner layers: read-only everywhere, no network, no other processes."""
    isolation = Isolation(limits=True, bubblewrap=True)
    if not available().bubblewrap:
        pytest.skip("bubblewrap is not to be had here")
    pool = WorkerPool(fork=True, isolation=isolation)
    boundary = make_boundary("fork", pool, ATTACKS, seconds=LIMIT)
    boundary.begin(1)
    attack = Implementation(boundary)
    for folder in ("/tmp", "/dev/shm", "/dev", "/", str(ROOT), str(Path(sys.prefix))):
        refused(attack.write, f"{folder}/a", kinds=("OSError", "PermissionError", "FileNotFoundError"))
    refused(attack.read, str(ROOT / "grader" / "tests" / "hostile.py"), kinds=("FileNotFoundError",))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        refused(attack.reach, listener.getsockname()[1], kinds=("ConnectionRefusedError", "OSError"))
    refused(attack.signal_to, os.getpid() if os.getpid() > 1000 else 10**6, 0, kinds=("ProcessLookupError",))
    assert Implementation(boundary).flee(600) == "fled"
    outer = pool.zygote.pid
    boundary.connection.close()
    pool.close()
    deadline = time.monotonic() + 20
    while living_children(outer) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(outer)
