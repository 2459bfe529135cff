"""Connects a process to one that it started: the child gets a secret token on its standard input and sends it back over
a socket."""

from __future__ import annotations

import contextlib
import math
import secrets
import socket
import subprocess
import sys
import time

_TOKEN_SECONDS = 5.0  # for a caller to send the token
_LOOK_SECONDS = 0.5  # between two checks whether the child still runs


class Listener:
    """The port that one child may connect to."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.token = secrets.token_hex(16).encode()

    @property
    def port(self) -> int:
        return self.socket.getsockname()[1]

    def send_token(self, process: subprocess.Popen[bytes]) -> None:
        """Write the token to the child's standard input, and close that."""
        assert process.stdin is not None, "the process has a pipe as standard input"
        with contextlib.suppress(OSError):  # it has ended already
            process.stdin.write(self.token)
            process.stdin.close()

    def wait_for(self, process: subprocess.Popen[bytes], seconds: float = math.inf) -> socket.socket | None:
        """The child's connection; None if it ended first, or did not connect within so many seconds. Callers without
        the token are refused."""
        deadline = time.monotonic() + seconds
        self.socket.settimeout(_LOOK_SECONDS)
        while process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                sock, _ = self.socket.accept()
                if self._has_token(sock):
                    return sock
                sock.close()
        return None

    def _has_token(self, sock: socket.socket) -> bool:
        sock.settimeout(_TOKEN_SECONDS)
        with contextlib.suppress(OSError):
            if secrets.compare_digest(sock.recv(len(self.token), socket.MSG_WAITALL), self.token):
                sock.settimeout(None)
                return True
        return False

    def close(self) -> None:
        self.socket.close()


def read_token() -> bytes:
    """In the child: the token, from standard input."""
    return sys.stdin.buffer.read()


def connect(port: int, token: bytes) -> socket.socket:
    """In the child: the connection to its parent."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(token)
    return sock
