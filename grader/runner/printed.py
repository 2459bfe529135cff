"""What the tested code prints, so that a failure can show it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator

MOST_CHARACTERS = 1 << 20  # kept of one example; code that prints without end must not fill the memory


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
        self.file.seek(0)
        self.file.truncate()

    @property
    def text(self) -> str:
        return self.file.getvalue()


class _Bounded(io.StringIO):
    """The end of what was written to it."""

    def write(self, text: str) -> int:
        if self.tell() + len(text) > MOST_CHARACTERS:
            kept = (self.getvalue() + text)[-MOST_CHARACTERS // 2 :]
            self.seek(0)
            self.truncate()
            super().write(kept)
            return len(text)
        return super().write(text)
