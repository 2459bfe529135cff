"""Serve the built book on this machine only, until Control-C."""

from __future__ import annotations

import os
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from grader.console.local_server import HOST, POLICY, LocalServer, is_own_host


class _Handler(SimpleHTTPRequestHandler):
    """Serves the book's files and nothing else: no folder listings, and no line for each request."""

    protocol_version = "HTTP/1.1"

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def list_directory(self, path: str | os.PathLike[str]) -> None:
        self.send_error(404, "No such page")

    def send_head(self):  # noqa: ANN201 - a file or None, as the class it comes from says
        if not is_own_host(self.headers.get("Host")):
            self.send_error(403, "This book is read at 127.0.0.1")
            return None
        return super().send_head()

    def log_message(self, *_: object) -> None:
        pass


def make_server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """Make a server of `folder`, bound to the port, or to any free one. OSError if the port is in use."""
    return LocalServer((HOST, port), partial(_Handler, directory=str(folder)))


def book_address(serving: ThreadingHTTPServer, page: str = "") -> str:
    return f"http://{HOST}:{serving.server_address[1]}/{page}"
