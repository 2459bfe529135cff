"""HTTP for the pages of `headway play --web` and `headway chat --web`: on this machine only, with a token in the
address, and with no request to elsewhere."""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import select
import socket
from collections.abc import Callable, Collection, Generator, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Protocol

from grader.console.local_server import HOST, POLICY, LocalServer, is_own_host
from grader.models.play.web.api import Data, WrongRequest
from grader.teaching import book

MOST_REQUEST_BYTES = 1 << 20
STATIC = Path(__file__).parent / "static"
BOOK = Path(book.__file__).parent / "static"
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
SHARED = {path.name: path for path in (*sorted(STATIC.glob("*.*")), BOOK / "icon.svg", BOOK / "theme.js")}
FILES = {"": STATIC / "page.html"} | SHARED
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


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

    def __init__(self, *arguments: Any, api: PageApi, files: Mapping[str, Path], token: str, **more: Any) -> None:
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
        if not is_own_host(self.headers.get("Host")):
            return "this page is read at 127.0.0.1"
        first = self.path.partition("?")[0].removeprefix("/").partition("/")[0]
        if not hmac.compare_digest(first.encode("utf-8", "replace"), self._token.encode()):
            return "the address is not complete; open the one that the command printed"
        origin = self.headers.get("Origin")
        if origin is not None and origin != f"http://{self.headers['Host']}":
            return "another page may not use this one"
        return None

    # ---- answers

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].removeprefix(f"/{self._token}")
        if path == "/api/model":
            self._guarded(lambda: self._send(200, self._api.describe()))
        elif path.removeprefix("/") in self._files and path:
            file = self._files[path.removeprefix("/")]
            self._send_bytes(200, file.read_bytes(), KINDS[file.suffix])
        elif not path:
            self._send_bytes(308, b"", "text/plain", Location=f"/{self._token}/")
        else:
            self._refuse(404, "there is no such page")

    def do_POST(self) -> None:
        name = self.path.partition("?")[0].removeprefix(f"/{self._token}/api/")
        body = self._read_body()
        if body is None:
            return
        api = self._api
        if name in api.streams:
            self._guarded(lambda: self._stream(getattr(api, name)(api.read(body, api.streams[name]))))
        elif name in api.questions:
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


class PageServer(LocalServer):
    def __init__(self, api: PageApi, port: int = 0, files: Mapping[str, Path] = FILES) -> None:
        """OSError if the port is in use."""
        self.token = secrets.token_urlsafe(16)
        super().__init__((HOST, port), partial(_Handler, api=api, files=files, token=self.token))

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_address[1]}/{self.token}/"
