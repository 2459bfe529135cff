"""The layers of isolation as data: the list of system calls, the program made from it, the paths that may be read, and the report about a machine."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import sysconfig
from itertools import takewhile
from pathlib import Path

import pytest
from boundaries import forks
from grader.cli.commands import doctor
from grader.course.syllabus import EXERCISES, ROOT, SOLUTIONS, TESTS
from grader.execution.sandbox import bubblewrap, isolation, paths, seccomp
from grader.execution.sandbox.isolation import Isolation, Layer

MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
PID = 4711
ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000


def decided(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """Run the filter as the kernel would, for one call."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, *(n % 2**64 for n in (*arguments, *[0] * (6 - len(arguments)))))
    at, accumulator = 0, 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("=HBBI", program, 8 * at)
        at += 1
        if code == 0x06:
            return value
        if code == 0x20:
            accumulator = struct.unpack_from("<I", data, value)[0]
        elif code == 0x54:
            accumulator &= value
        else:
            at += if_true if {0x15: accumulator == value, 0x25: accumulator > value}[code] else if_false


@pytest.fixture(params=MACHINES)
def run_filter(request):
    column, architecture = MACHINES[request.param]
    program = seccomp.program(column, PID)
    assert len(program) % 8 == 0 and len(program) // 8 <= 4096, "the kernel accepts no longer program"

    def run(name: str | int, *arguments: int, of: int = architecture) -> int:
        return decided(program, of, seccomp.NUMBERS[name][column] if isinstance(name, str) else name, *arguments)

    run.column = column
    return run


def test_every_call_of_the_list_is_allowed_and_no_other(run_filter):
    listed = {numbers[run_filter.column]: name for name, numbers in seccomp.NUMBERS.items() if numbers[run_filter.column] is not None}
    absent = {numbers[run_filter.column] for numbers in seccomp.NOT_IMPLEMENTED}
    for number in range(seccomp.LATEST + 40):
        if number in listed and listed[number] not in seccomp.CHECKED:
            assert run_filter(number) == ALLOW, listed[number]
        elif number in absent or number > seccomp.LATEST:
            assert run_filter(number) == ENOSYS
        elif number not in listed:
            assert run_filter(number) == EPERM
    assert run_filter(0x40000000 + 1) == ENOSYS and run_filter(0xFFFFFFFF) == ENOSYS
    assert run_filter("read", of=0x40000003) == KILL, "calls of another processor"


def test_arguments_are_checked(run_filter):
    reading, here = 0o2000000, -100
    assert run_filter("openat", here, 0, reading) == ALLOW
    for writing in (0o1, 0o2, 0o3, 0o100, 0o1000, 0o10000000, 0o20200000):
        assert run_filter("openat", here, 0, reading | writing) == EPERM
    thread = 0x3D0F00
    assert run_filter("clone", thread) == ALLOW
    for process in (17, 0x4111, 0x1200011, thread | 0x10000000, thread | 0x20000, thread | 0x40000000):
        assert run_filter("clone", process) == EPERM
    for name in ("kill", "tgkill"):
        assert run_filter(name, PID) == ALLOW
        assert {run_filter(name, pid) for pid in (0, 1, -1, -PID, PID + 1)} == {EPERM}
    assert run_filter("prlimit64", 0, 7, 0) == ALLOW
    assert {run_filter("prlimit64", 0, 7, new) for new in (1, 2**32, 2**47)} | {run_filter("prlimit64", PID, 7, 0)} == {EPERM}
    assert run_filter("fcntl", 0, 3) == ALLOW and {run_filter("fcntl", 0, command) for command in (5, 7, 8, 10, 1024, 1031)} == {EPERM}
    assert run_filter("ioctl", 0, 0x5401) == ALLOW and {run_filter("ioctl", 0, command) for command in (0x5412, 0x8901, 0x894B)} == {EPERM}
    assert run_filter("prctl", 15) == ALLOW and {run_filter("prctl", option) for option in (4, 22, 35, 36, 38)} == {EPERM}


