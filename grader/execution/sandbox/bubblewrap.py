"""bubblewrap: isolates the file system, the network and the process numbers of the workers' parent."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from grader.execution.sandbox.paths import KIT, named_paths, outermost, readable_paths

_ALONE = ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
_PATIENCE = 20.0

_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")


def command(words: Sequence[str]) -> list[str]:
    """The command to run this command in bubblewrap, where only Python and the kit's code can be read.

    It ends when the thread that started it ends, so start it from a thread that stays.
    """
    links = [path for path in named_paths() if path != path.resolve() and not KIT.is_relative_to(path.resolve())]
    shown = outermost(path for path in [*readable_paths(), *links, *_interpreter()] if path.parts[1] != "dev")
    binds = [word for path in shown for word in ("--ro-bind", str(path), str(path))]
    machinery = ["--ro-bind", str(KIT / "grader"), str(KIT / "grader")]
    if (KIT / "grader" / "tests").is_dir():
        machinery += ["--tmpfs", str(KIT / "grader" / "tests")]
    # torch creates this folder if it is missing
    place = ["--dir", "/tmp", "--setenv", "TORCHINDUCTOR_CACHE_DIR", "/tmp"]
    closed = ["--remount-ro", "/dev", "--remount-ro", "/"]
    return [
        _program() or "bwrap",
        *_ALONE,
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        *place,
        *binds,
        *machinery,
        *closed,
        "--chdir",
        "/",
        "--",
        *words,
    ]


def _interpreter() -> list[Path]:
    """The interpreter by the path it was started with, and the files from which it finds its installation."""
    home = Path(sys.base_exec_prefix) / "bin"
    found = [
        Path(sys.executable),
        Path(sys.executable).resolve(),
        Path(sys.prefix) / "pyvenv.cfg",
        home / f"python{sys.version_info[0]}.{sys.version_info[1]}",
    ]
    return [path for path in found if path.is_file()]


def _program() -> str | None:
    return shutil.which("bwrap")


@cache
def problem() -> tuple[str, str] | None:
    """Why bubblewrap cannot be used here, and what to do about it; None if it can."""
    if _program() is None:
        return (
            "bubblewrap is not installed"
        ), "`sudo apt-get install bubblewrap` (or your system's package manager) installs it"
    try:
        tried = subprocess.run(
            command([sys.executable, "-I", "-c", "pass"]),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return f"bubblewrap does not run ({problem})", "run `bwrap --ro-bind / / true` to see why"
    if tried.returncode == 0:
        return None
    said = (tried.stderr.strip().splitlines() or [f"status {tried.returncode}"])[-1].removeprefix("bwrap: ")
    return f"bubblewrap is installed but does not start here ({said})", _remedy()


def _remedy() -> str:
    restricted = False
    with contextlib.suppress(OSError):
        restricted = _APPARMOR.read_text().strip() == "1"
    if restricted:
        profile = (
            rf"abi <abi/4.0>,\ninclude <tunables/global>\nprofile bwrap {_program()} flags=(unconfined) {{\n  "
            r"userns,\n}\n"
        )
        return (
            f"Ubuntu requires a profile; `printf '{profile}' | sudo tee /etc/apparmor.d/bwrap; sudo systemctl "
            "reload apparmor` writes and loads it"
        )
    return (
        "it needs user namespaces: allow them (`sysctl user.max_user_namespaces`), and start a container with "
        "`--security-opt seccomp=unconfined`"
    )
