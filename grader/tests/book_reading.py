"""`headway book` in a process of its own, as a person runs it, and requests to it."""

from local_pages import PATIENCE, get, serving

__all__ = ["PATIENCE", "get", "reading"]


def reading(kit, *arguments, browser="", until="Press Control-C to stop."):
    """`headway book` in a separate process: (process, its output), once it has printed `until`."""
    return serving(kit, "book", *arguments, browser=browser, until=until)
