"""Sees, through Python's audit events, imports of packages that an exercise does not allow, and calls of torch's libraries that bypass the dispatcher."""

from __future__ import annotations

import importlib.machinery
import sys
from functools import cache
from types import CodeType

from grader.course.torch_operators import ANOTHER_PACKAGE, BELOW_TORCH, allowed_packages
from grader.execution.forbidden.reports import report, watches

_BELOW = ("_ZN", "aoti_torch", "THP")  # prefixes of the names of functions in torch's libraries


@cache
def install_hook() -> None:
    """Install the audit hook; Python cannot remove one."""
    sys.addaudithook(_on_event)


def _on_event(event: str, arguments: tuple) -> None:
    if event in ("import", "exec"):
        if watches and _is_another_package(_package(arguments[0])):
            report(ANOTHER_PACKAGE, at_import=True)
    elif event.startswith("ctypes.dlsym") and watches and str(arguments[-1]).startswith(_BELOW):
        report(BELOW_TORCH, at_import=True)


def _package(imported: str | CodeType) -> str:
    """The package of a module that is imported by a statement, or of a module's code that is executed, in whichever way it is imported."""
    if isinstance(imported, str):
        return imported.partition(".")[0]
    path = imported.co_filename.replace("\\", "/") if isinstance(imported, CodeType) else ""
    _, found, rest = path.rpartition("-packages/")  # site-packages, dist-packages
    return rest.partition("/")[0].partition(".")[0] if found else ""


def _is_another_package(root: str) -> bool:
    """Is this an installed package that is not on the list, and that no package on the list is importing?"""
    if root in _known():
        return False
    if any(module.partition(".")[0] in allowed_packages() and _is_being_imported(module) for module in tuple(sys.modules)):
        return False
    return importlib.machinery.PathFinder.find_spec(root) is not None


@cache
def _known() -> frozenset[str]:
    return allowed_packages() | frozenset(sys.stdlib_module_names) | {""}


def _is_being_imported(name: str) -> bool:
    return getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False)
