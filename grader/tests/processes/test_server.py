"""`headway check` through the server equals `headway check`: the same words, record and exit status; without a server it works alone."""

import json
import os
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from grader.processes.client import NoServer
from grader.processes.job import read
from grader.verdict.summary import Verdict
from warm_runs import CHAPTER, WarmKit, checked, until, write_softmax

pytestmark = [pytest.mark.alone, pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the server forks on Linux only, and /proc is Linux's")]

WRONG = "x = x * 2"
CASES = {
    "failing, in colour": (WRONG, "", "softmax", {"FORCE_COLOR": "1", "COLUMNS": "100"}),
    "a syntax error": ("", "def softmax(:", "softmax", {}),
    "a stub": ("", "", "attention_map", {}),
}


def was_asked(warm, kit, name="softmax"):
    """Did the server answer this check? Its runs are its children, and the check's own process loads no torch."""
    command = [sys.executable, "-X", "importtime", "-m", "grader.cli", "check", name]
    done = subprocess.run(command, cwd=kit.root, env=kit.environment(), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return "| torch\n" not in done.stderr and warm.alive


@pytest.mark.parametrize("case", CASES)
def test_the_server_of_a_watch_prints_what_a_check_alone_prints(warm, case):
    body, top, name, environment = CASES[case]
    write_softmax(warm.kit, body, top)
    aside = warm.file.with_suffix(".aside")
    through_server = checked(warm.kit, name, **environment)
    warm.file.rename(aside)
    alone = checked(warm.kit, name, **environment)
    aside.rename(warm.file)
    assert through_server == alone


def test_a_check_uses_the_server_whatever_options_pytest_would_get(warm):
    write_softmax(warm.kit)
    assert was_asked(warm, warm.kit)
    assert warm.kit.run("check", "softmax", PYTEST_ADDOPTS="--nonsense") == warm.kit.run("check", "softmax")


def test_two_runs_at_once_both_come_out_right(warm):
    write_softmax(warm.kit, "import time; time.sleep(0.01)")
    with ThreadPoolExecutor() as pool:
        softmax, mask = pool.map(warm.ask, ["softmax", "causal_mask"])
    assert set(softmax.outcomes["softmax"]) == set(mask.outcomes["causal_mask"]) == {"passed"}
    assert list(softmax.outcomes) == ["softmax"] and list(mask.outcomes) == ["causal_mask"]


def test_the_address_is_for_this_user_only(warm):
    assert warm.file.stat().st_mode & 0o777 == 0o600
    assert json.loads(warm.file.read_text())["pid"] == warm.process.pid


def test_silent_or_invalid_callers_harm_no_other_run(warm):
    write_softmax(warm.kit)
    where = ("127.0.0.1", warm.address.port)
    callers = [socket.create_connection(where) for _ in range(20)]
    token = warm.address.token
    nonsense = [b"\n", b"GET / HTTP/1.0\r\n\r\n", b"x" * (1 << 20), b"[" * 5000 + b"\n", b'{"token": "wrong", "job": {}}\n', b"\xff\xfe\n"]
    for job in ("{}", "7", '{"name": 1}', '{"name": "softmax", "cwd": "/", "columns": "x", "colour": false, "in_worker": false}'):
        nonsense.append(f'{{"token": "{token}", "job": {job}}}\n'.encode())
    for caller, words in zip(callers, nonsense):
        try:
            caller.sendall(words)
        except OSError:
            pass  # it has disconnected in the middle, as it should
    silent = warm.address.ask(warm.job())  # it never reads
    assert set(warm.ask().outcomes["softmax"]) == {"passed"}
    for caller in callers:
        caller.settimeout(30)
        try:
            assert caller.recv(100) == b""  # the server does not wait for silent callers either
        except ConnectionError:
            pass
        caller.close()
    silent.close()
    assert warm.alive and warm.quiet()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"port": 1}', "null", '{"port": "x", "token": 1, "pid": []}'])
def test_a_file_that_is_not_an_address_is_removed(kit, content):
    write_softmax(kit)
    path = kit.exercises / ".headway" / "engine.json"
    path.parent.mkdir()
    path.write_text(content)
    assert "Everything" not in kit.run("hint", "softmax")  # other commands ignore it
    command = [sys.executable, "-c", "from grader.processes.client import find_running_server; print(find_running_server())"]
    answer = subprocess.run(command, cwd=kit.root, env=kit.environment(), capture_output=True, text=True)
    assert answer.stdout == "None\n" and not path.exists()


def test_a_port_that_another_program_uses_now(kit):
    write_softmax(kit)
    path = kit.exercises / ".headway" / "engine.json"
    path.parent.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as other, ThreadPoolExecutor() as pool:
        path.write_text(json.dumps({"port": other.getsockname()[1], "token": "t", "pid": 1}))

        def answer():
            caller, _ = other.accept()
            with caller:
                caller.recv(1000)
                caller.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

        answering = pool.submit(answer)
        assert " passed" in kit.run("check", "softmax")
        answering.result()
    assert not path.exists()


@pytest.mark.thorough
def test_the_server_of_a_changed_kit_does_not_answer(kit):
    write_softmax(kit)
    warm = WarmKit(kit)
    assert set(warm.ask().outcomes["softmax"]) == {"passed"}
    suite = kit.root / "tests" / f"test_{CHAPTER}.py"
    suite.write_text(suite.read_text() + "\n# changed\n")
    with pytest.raises(NoServer):
        warm.ask()
    assert warm.gone()
    warm.close()


@pytest.mark.thorough
def test_a_crashed_server_is_removed_and_a_read_only_folder_works(kit):
    write_softmax(kit)
    warm = WarmKit(kit)
    warm.process.kill()
    warm.process.wait()
    assert warm.file.exists()
    assert " passed" in kit.run("check", "softmax") and not warm.file.exists()
    warm.close()
    shutil.rmtree(warm.file.parent)
    warm.file.parent.write_text("a file where the folder should be")
    warm = WarmKit(kit)
    assert set(warm.ask().outcomes["softmax"]) == {"passed"} and not os.path.isdir(warm.file.parent)
    warm.close()
    assert until(lambda: not warm.descendants())


def test_the_tests_that_failed_last_time_run_first_and_the_first_failure_is_sent_at_once(warm):
    """The verdict is the same in any order."""
    write_softmax(warm.kit, "if x.isinf().any(): x = x * 0")
    usual = warm.ask()
    failed = tuple(test.name for test in usual.verdict.result("softmax").failures)
    assert 0 < len(failed) < 4
    messages = list(messages_of(warm, first=failed))
    kinds = [(kind, message[kind]) for message in messages for kind in ("begun", "failed", "verdict") if kind in message]
    first = usual.verdict.result("softmax").failures[0]
    assert kinds[0] == ("begun", first.name) and [words for kind, words in kinds if kind == "failed"] == [first.message]
    assert [kind for kind, _ in kinds].index("failed") < [kind for kind, _ in kinds].index("verdict")
    again = Verdict.from_data(kinds[-1][1])
    for verdict in (again, usual.verdict):
        for test in verdict.result("softmax").tests:
            test.seconds = 0.0
    assert again == usual.verdict


def messages_of(warm, first):
    with warm.address.ask(replace(warm.job(), first=first)) as sock:
        yield from read(sock)
