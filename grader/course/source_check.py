"""Checks a learner's source for forbidden calls and for imports of the reference, the tests or the kit."""

from __future__ import annotations

import ast
import sys
from collections import deque
from collections.abc import Collection, Iterator
from functools import lru_cache

from grader.course.name_resolution import (
    Comprehension,
    Scope,
    Scoped,
    comprehension_scope,
    match_forbidden,
    resolve,
    scope_of,
    statements_and_expressions,
)
from grader.course.source import SourceProblem, parse
from grader.course.syllabus import TESTS

FORBIDDEN_ROOTS = ("solutions", "grader", "tests", "exercises", "conftest")
_SUITES = frozenset(path.stem for path in TESTS.glob("*.py"))  # with their helpers, which may contain an answer too
MAX_EXPRESSION_CHARACTERS = 200  # in a message
IMPORTING = {"importlib.import_module", "builtins.__import__"}
_OWN_KIND = ("builtins", *sys.stdlib_module_names)


def forbidden_calls(text: str, exercise: str, forbids: Collection[str]) -> list[str]:
    """A sentence for each forbidden use in the exercise or in a helper that it uses; none if the text does not parse.

    `x.softmax(-1)` on a value of unknown type is not reported here; the check at run time sees it. Code that can never
    run is not reported; a branch that no test reaches is, because only the code itself says when it runs.
    """
    if not forbids:
        return []
    try:
        tree = parse(text)
    except SourceProblem:
        return []
    return _Checker(tree, frozenset(forbids)).check(exercise)


@lru_cache(maxsize=16)  # read once for a chapter, not for each of its exercises
def reference_imports(text: str) -> tuple[str, ...]:
    """A sentence for each import of the reference, the tests or the kit in a learner's chapter."""
    try:
        tree = parse(text)
    except SourceProblem:
        return ()
    found = []
    for node, scope in _walk_with_scopes(tree.body, scope_of(tree.body)):
        for line, module in _imported_modules(node, scope):
            root = module.lstrip(".").partition(".")[0]
            if root == "exercises" and not module.startswith("."):
                advice = "to use your earlier chapters, write `from .chNN_name import ...`"
                found.append(f"line {line} imports {module}; {advice}")
            elif root in FORBIDDEN_ROOTS or root in _SUITES or root.startswith("test_ch") or module.startswith(".."):
                reason = "which contains the answer or the tests"
                found.append(f"line {line} imports {module}, {reason}; remove this import")
    return tuple(found)


