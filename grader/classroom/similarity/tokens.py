"""Reduces a definition to tokens that stay the same when somebody renames variables or changes comments or the layout.

Docstrings and annotations make no difference either. The tokens come from the syntax tree. Names that a learner chooses
become variables: parameters, local names, helper functions, attributes of `self` that the reference does not use. Names
of exercises, of torch and of Python stay. `x += 1` gives the same tokens as `x = x + 1`.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable
from functools import cache

from grader.course.source import Definition, parse, read_source
from grader.course.syllabus import SOLUTIONS, load_syllabus

Token = tuple[str, int]  # its text and its line; the text of a variable begins with VARIABLE
VARIABLE = "$"
MAX_WORD_LENGTH = 20  # a longer text is a sentence, which says nothing about the code
SKIPPED = frozenset({"ctx", "annotation", "returns", "type_comment", "type_params", "kind"})
BUILTINS = frozenset(dir(builtins))


def find_definitions(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """The last definition of each exercise, and under "" all definitions that are no exercise."""
    found: dict[str, list[ast.stmt]] = {}
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
    trees = [parse(read_source(path), path.name) for path in sorted(SOLUTIONS.glob("ch*.py"))]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    functions = frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef))
    return functions | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def fixed_names(tree: ast.Module) -> dict[str, str]:
    """The names of exercises, of Python, and of this chapter's imports, each with its full name without an alias."""
    found = {name: name for name in BUILTINS | _exercise_names()}
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name.partition(".")[0]
                found[alias.asname or name] = alias.name if alias.asname else name
        elif isinstance(node, ast.ImportFrom):
            origin = "" if node.level else f"{node.module}."
            found |= {alias.asname or alias.name: origin + alias.name for alias in node.names}
    return found


class _TokenReader:
    """Walks one definition. A chapter has at most 150 levels (course/source.py), so the recursion ends."""

    def __init__(self, fixed: dict[str, str]) -> None:
        self.found: list[Token] = []
        self._fixed = fixed

    def visit(self, node: ast.AST, line: int) -> None:
        line = getattr(node, "lineno", line)
        match node:
            case ast.Name(id=name):
                self.found.append((self._fixed.get(name) or VARIABLE + name, line))
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if name not in _known_attributes():
                self.found.append((f"{VARIABLE}self.{name}", line))
            case ast.Attribute(value=value, attr=name):
                self.found.append((f".{name}", line))
                self.visit(value, line)
            case ast.Constant(value=value):
                is_sentence = isinstance(value, str | bytes) and len(value) > MAX_WORD_LENGTH
                self.found.append(("text" if is_sentence else repr(value), line))
            case ast.JoinedStr():
                self.found.append(("text", line))
            case ast.arg(arg=name):
                self.found.append((VARIABLE + name, line))
            case ast.Expr(value=value):
                self.visit(value, line)
            case ast.BinOp(left=left, op=op, right=right):
                self._visit_all([op, left, right], line)
            case ast.AugAssign(target=target, op=op, value=value):
                self.found.append(("Assign", line))
                self._visit_all([target, op, target, value], line)
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    self.found.append(("Assign", line))
                    self._visit_all([target, value], line)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._visit_definition(node, line)
            case _:
                self.found.append((type(node).__name__, line))
                self._visit_fields(node, line)

    def _visit_definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, line: int) -> None:
        is_known = node.name in _known_attributes() or node.name.startswith("__")
        name = node.name if is_known else self._fixed.get(node.name) or VARIABLE + node.name
        self.found += [(type(node).__name__, line), (name, line)]
        heads = node.bases if isinstance(node, ast.ClassDef) else [node.args]
        self._visit_all([*heads, *(entry for entry in node.body if not _is_docstring(entry))], line)
        self.found.append(("end", max(line, self.found[-1][1])))

    def _visit_fields(self, node: ast.AST, line: int) -> None:
        for field in node._fields:
            value = getattr(node, field, None)
            if value is None or field in SKIPPED:
                continue
            if isinstance(value, ast.AST):
                self.visit(value, line)
            elif isinstance(value, list):
                parts = [entry for entry in value if isinstance(entry, ast.AST)]
                self._visit_all([entry for entry in parts if not (field == "body" and _is_docstring(entry))], line)
                if field == "body":
                    self.found.append(("end", max(line, self.found[-1][1])))
            else:
                self.found.append((str(value), line))

    def _visit_all(self, nodes: Iterable[ast.AST], line: int) -> None:
        for node in nodes:
            self.visit(node, line)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
