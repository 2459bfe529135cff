"""The server that `headway check` leaves for the next one: only its user reaches it, there is one at most, it ends."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from linux_processes import alive, command_line
from warm_runs import until, write_softmax

stays_here = sys.platform.startswith("linux") and hasattr(os, "pidfd_open")
pytestmark = pytest.mark.skipif(not stays_here, reason="servers stay on Linux only")


class Terminal:
    """A session in which commands run one after the other, as in a terminal."""

    def __init__(self, kit):
        self.kit, self.file = kit, kit.root / "exercises" / ".headway" / "server.json"
        environment = {name: value for name, value in kit.environment().items() if name != "PYTEST_VERSION"}
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.shell = subprocess.Popen(["bash"], cwd=kit.root, env=environment, start_new_session=True, **pipes)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shell.stdin.close()
        self.shell.wait()
        self.shell.stdout.close()

    def run(self, command, before=""):
        """What it prints, and its exit status."""
        line = f"{before} {sys.executable} -m grader.cli.main {command} 2>&1; status=$?; echo; echo END $status\n"
        self.shell.stdin.write(line)
        self.shell.stdin.flush()
        lines = []
        while not (lines and lines[-1].startswith("END ")):
            lines.append(self.shell.stdout.readline())
            assert lines[-1], "the shell has ended"
        return " ".join("".join(lines[:-1]).split()), int(lines[-1].split()[1])

    @property
    def server(self):
        try:
            return json.loads(self.file.read_text())["pid"]
        except (OSError, ValueError):
            return None


def servers_of(kit):
    """The processes of servers that run in this copy of the kit, without those of their runs."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and "--stay" in command_line(int(entry)):
            try:
                is_ours = os.readlink(f"/proc/{entry}/cwd") == str(kit.root)
                parent = open(f"/proc/{entry}/stat").read().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if is_ours and "--stay" not in command_line(int(parent)):
                found.append(int(entry))
    return found


def test_the_next_check_uses_the_same_server_and_sees_the_new_code(kit):
    with Terminal(kit) as terminal:
        write_softmax(kit, "return x")
        said, status = terminal.run("check softmax")
        assert status == 1 and "FAILED" in said
        first = terminal.server
        assert first and oct(terminal.file.stat().st_mode & 0o777) == "0o600"
        write_softmax(kit)
        said, status = terminal.run("check softmax")
        assert status == 0 and "FAILED" not in said
        assert terminal.server == first and servers_of(kit) == [first]
        said, _ = terminal.run("doctor")
        assert f"a server waits for your next `headway check` (process {first})" in said


def test_it_ends_with_the_session_and_leaves_no_file(kit):
    with Terminal(kit) as terminal:
        terminal.run("check softmax")
        server = terminal.server
        assert alive(server)
    assert until(lambda: not servers_of(kit)) and until(lambda: not terminal.file.exists())


def test_stop_ends_it(kit):
    with Terminal(kit) as terminal:
        terminal.run("check softmax")
        server = terminal.server
        assert terminal.run("stop") == ("The server has ended.", 0)
        assert until(lambda: not alive(server))
        assert terminal.run("stop") == ("No server runs for this folder.", 0)


def test_a_changed_kit_starts_another(kit):
    with Terminal(kit) as terminal:
        terminal.run("check softmax")
        first = terminal.server
        with open(kit.root / "solutions" / "ch03_attention.py", "a", encoding="utf-8") as file:
            file.write("\n# a new line\n")
        terminal.run("check softmax")
        second = terminal.server
        assert until(lambda: servers_of(kit) == [second]) and second != first


def test_a_check_with_other_variables_does_not_use_it(kit):
    with Terminal(kit) as terminal:
        (kit.root / "exercises" / "ch03_attention.py").write_text(
            'import os\n\nprint("AT HOME IN", os.environ["HOME"])\nraise RuntimeError(os.environ["HOME"])\n'
        )
        assert "/first" in terminal.run("check softmax", before="HOME=/first")[0]
        first = terminal.server
        said, _ = terminal.run("check softmax", before="HOME=/second")
        assert "/second" in said and "/first" not in said
        assert servers_of(kit) == [first] and terminal.server == first


def test_one_whose_file_is_gone_ends(kit):
    with Terminal(kit) as terminal:
        write_softmax(kit)
        terminal.run("check softmax")
        first = terminal.server
        terminal.file.unlink()
        assert terminal.run("check softmax")[1] == 0
        second = terminal.server
        assert second != first and until(lambda: servers_of(kit) == [second], 90)


def test_nothing_stays_in_a_session_whose_first_process_has_ended(kit):
    write_softmax(kit)
    environment = {name: value for name, value in kit.environment().items() if name != "PYTEST_VERSION"}
    wait = "while grep -q 'State:.[^Z]' /proc/$$/status; do sleep 0.1; done"  # until the session has ended
    run = subprocess.run(
        ["bash", "-c", f"({wait}; {sys.executable} -m grader.cli.main check softmax; echo END $?) & exit"],
        cwd=kit.root, env=environment, start_new_session=True, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert "END 0" in run.stdout and not servers_of(kit)


def test_a_pipe_is_closed_when_the_check_ends(kit):
    with Terminal(kit) as terminal:
        said, _ = terminal.run("check softmax 2>&1 | cat")
        assert "Next: write `softmax`" in said and alive(terminal.server)


def test_a_killed_server_costs_nothing_but_time(kit):
    with Terminal(kit) as terminal:
        write_softmax(kit)
        assert terminal.run("check softmax")[1] == 0
        os.kill(terminal.server, signal.SIGKILL)
        assert until(lambda: not servers_of(kit))
        assert terminal.run("check softmax")[1] == 0


def test_two_checks_at_once_leave_one_server(kit):
    write_softmax(kit)
    with Terminal(kit) as one, Terminal(kit) as other, ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda terminal: terminal.run("check softmax"), (one, other)))
        assert [status for _, status in results] == [0, 0]
        assert until(lambda: servers_of(kit) == [one.server])
    assert until(lambda: not servers_of(kit))


@pytest.mark.parametrize("spoil", ["mode", "link", "text"])
def test_a_file_that_others_could_have_written_is_not_believed(kit, spoil, tmp_path):
    with Terminal(kit) as terminal:
        write_softmax(kit)
        terminal.run("check softmax")
        first, text = terminal.server, terminal.file.read_text()
        if spoil == "mode":
            terminal.file.chmod(0o644)
        elif spoil == "link":
            (tmp_path / "elsewhere").write_text(text)
            terminal.file.unlink()
            terminal.file.symlink_to(tmp_path / "elsewhere")
        else:
            terminal.file.write_text("[1")
        assert terminal.run("check softmax")[1] == 0
        second = terminal.server
        assert second != first and until(lambda: servers_of(kit) == [second], 90)


def test_a_check_works_where_no_server_can_stay(kit):
    write_softmax(kit)
    (kit.root / "exercises" / ".headway" / "server.lock").mkdir(parents=True)
    with Terminal(kit) as terminal:
        assert terminal.run("check softmax")[1] == 0 and not servers_of(kit)


def test_under_pytest_nothing_stays(kit):
    write_softmax(kit)
    kit.run("check", "softmax")
    assert servers_of(kit) == [] and not (kit.root / "exercises" / ".headway" / "server.json").exists()