def test_only_private_memory_and_harmless_advice_are_allowed(run_filter):
    for flags in (0x02, 0x22, 0x32, 0x4022, 0x20022, 0x100022):
        assert run_filter("mmap", 0, 4096, 3, flags) == ALLOW
    for flags in (0x01, 0x03, 0x21, 0x20, 0x28, 0x122, 0x2022, 0x8022, 0x10022, 0x40022, 0x80023, 0x200022):
        assert run_filter("mmap", 0, 4096, 3, flags) == EPERM
    assert {run_filter("madvise", 0, 4096, advice) for advice in seccomp.CHECKED["madvise"][0].values} == {ALLOW}
    assert {run_filter("madvise", 0, 4096, advice) for advice in (1, 2, 3, 5, 6, 7, 9, 12, 13, 20, 21, 22, 23, 24, 25, 100, 101, -1, 2**31)} == {EPERM}


def test_a_worker_can_query_and_wait_for_only_its_own_processes(run_filter):
    private, again = 128, 0x0005000B
    for operation in (0, 1, 9, 10, 9 | 256):
        assert run_filter("futex", 0, operation | private) == ALLOW and run_filter("futex", 0, operation) == again
    for name in ("clock_gettime", "clock_getres", "clock_nanosleep"):
        assert {run_filter(name, clock) for clock in (0, 1, 2, 3, 7, 11)} == {ALLOW}
        assert {run_filter(name, (~PID << 3) | kind) for kind in (2, 6)} == {run_filter(name, 16)} == {EPERM}
    for name, error in (("sched_getaffinity", ENOSYS), ("sched_getparam", EPERM), ("sched_getscheduler", EPERM), ("getpgid", EPERM), ("getsid", EPERM)):
        assert {run_filter(name, pid) for pid in (0, PID)} == {ALLOW} and {run_filter(name, pid) for pid in (1, PID + 1, -1)} == {error}
    assert run_filter("getpriority", 0, PID) == run_filter("getpriority", 0, 0) == ALLOW
    assert {run_filter("getpriority", which, who) for which, who in ((0, 1), (1, 0), (2, 0))} == {EPERM}


def test_dangerous_calls_are_not_on_the_list():
    dangerous = (
        "socket socketpair connect bind sendmsg recvmsg ptrace process_vm_readv process_vm_writev tkill rt_sigqueueinfo fork vfork clone3 execve execveat "
        "io_uring_setup bpf perf_event_open userfaultfd keyctl mount umount2 unshare setns pivot_root chroot chdir pidfd_open memfd_create openat2 setrlimit "
        "name_to_handle_at open_by_handle_at setsid setpgid setuid chmod unlink rename mkdir creat truncate link symlink mknod shmget inotify_init1 "
        "mincore cachestat readahead fadvise64 preadv preadv2 sync_file_range process_madvise getrusage sysinfo flock futex_waitv shmat semget msgget mq_open "
        "mlock mlockall mlock2 memfd_secret remap_file_pages move_pages get_mempolicy capget get_robust_list set_tid_address ioprio_set setpriority statfs"
    ).split()
    assert not set(dangerous) & set(seccomp.NUMBERS) and set(seccomp.CHECKED) <= set(seccomp.NUMBERS)


@pytest.mark.parametrize(
    ("header", "column", "pattern"),
    [("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", 0, r"__NR_(\w+) (\d+)"), ("/usr/include/asm-generic/unistd.h", 1, r"__NR(?:3264)?_(\w+) (\d+)")],
)
def test_numbers_match_the_kernel(header, column, pattern):
    if not Path(header).exists():
        pytest.skip(f"no {header} to compare with")
    known = {name: int(number) for name, number in re.findall(rf"#define {pattern}", Path(header).read_text())}
    known |= {"newfstatat": known.get("newfstatat", known.get("fstatat"))}
    wrong = {name: numbers[column] for name, numbers in seccomp.NUMBERS.items() if name in known and numbers[column] != known[name]}
    assert not wrong and len(set(seccomp.NUMBERS) & set(known)) > 80


# ---- paths


