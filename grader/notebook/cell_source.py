"""Finds the source of an object from a notebook and of the helpers that it uses, and checks it for forbidden calls."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import re
import sys
import textwrap
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.course.source import SourceProblem, has_stub_line, parse
from grader.course.source_check import FORBIDDEN_ROOTS, forbidden_calls, reference_imports
from grader.course.syllabus import Exercise, load_syllabus
from grader.execution.overrides import DefinitionOverride
from grader.notebook.torch_names import name_in_torch


@dataclass(frozen=True)
class Piece:
    """One definition, with its file and line."""

    file: str
    line: int
    text: str


def read(exercise: Exercise, value: Any) -> DefinitionOverride:
    """The object to test as this exercise, with the forbidden calls found in its source."""
    thing = unwrap(value)
    own = name_in_torch(thing)
    if own:
        return DefinitionOverride(exercise.name, exercise.module, value, forbidden=(f"{own} is a function of torch; write it yourself",))
    home = str(getattr(thing, "__module__", None) or "")
    if home.partition(".")[0] in FORBIDDEN_ROOTS and not home.startswith("exercises."):
        return DefinitionOverride(exercise.name, exercise.module, value, forbidden=(f"the object comes from {home}, which contains the answer",))
    space = _space(thing)
    files = _files(thing, space)
    composed = _ComposedModule(files)
    composed.add(exercise.name, thing, space)
    piece = piece_of(thing)
    text = piece.text if piece else ""
    return DefinitionOverride(exercise.name, exercise.module, value, _other_exercises(exercise, space), text, files, tuple(composed.shortcuts(exercise)), space)


def _other_exercises(exercise: Exercise, space: dict[str, Any]) -> dict[str, Any]:
    """The chapter's other exercises that the same notebook implements."""
    names = [other.name for other in load_syllabus().chapter(exercise.chapter).exercises if other.name != exercise.name]
    found = {name: space[name] for name in names if isinstance(space.get(name), type | types.FunctionType)}
    own = {name: thing for name, thing in found.items() if thing.__module__ == space.get("__name__")}
    return {name: thing for name, thing in own.items() if not ((piece := piece_of(thing)) and has_stub_line(parse(piece.text)))}


def unwrap(value: Any) -> Any:
    """The function or class inside a partial, a method, a decorator or a callable object."""
    while True:
        if isinstance(value, functools.partial):
            value = value.func
        elif isinstance(value, types.MethodType):
            value = value.__func__
        elif hasattr(value, "__wrapped__"):
            value = value.__wrapped__
        elif isinstance(value, type | types.FunctionType) or inspect.isroutine(value):
            return value
        else:
            return type(value)


def piece_of(thing: Any) -> Piece | None:
    """Its source; None if it has none (made by exec, by %%time, at a prompt, in C)."""
    code = _code(thing)
    if code is None:
        return None
    lines = linecache.getlines(code.co_filename)
    try:
        tree = parse("".join(lines))
    except SourceProblem:
        return None
    node = _node(tree, thing, code)
    if node is None:
        return None
    if isinstance(node, ast.Lambda):
        return Piece(code.co_filename, node.lineno, ast.get_source_segment("".join(lines), node) or "")
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return Piece(code.co_filename, first, textwrap.dedent("".join(lines[first - 1 : node.end_lineno])))


def _node(tree: ast.Module, thing: Any, code: types.CodeType) -> Any:
    """The node of a function, lambda or class in the tree of its file."""
    for node in ast.walk(tree):
        if isinstance(thing, type):
            if isinstance(node, ast.ClassDef) and node.name == thing.__name__ and node.lineno <= code.co_firstlineno <= (node.end_lineno or 0):
                return node
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
            if code.co_firstlineno == min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]):
                return node
    lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno]
    return lambdas[0] if code.co_name == "<lambda>" and len(lambdas) == 1 else None


def _code(thing: Any) -> types.CodeType | None:
    """The code of a function, or of the first method written for a class."""
    if isinstance(thing, type):
        methods = (getattr(method, "__func__", getattr(method, "fget", method)) for method in vars(thing).values())
        own = (inspect.unwrap(method) for method in methods if isinstance(method, types.FunctionType))
        return next((method.__code__ for method in own if method.__qualname__.startswith(thing.__qualname__)), None)
    return getattr(thing, "__code__", None)


def _space(thing: Any) -> dict[str, Any]:
    """The global names of its code."""
    if isinstance(thing, type):
        return vars(sys.modules.get(thing.__module__, types.ModuleType("")))
    return getattr(thing, "__globals__", {})