class _Checker:
    """Checks one module for one set of forbidden names."""

    def __init__(self, tree: ast.Module, forbids: frozenset[str]) -> None:
        self.tree, self.forbids = tree, forbids
        self.scope = scope_of(tree.body)
        self.definitions = _definitions_by_name(tree)
        self.found: dict[tuple[int, str], str] = {}

    def check(self, exercise: str) -> list[str]:
        self._check_imported_exercise(exercise)
        waiting, seen = deque([exercise]), {exercise}
        read: set[ast.stmt] = set()  # one statement may define thousands of names
        while waiting:
            part = waiting.popleft()
            self.inside = "" if part == exercise else f" (in {part})"
            self.used_names: list[str] = []
            for statement in self.definitions.get(part, ()):
                if statement not in read:
                    read.add(statement)
                    self._visit(statement, self.scope)
            for name in self.used_names:
                if name not in seen:
                    seen.add(name)
                    waiting.append(name)
        return [self.found[key] for key in sorted(self.found)]

    def _visit(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for part in [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]:
                self._visit(part, scope)
            self._visit_all(_reachable(node.body), scope_of(node.body, scope, node.args))
        elif isinstance(node, ast.ClassDef):
            self._visit_all([*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)], scope)
            inside = scope_of(node.body, scope)
            for statement in node.body:
                self._visit(statement, scope if isinstance(statement, Scoped | ast.ClassDef) else inside)
        elif isinstance(node, ast.Lambda | Comprehension):
            self._visit_all(ast.iter_child_nodes(node), comprehension_scope(node, scope))
        elif isinstance(node, ast.AnnAssign):
            self._visit_all(filter(None, [node.target, node.value]), scope)
        elif isinstance(node, ast.arguments):
            self._visit_all([*node.defaults, *filter(None, node.kw_defaults)], scope)
        elif isinstance(node, ast.Call) and resolve(node.func, scope) & {"builtins.isinstance", "builtins.issubclass"}:
            self._visit_all(node.args[:1], scope)
        elif not (isinstance(node, ast.expr) and self._report(node, scope)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self.used_names += [node.id] if scope.owner(node.id) in (self.scope, None) else []
            self._visit_all(_parts_that_run(node), scope)

    def _visit_all(self, nodes, scope: Scope) -> None:
        for node in nodes:
            self._visit(node, scope)

    def _report(self, node: ast.expr, scope: Scope) -> bool:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            return False
        for path in sorted(resolve(node, scope)):
            if self._is_forbidden(path):
                self._add(node.lineno, _spelled(node, path), path)
                return True
        return False

    def _add(self, line: int, spelled: str, path: str) -> None:
        name = path.rpartition(".")[2]
        what = spelled if name in spelled else f"{spelled} ({path})"
        self.found[line, what] = f"line {line}{self.inside} uses {what}; this exercise is to be solved without it"

    def _is_forbidden(self, path: str) -> bool:
        root, *rest = path.split(".")
        if root in _OWN_KIND or (root[:2] == "ch" and root[2:4].isdigit()):
            return False
        return any(match_forbidden(part, self.forbids) for part in rest)

    def _check_imported_exercise(self, exercise: str) -> None:
        """The exercise is not defined but imported: `from torch.nn.functional import softmax`."""
        self.inside = ""
        if exercise in self.definitions:
            return
        for path in sorted(resolve(ast.Name(exercise, ast.Load()), self.scope)):
            if self._is_forbidden(path):
                module = path.rpartition(".")[0]
                lines = [n.lineno for n in ast.walk(self.tree) if isinstance(n, ast.ImportFrom) and n.module == module]
                self._add(lines[0] if lines else 1, exercise, path)


def _parts_that_run(node: ast.AST) -> Iterator[ast.AST]:
    """The child nodes, without those that can never run: below `if False:`, and behind a `return` in the same block."""
    dead = ""
    if isinstance(node, ast.If | ast.IfExp | ast.While) and isinstance(node.test, ast.Constant):
        dead = "orelse" if node.test.value else "body"
    for name, value in ast.iter_fields(node):
        if isinstance(value, list):
            yield from () if name == dead else _reachable([part for part in value if isinstance(part, ast.AST)])
        elif isinstance(value, ast.AST) and name != dead:
            yield value


def _reachable(block: list[ast.AST] | list[ast.stmt]) -> Iterator[ast.AST]:
    for node in block:
        yield node
        if isinstance(node, ast.Return | ast.Raise | ast.Break | ast.Continue):
            return


def _spelled(node: ast.expr, path: str) -> str:
    """The source text of an expression, shortened; the dotted path if Python cannot unparse it."""
    try:
        text = " ".join(ast.unparse(node).split())
    except (ValueError, RecursionError):
        return path
    return text if len(text) <= MAX_EXPRESSION_CHARACTERS else f"{text[:MAX_EXPRESSION_CHARACTERS]} ..."


def _definitions_by_name(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """For each name, the top-level statements of the module that define or change it."""
    definitions: dict[str, list[ast.stmt]] = {}
    for node in statements_and_expressions(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            definitions[node.name] = [node]
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for name in _roots(target):
                    definitions.setdefault(name, []).append(node)
    return definitions


def _roots(target: ast.expr) -> Iterator[str]:
    while isinstance(target, ast.Attribute | ast.Subscript | ast.Starred):
        target = target.value
    if isinstance(target, ast.Name):
        yield target.id
    for element in getattr(target, "elts", ()):
        yield from _roots(element)


def _walk_with_scopes(nodes, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
    for node in nodes:
        yield node, scope
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        inner = scope_of(node.body, scope, node.args) if is_function else scope
        yield from _walk_with_scopes(ast.iter_child_nodes(node), inner)


def _imported_modules(node: ast.AST, scope: Scope) -> list[tuple[int, str]]:
    """The modules that this node itself imports, each with its line."""
    if isinstance(node, ast.Import):
        return [(node.lineno, alias.name) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        start = "." * node.level + (node.module or "")
        return [(node.lineno, start)] if node.module else [(node.lineno, start + alias.name) for alias in node.names]
    if isinstance(node, ast.Call) and node.args and resolve(node.func, scope) & IMPORTING:
        return [(node.lineno, name)] if (name := _constant_prefix(node.args[0])) else []
    return []


def _constant_prefix(node: ast.expr) -> str | None:
    """The first constant part of a string expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.BinOp):
        return _constant_prefix(node.left)
    return _constant_prefix(node.values[0]) if isinstance(node, ast.JoinedStr) and node.values else None
