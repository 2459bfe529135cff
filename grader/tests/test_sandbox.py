"""The walls around a worker: small hostile programs, each refused, with the judge alive and the next worker unharmed."""

from __future__ import annotations

import os
import platform
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from doors import alive, children, doors_of, forks, stat_of
from grader.door.errors import FarSideDied, LearnerError, OutOfTime
from grader.door.near import Implementation
from grader.door.worker import Nursery
from grader.sandbox.isolation import Isolation, available
from grader.syllabus import ROOT
from hostile import ATTACKS

pytestmark = forks
LIMIT = 20.0
SECRET = "a word that only the judge knows 4711"


@pytest.fixture(scope="module")
def nursery():
    os.environ["SECRET_OF_THE_JUDGE"] = SECRET
    walls = available(bubblewrap=False)
    if not (walls.limits and walls.seccomp and walls.landlock):
        pytest.skip(f"this machine has only these walls: {walls}")
    nursery = Nursery(fork=True, isolation=walls)
    yield nursery
    nursery.close()
    del os.environ["SECRET_OF_THE_JUDGE"]


@pytest.fixture
def door(nursery):
    door = doors_of("fork", nursery, ATTACKS, seconds=LIMIT)
    door.begin(1)
    yield door
    door.begin(2)
    assert Implementation(door).answer(1, 2) == 3, "the next worker is as good as new"
    door.far.close()


@pytest.fixture
def attack(door):
    return Implementation(door)


@pytest.fixture
def victim():
    """A process of the judge's, to aim at."""
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield process
    assert process.poll() is None, "it was reached"
    process.kill()
    process.wait()


def refused(attempt, *arguments, kinds=("PermissionError",)) -> str:
    """The attempt raises on the far side, and by what the kernel said."""
    with pytest.raises(LearnerError) as caught:
        attempt(*arguments)
    assert caught.value.type_name in kinds, f"{caught.value.type_name}: {caught.value}"
    return str(caught.value)


def test_what_exercises_do_is_not_in_the_way_of_the_walls(attack):
    assert attack.ordinary() == [True, 10_000, 64.0**3, 1970, 4, [7]]


# ---- reading


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd", "/etc/hostname", "/proc/1/environ", "/proc/self/environ", "/proc/self/maps", "/proc/self/mem", "/proc/cmdline", "/proc/net/tcp",
        "/proc/JUDGE/cmdline", "/proc/PARENT/environ", sys.executable, str(Path.home() / ".bash_history"),
        str(ROOT / "solutions" / "ch03_attention.py"), str(ROOT / "tests" / "test_ch03_attention.py"), str(ROOT / "exercises" / "syllabus.toml"),
        str(ROOT / "grader" / "trial.py"), str(ROOT / "README.md"), str(ROOT / ".git" / "config"), "solutions/ch03_attention.py", "/dev/mem", "/dev/zero",
    ],
)  # fmt: skip
def test_files_cannot_be_read(attack, path):
    path = path.replace("JUDGE", str(os.getpid())).replace("PARENT", str(os.getppid()))
    refused(attack.read, path, kinds=("PermissionError", "FileNotFoundError"))
    assert attack.read_by_number(path) in ("EACCES", "EPERM", "ENOENT")


def test_another_submission_cannot_be_read(attack, tmp_path):
    (tmp_path / "ch03_attention.py").write_text("the work of somebody else")
    refused(attack.read, str(tmp_path / "ch03_attention.py"))
    refused(attack.names, str(tmp_path))


@pytest.mark.parametrize("folder", ["/", "/proc", "/tmp", "/home", "/dev", "/dev/shm", "/proc/self/fd", ".", str(ROOT), str(ROOT / "solutions")])
def test_folders_cannot_be_listed(attack, folder):
    refused(attack.names, folder)


def test_memory_of_others_cannot_be_read(attack, nursery, victim):
    for pid in (os.getpid(), nursery.zygote.pid, victim.pid, 1, "self"):
        refused(attack.peek, pid)