def _files(thing: Any, space: dict[str, Any]) -> dict[str, str]:
    """The cells (or the file) of this code, each with its name for messages."""
    home = space.get("__name__")
    theirs = [value for value in list(space.values()) if isinstance(value, type | types.FunctionType) and getattr(value, "__module__", "") == home]
    codes = [code for value in [thing, *theirs] if (code := _code(unwrap(value)))]
    return {code.co_filename: name_of(code.co_filename) for code in codes}


def name_of(filename: str) -> str:
    """The name of a file or cell for a learner: "cell In[3]", "helpers.py"."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    name_it = getattr(getattr(shell, "compile", None), "format_code_name", None)
    named = name_it(filename) if name_it else None
    if named:
        return " ".join(named).replace("Cell", "cell")
    if Path(filename).is_file():
        return Path(filename).name
    return "the notebook" if shell else "the prompt"


def _is_library(module: str) -> bool:
    """Whether a module is a library or the kit. A learner's own module may have the same name as one of torch's."""
    root = module.partition(".")[0]
    if root in ("builtins", "exercises") or module.startswith("grader.notebook"):
        return False
    file = str(getattr(sys.modules.get(root), "__file__", None) or "")
    return root in (*FORBIDDEN_ROOTS, *sys.stdlib_module_names, "torch") or "site-packages" in file or "dist-packages" in file


@dataclass
class _ComposedModule:
    """A module composed of a definition and the helpers that it uses, from all cells: the input of the source check."""

    files: dict[str, str]
    lines: list[str] = field(default_factory=list)
    places: list[tuple[str, int] | None] = field(default_factory=list)  # for each line its file and number; None for a generated line
    known: set[int] = field(default_factory=set)

    def add(self, name: str, thing: Any, space: dict[str, Any]) -> None:
        """Add `thing` under this name, after everything that it uses."""
        self.known.add(id(thing))
        piece = piece_of(thing)
        if piece is None:
            if isinstance(thing, type):
                self._add_bare_class(name, thing)
            return
        inner = inspect.getclosurevars(thing).nonlocals if isinstance(thing, types.FunctionType) else {}
        for word in sorted({node.id for node in ast.walk(parse(piece.text)) if isinstance(node, ast.Name)} - {name}):
            found = inner.get(word, space.get(word))
            if found is not None and id(found) not in self.known:
                self._add_used(word, found, space)
        text = f"{name} = {piece.text}" if thing.__name__ == "<lambda>" else piece.text
        self._write(text, piece)
        if thing.__name__ not in (name, "<lambda>"):
            self._write(f"{name} = {thing.__name__}")

    def _add_used(self, word: str, found: Any, space: dict[str, Any]) -> None:
        if isinstance(found, types.ModuleType):
            if _is_library(found.__name__):
                self._write(f"import {found.__name__} as {word}")
            return
        if not isinstance(found, type) and not inspect.isroutine(found):
            return
        home, name = str(getattr(found, "__module__", None) or ""), getattr(found, "__name__", "")
        if own := name_in_torch(found):
            module, _, last = own.rpartition(".")
            self._write(f"from {module} import {last} as {word}")
        elif home == space.get("__name__"):
            self.add(word, unwrap(found), space)
        elif _is_library(home) and name.isidentifier():
            self._write(f"from {home} import {name} as {word}")

    def _add_bare_class(self, name: str, cls: type) -> None:
        """For a class without methods only the base classes count."""
        bases = [own for base in cls.__bases__ if (own := name_in_torch(base))]
        self._write(f"import torch\nclass {name}({', '.join(bases)}): pass")

    def _write(self, text: str, piece: Piece | None = None) -> None:
        for number, line in enumerate(text.splitlines()):
            self.lines.append(line)
            self.places.append((piece.file, piece.line + number) if piece else None)

    def shortcuts(self, exercise: Exercise) -> list[str]:
        text = "\n".join(self.lines) + "\n"
        sentences = [s for s in reference_imports(text) if " imports exercises" not in s] + forbidden_calls(text, exercise.name, exercise.forbids)
        return list(dict.fromkeys(self._placed(sentence) for sentence in sentences))

    def _placed(self, sentence: str) -> str:
        """Replace `line 7 uses …` by the place in the notebook: `line 2 of cell In[3] uses …`."""
        match = re.match(r"line (\d+)(?: \(in \w+\))? ", sentence)
        if not match:
            return sentence
        place = self.places[int(match[1]) - 1]
        where = f"line {place[1]} of {self.files.get(place[0]) or name_of(place[0])}" if place else "your notebook"
        return f"{where} {sentence[match.end() :].partition('; remove this')[0]}"
