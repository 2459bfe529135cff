"""A web server for this machine only: of the book, and of the pages of `headway play --web` and `headway chat --web`.

It serves the files that it is given, and answers what a page asks its api for. A page with an api has a token in its
address, so that nobody else on this machine can use it. No page makes a request to another address.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
import select
import socket
import sys
import webbrowser
from collections.abc import Callable, Collection, Generator, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

from grader.console.output import command_line, make_console, print_wrapped

HOST = "127.0.0.1"
MOST_REQUEST_BYTES = 1 << 20
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
Data = dict[str, Any]
Files = Mapping[str, Path | Callable[[], str]]  # by the end of the address; "" is the page itself


class WrongRequest(Exception):
    """The request is not one that the page sends; the message is a sentence."""


class PageApi(Protocol):
    """What a page can ask for. Each name is a method, which gets what `read` makes of the request's body."""

    @property
    def questions(self) -> Mapping[str, Collection[str]]:
        """Those with one answer, and the fields that a request may have."""

    @property
    def streams(self) -> Mapping[str, Collection[str]]:
        """Those that are answered by a generator of events."""

    def describe(self) -> Data: ...

    def read(self, body: bytes, fields: Collection[str]) -> Any: ...


class _Handler(BaseHTTPRequestHandler):
    """One request. The address of everything begins with the token; the rest is a file of the page or a question to the
    api."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "Headway", ""
    timeout = 60  # seconds that a browser may take to send a request or to read an answer
    disable_nagle_algorithm = True  # a token is sent at once

    def __init__(self, *arguments: Any, api: PageApi | None, files: Files, token: str, **more: Any) -> None:
        self._api, self._files, self._token = api, files, token
        super().__init__(*arguments, **more)

    # ---- who may ask

    def parse_request(self) -> bool:
        """Read the first lines of any request, and refuse it here if it does not come from the page."""
        if not super().parse_request():
            return False
        refusal = self._refusal()
        if refusal:
            self._refuse(403, refusal)
        return not refusal

    def _refusal(self) -> str | None:
        # a page elsewhere can point its own name at this machine
        if (self.headers.get("Host") or "").rsplit(":", 1)[0] not in (HOST, "localhost"):
            return "this page is read at 127.0.0.1"
        first = self.path.partition("?")[0].removeprefix("/").partition("/")[0]
        if self._token and not hmac.compare_digest(first.encode("utf-8", "replace"), self._token.encode()):
            return "the address is not complete; open the one that the command printed"
        origin = self.headers.get("Origin")
        if origin is not None and origin != f"http://{self.headers['Host']}":
            return "another page may not use this one"
        return None

    # ---- answers

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if self._token and path == f"/{self._token}":
            self._send_bytes(308, b"", "text/plain", Location=f"{path}/")
            return
        name, api = path.removeprefix(f"/{self._token}" if self._token else "").removeprefix("/"), self._api
        if api and name == "api/model":
            self._guarded(lambda: self._send(200, api.describe()))
            return
        with contextlib.suppress(KeyError, OSError):  # a file that the book no longer has
            file = self._files[name]
            body = file.read_bytes() if isinstance(file, Path) else file().encode()
            kind = KINDS.get(Path(name).suffix or ".html", "application/octet-stream")
            self._send_bytes(200, body, kind)
            return
        self._refuse(404, "there is no such page")

    def do_POST(self) -> None:
        name, api = self.path.partition("?")[0].removeprefix(f"/{self._token}/api/"), self._api
        body = self._read_body()
        if body is None:
            return
        if api and name in api.streams:
            self._guarded(lambda: self._stream(getattr(api, name)(api.read(body, api.streams[name]))))
        elif api and name in api.questions:
            self._guarded(lambda: self._send(200, getattr(api, name)(api.read(body, api.questions[name]))))
        else:
            self._refuse(404, "there is no such question")

    def _read_body(self) -> bytes | None:
        """The body of a request; None, after an answer, if it cannot be read."""
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or "Transfer-Encoding" in self.headers:
            self._refuse(411, "the request does not say how long it is")
        elif len(length) > 9 or int(length) > MOST_REQUEST_BYTES:
            self._refuse(413, f"the request is larger than {MOST_REQUEST_BYTES} bytes")
        elif self.headers.get_content_type() != "application/json":
            self._refuse(415, "the request is not application/json")
        else:
            return self.rfile.read(int(length))
        return None

    def _guarded(self, answer: Callable[[], None]) -> None:
        try:
            answer()
        except WrongRequest as problem:
            self._send(
                400,
                {"problem": str(problem)[:1].upper() + str(problem)[1:] + ("" if str(problem).endswith("?") else ".")},
            )

    def _stream(self, events: Generator[Data, None, None]) -> None:
        """Send each event as a line of JSON. The text ends when the page has closed the connection."""
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        with contextlib.closing(events):
            while not self._is_closed():
                event = next(events, None)
                if event is None:
                    self.wfile.write(b"0\r\n\r\n")
                    return
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))

    def _is_closed(self) -> bool:
        """Whether the browser has closed the connection: after Stop, or with the tab."""
        if not select.select([self.connection], [], [], 0)[0]:
            return False
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def _refuse(self, status: int, sentence: str) -> None:
        """Send a sentence, and read nothing more from this connection."""
        self.close_connection = True
        self._send(status, {"problem": sentence})

    def _send(self, status: int, data: Data) -> None:
        self._send_bytes(status, json.dumps(data).encode(), "application/json")

    def _send_bytes(self, status: int, body: bytes, kind: str, **more: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        for name, value in more.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def end_headers(self) -> None:
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        pass


class PageServer(ThreadingHTTPServer):
    """Bound to the port, or to any free one. OSError if the port is in use."""

    daemon_threads = True

    def __init__(self, files: Files, port: int = 0, api: PageApi | None = None) -> None:
        self.token = secrets.token_urlsafe(16) if api else ""
        super().__init__((HOST, port), partial(_Handler, api=api, files=files, token=self.token))

    @property
    def address(self) -> str:
        """It ends with a slash."""
        return f"http://{HOST}:{self.server_address[1]}/{self.token}{'/' if self.token else ''}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors: a reader may close the connection in the middle of a page."""


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
