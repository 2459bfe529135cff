"""Sees through Python's audit events what else code must not do while it is judged: import packages that the exercise
does not allow, call torch's libraries past the dispatcher, and look for the objects of the grader in the frames that
called it or among all objects of the process.
"""

from __future__ import annotations

import importlib.machinery
import sys
import sysconfig
import threading
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

import torch
from grader.course.torch_operators import ANOTHER_PACKAGE, BELOW_TORCH, GRADER_STATE, allowed_packages
from grader.execution.chapter_package import is_learners_package
from grader.execution.forbidden import report, watches

_BELOW = ("_ZN", "aoti_torch", "THP")  # prefixes of the names of functions in torch's libraries
# Python's only ways to the frame of a caller, or to an object that no name leads to. A traceback's or generator's frame
# is read by its attribute.
_LOOKING = frozenset({
    "sys._getframe", "sys._current_frames", "sys._current_exceptions", "sys.settrace", "sys.setprofile",
    "gc.get_objects", "gc.get_referrers", "gc.get_referents",
})  # fmt: skip
_IMPORTING = frozenset({"import", "exec"})
_LOOKING_UP = frozenset({"ctypes.dlsym", "ctypes.dlsym/handle"})  # a function by its name, in a library
_WATCHED = _LOOKING | _IMPORTING | _LOOKING_UP | {"object.__getattr__"}
_FRAMES = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})
# functions of `logging` and `traceback`
_RETURNING_FRAMES = frozenset({"currentframe", "<lambda>", "walk_stack", "walk_tb"})
_KIT = Path(__file__).resolve().parents[3]
BROUGHT = "<brought by the test>"  # the file name of the tests' helpers
_TRUSTED = (
    sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), str(Path(torch.__file__).parents[1]),
    str(_KIT / "grader"), str(_KIT / "tests"),
    "<frozen ", BROUGHT,
)  # fmt: skip
_deciding = threading.local()
_getframe = sys._getframe


@cache
def install_hook() -> None:
    """Install the audit hook; Python cannot remove one."""
    sys.addaudithook(_on_event)


def _on_event(event: str, arguments: tuple) -> None:
    if event not in _WATCHED or not watches:  # most events: each call of `id` is one
        return
    if event in _IMPORTING:
        if _is_another_package(_package(arguments[0])):
            report(ANOTHER_PACKAGE, at_import=True)
    elif event in _LOOKING_UP:
        if str(arguments[-1]).startswith(_BELOW):
            report(BELOW_TORCH, at_import=True)
    elif (event != "object.__getattr__" or arguments[1] in _FRAMES) and is_asked_by_tested_code():
        report(GRADER_STATE, at_import=True)


def is_asked_by_tested_code() -> bool:
    """Whether the tested code called the caller of this function itself, or through a function of Python that passes
    frames on."""
    if getattr(_deciding, "now", False):  # this function needs a frame, too
        return False
    _deciding.now = True
    try:
        frame: FrameType | None = _getframe(2)
        while frame is not None and frame.f_globals.get("__name__") == "inspect":
            frame = frame.f_back
        if (
            frame is not None
            and frame.f_globals.get("__name__") in ("logging", "traceback")
            and frame.f_code.co_name in _RETURNING_FRAMES
        ):
            frame = frame.f_back
        return frame is not None and not frame.f_code.co_filename.startswith(_TRUSTED)
    finally:
        _deciding.now = False


def _package(imported: str | CodeType) -> str:
    """The package of a module that is imported by a statement, or of a module's code that is executed, in whichever way
    it is imported."""
    if isinstance(imported, str):
        return imported.partition(".")[0]
    path = imported.co_filename.replace("\\", "/") if isinstance(imported, CodeType) else ""
    _, found, rest = path.rpartition("-packages/")  # site-packages, dist-packages
    return rest.partition("/")[0].partition(".")[0] if found else ""


def _is_another_package(root: str) -> bool:
    """Is this an installed package that is not on the list, and that no package on the list is importing?"""
    if root in _known() or is_learners_package(root):
        return False
    if any(
        module.partition(".")[0] in allowed_packages() and _is_being_imported(module) for module in tuple(sys.modules)
    ):
        return False
    return importlib.machinery.PathFinder.find_spec(root) is not None


@cache
def _known() -> frozenset[str]:
    return allowed_packages() | frozenset(sys.stdlib_module_names) | {""}


def _is_being_imported(name: str) -> bool:
    return getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False)
