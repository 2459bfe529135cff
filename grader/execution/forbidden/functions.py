"""Sees torch's functions in Python that compute from elementary operators what an exercise forbids, and torch's
forbidden classes.

The code of each such function is replaced by code that reports it and then runs the original. This also works for
references to the function that exist already, under any name. Modules of torch that are imported later get the same
treatment at the end of their import.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import inspect
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
from grader.course.torch_operators import canonical_name, families_of, forbidden_operators
from grader.execution.forbidden import report


def replace_functions(forbids: tuple[str, ...]) -> None:
    """Replace the code of the functions that these names forbid, in every module of torch that is or will be
    imported."""
    if _later not in sys.meta_path:
        sys.meta_path.insert(0, _later)
    if forbids not in _wanted:
        _wanted.append(forbids)
        for module in [module for name, module in tuple(sys.modules.items()) if name.startswith("torch.")]:
            _replace_in(module, [forbids])
        for cls in _classes(forbids):
            if cls not in _constructors:
                _constructors.add(cls)
                cls.__init__ = _reporting(cls, cls.__init__)


_wanted: list[tuple[str, ...]] = []
_names: dict[FunctionType, set[str]] = {}  # each function whose code is replaced -> what it reports
_constructors: set[Any] = set()


def _replace(function: FunctionType) -> None:
    """Have the function report its names and then run its original code."""
    names = _names[function] = set()
    private = function.__module__.startswith("torch._")  # these functions also build torch's graphs
    own = function.__code__
    original = FunctionType(own, function.__globals__, function.__name__, function.__defaults__)
    original.__kwdefaults__ = function.__kwdefaults__

    def report_and_run(*args, **kwargs):  # no named parameters: the arguments may have any name
        for name in tuple(names):
            report(name, at_import=private)
        return original(*args, **kwargs)

    known_as = f"_headway_reports_{function.__name__}"
    function.__globals__[known_as] = report_and_run
    calling = compile(f"lambda *args, **kwargs: {known_as}(*args, **kwargs)", own.co_filename, "eval")
    code = next(part for part in calling.co_consts if isinstance(part, CodeType))
    # torch.jit reads the source, and finds the original's
    function.__code__ = code.replace(
        co_firstlineno=own.co_firstlineno, co_name=own.co_name, co_qualname=own.co_qualname
    )


def _classes(forbids: tuple[str, ...]) -> list[Any]:
    """The classes of torch with a forbidden name. (Any: their __init__ is replaced, which no type allows.)"""
    return [
        cls
        for name in forbids
        for place in (torch.nn, torch.optim)
        if isinstance(cls := getattr(place, name, None), type)
    ]


def _reporting(cls: Any, original: Any) -> Any:
    @functools.wraps(original)
    def __init__(self, *args, **kwargs):
        report(cls.__name__)
        original(self, *args, **kwargs)

    return __init__


@cache
def forbidden_functions(forbids: tuple[str, ...]) -> tuple[dict[str, str], frozenset[str]]:
    """Names of forbidden functions, each with the name to report, and modules whose functions are all forbidden."""
    denied = families_of(forbids)
    operators = [name for name in forbidden_operators(forbids) if "::" not in name]
    functions = [*forbids, *(name for family in denied for name in family.functions)]
    names = {
        spelling: name
        for name in reversed([*functions, *operators])
        for spelling in (name, canonical_name(name), "_" + canonical_name(name))
    }
    return names, frozenset(module for family in denied for module in family.modules)


def _replace_in(module: ModuleType, wanted: Iterable[tuple[str, ...]]) -> None:
    for forbids in wanted:
        for function, name in _found_in(module, *forbidden_functions(forbids)):
            if function not in _names:
                _replace(function)
            _names[function].add(name)


def _found_in(module: ModuleType, names: dict[str, str], modules: frozenset[str]) -> Iterator[tuple[FunctionType, str]]:
    space = getattr(module, "__dict__", {})
    for key in [*space] if module.__name__ in modules else space.keys() & names.keys():
        function = _written_in_python(space[key])
        if function is None or not function.__module__.startswith("torch."):
            continue
        if function.__module__ in modules:
            yield function, function.__module__
        elif function.__name__ in names:
            yield function, names[function.__name__]


def _written_in_python(value: Any) -> FunctionType | None:
    """The function below its decorators; None for other objects, and for closures."""
    if not isinstance(value, FunctionType):
        return None
    function = inspect.unwrap(value)
    return (
        function
        if isinstance(function, FunctionType) and not function.__closure__ and isinstance(function.__module__, str)
        else None
    )


class _Later(importlib.abc.MetaPathFinder):
    """Imports torch's modules as usual, and replaces the functions that they define at the end of each import."""

    def find_spec(self, fullname, path=None, target=None):
        if not fullname.startswith("torch.") or not _wanted:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                _replace_in(module, _wanted)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


_later = _Later()
