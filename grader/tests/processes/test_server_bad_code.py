"""Nothing that a learner's code does ends the server or affects the next run; and each problem has its sentence."""

import sys
import time

import pytest
from grader.processes.server import STUCK
from grader.verdict.trial import CALL_SECONDS
from warm_runs import timeless, write_softmax

pytestmark = [
    pytest.mark.alone,
    pytest.mark.thorough,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the server forks on Linux only, and /proc is Linux's"),
]

CRASH = "segmentation fault"
CLOSED = "it closed file descriptors that it did not open"
BROKEN = "it broke something that the tests need, or used up the memory"
MEMORY = "ran out of memory"

FAILING = {
    "sys.exit": ("import sys; sys.exit(3)", "softmax raised SystemExit: it ended the program (3)"),
    "os.abort": ("import os; os.abort()", "Your code ended the process it ran in: it exited with status 134."),
    "segfault": ("import ctypes; ctypes.string_at(0)", CRASH),
    "too much memory at once": ("torch.zeros(10**13)", f"softmax {MEMORY}: it asked for 40,000,000,000,000 bytes at once."),
    "memory kept": ("kept = globals().setdefault('kept', [])\nwhile True: kept.append(torch.ones(10**5))", f"softmax {MEMORY}"),
    "a thread left": ("import threading, time; threading.Thread(target=time.sleep, args=[999], daemon=True).start()", "left a thread running"),
    "descriptors": ("import os; os.closerange(0, 1000)", CLOSED),
    "prints without end": ("while True: print('x' * 10000)", "softmax printed or wrote too much output for one run"),
    "input": ("input('Which? ')", "softmax asks for input, but there is no input while tests run"),
    "breakpoint": ("breakpoint()", "softmax stops in the debugger, which has no input here; to debug, run `pytest --exercise softmax` in a terminal"),
    "the kit in pieces": ("import grader.runner.judging as kit; kit.TestRunner.run_test = None; return x", BROKEN),
    "no modules": ("import sys; sys.modules.clear()", "8 of 8 failed"),
}

HARMLESS = {
    "another folder, removed": "import os, tempfile; folder = tempfile.mkdtemp(); os.chdir(folder); os.rmdir(folder)",
    "a fork that comes back": "import os; os.fork()",
    "a process of its own session": "import subprocess; subprocess.Popen(['sleep', '999'], start_new_session=True)",
    "an orphan of its own session": "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork(): os.kill(os.getpid(), 9)\n    time.sleep(999)",
    "no stdout": "import sys; sys.stdout = sys.stderr = None",
    "threads": "torch.set_num_threads(2); torch.ones(300, 300) @ torch.ones(300, 300)",
    "deaf to signals": "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN)",
}

STUBBORN = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"

ENDLESS = {
    "a loop that catches everything": (STUBBORN, "", "The call did not end within 5 s."),
    "a loop in C": ("import itertools; sum(itertools.count())", "", "The call did not end within 5 s."),
    "a loop at import": ("", "while True: pass", "Importing it did not end within 10 s."),
    "memory bit by bit": ("more = []\nwhile True: more.append(torch.ones(3 * 10**7))", "", f"softmax {MEMORY}: it asked for 120,000,000 bytes at once."),
}


@pytest.fixture(scope="module")
def usual(warm):
    """What correct code gets."""
    return good_run(warm)


def good_run(warm):
    write_softmax(warm.kit)
    (warm.kit.exercises / "progress.txt").unlink(missing_ok=True)
    return timeless(warm.ask().text)


def goes_on(warm, usual):
    """The server exists, without other processes, and answers the next job as before."""
    assert warm.alive and warm.quiet()
    return good_run(warm) == usual


@pytest.mark.parametrize("what", FAILING)
def test_bad_code_gets_its_sentence_and_the_next_job_succeeds(warm, usual, what):
    body, words = FAILING[what]
    write_softmax(warm.kit, body)
    output = warm.ask()
    assert output.outcomes and "passed" not in output.outcomes["softmax"] and output.done == 1
    assert words in output.prose or words in output.again
    assert goes_on(warm, usual)


@pytest.mark.parametrize("what", HARMLESS)
def test_unusual_but_correct_code_passes_and_leaves_nothing(warm, usual, what):
    write_softmax(warm.kit, HARMLESS[what])
    output = warm.ask()
    assert set(output.outcomes["softmax"]) == {"passed"} and output.done == 0 and not output.again
    assert goes_on(warm, usual)


@pytest.mark.parametrize("what", ENDLESS)
def test_endless_code_is_ended(warm, usual, what):
    body, top, words = ENDLESS[what]
    write_softmax(warm.kit, body, top)
    output = warm.ask()
    assert "passed" not in output.outcomes["softmax"] and words in output.prose
    if what == "a loop in C":  # its process ends itself, and the repetition does not wait as long for a second call
        messages = [test.message for test in output.result("softmax").tests]
        assert output.again == [STUCK] and messages[:2] == [words, "The call did not end within 0.8 s."]
    assert goes_on(warm, usual)


@pytest.mark.parametrize("top, words", [
    ("import sys; sys.exit(0)", "SystemExit: it ended the program (0)"),
    ("import ctypes; ctypes.string_at(0)", f"Importing it ended the process: a crash inside native code ({CRASH})"),
    ("bytes(10**13)", f"Importing it {MEMORY}."),
])  # fmt: skip
def test_bad_code_at_import(warm, usual, top, words):
    write_softmax(warm.kit, top=top)
    output = warm.ask()
    assert set(output.outcomes["softmax"]) == {"error"} and words in output.prose
    assert goes_on(warm, usual)


def test_the_debugger_waits_on_a_terminal(kit):
    """`pytest --exercise softmax`, which the server's sentence names: a learner may think for longer than a call may take."""
    pexpect = pytest.importorskip("pexpect")
    write_softmax(kit, "if x.dtype == torch.bfloat16: breakpoint()")
    environment = kit.environment(TERM="dumb")
    terminal = pexpect.spawn(sys.executable, ["-m", "pytest", "--exercise", "softmax"], cwd=str(kit.root), env=environment, encoding="utf-8", timeout=60)
    terminal.expect(r"\(Pdb\)")
    time.sleep(CALL_SECONDS + 1)
    terminal.sendline("p 6 * 7")
    terminal.expect("42")
    terminal.expect(r"\(Pdb\)")
    for _ in range(50):
        terminal.sendline("c")
        if terminal.expect([r"\(Pdb\)", pexpect.EOF]):
            break
    assert " passed" in terminal.before


KILL_SERVER = """import os
pid, server = os.getppid(), 0
while 'check_server' in open(f'/proc/{pid}/cmdline').read():  # the run, which has the server's name, and then the server
    server, pid = pid, int(open(f'/proc/{pid}/stat').read().rpartition(')')[2].split()[1])
if server: os.kill(server, 9)"""


def test_code_that_kills_the_server_gets_its_verdict_anyway(kit):
    write_softmax(kit, KILL_SERVER)
    said = " ".join(kit.run("check", "softmax", status=None).split())
    assert "the server that ran the tests has ended, perhaps because of your code; testing again in a process of its own" in said
    assert " passed" in said or " failed" in said  # it is tried again in a worker; a worker's sandbox may refuse to read that file
