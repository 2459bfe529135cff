"""A separate process reads what a class handed in: a problem in one submission does not affect the others."""

import bz2
import os
import re
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest
from grader.classroom.intake.reader import ReadLimits, read_in_subprocess, read_submissions
from grader.classroom.intake.submissions import GradingProblem
from grader.cli.commands import grading_output
from grader.course.syllabus import ROOT
from linux_processes import command_line, descendants
from rich.console import Console
from rich.status import Status
from submission_archives import CHAPTER, tar_header, write, zipped

LONG_TUPLE = "x = (" + "a," * 99_000 + ")\n"
SLOW = "x = f'" + "{a}" * 66_000 + "'\n"
CODECS = "undefined rot13 base64 zlib punycode idna unicode_escape utf-7 utf-16 mbcs charmap hz".split()


def a_class(folder: Path) -> Path:
    """A folder, an archive and a file, a clone, a chapter that cannot be read, and nothing at all."""
    write(folder / "alpha" / CHAPTER, "a = 1\n")
    write(folder / "alpha" / "ch01_tokenizer.py", "# coding: rot13\n")
    write(folder / "beta.zip", zipped({f"hw/{CHAPTER}": "b = 1\n"}))
    write(folder / f"chi_{CHAPTER}", "c = 1\n")
    write(folder / "delta" / CHAPTER, "d = 1\n")
    write(folder / "epsilon" / "notes.txt", "no chapter")
    write(folder / "fay.tgz", b"no archive")
    write(folder / "gil" / CHAPTER, LONG_TUPLE)
    write(folder / "\u202ehal\udcff" / CHAPTER, "h = 1\n")
    write(folder / "README.md", "no submission")
    return folder


def test_the_separate_process_reads_the_same_as_a_direct_call(tmp_path):
    folder = a_class(tmp_path / "class")
    table = write(tmp_path / "class.csv", "name,path,submitted\nAlpha,class/alpha,2026-12-01T10:00:00+01:00\nBeta,class/beta.zip,\nChi,,\nDelta,class/none,\n")
    for path in (table, folder / "beta.zip", folder):
        said: list[str] = []
        expected: list[str] = []
        assert read_in_subprocess(path, said.append) == read_submissions(path, expected.append)
        assert said == expected
    assert said[0].startswith("ignored because they have no owner: README.md")


def test_an_invalid_input_is_refused_by_the_separate_process_too(tmp_path):
    with pytest.raises(GradingProblem, match="^cut.zip: the archive is damaged"):
        read_in_subprocess(write(tmp_path / "cut.zip", b"PK\x03\x04"))


def test_an_unusual_encoding_affects_only_its_chapter(tmp_path):
    for codec in CODECS:
        write(tmp_path / codec / CHAPTER, f"# coding: {codec}\nx = 1\n")
        write(tmp_path / codec / "ch01_tokenizer.py", "mine\n")
    for found in read_submissions(tmp_path):
        assert found.sources == {"ch01_tokenizer": "mine\n"} and not found.problem
        sentence = found.broken["ch03_attention"]
        assert sentence.startswith("ch03_attention.py") and found.name in sentence and "save the file as UTF-8" in sentence


def test_a_source_that_needs_much_memory_affects_only_its_chapter(tmp_path):
    path = _handed_in(tmp_path, {f"alpha/{CHAPTER}": LONG_TUPLE, "alpha/ch01_tokenizer.py": "mine\n", f"beta/{CHAPTER}": "b = 1\n"})
    for limits in (ReadLimits(), ReadLimits(memory=_memory_at_start() + 60_000_000)):  # refused because of its length, or because memory runs out
        alpha, beta = read_in_subprocess(path, limits=limits)
        assert alpha.sources == {"ch01_tokenizer": "mine\n"} and list(alpha.broken) == ["ch03_attention"] and "too long" in alpha.broken["ch03_attention"]
        assert beta.sources == {"ch03_attention": "b = 1\n"} and not beta.problem


@pytest.mark.skipif(sys.version_info >= (3, 12) or sys.platform == "win32", reason="this Python reads long f-strings quickly, or no limit ends the process")
def test_a_source_that_is_slow_to_read_affects_only_its_owner(tmp_path):
    files = {f"alpha/{CHAPTER}": "a = 1\n", "alpha/ch01_tokenizer.py": SLOW, f"beta/{CHAPTER}": "b = 1\n"}
    alpha, beta = read_in_subprocess(_handed_in(tmp_path, files), limits=ReadLimits(seconds=1))
    assert alpha.problem == "it cannot be read: reading it takes longer than 1 seconds; submit only the chapter files"
    assert beta.sources == {"ch03_attention": "b = 1\n"}


