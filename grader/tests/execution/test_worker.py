"""The worker: one that dies, stalls or sends malformed frames costs one call, and leaves nothing behind."""

from __future__ import annotations

import gc
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from boundaries import forks, frame, make_boundary, opened
from grader.execution.errors import ChapterBroken, HostDied, LearnerError, OutOfTime
from grader.execution.proxy import Implementation
from grader.execution.sandbox.isolation import Isolation
from grader.execution.values import MAX_BYTES
from grader.execution.wire import MAX_HEAD
from grader.execution.worker import WorkerPool
from linux_processes import alive, kilobytes_in_huge_pages, living_children, may_have_huge_pages

pytestmark = forks
LIMIT = 2.0  # seconds


@pytest.fixture
def boundary(open_pool):
    with opened("fork", open_pool, seconds=LIMIT) as boundary:
        boundary.begin(1)
        yield boundary


def goes_on(boundary) -> bool:
    """The next example gets a new process, and what the last one left is gone."""
    boundary.begin(2)
    return Implementation(boundary).add(1, 2) == 3


# ---- ends


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("exit", "exited with status 3"), ("abort", "SIGABRT"), ("segfault", "segmentation fault"), ("kill", "it was killed"),
        ("close", "closed file descriptors"), ("child", "exited with status 4"),
    ],
)  # fmt: skip
def test_a_worker_that_dies_costs_one_call_and_the_rest_of_its_example(boundary, how, words):
    toy = Implementation(boundary)
    pid = toy.whoami()
    with pytest.raises(HostDied, match=words):
        toy.die(how)
    with pytest.raises(HostDied, match="has ended"):
        toy.add(1, 2)
    assert goes_on(boundary) and toy.whoami() != pid and not alive(pid)


@pytest.mark.parametrize("how", ["sleep", "spin", "stubborn", "heir"])
def test_a_worker_that_stalls_is_killed(boundary, how):
    """The last one ends, and its child keeps the connection open."""
    toy = Implementation(boundary)
    pid = toy.whoami()
    with pytest.raises(OutOfTime, match="did not end within 2 s"):
        (toy.die if how == "heir" else toy.stall)(how)
    assert goes_on(boundary) and not alive(pid)


def test_a_thread_left_behind_does_not_outlive_the_worker(boundary):
    toy = Implementation(boundary)
    with pytest.raises(LearnerError, match="left a thread running"):
        toy.thread(600, False)
    assert toy.add(1, 2) == 3, "the thread existed already: the next call did not start it"


@pytest.mark.parametrize(
    ("text", "words"),
    [("import os\nos._exit(0)", "ended the process: it exited with status 0"), ("while True: pass", "within 1 s")],
)
def test_a_chapter_that_ends_or_blocks_the_process_at_import(open_pool, text, words):
    with opened("fork", open_pool, text, import_seconds=1.0) as boundary, pytest.raises(ChapterBroken, match=words):
        boundary.begin(0)


# ---- malformed frames


MALFORMED = {  # test_sandbox_answers.py tries more of them without a worker
    "noise": b"x" * 64,
    "a head too large": struct.pack("<4sI", b"hdwy", MAX_HEAD + 1),
    "both": frame({"value": 1, "error": {}}),
    "an unknown form": frame({"value": {"code": "print(1)"}}),
    "handle infinity": frame(b'[{"value": {"handle": [Infinity, "x"]}}, []]'),
    "an error without words": frame({"error": 5}),
    "nowhere": frame({"error": {"kind": "raised", "type": "A", "message": "b", "where": 7}}),
    "a shortcut that is not forbidden": frame({"shortcut": "softmax"}),
    "a shortcut with data": frame({"shortcut": "gelu"}, [4], b"1234"),
    "keys that collide": frame({"value": {"dict": [[n * (2**61 - 1), 0] for n in range(50_000)]}}),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_frame_costs_one_call(boundary, name):
    with pytest.raises(HostDied, match="malformed"):
        Implementation(boundary).says(MALFORMED[name])
    assert goes_on(boundary)


def test_half_a_frame_is_too_late(boundary):
    with pytest.raises(OutOfTime):
        Implementation(boundary).says(frame({"value": 1}, [MAX_BYTES]))
    assert goes_on(boundary)


def test_the_server_accepts_only_shortcuts_of_the_exercise(boundary):
    boundary.begin(1, ("gelu",))
    with pytest.raises(HostDied, match="malformed"):
        Implementation(boundary).says(frame({"shortcut": "gelu"}) * 3 + frame({"shortcut": "x" * 1000}))
    assert boundary.connection.shortcuts == {"gelu"}
    boundary.begin(1, ("gelu",))
    with pytest.raises(HostDied, match="more than 64 MiB in one example"):
        Implementation(boundary).says(frame(b'[{"shortcut": "gelu"},' + b" " * 1_000_000 + b"[]]") * 9)
    assert boundary.connection.shortcuts == {"gelu"} and goes_on(boundary)


def test_a_forged_error_has_plain_words_only(boundary):
    loud = {"kind": "raised", "type": "\x1b[31mE" * 999, "message": "\x1b]0;title\x07" * 9999, "where": ["\x1b[2J.py", 3, "\x9bcode"]}
    with pytest.raises(LearnerError) as caught:
        Implementation(boundary).says(frame({"error": loud}))
    problem = caught.value
    assert all(words.isprintable() for words in (problem.type_name, problem.message, str(problem.where)))
    assert len(problem.type_name) <= 80 and len(problem.message) <= 600


# ---- nothing left behind


def open_files() -> set[str]:
    """What this process has open: sockets, pipes, files."""
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        try:
            found.add(f"{path.name} {os.readlink(path)}")
        except OSError:
            pass
    return {entry for entry in found if "/proc/" not in entry}


@pytest.mark.parametrize("kind", ["fork", "spawn"])
def test_no_process_socket_or_file_is_left_after_closing(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "torch.py").write_text("raise RuntimeError('not the torch you look for')")
    gc.collect()
    files, processes = open_files(), set(living_children(os.getpid()))
    pool = WorkerPool(isolation=Isolation())
    first, second = make_boundary(kind, pool), make_boundary(kind, pool)
    for boundary in (first, second)[: 2 if kind == "fork" else 1]:
        boundary.begin(1)
        if kind == "spawn":
            assert Implementation(boundary).whoami() in living_children(os.getpid())
        with pytest.raises(HostDied):
            Implementation(boundary).die("child" if boundary is first else "exit")
    if kind == "fork":
        first.begin(1)
    first.connection.close()
    second.connection.close()
    pool.close()
    gc.collect()
    assert open_files() == files and set(living_children(os.getpid())) == processes
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("torchinductor")] == ["torch.py"]


