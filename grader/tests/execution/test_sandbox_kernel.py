"""The walls themselves: they stand however a worker was started, go when it goes, and where one cannot be raised nothing runs."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from doors import alive, children, doors_of, forks, stat_of
from grader.course.syllabus import ROOT
from grader.execution.errors import FarSideDied
from grader.execution.proxy import Implementation
from grader.execution.sandbox.isolation import Isolation, available
from grader.execution.worker import Nursery
from hostile import ATTACKS
from walled import LIMIT, refused, walled_nursery

pytestmark = forks


@pytest.fixture(scope="module")
def nursery():
    with walled_nursery() as nursery:
        yield nursery


# ---- the walls themselves


def test_a_worker_started_on_its_own_has_the_same_walls(nursery):
    own = Nursery(fork=False, isolation=nursery.isolation)
    door = doors_of("spawn", own, ATTACKS)
    door.begin(1)
    attack = Implementation(door)
    refused(attack.read, "/etc/passwd")
    refused(attack.make_socket, "AF_INET", "SOCK_STREAM")
    refused(attack.fork)
    assert attack.environment() == [1, [None] * 4] and attack.ordinary()[0]
    door.far.close()
    own.close()


def test_what_flees_from_its_group_is_ended_too():
    """Where calls are not filtered a worker can start processes; none outlives it."""
    nursery = Nursery(fork=True, isolation=Isolation(limits=True))
    door = doors_of("fork", nursery, ATTACKS)
    door.begin(1)
    assert Implementation(door).flee(600) == "fled"
    zygote, worker = nursery.zygote.pid, door.far.who
    fled = set(children(zygote)) - {worker}
    assert fled, "the process that fled has fallen to the zygote"
    door.far.close()
    assert not any(map(alive, fled)) and not alive(worker)
    nursery.close()


def test_a_nursery_lent_to_another_judge_has_the_same_walls_and_goes_with_it(nursery):
    lent = Nursery(control=nursery.lend())
    door = doors_of("fork", lent, ATTACKS, seconds=LIMIT)
    door.begin(1)
    attack = Implementation(door)
    refused(attack.read, "/etc/passwd")
    kinds = attack.open_files()
    assert sorted(kinds.values()) == ["device"] * 3 + ["socket"], "nothing of the other zygote's is left open"
    nursery.clear()
    assert attack.answer(1, 2) == 3, "clearing one nursery leaves another's workers alone"
    zygote = stat_of(door.far.who)[1]
    lent.close()
    deadline = time.monotonic() + 20
    while alive(zygote) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(zygote) and not alive(door.far.who)
    door.far.sock.close()


def test_judges_that_hang_up_in_the_middle_leave_no_dead_to_be_buried(nursery):
    """Each has two workers, and does not read the answer to the second: the zygote that all others are forked from must not fill up with them."""
    for _ in range(4):
        lent = Nursery(control=nursery.lend())
        sock, worker = lent.start()
        ours, theirs = socket.socketpair()
        socket.send_fds(lent.control, [b"fork"], [theirs.fileno()])
        assert select.select([lent.control], [], [], 60)[0], "no answer"
        first = stat_of(stat_of(worker)[1])[1]
        for end in (lent.control, sock, ours, theirs):
            end.close()
    deadline = time.monotonic() + 60
    while len(dead := _dead(first)) > 1 and time.monotonic() < deadline:
        nursery.lend().close()
        time.sleep(0.05)
    assert len(dead) <= 1, "more than the zygote that was lent last"


def _dead(parent: int) -> list[int]:
    pids = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    return [pid for pid in pids if (stat_of(pid) or ("", 0))[:2] == ("Z", parent)]



def test_clearing_ends_every_worker(nursery):
    doors = [doors_of("fork", nursery, ATTACKS) for _ in range(3)]
    for door in doors:
        door.begin(1)
    nursery.clear()
    assert not any(alive(door.far.who) for door in doors)
    for door in doors:
        door.far.sock.close()


def test_where_a_wall_cannot_be_raised_nothing_runs(nursery):
    program = (
        "import os, sys\n"
        "from grader.execution.sandbox.entering import Walls, enter\n"
        "from grader.execution.sandbox.isolation import Isolation\n"
        "try:\n"
        "    enter(Walls(Isolation(landlock=True), -1), os.getppid(), 2)\n"
        "except OSError:\n"
        "    sys.exit(7)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 7


def test_bubblewrap_is_refused_where_it_would_stand_around_nothing():
    for nursery in (Nursery(fork=False, isolation=Isolation(bubblewrap=True)), Nursery(warm=True, isolation=Isolation(bubblewrap=True))):
        with pytest.raises(ValueError, match="bubblewrap"):
            nursery.start()
        nursery.close()


# ---- bubblewrap


@pytest.fixture(scope="module")
def bubble():
    walls = available()
    if not walls.bubblewrap:
        pytest.skip("bubblewrap is not to be had here")
    nursery = Nursery(fork=True, isolation=walls)
    yield nursery
    nursery.close()


def test_inside_bubblewrap_other_files_have_no_names(bubble, tmp_path):
    door = doors_of("fork", bubble, ATTACKS, seconds=LIMIT)
    door.begin(1)
    attack = Implementation(door)
    assert attack.ordinary()[0]
    theirs = (ROOT / "solutions" / "ch03_attention.py", ROOT / "README.md", ROOT / "exercises", tmp_path)
    for path in ("/etc/passwd", f"/proc/{os.getpid()}/stat", *map(str, theirs)):
        refused(attack.look, path, kinds=("FileNotFoundError", "PermissionError"))
    refused(attack.write, "/tmp/a")
    refused(attack.write, "/dev/shm/a")
    refused(attack.fork)
    assert door.far.who < 1000, "numbers of processes are its own"
    with pytest.raises(FarSideDied):
        attack.signal_to(door.far.who, 9)
    door.begin(2)
    assert Implementation(door).answer(1, 2) == 3
    door.far.close()


def test_bubblewrap_alone_keeps_the_disk_closed():
    """Without the inner walls: read-only everywhere, no network, nobody else's processes."""
    walls = Isolation(limits=True, bubblewrap=True)
    if not available().bubblewrap:
        pytest.skip("bubblewrap is not to be had here")
    nursery = Nursery(fork=True, isolation=walls)
    door = doors_of("fork", nursery, ATTACKS, seconds=LIMIT)
    door.begin(1)
    attack = Implementation(door)
    for folder in ("/tmp", "/dev/shm", "/dev", "/", str(ROOT), str(Path(sys.prefix))):
        refused(attack.write, f"{folder}/a", kinds=("OSError", "PermissionError", "FileNotFoundError"))
    refused(attack.read, str(ROOT / "grader" / "tests" / "hostile.py"), kinds=("FileNotFoundError",))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        refused(attack.reach, listener.getsockname()[1], kinds=("ConnectionRefusedError", "OSError"))
    refused(attack.signal_to, os.getpid() if os.getpid() > 1000 else 10**6, 0, kinds=("ProcessLookupError",))
    assert Implementation(door).flee(600) == "fled"
    outer = nursery.zygote.pid
    door.far.close()
    nursery.close()
    deadline = time.monotonic() + 20
    while children(outer) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(outer)