def _memory_at_start() -> int:
    """Bytes of address space that the process uses before it reads anything."""
    if not Path("/proc/self/statm").exists():
        return ReadLimits().memory
    program = "import resource, grader.classroom.intake.reader; print(int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize())"
    return int(subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=True).stdout)


def _handed_in(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        write(folder / "class" / name, text)
    return folder / "class"


# ---- what is shown while it reads


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_present_submission_is_shown_at_once_in_a_terminal_and_else_at_most_once_a_second(is_terminal, monkeypatch):
    now, written = [0.0], StringIO()
    monkeypatch.setattr(grading_output.time, "monotonic", lambda: now[0])
    console = Console(file=written, force_terminal=is_terminal, width=80)
    monkeypatch.setattr(grading_output, "make_console", lambda: console)
    monkeypatch.setattr(Status, "update", lambda self, shown: written.write(f"{shown}\n"))
    with grading_output.TerminalScreen().show_reading() as report:
        for number in range(40):
            now[0] += 0.25
            report(f"submission {number}: alpha")
        quick = written.getvalue()
        for _ in range(12):
            now[0] += 1
            report("submission 40: beta")
    shown, slow = [int(one) for one in re.findall(r"reading submission (\d+): alpha", quick)], written.getvalue()[len(quick) :]
    if is_terminal:
        assert shown == list(range(40))
    else:
        assert shown == list(range(3, 40, 4))
        assert slow.split("\n") == ["reading submission 40: beta", *["still reading submission 40: beta"] * 2, ""]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are looked up in /proc")
def test_after_a_crash_another_process_continues(tmp_path):
    folder = a_class(tmp_path / "class")
    for number in range(2):
        write(folder / f"large {number}.tar.bz2", bz2.compress(tar_header(b"zeros", 100_000_000)) + bz2.compress(bytes(10_000_000)) * 10)
    expected = read_submissions(folder)
    killed: list[int] = []

    def kill_the_first() -> None:
        while not killed and not done.wait(0.01):
            for pid in descendants(os.getpid()):
                if "spawn_main" in command_line(pid):
                    with suppress(ProcessLookupError):
                        os.kill(pid, 9)
                        killed.append(pid)
                    return

    done = threading.Event()
    killer = threading.Thread(target=kill_the_first)
    killer.start()
    try:
        assert read_in_subprocess(folder) == expected
    finally:
        done.set()
        killer.join()
    assert len(killed) == 1


# ---- files that the grader may not read

AS_NOBODY = r"""
import os, sys
from grader.classroom.intake.reader import read_submissions
from grader.course.syllabus import load_syllabus
load_syllabus()  # a user with fewer rights may not read this Python either
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for found in read_submissions(sys.argv[1]):
    print(f"{found.name} | {' '.join(found.sources)} | {found.problem}")
"""


@pytest.fixture
def as_nobody():
    """Read a class as a user who may not read everything, as `name | chapters | problem`."""
    if hasattr(os, "geteuid") and os.geteuid() != 0:
        prelude = AS_NOBODY.replace("os.setgroups([]); os.setgid(65534); os.setuid(65534)", "")
    elif hasattr(os, "setuid"):
        prelude = AS_NOBODY
    else:
        pytest.skip("there are no users here that may read less")

    def read(folder: Path) -> list[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, "-c", prelude, str(folder)], env=environment, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return read


def test_unreadable_files_and_folders_affect_only_their_owner(as_nobody):
    folder = Path("/tmp") / f"headway-unreadable-{os.getpid()}"
    closed = [folder / name for name in ("alpha/README", f"beta/{CHAPTER}", "chi", "delta/deep", "epsilon.zip", "fay", "gil/.git")]
    try:
        for name in ("alpha", "beta", "chi", "delta", "gil", "hal"):
            write(folder / name / CHAPTER)
        for name in ("alpha/README", "delta/deep/notes.txt", "epsilon.zip", "fay", "gil/.git/HEAD"):
            write(folder / name, "words")
        folder.chmod(0o755)
        for path in closed:
            path.chmod(0)
        assert as_nobody(folder) == [
            "alpha | ch03_attention | ",
            "beta |  | ch03_attention.py cannot be opened: permission denied",
            "chi |  | the folder chi cannot be opened",
            "delta |  | the folder deep cannot be opened",
            "epsilon |  | epsilon.zip cannot be opened: permission denied",
            "gil | ch03_attention | ",
            "hal | ch03_attention | ",
        ]
    finally:
        for path in closed:
            path.chmod(0o755)
        shutil.rmtree(folder)
