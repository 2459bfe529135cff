"""The files that Python and torch read while code runs: their own installation, nothing of the kit and no other
files."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import site
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

KIT = Path(__file__).resolve().parents[3]
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
# other files in that folder show how busy each processor is
_PROCESSORS = tuple(f"/sys/devices/system/cpu/{name}" for name in ("online", "possible", "present"))
_FACTS = ("/etc/ld.so.cache", "/etc/localtime", "/dev/null", "/dev/urandom", *_PROCESSORS)


def readable_paths() -> list[Path]:
    """Real paths of folders and files. If the kit lies inside one of them, its other entries are listed one by one."""
    return outermost(part for path in named_paths() for part in _around(path.resolve(), KIT))


def outermost(paths: Iterable[Path]) -> list[Path]:
    """The paths that are not inside another one of them."""
    every = set(paths)
    return sorted(path for path in every if every.isdisjoint(path.parents))


def named_paths() -> list[Path]:
    """The paths as Python has them, which may contain symbolic links."""
    torch = importlib.util.find_spec("torch")
    found = (*_LIBRARIES, *_FACTS, *_python(), *(torch and torch.submodule_search_locations or ()), *_mapped())
    return [path for path in map(Path, dict.fromkeys(found)) if path.exists()]


def _python() -> list[str]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    base = {
        "base": sys.base_prefix,
        "platbase": sys.base_exec_prefix,
        "installed_base": sys.base_prefix,
        "installed_platbase": sys.base_exec_prefix,
    }
    found = [sysconfig.get_path(name) for name in names] + [sysconfig.get_path(name, vars=base) for name in names]
    found += site.getsitepackages() + ([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])
    return [*found, str(Path(sysconfig.get_path("stdlib")).parent)]  # with the libraries of a Python that has its own


def _mapped() -> list[str]:
    """Shared libraries that this process has loaded."""
    with contextlib.suppress(OSError), open("/proc/self/maps") as file:
        return sorted(set(re.findall(r"(/.*\.so.*)$", file.read(), flags=re.MULTILINE)))
    return []


def _around(path: Path, hidden: Path) -> list[Path]:
    if path == hidden:
        return []
    if not hidden.is_relative_to(path):
        return [path]
    try:
        return [part for child in path.iterdir() for part in _around(child, hidden)]
    except OSError:
        return []
