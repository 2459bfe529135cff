"""headway watch, on a real terminal."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from kit_copy import posix
from watching import RIGHT, SECONDS, STUB, WHOLE, headway_processes, nothing_remains, watching

pytestmark = [pytest.mark.alone, posix]


def test_a_session_from_stub_to_pass(kit):
    """Save, verdict, hint, save, verdict; nothing is advanced by itself, and quitting leaves nothing behind."""
    with watching(kit, "softmax") as terminal:
        first = terminal.wait("Write the code and save the file")
        assert first.startswith("softmax") and "Turn scores into weights" in first and "exercises/ch03_attention.py:" in first and "10 points" in first

        terminal.save("ch03_attention", STUB, WHOLE)
        failed = terminal.wait("The whole tensor sums to 1, where every slice along `dim` should.")
        assert "FAILED" in failed and "promised" in failed and "Traceback" not in failed

        terminal.press("h")
        assert "softmax, hint 1 of 3" in terminal.wait("hint 1 of 3")
        terminal.press("h")
        terminal.wait("hint 2 of 3")

        terminal.save("ch03_attention", "exps.sum()", "exps.sum(dim, keepdim=True)")
        passed = terminal.wait("softmax works: all 8 tests pass.")
        assert "10/10 points" in passed and "Next: causal_mask (press n)" in passed and "hint 2 of 3" not in passed
        assert "softmax 10/10" in (kit.exercises / "progress.txt").read_text()

        terminal.press("r")
        terminal.verdict()
        assert terminal.frame.startswith("softmax")
        terminal.press("n")
        assert terminal.wait("causal_mask 3 Attention").startswith("causal_mask")
        terminal.press("q")
        assert terminal.ended == 0
        left = terminal.raw.rpartition("\x1b[H")[2]
        assert "\x1b[?25h\x1b[?1049lcausal_mask: " in left
    assert nothing_remains(kit)


@pytest.mark.thorough
def test_half_written_code_gives_one_line_and_waits(kit):
    with watching(kit, "softmax") as terminal:
        terminal.wait("Write the code and save the file")
        terminal.save("ch03_attention", STUB, "    return (x")
        waiting = terminal.wait("Waiting for the next save.")
        assert re.search(r"ch03_attention\.py, line \d+: .*never closed", waiting) and "Write the code and save the file" not in waiting
        assert re.search(r"\n +\d+ \|     return \(x\n {19}\^\n", waiting), "the line, and a caret below the parenthesis"
        terminal.save("ch03_attention", "    return (x", RIGHT)
        terminal.wait("softmax works")
        text = kit.file("ch03_attention").read_text()
        kit.file("ch03_attention").write_text("")
        terminal.wait("ch03_attention.py is empty. Waiting for the next save.")
        replaced = kit.exercises / "save.tmp"  # as most editors save: a new file replaces the old one
        replaced.write_text(text)
        os.replace(replaced, kit.file("ch03_attention"))
        assert "Waiting" not in terminal.wait(lambda frame: "softmax works" in frame and "empty" not in frame)
        kit.file("ch03_attention").unlink()
        terminal.wait("there is no file ch03_attention.py")


def test_the_watch_tests_the_function_that_was_changed_unless_it_is_pinned(kit):
    kit.edit("ch03_attention", STUB, RIGHT)
    with watching(kit, "ch03") as terminal:
        assert terminal.wait("softmax works").startswith("softmax")
        terminal.save("ch03_attention", STUB, "    return torch.zeros(T, T, dtype=torch.bool, device=device)")
        assert terminal.wait("You changed causal_mask, so it is tested now.").startswith("causal_mask")
        terminal.wait(lambda frame: "FAILED" in frame and "verdict after" in frame)
        terminal.press("p")
        assert "p unpin" in terminal.wait("Pinned to causal_mask")
        terminal.save("ch03_attention", "exps.sum(dim, keepdim=True)", "exps.sum()")
        said = "You changed softmax. The watch is pinned to causal_mask; press p to test `softmax`."
        frame = terminal.wait(said)
        os.utime(kit.file("ch03_attention"))  # the second step of an editor that writes in two
        time.sleep(0.5)
        assert said in " ".join(terminal.verdict().split())
        assert frame.startswith("causal_mask") and "softmax 10/10" in (kit.exercises / "progress.txt").read_text()
        terminal.press("p")
        assert terminal.wait("The whole tensor sums to 1").startswith("softmax")
        kit.solve("ch05_layers")
        assert terminal.wait("gelu works").startswith("gelu")


def only_the_watch(kit) -> bool:
    """Whether soon no process is left but the watch and its server."""
    deadline = time.monotonic() + SECONDS
    while (names := headway_processes(kit)) and len(names) != 2:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.thorough
def test_a_newer_save_stops_the_run_before(kit):
    with watching(kit, "softmax") as terminal:
        terminal.wait("Write the code and save the file")
        terminal.save("ch03_attention", STUB, "    while True:\n        x = x + 0")
        terminal.wait("testing: test_")
        terminal.press("h")
        assert "hint 1 of 3" in terminal.wait("hint 1 of 3")
        terminal.save("ch03_attention", "    while True:\n        x = x + 0", RIGHT)
        assert "did not end" not in terminal.wait("softmax works")
        assert only_the_watch(kit), "a run is left"
        terminal.save("ch03_attention", RIGHT, "    while True:\n        x = x + 0")
        terminal.wait("testing: test_")
        terminal.press("q")
        assert terminal.ended == 0
    assert nothing_remains(kit)


ENDINGS = {
    "import ctypes; ctypes.string_at(0)": "segmentation fault",
    "import os; os._exit(3)": "it exited with status 3",
    "import os; os.closerange(0, 256)": "",
    "print('x' * 1_000_000)": "printed",
    "import os, signal; os.kill(os.getppid(), signal.SIGKILL)": "",
}


@pytest.mark.thorough
def test_what_the_code_does_never_ends_the_watch(kit):
    """Each time there is a verdict with its sentence, and a right verdict after it."""
    with watching(kit, "softmax", rows=80) as terminal:
        terminal.wait("Write the code and save the file")
        terminal.save("ch03_attention", STUB, RIGHT)
        for code, sentence in ENDINGS.items():
            terminal.wait("softmax works")
            terminal.save("ch03_attention", RIGHT, f"    {code}\n    return x")
            terminal.wait(lambda frame, sentence=sentence: ("FAILED" in frame or "ERROR" in frame) and sentence in frame)
            terminal.save("ch03_attention", f"    {code}\n    return x", RIGHT)
        terminal.wait("softmax works")


@pytest.mark.thorough
def test_open_starts_the_editor_and_comes_back(kit, tmp_path):
    with watching(kit, "softmax", EDITOR="headway-test-editor", PATH=f"{tmp_path}:/usr/bin:/bin") as terminal:
        terminal.wait("Write the code and save the file")
        terminal.press("o")
        terminal.wait("your editor 'headway-test-editor' (from $VISUAL or $EDITOR) was not found")
        script = tmp_path / "headway-test-editor"
        script.write_text('#!/bin/sh\necho "editing $1" && read line\n')
        script.chmod(0o755)
        terminal.press("o")
        terminal.wait(lambda _: "editing " in terminal.raw and "ch03_attention.py" in terminal.raw.rpartition("editing ")[2])
        terminal.press("h\n")  # for the editor, and not for the watch
        terminal.wait(lambda _: "\x1b[?1049h" in terminal.raw.rpartition("editing ")[2])
        assert "hint 1" not in terminal.wait("Write the code and save the file")
        terminal.press("h")
        terminal.wait("hint 1 of 3")


@pytest.mark.thorough
def test_every_size_of_terminal(kit):
    kit.edit("ch03_attention", STUB, WHOLE)
    with watching(kit, "softmax") as terminal:
        terminal.wait("The whole tensor sums to 1")
        for rows, columns in ((60, 200), (3, 10), (14, 80)):
            terminal.child.setwinsize(rows, columns)
            width, height = max(columns, 30), max(rows, 8)
            terminal.wait(lambda frame, width=width, height=height: len(frame.split("\n")) == height and max(map(len, frame.split("\n"))) <= width)
        terminal.wait("more below; scroll with the arrow keys")
        terminal.press("\x1b[F")
        terminal.wait("So far:")


@pytest.mark.parametrize("how", ["control-c", "the terminal is closed", "SIGKILL"])
@pytest.mark.thorough
def test_nothing_remains_after_any_kind_of_end(kit, how):
    with watching(kit, "softmax") as terminal:
        terminal.wait("Write the code and save the file")
        if how.startswith("control"):
            terminal.child.sendcontrol(how[-1])
            assert terminal.ended == 0
        elif how == "SIGKILL":
            terminal.child.kill(signal.SIGKILL)
        else:
            os.close(terminal.child.child_fd)
            terminal.child.closed, terminal.child.child_fd = True, -1
        assert nothing_remains(kit)


@pytest.mark.thorough
def test_control_z_and_back(kit):
    """In a shell, which gives the terminal to the watch and takes it back."""
    with watching(kit, "softmax", shell=True) as terminal:
        terminal.wait("Write the code and save the file")
        terminal.child.sendcontrol("z")
        terminal.wait(lambda _: "Stopped" in terminal.raw)
        assert "\x1b[?1049l" in terminal.raw.rpartition("\x1b[H")[2]
        terminal.child.send("fg\r")
        terminal.wait(lambda _: "\x1b[H" in terminal.raw.rpartition("fg")[2])
        terminal.press("h")
        terminal.wait("hint 1 of 3")
        terminal.press("q")
        terminal.wait(lambda _: "not implemented yet, 0 of 10 points." in terminal.raw)
        terminal.child.send("echo status $?; exit\r")
        assert terminal.ended == 0 and "status 0" in terminal.raw


@pytest.mark.thorough
def test_without_a_terminal_it_prints_plain_lines(kit):
    command = [sys.executable, "-m", "grader.cli", "watch", "softmax"]
    with subprocess.Popen(command, cwd=kit.root, env=kit.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        lines = iter(process.stdout.readline, "")
        assert next(line for line in lines if "Write the code and save the file" in line)
        kit.edit("ch03_attention", STUB, "    return (x")
        assert "never closed" in next(line for line in lines if "Waiting for the next save" in line)
        kit.edit("ch03_attention", "    return (x", RIGHT)
        assert next(line for line in lines if "softmax works: all 8 tests pass." in line)
        assert next(line for line in lines if "Next: causal_mask (headway watch causal_mask)" in line)
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait() == 0 and "softmax: passed, 10 of 10 points." in rest and "\x1b" not in rest
    assert nothing_remains(kit)


@pytest.mark.thorough
def test_a_suite_that_cannot_be_loaded_is_one_sentence(kit):
    with (kit.root / "tests" / "test_ch03_attention.py").open("a") as suite:
        suite.write("def broken(:\n")
    with watching(kit, "softmax") as terminal:
        terminal.wait("cannot be loaded")
