"""Serve the built book on this machine only, until Control-C, with the reader's progress beside it.

The built book has an empty live.js. The server answers with served/live.js for it, and that script reads progress.json.
"""

from __future__ import annotations

import hashlib
import os
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

from grader.console.local_server import HOST, POLICY, LocalServer, is_own_host
from grader.teaching.book.progress import Progress

LIVE = Path(__file__).parent / "served" / "live.js"


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
        """Answer with the progress, the script that shows it, or a file of the book."""
        if not is_own_host(self.headers.get("Host")):
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


def make_server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """Make a server of `folder`, bound to the port, or to any free one. OSError if the port is in use."""
    return LocalServer((HOST, port), partial(_Handler, directory=str(folder), progress=Progress()))


def book_address(serving: ThreadingHTTPServer, page: str = "") -> str:
    return f"http://{HOST}:{serving.server_address[1]}/{page}"

