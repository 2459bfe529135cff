"""A real headless Chromium to view pages with, controlled by the DevTools protocol over two pipes: no driver, no port, no package.

`with Browser(folder) as browser:` starts one; `page = browser.open(path, width=360, dark=True)` opens a file in it; then `page.press("Tab")`,
`page.js("document.title")`, `page.errors`, `page.requests`, `page.tree()`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 120.0  # seconds for one answer, also on a busy machine
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
FLAGS = (
    "--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--mute-audio", "--force-color-profile=srgb",
)  # fmt: skip
HAND_OVER = """
import fcntl, os, sys
commands, answers = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3])
os.dup2(commands, 3), os.dup2(answers, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), "Escape": (27, ""), " ": (32, " ")}


def chromium() -> str | None:
    """The path of Chromium: the one that CHROMIUM names, otherwise the first on the PATH."""
    named = os.environ.get("CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None) or (MAC if Path(MAC).is_file() else None)


needs_chromium = pytest.mark.skipif(
    sys.platform == "win32" or chromium() is None,
    reason="no Chromium to view the page with: install one (apt-get install chromium), or name it in CHROMIUM",
)


class Browser:
    """One process for many pages; `folder` is for its profile."""

    def __init__(self, folder: Path) -> None:
        commands, self._write = os.pipe()
        self._read, answers = os.pipe()
        root = ["--no-sandbox"] if os.geteuid() == 0 else []
        self._process = subprocess.Popen(
            [sys.executable, "-ISc", HAND_OVER, str(commands), str(answers), chromium(), *FLAGS, *root, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            pass_fds=(commands, answers), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(commands)
        os.close(answers)
        self._asked = 0
        self._bytes = b""
        self._pages: dict[str, Page] = {}

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):
            self.ask("Browser.close")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def open(self, path: Path | str, width: int = 1200, height: int = 900, dark: bool = False, script: bool = True, media: str = "", at: str = "") -> Page:
        """Open the file or address in a new tab and wait until it has loaded; `at` is the part after the #."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.ask(f"{domain}.enable")
        page.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        page.ask("Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        page.ask("Emulation.setScriptExecutionDisabled", value=not script)
        page.visit(path, at)
        return page

    def ask(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """Send one command and return its answer; events that arrive meanwhile go to the page that they belong to."""
        self._asked += 1
        message = {"id": self._asked, "method": method, "params": parameters} | ({"sessionId": session} if session else {})
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        answers: list[dict[str, Any]] = []
        self._until(lambda: answers, answers, self._asked)
        if "error" in answers[0]:
            raise RuntimeError(f"{method}: {answers[0]['error']}")
        return answers[0]["result"]

    def _until(self, done: Callable[[], Any], answers: list[dict[str, Any]] | None = None, wanted: int = 0) -> None:
        end = time.monotonic() + PATIENCE
        while not done():
            message = self._next(end)
            if answers is not None and message.get("id") == wanted:
                answers.append(message)
            elif message.get("sessionId") in self._pages:
                self._pages[message["sessionId"]].hear(message["method"], message["params"])

    def _next(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._bytes:
            if not select.select([self._read], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError("Chromium does not answer")
            piece = os.read(self._read, 1 << 20)
            if not piece:
                raise RuntimeError(f"Chromium ended by itself, status {self._process.wait()}")
            self._bytes += piece
        line, _, self._bytes = self._bytes.partition(b"\0")
        return json.loads(line)


class Page:
    """One open tab: its errors, its requests and its content."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session
        self.errors: list[str] = []  # uncaught, on the console, or refused by the browser
        self.sent: dict[str, str] = {}  # request -> address
        self.blocked: dict[str, str] = {}  # those the page's own policy refused, before they left
        self.loaded = False

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.ask(method, self._session, **parameters)

    def visit(self, path: Path | str, at: str = "") -> None:
        """Open another page in the same tab; errors and requests start empty."""
        self.errors, self.sent, self.blocked, self.loaded = [], {}, {}, False
        self.ask("Page.navigate", url=(path if isinstance(path, str) else path.resolve().as_uri()) + (f"#{at}" if at else ""))
        self._browser._until(lambda: self.loaded)

    def hear(self, event: str, about: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self.loaded = True
        elif event == "Network.requestWillBeSent":
            self.sent[about["requestId"]] = about["request"]["url"]
        elif event == "Network.loadingFailed" and about.get("blockedReason") == "csp":
            self.blocked[about["requestId"]] = self.sent.pop(about["requestId"])
        elif event == "Runtime.exceptionThrown":
            self.errors.append(about["exceptionDetails"]["exception"].get("description", about["exceptionDetails"]["text"]))
        elif event == "Runtime.consoleAPICalled" and about["type"] in ("error", "assert"):
            self.errors.append(str([argument.get("value") for argument in about["args"]]))
        elif event == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.errors.append(about["entry"]["text"])

    @property
    def requests(self) -> list[str]:
        """Addresses that were really requested, the page's own first."""
        return list(self.sent.values())

    def until(self, condition: Callable[[], Any]) -> None:
        """Wait for something that the page does asynchronously."""
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, "it did not happen"
            self.js("new Promise(done => setTimeout(done, 10))")

    def js(self, expression: str) -> Any:
        """The value of an expression, if JSON can represent it; a promise is awaited. Works also if the page's own scripts are off."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", "the expression failed"))
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press Tab, Enter, Escape or the space bar like a person."""
        code, text = KEYS[key]
        about = {"key": key, "code": {" ": "Space"}.get(key, key), "windowsVirtualKeyCode": code}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **about, **({"text": text} if text else {}))
        self.ask("Input.dispatchKeyEvent", type="keyUp", **about)

    def type(self, text: str) -> None:
        self.ask("Input.insertText", text=text)

    def tree(self) -> list[tuple[str, str]]:
        """What a screen reader finds: (role, name) of every element that is not hidden from it."""
        nodes = self.ask("Accessibility.getFullAXTree")["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes if not node["ignored"]]
