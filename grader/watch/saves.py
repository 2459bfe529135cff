"""Detects saves of chapters: by file system events, or by polling where there are no events."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from watchfiles import watch

MAX_SAVE_MS = 100  # in which the events of one save are joined
QUIET_MS = 5  # after which a save is over
POLL_WITH_EVENTS_MS = 1000
POLL_SECONDS = 0.3  # where no events arrive
MAX_MISSED_SAVES = 2  # after which events are given up

NO_EVENTS = "The drive of this folder reports no file changes, so Headway checks your files three times a second."

State = dict[str, tuple[int, int, int]]


class SaveWatcher:
    """Calls `on_save` with the names of the files that changed, and `on_notice` once if it has to poll."""

    def __init__(self, folder: Path, on_save: Callable[[set[str]], None], on_notice: Callable[[str], None]) -> None:
        self.folder, self.on_save, self.on_notice = folder, on_save, on_notice
        self.stop = threading.Event()
        self.state = self._read_times()
        self.thread = threading.Thread(target=self._run, name="headway saves", daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.stop.set()
        self.thread.join(2)

    def _run(self) -> None:
        if not os.environ.get("WATCHFILES_FORCE_POLLING"):
            try:
                self._wait_for_events()
            except (OSError, RuntimeError):  # no events: too many watchers, or a file system without them
                pass
        if not self.stop.is_set():
            self.on_notice(NO_EVENTS)
            while not self.stop.wait(POLL_SECONDS):
                self._report_changes()

    def _wait_for_events(self) -> None:
        """Report saves as events arrive, until polling finds saves that gave no event."""
        missed = 0
        for changes in watch(
            self.folder, stop_event=self.stop, watch_filter=None, recursive=False, force_polling=False,
            debounce=MAX_SAVE_MS, step=QUIET_MS, rust_timeout=POLL_WITH_EVENTS_MS, yield_on_timeout=True,
            raise_interrupt=False,
        ):  # fmt: skip
            if self._report_changes():
                missed = 0 if changes else missed + 1
            if missed >= MAX_MISSED_SAVES:
                return

    def _report_changes(self) -> bool:
        before, self.state = self.state, self._read_times()
        names = {name for name in before.keys() | self.state.keys() if before.get(name) != self.state.get(name)}
        if names:
            self.on_save(names)
        return bool(names)

    def _read_times(self) -> State:
        found: State = {}
        for path in self.folder.glob("ch[0-9][0-9]_*.py"):
            try:
                status = path.stat()
            except OSError:
                continue
            found[path.name] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return found
