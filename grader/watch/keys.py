"""Reads the keyboard one key at a time: a key is its character, or a name such as "up" or "enter"."""

from __future__ import annotations

import codecs
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

_NAMED = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace", "\x1b": "escape", "\x03": "interrupt"}
_NAMED |= {"\x04": "q", "\x0c": "redraw"}
_SEQUENCES = {"A": "up", "B": "down", "5~": "page up", "6~": "page down", "H": "home", "F": "end"}
_SEQUENCES |= {"1~": "home", "4~": "end"}
_WINDOWS = {"H": "up", "P": "down", "I": "page up", "Q": "page down", "G": "home", "O": "end"}


class Keyboard:
    """Reads keys in its own thread while it is open; calls `on_key(None)` when the terminal is closed."""

    def __init__(self, on_key: Callable[[str | None], None]) -> None:
        self.on_key = on_key
        self.reading = threading.Event()
        self.idle = threading.Event()
        self.closed = False
        self._before: list | None = None
        read_keys = self._posix if os.name == "posix" else self._windows
        threading.Thread(target=read_keys, name="headway keys", daemon=True).start()

    def open(self) -> None:
        """Deliver each key when it is pressed, without echo."""
        if os.name == "posix":
            import termios
            import tty

            with contextlib.suppress(termios.error, ValueError):
                before = termios.tcgetattr(sys.stdin)
                tty.setcbreak(sys.stdin, termios.TCSANOW)
                self._before = self._before or before
        self.idle.clear()
        self.reading.set()

    def close(self) -> None:
        """Restore the terminal settings, and read nothing until the keyboard is opened again."""
        self.reading.clear()
        self.idle.wait(0.5)
        if self._before is not None:
            import termios

            with contextlib.suppress(termios.error, ValueError):
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Let another program, such as an editor, use the keyboard."""
        self.close()
        try:
            yield
        finally:
            self.open()

    def _posix(self) -> None:
        import select

        descriptor, decoder = sys.stdin.fileno(), codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            if not self.reading.is_set():
                self.idle.set()
                self.reading.wait()
            try:
                if not select.select([descriptor], [], [], 0.1)[0] or not self.reading.is_set():
                    continue
                data = os.read(descriptor, 1024)
            except OSError:
                data = b""
            if not data:
                self.on_key(None)
                return
            for key in parse_keys(decoder.decode(data)):
                self.on_key(key)

    def _windows(self) -> None:
        if sys.platform != "win32":
            return
        import msvcrt

        while True:
            if not self.reading.is_set():
                self.idle.set()
                self.reading.wait()
            if not msvcrt.kbhit():
                time.sleep(0.02)
                continue
            character = msvcrt.getwch()
            is_special = character in "\x00\xe0"
            self.on_key(_WINDOWS.get(msvcrt.getwch(), "") if is_special else _NAMED.get(character, character))


def parse_keys(text: str) -> Iterator[str]:
    """Split what a terminal sends into keys: an arrow arrives as several characters."""
    while text:
        if text[0] == "\x1b" and text[1:2] in ("[", "O"):
            end = next((i for i, c in enumerate(text[2:], start=2) if c.isalpha() or c == "~"), len(text) - 1)
            yield _SEQUENCES.get(text[2 : end + 1], "")
            text = text[end + 1 :]
        else:
            yield _NAMED.get(text[0], text[0])
            text = text[1:]
