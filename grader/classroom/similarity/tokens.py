"""Reduces a definition to tokens that stay the same when somebody renames variables, or changes comments, docstrings, annotations and the layout.

The tokens come from the syntax tree. Names that a learner chooses become variables: parameters, local names, helper functions, attributes of `self` that the
reference does not use. Names of exercises, of torch and of Python stay. `x += 1` gives the same tokens as `x = x + 1`.
"""

from __future__ import annotations

import ast
import builtins
import gc
import warnings
from collections.abc import Callable, Iterable
from functools import cache

from grader.course.source import Definition, SourceProblem, parse, read_source
from grader.course.syllabus import SOLUTIONS, load_syllabus

Token = tuple[str, int]  # its text and its line; the text of a variable begins with VARIABLE
VARIABLE = "$"
LONGEST_WORD = 20  # a longer text is a sentence, which says nothing about the code
SKIPPED = frozenset({"ctx", "annotation", "returns", "type_comment", "type_params", "kind"})
BUILTINS = frozenset(dir(builtins))
Definitions = dict[str, list[ast.stmt]]


def parse_checked(text: str) -> ast.Module:
    """The syntax tree of a text that intake/ has accepted (it checks depth and size). SourceProblem if it is not valid Python."""
    collects = gc.isenabled()
    gc.disable()  # a tree has no cycles; looking for them again and again, while it grows, takes longer than parsing
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError, SystemError, OverflowError):
        parse(text)  # says in plain words why
        raise SourceProblem("it cannot be parsed") from None
    finally:
        if collects:
            gc.enable()


def find_definitions(tree: ast.Module) -> Definitions:
    """The last definition of each exercise, and under "" all definitions that are no exercise."""
    found: Definitions = {}
    for node in tree.body:
        if isinstance(node, Definition):
            if node.name in _exercise_names():
                found[node.name] = [node]
            else:
                found.setdefault("", []).append(node)
    return found


def read_tokens(code: ast.AST, fixed: dict[str, str]) -> list[Token]:
    """The tokens of a definition, or of a whole module; `fixed` are the names that are no variables (`fixed_names`)."""
    reader = _TokenReader(fixed)
    reader.visit(code, 0)
    return reader.found


@cache
def _exercise_names() -> frozenset[str]:
    return frozenset(exercise.name for exercise in load_syllabus().exercises)


@cache
def _known_attributes() -> frozenset[str]:
    """Attributes and functions that the reference uses: learners do not choose these names."""
    nodes = [node for path in sorted(SOLUTIONS.glob("ch*.py")) for node in ast.walk(parse(read_source(path), path.name))]
    return frozenset(node.attr for node in nodes if isinstance(node, ast.Attribute)) | frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef))


def fixed_names(tree: ast.Module) -> dict[str, str]:
    """The names of exercises, of Python, and of what this chapter imports, each with its full name: an alias makes no difference."""
    found = {name: name for name in BUILTINS | _exercise_names()}
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.asname or alias.name.partition(".")[0]: alias.name if alias.asname else alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            origin = "" if node.level else f"{node.module}."
            found |= {alias.asname or alias.name: origin + alias.name for alias in node.names}
    return found


class _TokenReader:
    """Walks one definition. A chapter has at most 150 levels (course/source.py), so the recursion ends."""

    def __init__(self, fixed: dict[str, str]) -> None:
        self.found: list[Token] = []
        self._fixed = fixed
        self._visitors: dict[type, Callable[..., None]] = {
            ast.Name: self._name,
            ast.Constant: self._constant,
            ast.Attribute: self._attribute,
            ast.arg: self._argument,
            ast.FunctionDef: self._definition,
            ast.AsyncFunctionDef: self._definition,
            ast.ClassDef: self._definition,
            ast.JoinedStr: self._text,
            ast.Expr: self._expression,
            ast.BinOp: self._operation,
            ast.AugAssign: self._changed_variable,
            ast.AnnAssign: self._annotated_variable,
        }

    def visit(self, node: ast.AST, line: int) -> None:
        line = getattr(node, "lineno", line)
        visitor = self._visitors.get(type(node))
        if visitor:
            visitor(node, line)
        else:
            self.found.append((type(node).__name__, line))
            self._fields(node, line)

    def _fields(self, node: ast.AST, line: int) -> None:
        for field in node._fields:
            value = getattr(node, field, None)
            if value is None or field in SKIPPED:
                continue
            if isinstance(value, ast.AST):
                self.visit(value, line)
            elif isinstance(value, list):
                for entry in value:
                    if isinstance(entry, ast.AST) and not (field == "body" and _is_docstring(entry)):
                        self.visit(entry, line)
                if field == "body":
                    self.found.append(("end", max(line, self.found[-1][1])))
            else:
                self.found.append((str(value), line))

    def _all(self, nodes: Iterable[ast.AST], line: int) -> None:
        for node in nodes:
            self.visit(node, line)

    def _name(self, node: ast.Name, line: int) -> None:
        self.found.append((self._fixed.get(node.id) or VARIABLE + node.id, line))

    def _argument(self, node: ast.arg, line: int) -> None:
        self.found.append((VARIABLE + node.arg, line))

    def _constant(self, node: ast.Constant, line: int) -> None:
        is_sentence = isinstance(node.value, str | bytes) and len(node.value) > LONGEST_WORD
        self.found.append(("text" if is_sentence else repr(node.value), line))

    def _text(self, node: ast.JoinedStr, line: int) -> None:
        self.found.append(("text", line))

    def _attribute(self, node: ast.Attribute, line: int) -> None:
        if isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr not in _known_attributes():
            self.found.append((f"{VARIABLE}self.{node.attr}", line))
        else:
            self.found.append((f".{node.attr}", line))
            self.visit(node.value, line)

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, line: int) -> None:
        known = node.name in _known_attributes() or node.name.startswith("__")
        self.found += [(type(node).__name__, line), (node.name if known else self._fixed.get(node.name) or VARIABLE + node.name, line)]
        for part in (getattr(node, "args", None), *getattr(node, "bases", ())):
            if part is not None:
                self.visit(part, line)
        self._all([entry for entry in node.body if not _is_docstring(entry)], line)
        self.found.append(("end", max(line, self.found[-1][1])))

    def _expression(self, node: ast.Expr, line: int) -> None:
        self.visit(node.value, line)

    def _operation(self, node: ast.BinOp, line: int) -> None:
        self._all([node.op, node.left, node.right], line)

    def _changed_variable(self, node: ast.AugAssign, line: int) -> None:
        self.found.append(("Assign", line))
        self._all([node.target, node.op, node.target, node.value], line)

    def _annotated_variable(self, node: ast.AnnAssign, line: int) -> None:
        if node.value is not None:
            self.found.append(("Assign", line))
            self._all([node.target, node.value], line)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
