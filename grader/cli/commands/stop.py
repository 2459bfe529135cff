"""`headway stop`: ends the server that `headway check` has left running."""

from __future__ import annotations

from grader.console.output import make_console, print_wrapped
from grader.processes import kept_server

DONE = 0


def stop() -> int:
    """End the server that waits for your next check.

    `headway check`, `headway show` and notebooks start one, so that the next check takes tenths of a second. It ends by
    itself after ten minutes without use, and with the terminal."""
    ended = kept_server.stop()
    print_wrapped(make_console(), "The server has ended." if ended else "No server runs for this folder.")
    return DONE