def test_nothing_outlives_a_killed_server(tmp_path):
    script = (
        "import sys, os\n"
        "from boundaries import make_boundary\n"
        "from linux_processes import living_children\n"
        "from grader.execution.proxy import Implementation\n"
        "from grader.execution.worker import WorkerPool\n"
        "boundary = make_boundary('fork', WorkerPool(), seconds=600)\n"
        "boundary.begin(0)\n"
        "toy = Implementation(boundary)\n"
        "print(os.getpid(), *living_children(os.getpid()), toy.whoami(), flush=True)\n"
        "toy.stall('spin')\n"
    )
    server = subprocess.Popen([sys.executable, "-c", script], cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True)
    mine, zygote, worker = map(int, server.stdout.readline().split())
    assert mine == server.pid and alive(zygote) and alive(worker)
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    server.stdout.close()
    deadline = time.monotonic() + 10
    while (alive(zygote) or alive(worker)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(zygote) and not alive(worker)


def test_a_run_of_the_server_cannot_grow_beyond_its_limit():
    """It raises what Python and torch raise when memory runs out, and the process continues."""
    script = (
        "import torch\n"
        "from grader.processes import limits\n"
        "from grader.verdict.explanation import is_out_of_memory\n"
        "torch.ones(9)\n"
        "limits.limit_growth(1 << 27)\n"
        "bytearray(1 << 24)\n"
        "for allocate in (lambda: bytearray(1 << 28), lambda: torch.ones(1 << 26)):\n"
        "    try:\n        allocate()\n"
        "    except Exception as problem:\n        print(is_out_of_memory(problem))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240)
    assert done.stdout == "True\nTrue\n", done.stderr


def test_the_watch_on_forbidden_names_is_prepared_before_a_worker_is_forked(open_pool):
    code = """
import sys, torch
def is_prepared(): return ("softmax",) in sys.modules["grader.execution.forbidden.shortcuts"]._prepared
def uses(): return torch.ones(2).softmax(0)
"""
    open_pool.prepare(())
    open_pool.prepare(("softmax",))
    with opened("fork", open_pool, code) as boundary:
        for forbids, seen in ((), set()), (("softmax",), {"softmax", "_softmax"}), (("gelu",), set()):
            boundary.begin(1, forbids)
            assert Implementation(boundary).is_prepared() and len(Implementation(boundary).uses()) == 2
            assert boundary.connection.shortcuts == seen, forbids
            boundary.connection.shortcuts.clear()


def test_workers_are_forked_from_a_process_in_huge_pages_that_the_collector_leaves_alone(open_pool):
    """A fork copies a table with an entry for each page, and a collection in a worker would copy the pages too."""
    with opened("fork", open_pool, "import gc\ndef left_alone(): return gc.get_freeze_count()") as boundary:
        boundary.begin(1)
        assert Implementation(boundary).left_alone() > 50_000
    if may_have_huge_pages():
        assert kilobytes_in_huge_pages(open_pool.zygote.pid) > 0
