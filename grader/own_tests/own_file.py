"""The file with a learner's own tests of an exercise: where it is, what it begins with, and what it may not do."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from pathlib import Path

from grader.course.source import SourceProblem, parse, read_source
from grader.course.source_check import FORBIDDEN_ROOTS, imported_modules
from grader.course.syllabus import EXERCISES, Exercise
from grader.files import write_whole
from grader.own_tests.versions import load_tasks

FOLDER = EXERCISES / "my_tests"
# a test learns about an exercise by calling it; these read code, or reach what else the process has in memory
_MODULES = frozenset(
    "builtins code codeop ctypes dis gc importlib inspect linecache marshal multiprocessing os pickle pickletools "
    "pkgutil posix pty runpy socket subprocess symtable sys threading traceback types".split()
)
_CALLS = frozenset({"__import__", "breakpoint", "compile", "eval", "exec", "globals", "locals", "open", "vars"})
_CODE = ("__", "co_", "f_", "gi_", "cr_", "ag_", "tb_")  # how attributes of code, frames and generators begin
_PLAIN = frozenset(
    {"__init__", "__call__", "__name__", "__len__", "__getitem__", "__iter__", "__next__", "__version__"}
)
_FORMATTING = frozenset({"format", "format_map", "Formatter"})  # "{0.__code__}".format(f); an f-string is checked
_GETTERS = ("getattr", "hasattr", "attrgetter", "methodcaller")
_ASSERTING = ("assert", "raises", "warns", "fail")  # in the name of what is called

_START = '''"""My tests of {name}. To run them: headway try-test {name}

{promise}
"""

import torch
from hypothesis import given
from hypothesis import strategies as st


def test_one_example(learner):
    """One example finds little. What holds for every input?"""
{example}
'''
_EXAMPLE = "assert callable(learner.{name})  # instead of this, call it, and assert what must hold"


def module_of_tests(exercise: Exercise) -> str:
    """The name of the module with a learner's own tests of this exercise."""
    return f"test_{exercise.name}"


def path_of(exercise: Exercise) -> Path:
    return FOLDER / f"{module_of_tests(exercise)}.py"


def write_start(exercise: Exercise) -> None:
    """Write a file with one small test. OSError if it cannot be written."""
    task = load_tasks().get(exercise.name)
    example = textwrap.indent(task.example.strip() if task else _EXAMPLE.format(name=exercise.name), "    ")
    promise = textwrap.fill(exercise.promise, 118)
    write_whole(path_of(exercise), _START.format(name=exercise.name, promise=promise, example=example))


def read_tests(path: Path) -> str:
    """The text of a file of tests. SourceProblem if it is not Python, has no test, or reads code."""
    text = read_source(path)
    check_tests(text, path.name)
    return text


def check_tests(text: str, file: str) -> None:
    """SourceProblem if the text is not Python, has no test, or reads code."""
    tree = parse(text, file)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    if not any(node.name.startswith("test") for node in functions):
        raise SourceProblem(f"{file} has no test; write a function whose name begins with test_")
    for node in ast.walk(tree):
        for what in _refused(node):
            rule = "a test calls the exercise and looks at its results; it does not read code"
            raise SourceProblem(f"{file}, line {getattr(node, 'lineno', 1)}: remove {what}; {rule}")


def asserts_something(text: str) -> bool:
    """Whether a test in this text can fail by what it asserts."""
    for node in ast.walk(parse(text)):
        called = node.func if isinstance(node, ast.Call) else None
        name = getattr(called, "attr", getattr(called, "id", ""))
        if isinstance(node, ast.Assert | ast.Raise) or any(word in name.lower() for word in _ASSERTING):
            return True
    return False


def _refused(node: ast.AST) -> Iterator[str]:
    """What this node does that a test may not."""
    for module in imported_modules(node):
        root = module.lstrip(".").partition(".")[0]
        if root in _MODULES or root in FORBIDDEN_ROOTS and root != "exercises" or root.startswith("test_"):
            yield f"the import of {module}"
    if isinstance(node, ast.ImportFrom):
        yield from (f"the import of {alias.name}" for alias in node.names if alias.name in _MODULES)
    if isinstance(node, ast.Attribute) and (node.attr in _MODULES or _reads_code(node.attr)):
        yield f".{node.attr}"
    if isinstance(node, ast.MatchClass):  # case object(__code__=code)
        yield from (f"{name}=" for name in node.kwd_attrs if _reads_code(name))
    if isinstance(node, ast.Name) and (node.id in _CALLS or node.id.startswith("__")):
        yield node.id
    if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in _GETTERS:
        if not all(isinstance(word, ast.Constant) and not _reads_code(str(word.value)) for word in node.args[1:2]):
            yield "getattr with such a name"


def _reads_code(name: str) -> bool:
    return name in _FORMATTING or name.startswith(_CODE) and name not in _PLAIN
