"""Detects forbidden functions while the code runs: passes the name of each operator or function that runs to the active
watches. `shortcuts.py` activates them."""

from __future__ import annotations

from collections.abc import Callable

Notice = Callable[[str], None]


class Watch:
    """Calls `notice` once for each of these names that is reported, from any thread."""

    def __init__(self, names: frozenset[str], notice: Notice, importing: bool) -> None:
        self.names, self.notice, self.importing = names, notice, importing
        self.seen: set[str] = set()


watches: list[Watch] = []  # the active ones


def report(name: str, at_import: bool = False) -> None:
    """Report that something with this name is about to run. While a chapter is imported, it counts only if its result
    could be used later."""
    for watch in tuple(watches):
        if name in watch.names and name not in watch.seen and (at_import or not watch.importing):
            watch.seen.add(name)
            watch.notice(name)
