"""A web server for this machine only: what the book and `headway play --web` have in common."""

from __future__ import annotations

import os
import sys
import webbrowser
from http.server import ThreadingHTTPServer

from grader.console.output import command_line, make_console, print_wrapped

HOST = "127.0.0.1"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class LocalServer(ThreadingHTTPServer):
    """Bind it to (HOST, port); port 0 is any free one. OSError if the port is in use."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors: a reader may close the connection in the middle of a page."""


def is_own_host(name: str | None) -> bool:
    """Whether a request's Host names this machine. Others are refused: a page elsewhere can point its name at it."""
    return (name or "").rsplit(":", 1)[0] in (HOST, "localhost")


def open_browser(address: str) -> bool:
    """Open a browser that has its own window; a browser inside this terminal would hide the server's output."""
    windows = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not windows and not os.environ.get("BROWSER"):
        return False
    try:
        return webbrowser.open(address)
    except (webbrowser.Error, OSError):
        return False


def print_address(address: str, what: str, opened: bool, purpose: str) -> None:
    """Say where the page is: "The book" is open, or to "read the book" the reader opens the address."""
    console = make_console()
    opening = f"{what} is open in your browser, at" if opened else f"To {purpose}, open this address in a browser:"
    print_wrapped(console, opening)
    console.print(command_line(address), soft_wrap=True)
    print_wrapped(console, "Press Control-C to stop.", style="dim")
