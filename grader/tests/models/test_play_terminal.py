"""`headway play` as a process, in a pseudo-terminal and with pipes; and texts that are broken between words, also while they are being written."""

from __future__ import annotations

import subprocess
import sys

import pexpect
import pytest
from grader.console.output import WordWrap
from kit_copy import Kit, posix
from rich.cells import cell_len

SECONDS = 120


def piped(kit: Kit, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "grader.cli", "play", *arguments]
    return subprocess.run(command, cwd=kit.root, env=kit.environment(), input=text, capture_output=True, text=True, encoding="utf-8")


def test_a_pipe_gets_texts(kit_with_model):
    done = piped(kit_with_model, "/tempo 1\nthe cat sat\n")
    assert done.returncode == 2 and done.stdout.startswith("The cat sat") and done.stdout.count("\n") == 1
    assert "tiny: a GPT of 2 layers, 2 heads and" in done.stderr and "Your own code: none of the" in " ".join(done.stderr.split())
    assert "did you mean /temperature?" in done.stderr
    without = piped(kit_with_model, "the cat sat\n", "--no-cache")
    assert without.returncode == 0 and without.stdout == done.stdout


@posix
@pytest.mark.alone
def test_a_person_types_stops_a_text_and_leaves(kit_with_model):
    kit: Kit = kit_with_model
    child = pexpect.spawn(sys.executable, ["-m", "grader.cli", "play"], cwd=str(kit.root), env=kit.environment(), dimensions=(30, 90), encoding="utf-8", timeout=SECONDS)
    child.logfile_read = log = Log()
    child.expect("lists the commands")
    child.send("/length 10000\r/temperature 0\r")
    child.expect("temperature is 0")
    child.send("the cat\r")
    child.expect(r"( \w+)\1\1\1")
    child.send("\x03")
    child.expect("Stopped. Enter goes on")
    child.send("/why\r")
    child.expect("next token")
    child.send("/temperature 0.5\r")
    child.expect("temperature is 0.5")
    child.send("\x1b[A\r")  # the last line again
    child.expect("temperature is 0.5")
    child.send("\x03")
    child.expect("Control-D or /quit ends")
    child.send("/wy\r")
    child.expect("did you mean /why")
    child.send("\x04")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0 and "Traceback" not in log.text


class Log:
    text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


# ---- breaking between words


TEXT = "Mia had a red ball. She lost it in the tall grass,\nand then 小さな猫 found it again. Unbelievably, it was dry."


def printed(width: int, pieces: list[str]) -> str:
    wrap = WordWrap(width)
    return "".join(map(wrap.feed, pieces))


def pieces_of(text: str) -> list[str]:
    """As a model writes: each word with the space before it."""
    return ["".join(part) for part in zip(["", *" " * text.count(" ")], text.split(" "))]


@pytest.mark.parametrize("width", [14, 20, 37, 80])
def test_lines_break_between_words_and_no_word_is_lost(width):
    got = printed(width, pieces_of(TEXT))
    assert got.split() == TEXT.split()
    assert max(map(cell_len, got.split("\n"))) <= width
    assert all(line == line.strip() for line in got.split("\n"))


def test_a_word_that_comes_in_pieces_stays_whole_where_it_fits():
    assert printed(20, ["the un", "believ", "able", " story"]) == "the unbelievable\nstory"


def test_a_word_that_is_longer_than_the_line_is_printed_as_it_is():
    assert printed(8, ["a", " extraordinary", " cat"]) == "a\nextraordinary\ncat"