@forks
def test_python_is_readable_and_the_kit_is_not():
    readable = paths.readable_paths()
    secrets = (SOLUTIONS, TESTS, EXERCISES, ROOT / "grader" / "verdict" / "trial.py", ROOT, Path.home())
    inside = [path for path in readable for secret in secrets if secret.is_relative_to(path)]
    assert inside == []
    for needed in (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")):
        assert any(Path(needed).resolve().is_relative_to(path) for path in readable)


def test_if_the_kit_is_inside_a_readable_folder_its_siblings_are_listed(tmp_path, monkeypatch):
    for folder in ("python/lib", "python/share/kit/solutions", "python/share/other"):
        (tmp_path / folder).mkdir(parents=True)
    monkeypatch.setattr(paths, "named_paths", lambda: [tmp_path / "python"])
    monkeypatch.setattr(paths, "KIT", tmp_path / "elsewhere")
    assert paths.readable_paths() == [tmp_path / "python"]
    monkeypatch.setattr(paths, "KIT", tmp_path / "python" / "share" / "kit")
    assert paths.readable_paths() == [tmp_path / "python" / "lib", tmp_path / "python" / "share" / "other"]


# ---- the report


def test_a_plan_survives_writing_and_a_layer_describes_its_protection_or_what_to_do():
    for plan in (Isolation(), Isolation(seccomp=True), Isolation(True, True, True, True)):
        assert Isolation.named(str(plan)) == plan
    assert str(Isolation()) == "none" and not Isolation() and Isolation(landlock=True)
    on, off = Layer("limits", True, "memory"), Layer("bubblewrap", False, "files", "it is not installed", "install it")
    assert str(on) == "limits: memory" and str(off) == "bubblewrap is off: it is not installed; install it"
    for layer in isolation.layers():
        assert layer.blocks and (layer.on or layer.missing), layer
    assert [layer.name for layer in isolation.missing_layers()] == [layer.name for layer in isolation.layers() if not layer.on]


def test_the_doctor_has_a_line_for_each_layer():
    before_the_run = takewhile(lambda finding: "can be read" not in finding.sentence, doctor.examine(grading=True))
    found = [finding for finding in before_the_run if "isolation" in finding.sentence]
    on = {layer.name for layer in isolation.layers() if layer.on}
    assert len(found) == (5 if "landlock" in on else 4 if on else 1)
    assert all(finding.state in ("ok", "note") for finding in found)


def test_the_doctor_says_nothing_about_the_sandbox_to_a_learner(module_kit):
    plain, grading = module_kit.run("doctor"), module_kit.run("doctor", "--grading")
    assert not re.search("isolation|seccomp|landlock|bubblewrap|you are root", plain) and "isolation" in grading
    for out in (plain, grading):
        assert "tests call the code that they are given" in out and "Everything works.\n" in out
    assert " ".join(plain.split()).endswith("`headway doctor --grading` also checks the sandbox.")


@forks
def test_a_missing_or_refused_bubblewrap_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    remedy = "`sudo apt-get install bubblewrap` (or your system's package manager) installs it"
    assert bubblewrap.problem.__wrapped__() == ("bubblewrap is not installed", remedy)
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    why, remedy = bubblewrap.problem.__wrapped__()
    assert why == "bubblewrap is installed but does not start here (setting up uid map: Permission denied)" and remedy


@forks
def test_the_command_shows_python_and_the_machinery_only():
    words = bubblewrap.command(["python", "-c", "pass"])
    shown = {words[i + 1] for i, word in enumerate(words) if word == "--ro-bind"}
    assert str(ROOT / "grader") in shown and not {str(SOLUTIONS), str(TESTS), str(EXERCISES), str(ROOT), "/", "/etc", "/home"} & shown
    assert not {"--bind", "--dev-bind", "--share-net"} & set(words) and "--unshare-all" in words and "--die-with-parent" in words


def test_everything_imports_on_systems_without_isolation():
    """As on macOS and Windows: the platform is changed before anything is imported."""
    program = (
        "import sys; sys.platform = 'darwin'\n"
        "from grader.execution.sandbox import isolation, entering\n"
        "plan = isolation.available()\n"
        "assert not plan and entering.prepare(plan).rules is None\n"
        "entering.enter(entering.prepare(plan), 0, 2)\n"
        "print(*[str(layer) for layer in isolation.layers()], sep='\\n')\n"
    )
    said = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert len(said.stdout.splitlines()) == 4 and all("are not isolated" in line for line in said.stdout.splitlines())
