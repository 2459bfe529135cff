"""Commands that serve pages on this machine, each in a process of its own as a person runs it, and requests to them."""

import contextlib
import http.client
import os
import select
import subprocess
import sys
import time

PATIENCE = 120.0


@contextlib.contextmanager
def serving(kit, *arguments, browser="", until="Press Control-C to stop."):
    """`headway ARGUMENTS` in a separate process: (process, its output), once it has printed `until`."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "grader.cli", *arguments], cwd=kit.root, env={**kit.environment(), "DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": browser},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        said, end = b"", time.monotonic() + PATIENCE
        while until.encode() not in said:
            assert time.monotonic() < end, said
            if select.select([process.stdout], [], [], 1)[0]:
                piece = os.read(process.stdout.fileno(), 1 << 16)
                assert piece, said
                said += piece
        yield process, said.decode()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def get(address, path, host=None):
    """The status, the text and the headers of an answer."""
    name, _, port = address.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(name, int(port.partition("/")[0]), timeout=PATIENCE)
    try:
        connection.request("GET", path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace"), answer.headers
    finally:
        connection.close()