def test_the_environment_is_empty_in_memory_too(attack, door):
    assert attack.environment() == [1, [None] * 4]
    try:
        seen = Path(f"/proc/{door.far.who}/environ").read_bytes()
    except PermissionError:
        return  # a process that keeps its memory to itself, from its own user too
    assert not seen.strip(b"\0"), "an environment that can be read from memory"


def test_there_is_no_secret_in_memory(attack):
    assert attack.memory_holds("### BEGIN SOLUTION", "@exercise(", SECRET) == []
    known = set(attack.modules())
    assert not {name for name in known if name.partition(".")[0] != "grader"}
    assert not known & {"grader.syllabus", "grader.target", "grader.plugin", "grader.diagnosis", "grader.source"}


def test_no_descriptor_but_its_own_socket(attack):
    kinds = attack.open_files()
    assert {number: kinds.pop(number) for number in (0, 1, 2)} == dict.fromkeys((0, 1, 2), "device")
    assert list(kinds.values()) == ["socket"]


@pytest.mark.parametrize("module", ["solutions.ch03_attention", "exercises.ch03_attention", "tests.strategies", "grader.syllabus", "grader.target", "strategies"])
def test_the_kit_cannot_be_imported(attack, module):
    refused(attack.brings, module, kinds=("ModuleNotFoundError", "PermissionError"))


# ---- writing


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm", "/var/tmp", "/", "/root", ".", str(ROOT), str(Path(sys.prefix)), "/proc/self", "/run"])
def test_nothing_can_be_written(attack, folder):
    path = f"{folder}/headway-hostile-file"
    refused(attack.write, path)
    refused(attack.folder, path)
    assert not Path(path).exists()


@pytest.mark.parametrize("how", ["chmod", "unlink", "truncate", "rename", "utime", "link", "symlink", "xattr"])
def test_files_of_others_cannot_be_changed(attack, tmp_path, how):
    path = tmp_path / "theirs"
    path.write_text("as it was")
    before = path.stat()
    refused(attack.change, str(path), how)
    after = path.stat()
    assert path.read_text() == "as it was" and (before.st_mode, before.st_mtime_ns, before.st_nlink) == (after.st_mode, after.st_mtime_ns, after.st_nlink)
    assert [p.name for p in tmp_path.iterdir()] == ["theirs"]


@pytest.mark.parametrize("how", ["chdir", "chroot"])
def test_there_is_no_other_folder_to_go_to(attack, tmp_path, how):
    refused(attack.change, str(tmp_path), how)


def test_no_shared_memory(attack):
    refused(attack.shared_memory)


# ---- talking


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_PACKET", "AF_VSOCK"])
@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM", "SOCK_RAW"])
def test_no_sockets(attack, family, kind):
    refused(attack.make_socket, family, kind)


def test_nobody_can_be_reached(attack):
    refused(attack.pair)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        refused(attack.reach, port)
        own = next(number for number, kind in attack.open_files().items() if kind == "socket")
        assert attack.borrow(own, port) == "EPERM"
        listener.settimeout(0)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_no_descriptor_goes_along_with_an_answer(attack):
    own = next(number for number, kind in attack.open_files().items() if kind == "socket")
    refused(attack.pass_on, own)
    refused(attack.send_file)


# ---- more of itself, and others


def test_no_new_processes(attack, door):
    refused(attack.fork)
    for program in ("/bin/true", sys.executable):
        refused(attack.run, program)
        refused(attack.spawn, program)
    assert attack.system() != 0
    for which in ("fork", "vfork", "clone"):
        assert attack.fork_by_number(which) in ("EPERM", "ENOSYS"), which
    assert attack.fork_by_number("clone3") == "ENOSYS"
    assert children(door.far.who) == []


def test_threads_come_to_an_end_of_room(door):
    with pytest.raises((LearnerError, FarSideDied, OutOfTime)):
        Implementation(door).bomb_of_threads()
    door.far.abandon()


