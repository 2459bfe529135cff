"""The keyboard, a key at a time: each is told as its character, or as a word such as "up" or "enter"."""

from __future__ import annotations

import codecs
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

_WORDS = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace", "\x1b": "escape", "\x03": "interrupt", "\x04": "q", "\x0c": "redraw"}
_SEQUENCES = {"A": "up", "B": "down", "5~": "page up", "6~": "page down", "H": "home", "F": "end", "1~": "home", "4~": "end"}
_WINDOWS = {"H": "up", "P": "down", "I": "page up", "Q": "page down", "G": "home", "O": "end"}


class Keyboard:
    """Reads keys in a thread of its own while it is open; `pressed(None)` when the terminal is gone."""

    def __init__(self, pressed: Callable[[str | None], None]) -> None:
        self.pressed = pressed
        self.listening = threading.Event()
        self.idle = threading.Event()
        self.closed = False
        self._before: list | None = None
        threading.Thread(target=self._posix if os.name == "posix" else self._windows, name="headway keys", daemon=True).start()

    def open(self) -> None:
        """Take keys as they are pressed, and print none of them."""
        if os.name == "posix":
            import termios
            import tty

            with contextlib.suppress(termios.error, ValueError):
                before = termios.tcgetattr(sys.stdin)
                tty.setcbreak(sys.stdin, termios.TCSANOW)
                self._before = self._before or before
        self.idle.clear()
        self.listening.set()

    def close(self) -> None:
        """Give the keyboard back as it was, and read nothing more until it is opened again."""
        self.listening.clear()
        self.idle.wait(0.5)
        if self._before is not None:
            import termios

            with contextlib.suppress(termios.error, ValueError):
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    @contextlib.contextmanager
    def lent(self) -> Iterator[None]:
        """Somebody else has the terminal for a while: an editor."""
        self.close()
        try:
            yield
        finally:
            self.open()

    def _posix(self) -> None:
        import select

        descriptor, decoder = sys.stdin.fileno(), codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            if not self.listening.is_set():
                self.idle.set()
                self.listening.wait()
            try:
                if not select.select([descriptor], [], [], 0.1)[0] or not self.listening.is_set():
                    continue
                data = os.read(descriptor, 1024)
            except OSError:
                data = b""
            if not data:
                self.pressed(None)
                return
            for key in keys(decoder.decode(data)):
                self.pressed(key)

    def _windows(self) -> None:
        if sys.platform != "win32":
            return
        import msvcrt

        while True:
            if not self.listening.is_set():
                self.idle.set()
                self.listening.wait()
            if not msvcrt.kbhit():
                time.sleep(0.02)
                continue
            character = msvcrt.getwch()
            self.pressed(_WINDOWS.get(msvcrt.getwch(), "") if character in "\x00\xe0" else _WORDS.get(character, character))


def keys(text: str) -> Iterator[str]:
    """What a terminal sends, as keys: an arrow comes as several characters."""
    while text:
        if text[0] == "\x1b" and text[1:2] in ("[", "O"):
            end = next((i for i, c in enumerate(text[2:], start=2) if c.isalpha() or c == "~"), len(text) - 1)
            yield _SEQUENCES.get(text[2 : end + 1], "")
            text = text[end + 1 :]
        else:
            yield _WORDS.get(text[0], text[0])
            text = text[1:]
