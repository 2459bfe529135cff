"""A server ends when it is no longer needed, also in the middle of a run, and leaves no process."""

import os
import signal
import socket
import subprocess
import sys

import pytest
from linux_processes import alive
from warm_runs import CHAPTER, PATIENCE, WarmKit, until, write_softmax

pytestmark = [
    pytest.mark.alone,
    pytest.mark.thorough,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the server forks on Linux only, and /proc is Linux's"),
]

LOOP_IN_C = "import itertools; sum(itertools.count())"
WITH_OTHERS = f"import subprocess; subprocess.Popen(['sleep', '999'], start_new_session=True); {LOOP_IN_C}"


def looping(warm, text, in_worker=False):
    """Start a run that does not end; return its connection once it and its own processes exist."""
    write_softmax(warm.kit, text)
    sock = warm.address.ask(warm.job(in_worker=in_worker))
    assert until(lambda: len(warm.descendants() - warm.prestarted()) >= (2 if text == LOOP_IN_C else 3))
    return sock


@pytest.mark.parametrize("ending", ["lifeline", "SIGTERM", "SIGKILL"])
def test_a_server_ends_in_the_middle_of_a_run_and_leaves_nothing(kit, ending):
    warm = WarmKit(kit)
    with looping(warm, LOOP_IN_C if ending == "SIGKILL" else WITH_OTHERS) as sock:  # a killed server cannot end what a run has started
        if ending == "lifeline":
            warm.process.stdin.close()
        else:
            os.kill(warm.process.pid, getattr(signal, ending))
        assert warm.gone() and warm.process.returncode == (-signal.SIGKILL if ending == "SIGKILL" else 0)
        sock.settimeout(PATIENCE)
        while sock.recv(1 << 16):
            pass  # its client notices the end
    warm.close()


@pytest.mark.parametrize("in_worker, text", [(False, WITH_OTHERS), (True, "while True: pass")], ids=["local", "worker"])
def test_a_client_that_disconnects_stops_its_run(kit, in_worker, text):
    """A sandboxed worker cannot start other processes."""
    warm = WarmKit(kit)
    looping(warm, text, in_worker).close()
    assert warm.quiet() and warm.alive
    write_softmax(kit)
    assert set(warm.ask().outcomes["softmax"]) == {"passed"}
    warm.close()
    assert warm.gone()


def test_an_idle_server_ends_but_not_while_it_is_used(kit):
    warm = WarmKit(kit, "--idle", "1")
    write_softmax(kit, "import time; time.sleep(0.2)")
    assert set(warm.ask().outcomes["softmax"]) == {"passed"}  # which takes longer than that
    caller = socket.create_connection(("127.0.0.1", warm.address.port))  # not a job
    assert warm.gone() and warm.process.returncode == 0
    caller.close()
    warm.close()


STARTER = """
import os, sys
from grader.processes.client import ServerProcess
server = ServerProcess()
if sys.argv[1] == "ready":
    server.address()
print(server.process.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("when", ["loading", "ready"])
def test_a_server_ends_when_the_process_that_started_it_ends(kit, when):
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, when], cwd=kit.root, env=kit.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )  # fmt: skip
    server = int(starter.stdout.readline())
    starter.kill()
    starter.wait()
    assert until(lambda: not alive(server))
    starter.stdin.close()
    starter.stdout.close()


WHY_NOT = """
from grader.processes.client import NoServer, ServerProcess
try: ServerProcess().address()
except NoServer as problem: print(problem)
"""


def test_a_server_that_cannot_start_gives_a_message(kit, tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')")
    environment = kit.environment(PYTHONPATH=os.pathsep.join([str(kit.root), str(tmp_path)]))
    done = subprocess.run([sys.executable, "-c", WHY_NOT], cwd=kit.root, env=environment, capture_output=True, text=True, timeout=PATIENCE * 2)
    assert (done.stdout, done.stderr) == ("torch is not installed for this Python; `headway doctor` says what to do\n", "")


def test_tests_that_cannot_be_loaded_are_named(kit):
    """Other exercises are still tested."""
    with (kit.root / "tests" / f"test_{CHAPTER}.py").open("a") as suite:
        suite.write("\ndef test_(:\n")
    warm = WarmKit(kit)
    assert f"the tests in test_{CHAPTER}.py cannot be loaded (SyntaxError: " in warm.ask().trouble
    assert set(warm.ask("TokenEmbedding").outcomes["TokenEmbedding"]) == {"todo"}
    warm.close()
    (kit.root / "tests" / f"test_{CHAPTER}.py").write_text("")
    warm = WarmKit(kit)
    assert warm.ask().trouble == "there are no tests for softmax in tests/"
    warm.close()
