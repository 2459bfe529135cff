"""The sandbox around a worker: small hostile programs are each refused, the server survives, and the next worker works."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from boundaries import forks, make_boundary
from grader.course.syllabus import ROOT
from grader.execution.errors import HostDied, OutOfTime
from grader.execution.proxy import Implementation
from grader.execution.sandbox import seccomp
from grader.system import kernel
from hostile import ATTACKS
from linux_processes import alive, living_children
from sandboxed import LIMIT, SECRET, refused, sandboxed_pool

pytestmark = forks


@pytest.fixture(scope="module")
def pool():
    with sandboxed_pool() as pool:
        yield pool


@pytest.fixture
def boundary(pool):
    boundary = make_boundary("fork", pool, ATTACKS, seconds=LIMIT)
    boundary.begin(1)
    yield boundary
    boundary.begin(2)
    assert Implementation(boundary).answer(1, 2) == 3, "the next worker works"
    boundary.connection.close()


@pytest.fixture
def attack(boundary):
    return Implementation(boundary)


@pytest.fixture
def victim():
    """A process of the server's user, as a target."""
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield process
    assert process.poll() is None, "the attack ended it"
    process.kill()
    process.wait()


def test_the_sandbox_allows_what_exercises_need(attack):
    assert attack.ordinary() == [True, 10_000, 64.0**3, 1970, 4, [7]]


# ---- reading


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd", "/etc/hostname", "/proc/1/environ", "/proc/self/environ", "/proc/self/maps", "/proc/self/mem", "/proc/cmdline", "/proc/net/tcp",
        "/proc/JUDGE/cmdline", "/proc/PARENT/environ", sys.executable, str(Path.home() / ".bash_history"),
        str(ROOT / "solutions" / "ch03_attention.py"), str(ROOT / "tests" / "test_ch03_attention.py"), str(ROOT / "exercises" / "syllabus.toml"),
        str(ROOT / "grader" / "verdict" / "trial.py"), str(ROOT / "README.md"), str(ROOT / ".git" / "config"), "solutions/ch03_attention.py", "/dev/mem", "/dev/zero",
    ],
)  # fmt: skip
def test_files_cannot_be_read(attack, path):
    path = path.replace("JUDGE", str(os.getpid())).replace("PARENT", str(os.getppid()))
    refused(attack.read, path, kinds=("PermissionError", "FileNotFoundError", "NotADirectoryError"))  # the last: .git is a file in a worktree
    assert attack.read_by_number(path) in ("EACCES", "EPERM", "ENOENT", "ENOTDIR")


@pytest.mark.parametrize("folder", ["/", "/proc", "/tmp", "/home", "/dev", "/dev/shm", "/proc/self/fd", ".", str(ROOT), str(ROOT / "solutions")])
def test_folders_cannot_be_listed(attack, folder):
    refused(attack.names, folder, kinds=("PermissionError", "FileNotFoundError"))


def test_memory_of_others_cannot_be_read(attack, pool, victim):
    for pid in (os.getpid(), pool.zygote.pid, victim.pid, 1, "self"):
        refused(attack.peek, pid, kinds=("PermissionError", "FileNotFoundError"))


def test_the_environment_is_empty_in_memory_too(attack, boundary):
    assert attack.environment() == [1, [None] * 4]
    try:
        seen = Path(f"/proc/{boundary.connection.process}/environ").read_bytes()
    except PermissionError:
        return  # a process may hide its memory even from its own user
    assert not seen.strip(b"\0"), "the environment can be read from memory"


def test_there_is_no_secret_in_memory(attack):
    assert attack.memory_holds("### BEGIN SOLUTION", "@exercise(", SECRET) == []
    known = set(attack.modules())
    assert not {name for name in known if name.partition(".")[0] != "grader"}
    assert not known & {"grader.course.syllabus", "grader.execution.target", "grader.plugin.hooks", "grader.verdict.diagnosis", "grader.course.source"}


def test_no_descriptor_but_its_own_socket(attack):
    kinds = attack.open_files()
    assert {number: kinds.pop(number) for number in (0, 1, 2)} == dict.fromkeys((0, 1, 2), "device")
    assert list(kinds.values()) == ["socket"]


NOT_THERE = ["solutions.ch03_attention", "exercises.ch03_attention", "tests.strategies", "grader.course.syllabus", "grader.execution.target", "strategies"]


@pytest.mark.parametrize("module", NOT_THERE)
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


def test_no_new_processes(attack, boundary):
    refused(attack.fork)
    for program in ("/bin/true", sys.executable):
        refused(attack.run, program)
        refused(attack.spawn, program)
    assert attack.system() != 0
    for which in ("fork", "vfork", "clone"):
        assert attack.fork_by_number(which) in ("EPERM", "ENOSYS"), which
    assert attack.fork_by_number("clone3") == "ENOSYS"
    assert living_children(boundary.connection.process) == []


def test_no_signals_to_others(attack, pool, victim):
    for pid in (victim.pid, os.getpid(), pool.zygote.pid, 1, -1, 0, -os.getpid()):
        refused(attack.signal_to, pid, 0)
    refused(attack.signal_to, victim.pid, 15)
    refused(attack.signal_to_group, victim.pid)


def test_no_call_that_is_not_on_the_list_by_its_number(attack):
    column = kernel.MACHINES[platform.machine()]
    uprobes = {335, 336}  # of x86_64: the kernel answers these with SIGILL before it asks the filter
    allowed = {numbers[column] for numbers in seccomp.NUMBERS.values()} | uprobes
    answers = attack.refused_calls(allowed, seccomp.LATEST)
    assert {number: answer for number, answer in answers.items() if answer not in ("EPERM", "ENOSYS")} == {}
    assert len(answers) > 300


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the other set of calls is that of x86")
def test_no_calls_of_another_processor(boundary):
    with pytest.raises(HostDied, match="SIGSYS"):
        Implementation(boundary).other_processor()


# ---- eating


def test_every_limit_is_set_for_good(attack):
    found = attack.limits()
    assert all(soft == hard and 0 <= hard < 2**40 for soft, hard in found.values()), found
    assert {name for name, (soft, _) in found.items() if soft == 0} == {"RLIMIT_FSIZE", "RLIMIT_CORE", "RLIMIT_MEMLOCK"}
    assert found["RLIMIT_NOFILE"][0] <= 64 and found["RLIMIT_CPU"][0] <= 600


def test_where_memory_runs_out_it_goes_before_the_judge(boundary):
    assert Path(f"/proc/{boundary.connection.process}/oom_score_adj").read_text() == "1000\n"


def test_limits_cannot_be_raised(attack):
    refused(attack.raise_limits, kinds=("PermissionError", "ValueError"))


@pytest.mark.parametrize("how", ["loop_in_c", "deaf", "stop"])
def test_what_does_not_end_is_ended(pool, how):
    boundary = make_boundary("fork", pool, ATTACKS, seconds=2.5)
    boundary.begin(1)
    pid = boundary.connection.process
    with pytest.raises(OutOfTime):
        getattr(Implementation(boundary), how)()
    assert not alive(pid)
    boundary.begin(2)
    assert Implementation(boundary).answer(1, 2) == 3
    boundary.connection.close()
