"""What the tested code prints, so that a failure can show it."""

from __future__ import annotations

import contextlib
import errno
import io
import os
from collections.abc import Iterator

# characters in one example: code that prints without end is stopped, and must not fill the memory
MOST_WRITTEN, MOST_KEPT = 1 << 26, 1 << 20


class Printed:
    """Collects what is printed while a test runs. This one collects nothing and leaves the output where it goes."""

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        yield

    def drop(self) -> None:
        """Forget what has been printed: an example begins."""

    @property
    def text(self) -> str:
        """What has been printed since."""
        return ""


class PrintedLines(Printed):
    """Takes the place of `sys.stdout` and `sys.stderr`; the text is that of `sys.stdout`."""

    def __init__(self) -> None:
        self.file = _Bounded()

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        self.file = _Bounded()
        with contextlib.redirect_stdout(self.file), contextlib.redirect_stderr(_Bounded()):
            yield

    def drop(self) -> None:
        self.file.empty()
        self.file.written = 0

    @property
    def text(self) -> str:
        return self.file.getvalue()


class _Bounded(io.StringIO):
    """The end of what was written to it."""

    written = 0  # characters

    def write(self, text: str) -> int:
        self.written += len(text)
        if self.written > MOST_WRITTEN:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        if self.tell() + len(text) > MOST_KEPT:
            text_kept = (self.getvalue() + text)[-MOST_KEPT // 2 :]
            self.empty()
            super().write(text_kept)
            return len(text)
        return super().write(text)

    def empty(self) -> None:
        self.seek(0)
        self.truncate()
