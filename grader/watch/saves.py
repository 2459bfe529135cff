"""Tells when a chapter has been saved: at once where the system sends events, by looking where it does not."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from watchfiles import watch

GATHER = 100  # milliseconds in which the steps of one save are taken together, at most
QUIET = 10  # milliseconds without a change, after which a save is over
LOOK = 1000  # milliseconds between looks of our own, while events come
LOOK_OFTEN = 0.3  # seconds between looks, where none do
MISSED = 2  # saves without an event before we believe that none will come

NO_EVENTS = "This folder's drive does not tell when a file is saved, so the files are looked at three times a second."

State = dict[str, tuple[int, int, int]]


class Saves:
    """Calls `saved` with the names of the files that changed; `word`, once, where that has to be found out by looking."""

    def __init__(self, folder: Path, saved: Callable[[set[str]], None], word: Callable[[str], None]) -> None:
        self.folder, self.saved, self.word = folder, saved, word
        self.stop = threading.Event()
        self.state = self._look()
        self.thread = threading.Thread(target=self._run, name="headway saves", daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.stop.set()
        self.thread.join(2)

    def _run(self) -> None:
        if not os.environ.get("WATCHFILES_FORCE_POLLING"):
            try:
                self._listen()
            except (OSError, RuntimeError):  # no events to be had: too many watchers, a file system without them
                pass
        if not self.stop.is_set():
            self.word(NO_EVENTS)
            while not self.stop.wait(LOOK_OFTEN):
                self._changed()

    def _listen(self) -> None:
        """Until events turn out not to come; a look of our own now and then finds out."""
        missed = 0
        for changes in watch(
            self.folder, stop_event=self.stop, watch_filter=None, recursive=False, force_polling=False,
            debounce=GATHER, step=QUIET, rust_timeout=LOOK, yield_on_timeout=True, raise_interrupt=False,
        ):  # fmt: skip
            if self._changed():
                missed = 0 if changes else missed + 1
            if missed >= MISSED:
                return

    def _changed(self) -> bool:
        before, self.state = self.state, self._look()
        names = {name for name in before.keys() | self.state.keys() if before.get(name) != self.state.get(name)}
        if names:
            self.saved(names)
        return bool(names)

    def _look(self) -> State:
        found: State = {}
        for path in self.folder.glob("ch[0-9][0-9]_*.py"):
            try:
                status = path.stat()
            except OSError:
                continue
            found[path.name] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return found
