"""The layers of the sandbox: they hold however a worker was started, end with it, and where one cannot be set up nothing runs."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from boundaries import alive, children, forks, make_boundary, stat_of
from grader.course.syllabus import ROOT
from grader.execution.errors import HostDied
from grader.execution.proxy import Implementation
from grader.execution.sandbox.isolation import Isolation, available
from grader.execution.worker import WorkerPool
from hostile import ATTACKS
from sandboxed import LIMIT, refused, sandboxed_pool

pytestmark = forks


@pytest.fixture(scope="module")
def pool():
    with sandboxed_pool() as pool:
        yield pool


# ---- the layers themselves


def test_a_worker_started_on_its_own_has_the_same_layers(pool):
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


def test_what_flees_from_its_group_is_ended_too():
    """Where calls are not filtered a worker can start processes; none outlives it."""
    pool = WorkerPool(fork=True, isolation=Isolation(limits=True))
    boundary = make_boundary("fork", pool, ATTACKS)
    boundary.begin(1)
    assert Implementation(boundary).flee(600) == "fled"
    zygote, worker = pool.zygote.pid, boundary.connection.process
    fled = set(children(zygote)) - {worker}
    assert fled, "the process that fled has fallen to the zygote"
    boundary.connection.close()
    assert not any(map(alive, fled)) and not alive(worker)
    pool.close()


def test_a_zygote_for_another_judge_has_the_same_sandbox_and_ends_with_it(pool):
    lent = WorkerPool(control=pool.new_zygote())
    boundary = make_boundary("fork", lent, ATTACKS, seconds=LIMIT)
    boundary.begin(1)
    attack = Implementation(boundary)
    refused(attack.read, "/etc/passwd")
    kinds = attack.open_files()
    assert sorted(kinds.values()) == ["device"] * 3 + ["socket"], "nothing of the other zygote's is left open"
    pool.clear()
    assert attack.answer(1, 2) == 3, "clearing one pool leaves another's workers alone"
    zygote = stat_of(boundary.connection.process)[1]
    lent.close()
    deadline = time.monotonic() + 20
    while alive(zygote) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(zygote) and not alive(boundary.connection.process)
    boundary.connection.sock.close()


def test_judges_that_hang_up_in_the_middle_leave_no_dead_to_be_buried(pool):
    """Each has two workers, and does not read the answer to the second: the zygote that all others are forked from must not fill up with them."""
    for _ in range(4):
        lent = WorkerPool(control=pool.new_zygote())
        sock, worker = lent.start()
        ours, theirs = socket.socketpair()
        socket.send_fds(lent.control, [b"fork"], [theirs.fileno()])
        assert select.select([lent.control], [], [], 60)[0], "no answer"
        first = stat_of(stat_of(worker)[1])[1]
        for end in (lent.control, sock, ours, theirs):
            end.close()
    deadline = time.monotonic() + 60
    while len(dead := _dead(first)) > 1 and time.monotonic() < deadline:
        pool.new_zygote().close()
        time.sleep(0.05)
    assert len(dead) <= 1, "more than the zygote that was lent last"


def _dead(parent: int) -> list[int]:
    pids = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    return [pid for pid in pids if (stat_of(pid) or ("", 0))[:2] == ("Z", parent)]



def test_clearing_ends_every_worker(pool):
    boundaries = [make_boundary("fork", pool, ATTACKS) for _ in range(3)]
    for boundary in boundaries:
        boundary.begin(1)
    pool.clear()
    assert not any(alive(boundary.connection.process) for boundary in boundaries)
    for boundary in boundaries:
        boundary.connection.sock.close()


def test_where_a_wall_cannot_be_raised_nothing_runs(pool):
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


def test_bubblewrap_is_refused_where_it_would_stand_around_nothing():
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
    assert boundary.connection.process < 1000, "numbers of processes are its own"
    with pytest.raises(HostDied):
        attack.signal_to(boundary.connection.process, 9)
    boundary.begin(2)
    assert Implementation(boundary).answer(1, 2) == 3
    boundary.connection.close()


def test_bubblewrap_alone_keeps_the_disk_closed():
    """Without the inner layers: read-only everywhere, no network, nobody else's processes."""
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
    while children(outer) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(outer)
