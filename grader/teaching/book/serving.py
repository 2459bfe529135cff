"""Serve the built book on this machine only, until Control-C, with the reader's progress beside it.

The built book has an empty live.js. The server answers with served/live.js for it, and that script reads progress.json.
"""

from __future__ import annotations

import hashlib
import os
import sys
import webbrowser
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

from grader.teaching.book.progress import Progress

HOST = "127.0.0.1"
LIVE = Path(__file__).parent / "served" / "live.js"
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class _Handler(SimpleHTTPRequestHandler):
    """Serves the book's files and the progress, and nothing else: no folder listings, and no line in the terminal for each request."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments: Any, progress: Progress, **more: Any) -> None:
        self._progress = progress
        super().__init__(*arguments, **more)

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def list_directory(self, path: str | os.PathLike[str]) -> None:
        self.send_error(404, "No such page")

    def send_head(self):  # noqa: ANN201 - a file or None, as the class it comes from says
        """Refuse requests with another host name, which a page elsewhere could have pointed at this machine."""
        if (self.headers.get("Host") or "").rsplit(":", 1)[0] not in (HOST, "localhost"):
            self.send_error(403, "This book is read at 127.0.0.1")
            return None
        match self.path.partition("?")[0]:
            case "/progress.json":
                return self._send(self._progress.read(), "application/json")
            case "/live.js":
                return self._send(LIVE.read_bytes(), "text/javascript")
        return super().send_head()

    def _send(self, body: bytes, kind: str) -> BytesIO | None:
        """Send what is not a file of the book; nothing if the page has it already."""
        tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
        fresh = self.headers.get("If-None-Match") != tag
        self.send_response(200 if fresh else 304)
        self.send_header("ETag", tag)
        if fresh:
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return BytesIO(body) if fresh else None

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors: a reader may close the connection in the middle of a page."""


def make_server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """Make a server of `folder`, bound to the port, or to any free one. OSError if the port is in use."""
    return _Server((HOST, port), partial(_Handler, directory=str(folder), progress=Progress()))


def book_address(serving: ThreadingHTTPServer, page: str = "") -> str:
    return f"http://{HOST}:{serving.server_address[1]}/{page}"


def open_browser(address: str) -> bool:
    """Open a browser that has its own window; a browser inside this terminal would hide the server's output."""
    windows = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not windows and not os.environ.get("BROWSER"):
        return False
    try:
        return webbrowser.open(address)
    except (webbrowser.Error, OSError):
        return False
