"""How `headway tutor` begins and ends: its client leaves, it is killed, its package is missing."""

import json
import subprocess

import pytest
from kit_copy import posix
from linux_processes import descendants
from test_tutor_tools import CHAPTER, files_of, write
from tutoring import COMMAND, ask
from warm_runs import until

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}}


class Server:
    """A server whose standard input and output belong to the test."""

    def __init__(self, kit):
        self.process = subprocess.Popen(COMMAND, cwd=kit.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.send("initialize", HELLO, id=1)
        self.process.stdout.readline()
        self.send("notifications/initialized")

    def send(self, method, params=None, **more):
        message = {"jsonrpc": "2.0", "method": method, **({"params": params} if params else {}), **more}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()


def test_it_ends_when_its_client_leaves_and_prints_only_messages(module_kit):
    server = Server(module_kit)
    server.send("tools/call", {"name": "hint", "arguments": {"name": "causal_mask"}}, id=2)
    line = server.process.stdout.readline()
    rest, _ = server.process.communicate()
    assert server.process.returncode == 0
    messages = [json.loads(one) for one in [line, *rest.splitlines()]]
    assert [message["id"] for message in messages if "id" in message] == [2]
    assert "causal_mask, hint 1 of 3" in messages[0]["result"]["content"][0]["text"]


@posix
@pytest.mark.thorough
def test_killed_during_a_check_it_loses_nothing_and_the_next_one_goes_on(kit):
    kit.record(causal_mask=10.0)
    write(kit, "softmax", "while True: pass")
    ask(kit, ("hint", "softmax"))
    records = {path: path.read_bytes() for path in (kit.exercises / "progress.txt", kit.exercises / ".headway" / "hints.json")}
    before = files_of(kit)
    server = Server(kit)
    server.send("tools/call", {"name": "check", "arguments": {"name": "softmax"}}, id=2)
    assert until(lambda: len(descendants(server.process.pid)) > 2), "the check runs, with a server of its own"
    server.process.kill()
    server.process.communicate()
    assert files_of(kit) == before and {path: path.read_bytes() for path in records} == records
    kit.solve(CHAPTER)
    (verdict, _), (following, _) = ask(kit, ("check", "softmax"), ("hint", "softmax"))
    assert "softmax works" in verdict and "softmax, hint 2 of 3" in following
    assert "softmax 10/10" in (kit.exercises / "progress.txt").read_text()


def test_without_its_package_one_sentence_says_what_to_install(module_kit):
    blocked = module_kit.root / "without"
    blocked.mkdir()
    (blocked / "sitecustomize.py").write_text("import sys\nsys.modules['mcp'] = None\n")
    said = module_kit.run("tutor", status=2, PYTHONPATH=f"{blocked}:{module_kit.root}")
    assert said == 'headway: `headway tutor` needs mcp, which is not installed: run pip install -c constraints.txt -e ".[tutor]"\n'