def test_no_signals_to_others(attack, nursery, victim):
    for pid in (victim.pid, os.getpid(), nursery.zygote.pid, 1, -1, 0, -os.getpid()):
        refused(attack.signal_to, pid, 0)
    refused(attack.signal_to, victim.pid, 15)
    refused(attack.signal_to_group, victim.pid)


def test_no_signals_to_the_sibling(attack, nursery):
    sibling = doors_of("fork", nursery, ATTACKS)
    sibling.begin(1)
    refused(attack.signal_to, sibling.far.who, 9)
    refused(attack.peek, sibling.far.who)
    assert attack.by_number("process_vm_readv", sibling.far.who) == "EPERM"
    assert Implementation(sibling).answer(1, 2) == 3
    sibling.far.close()


_BY_NUMBER = (
    "ptrace process_vm_readv process_vm_writev kill tkill tgkill rt_sigqueueinfo pidfd_open io_uring_setup io_uring_enter bpf perf_event_open userfaultfd "
    "keyctl add_key mount umount2 fsopen open_tree pivot_root chroot unshare setns execve execveat memfd_create name_to_handle_at open_by_handle_at openat2 "
    "socket sendmsg shmget msgget mq_open setuid sethostname settimeofday reboot init_module swapon inotify_init1 fanotify_init timer_create "
    "sched_setaffinity setpriority landlock_create_ruleset seccomp pidfd_getfd process_madvise memfd_secret vmsplice splice setrlimit prctl_dumpable "
    "prctl_seccomp prctl_subreaper fcntl_setown ioctl_push a_number_not_given x32_getpid"
).split()


def test_no_dangerous_call_by_its_number(attack, victim):
    answers = {name: attack.by_number(name, victim.pid) for name in _BY_NUMBER}
    assert {name: answer for name, answer in answers.items() if answer not in ("EPERM", "ENOSYS")} == {}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the other set of calls is that of x86")
def test_no_calls_of_another_processor(door):
    with pytest.raises(FarSideDied, match="SIGSYS"):
        Implementation(door).other_processor()


# ---- eating


@pytest.mark.parametrize("how", ["tensor", "list", "mapped", "string"])
def test_memory_has_an_end(door, how):
    with pytest.raises((LearnerError, FarSideDied)) as caught:
        Implementation(door).memory(how)
    assert getattr(caught.value, "type_name", "") in ("MemoryError", "RuntimeError", "OSError", "")


def test_every_limit_is_set_for_good(attack):
    found = attack.limits()
    assert all(soft == hard and 0 <= hard < 2**33 for soft, hard in found.values()), found
    assert {name for name, (soft, _) in found.items() if soft == 0} == {"RLIMIT_FSIZE", "RLIMIT_CORE", "RLIMIT_MEMLOCK"}
    assert found["RLIMIT_NOFILE"][0] <= 64 and found["RLIMIT_CPU"][0] <= 600


def test_where_memory_runs_out_it_goes_before_the_judge(door):
    assert Path(f"/proc/{door.far.who}/oom_score_adj").read_text() == "1000\n"


def test_limits_cannot_be_raised(attack):
    refused(attack.raise_limits, kinds=("PermissionError", "ValueError"))


def test_descriptors_have_an_end(door):
    with pytest.raises((LearnerError, FarSideDied)):
        Implementation(door).descriptors()
    door.far.abandon()


@pytest.mark.parametrize("how", ["loop_in_c", "deaf", "stop"])
def test_what_does_not_end_is_ended(nursery, how):
    door = doors_of("fork", nursery, ATTACKS, seconds=2.5)
    door.begin(1)
    pid = door.far.who
    with pytest.raises(OutOfTime):
        getattr(Implementation(door), how)()
    assert not alive(pid)
    door.begin(2)
    assert Implementation(door).answer(1, 2) == 3
    door.far.close()


def test_a_flood_of_output_goes_nowhere(attack, capfd):
    assert attack.flood() == "written"
    assert capfd.readouterr() == ("", "")


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
        "from grader.sandbox.entering import Walls, enter\n"
        "from grader.sandbox.isolation import Isolation\n"
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
