"""Commands in a process that is forked from one which has imported torch and pytest, without the seconds that these imports take.

The kit itself is imported in the forked process, from the folder that PYTHONPATH names, as in a process of its own. A command whose environment
or folders change how Python or torch starts gets a process of its own; so does every command where fork is missing.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import runpy
import signal
import socket
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

AT_START = ("PYTHON", "OMP_", "MKL_", "KMP_", "LD_", "TORCH")  # variables that act when Python or torch starts
HANDLED = ("PYTHONPATH", "PYTHONIOENCODING")  # of these, what `_become` takes over
IMPORTED = "torch pytest rich.console rich.progress typer.main typer._coercion pydantic.main pydantic.type_adapter asyncio unittest.mock tomllib".split()  # no plugin of pytest, which pytest itself must import


def run(module: str, arguments: list[str], cwd: Path, environment: dict[str, str], merged: bool = False, timeout: float = 1200) -> subprocess.CompletedProcess:
    """`python -m MODULE ARGUMENTS` without input: its status and output in bytes; `merged` puts the errors into the output."""
    folders = [cwd, *environment.get("PYTHONPATH", "").split(os.pathsep)]
    customised = any((Path(folder) / f"{name}.py").exists() for folder in folders for name in ("sitecustomize", "usercustomize"))
    if customised or not hasattr(os, "fork") or _at_start(environment) != _at_start(dict(os.environ)):
        errors = subprocess.STDOUT if merged else subprocess.PIPE
        command = [sys.executable, "-m", module, *arguments]
        return subprocess.run(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, timeout=timeout)
    return _Server.get().run(module, arguments, cwd, environment, merged, timeout)


def _at_start(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(AT_START) and name not in HANDLED}


class _Server:
    """The process that has imported them; one for each process of the tests."""

    _started: _Server | None = None
    _starting = threading.Lock()

    @classmethod
    def get(cls) -> _Server:
        with cls._starting:
            if cls._started is None or cls._started.process.poll() is not None:
                cls._started = cls()
                atexit.register(cls._started.close)
            return cls._started

    def __init__(self) -> None:
        self.sending = threading.Lock()
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            command = [sys.executable, str(Path(__file__)), str(theirs.fileno())]
            self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)

    def run(self, module: str, arguments: list[str], cwd: Path, environment: dict[str, str], merged: bool, timeout: float) -> subprocess.CompletedProcess:
        """Several threads may call this at the same time."""
        out, report = os.pipe(), os.pipe()
        errors = out if merged else os.pipe()
        request = json.dumps({"module": module, "arguments": arguments, "cwd": str(cwd), "environment": environment}).encode()
        files = array.array("i", [out[1], errors[1], report[1]])
        with self.sending:
            self.socket.sendmsg([struct.pack("!I", len(request))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
            self.socket.sendall(request)
        for end in {out[1], errors[1], report[1]}:
            os.close(end)
        with open(report[0], "rb") as answer, ThreadPoolExecutor(2) as readers:
            pid = _number(answer)
            alarm = threading.Timer(timeout, os.kill, [pid, signal.SIGKILL])
            alarm.start()
            reading = {end: readers.submit(_read_all, end) for end in {out[0], errors[0]}}
            status = _number(answer)
            alarm.cancel()
        return subprocess.CompletedProcess([module, *arguments], status, reading[out[0]].result(), None if merged else reading[errors[0]].result())

    def close(self) -> None:
        self.socket.close()  # the server ends when it reads the end
        self.process.wait()


def _read_all(end: int) -> bytes:
    with open(end, "rb") as file:
        return file.read()


def _number(file: io.BufferedReader) -> int:
    return struct.unpack("!i", file.read(4))[0]


def _serve(connection: socket.socket) -> None:
    """Fork a process for each request; return in the forked processes only."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        head, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(3 * array.array("i").itemsize))
        if not head:
            os._exit(0)
        files = array.array("i")
        for _, _, data in ancillary:
            files.frombytes(data)
        (size,) = struct.unpack("!I", head + _receive(connection, 4 - len(head)))
        request = json.loads(_receive(connection, size))
        if not os.fork():
            connection.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if _is_the_command(*files):
                _become(request, *files[:2])
                return
        for file in set(files):
            os.close(file)


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += connection.recv(size - len(data)) or sys.exit("the tests ended in the middle of a request")
    return data


def _is_the_command(out: int, errors: int, report: int) -> bool:
    """True in the process that becomes the command. Its parent reports its process number and then its status."""
    pid = os.fork()
    if not pid:
        os.close(report)
        return True
    for file in {out, errors}:
        os.close(file)
    os.write(report, struct.pack("!i", pid))
    os.write(report, struct.pack("!i", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
    os._exit(0)


def _become(request: dict, out: int, errors: int) -> None:
    """Give this forked process the folder, environment, streams and arguments of the command."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.dup2(out, 1)
    os.dup2(errors, 2)
    for file in {out, errors}:
        os.close(file)
    encoding, unbuffered = os.environ.get("PYTHONIOENCODING", "utf-8"), bool(os.environ.get("PYTHONUNBUFFERED"))
    for name, file, options in (("stdout", 1, {}), ("stderr", 2, {"errors": "backslashreplace", "line_buffering": True})):
        stream = io.TextIOWrapper(open(file, "wb", closefd=False), encoding=encoding, write_through=unbuffered, **options)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.path[:0] = [request["cwd"], *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv[:] = [request["module"], *request["arguments"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _run(module: str) -> None:
    """Run it as the main program, and end at once: to dismantle a process that has imported torch takes 0.2 s of processor time."""
    status: object = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ending:
        status = ending.code
    except Exception:
        status = 1
        sys.excepthook(*sys.exc_info())
    if status is not None and not isinstance(status, int):
        print(status, file=sys.stderr)
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(status or 0) & 0xFF)


if __name__ == "__main__":
    assert not any(name.partition(".")[0] == "grader" for name in sys.modules)
    sys.path[:] = [path for path in sys.path if path and Path(path) != Path(__file__).parent]
    for name in IMPORTED:
        with contextlib.suppress(ImportError):  # an older typer does not use pydantic
            importlib.import_module(name)
    gc.freeze()  # the forked processes do not collect these objects, not even at their end
    _serve(socket.socket(fileno=int(sys.argv[1])))
    _run(sys.argv[0])
