"""The server of `headway play --web`: who may ask, what is refused, streams that end with their tab, and the command itself."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import threading

import pytest
from grader.console.local_server import MOST_REQUEST_BYTES
from grader.models.play.web_page import FILES, Api
from grader.tests.models.page_engines import SECONDS, api_of, request, served
from kit_copy import posix
from local_pages import serving


class WatchedApi:
    """An api that says when a text is given up, and how many events it had."""

    def __init__(self, api: Api) -> None:
        self._api, self.given_up, self.events = api, threading.Event(), 0

    def __getattr__(self, name: str):
        return getattr(self._api, name)

    def write(self, request):
        events = self._api.write(request)

        def watched():
            try:
                for event in events:
                    self.events += 1
                    yield event
            finally:
                self.given_up.set()

        return watched()


@pytest.fixture
def server(engine):
    with served(api_of(engine)) as server:
        yield server


def ask(server, name: str, data) -> dict:
    status, text, _ = request(server, f"/{server.token}/api/{name}", data)
    assert status == 200, text
    return json.loads(text)


def test_the_page_and_its_files_come_with_a_strict_policy(server):
    for name in FILES:
        status, text, headers = request(server, f"/{server.token}/{name}")
        assert status == 200 and text
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'") and "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), name  # no request to elsewhere
    assert {"page.css", "page.js", "icon.svg", "theme.js"} <= set(FILES)
    page = request(server, f"/{server.token}/")[1]
    assert not re.search(r"<script(?![^>]* src=)|<style| style=| on\w+=", page)
    status, _, headers = request(server, f"/{server.token}")
    assert status == 308 and headers["Location"] == f"/{server.token}/"


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "PUT", "OPTIONS", "DELETE"])
@pytest.mark.parametrize("path", ["/", "/page.js", "/api/model", "/api/write", "/x/TOKEN/", "/TOKENx/", "/tOKEN/", "/?TOKEN", "/%54OKEN/", "/%C3%A9/", "*"])
def test_without_the_token_everything_is_refused(server, method, path):
    path = path.replace("tOKEN", server.token.swapcase()).replace("%54OKEN", f"%{ord(server.token[0]):x}{server.token[1:]}").replace("TOKEN", server.token)
    status, text, _ = request(server, path, {} if method == "POST" else None, method)
    assert status == 403 and server.token not in text
    assert method == "HEAD" or json.loads(text)["problem"].startswith("the address is not complete")


@pytest.mark.parametrize(
    "name, value, sentence",
    [
        ("Host", "elsewhere.example", "this page is read at 127.0.0.1"),
        ("Host", "elsewhere.example:80", "this page is read at 127.0.0.1"),
        ("Host", "127.0.0.1.elsewhere.example", "this page is read at 127.0.0.1"),
        ("Host", "", "this page is read at 127.0.0.1"),
        ("Origin", "https://elsewhere.example", "another page may not use this one"),
        ("Origin", "http://127.0.0.1:1", "another page may not use this one"),
        ("Origin", "null", "another page may not use this one"),
    ],
)
def test_another_host_or_another_origin_is_refused(server, name, value, sentence):
    for path, body in (("", None), ("api/model", None), ("api/write", {"text": "the cat"})):
        status, text, headers = request(server, f"/{server.token}/{path}", body, change=lambda headers: headers.update({name: value}))
        assert status == 403 and json.loads(text)["problem"] == sentence
        assert headers["Access-Control-Allow-Origin"] is None


@pytest.mark.parametrize("refused", ["Host: elsewhere.example", "Host: 127.0.0.1:PORT\r\nOrigin: https://elsewhere.example"])
def test_a_refused_request_is_not_carried_out(engine, refused):
    api = WatchedApi(api_of(engine))
    with served(api) as server, socket.create_connection(server.server_address, timeout=SECONDS) as connection:
        body = json.dumps({"text": "the cat", "settings": {"length": 2}})
        head = f"POST /{server.token}/api/write HTTP/1.1\r\n{refused}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall((head.replace("PORT", str(server.server_address[1])) + body).encode())
        answer = b""
        while piece := _receive(connection):
            answer += piece
        assert answer.count(b"HTTP/1.1 ") == 1 and answer.startswith(b"HTTP/1.1 403") and api.events == 0


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1 << 16)
    except ConnectionResetError:  # the server closes without reading the body
        return b""


OTHER_PATHS = (
    "../page.py", "..%2fserver.py", "static/page.js", "/etc/passwd", "%2e%2e/%2e%2e/engine.py", "page.js%00", "page.js/",
    "api", "api/", "api/write", "api/close", "api/_answer",
)  # fmt: skip


@pytest.mark.parametrize("path", OTHER_PATHS)
def test_nothing_but_the_pages_files_can_be_read(server, path):
    status, text, _ = request(server, f"/{server.token}/{path}")
    assert status == 404 and "import" not in text


def test_wrong_bodies_are_refused(server):
    path = f"/{server.token}/api/likeliest"
    assert request(server, path, b"{")[:2] == (400, '{"problem": "The request is not a JSON object."}')
    assert request(server, path, {"ids": [1], "xyzzy": 1})[0] == 400
    assert "takes 0" in request(server, path, {"ids": [1], "settings": {"temperature": "hot"}})[1]
    assert request(server, path, {"ids": [10**9]})[0] == 400
    assert request(server, path, {}, change=lambda headers: headers.update({"Content-Type": "text/plain"}))[0] == 415
    assert request(server, path, {}, change=lambda headers: headers.pop("Content-Length"))[0] == 411
    assert request(server, path, {}, change=lambda headers: headers.update({"Transfer-Encoding": "chunked"}))[0] == 411
    for length in (str(MOST_REQUEST_BYTES + 1), "9" * 40):
        assert request(server, path, b"", "POST", lambda headers: headers.update({"Content-Length": length}))[0] == 413  # noqa: B023 - called at once
    for length in ("-1", "1e3", "٣".encode().decode("latin-1"), ""):
        assert request(server, path, b"", "POST", lambda headers: headers.update({"Content-Length": length}))[0] == 411  # noqa: B023 - called at once
    assert request(server, f"/{server.token}/api/close", {})[0] == 404
    assert ask(server, "likeliest", {"ids": [1]})["likeliest"]  # the server lives on


def test_a_closed_tab_ends_its_text_and_another_tab_goes_on(engine):
    api = WatchedApi(api_of(engine))
    with served(api) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=SECONDS)
        body = json.dumps({"text": "the cat", "settings": {"length": 10_000}})
        connection.request("POST", f"/{server.token}/api/write", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert json.loads(answer.readline())["event"] == "begin" and json.loads(answer.readline())["event"] == "token"
        assert ask(server, "likeliest", {"ids": [5]})["likeliest"]  # in the middle of the text
        answer.close()
        connection.close()
        assert api.given_up.wait(SECONDS) and api.events < 10_000


@posix
def test_the_command_serves_the_page_until_control_c(kit_with_model):
    with serving(kit_with_model, "play", "--web", "--no-browser") as (process, said):
        assert "tiny: a GPT of 2 layers, 2 heads and" in said and "To play, open this address in a browser:" in said
        address = re.search(r"http://127\.0\.0\.1:(\d+)(/\S+/)", said)
        connection = http.client.HTTPConnection("127.0.0.1", int(address[1]), timeout=SECONDS)
        connection.request("POST", f"{address[2]}api/write", json.dumps({"text": "the cat", "settings": {"length": 10_000}}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        for _ in range(3):
            assert json.loads(answer.readline())["event"] in ("begin", "token")
        process.send_signal(signal.SIGINT)  # in the middle of a text
        rest = process.stdout.read().decode()
        assert process.wait(SECONDS) == 0 and rest.strip() == "Stopped."
        connection.close()
