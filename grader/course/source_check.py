"""Reads a learner's source for forbidden names of torch, and for imports of the reference, the tests or the kit.

It finds what is written plainly, as `F.softmax` or an imported `softmax`, and says in which line. Everything else is
seen while the code runs (grader/execution/forbidden/).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

from grader.course.chapter_source import bindings, bound_names, imported_names, statements_and_expressions
from grader.course.source import SourceProblem, parse
from grader.course.syllabus import TESTS
from grader.course.torch_operators import match_forbidden

FORBIDDEN_ROOTS = ("solutions", "grader", "tests", "exercises", "conftest")
_SUITES = frozenset(path.stem for path in TESTS.glob("*.py"))  # with their helpers, which may contain an answer too
MAX_NAME_CHARACTERS = 200  # in a message
_IMPORTING = ("import_module", "__import__", "find_spec", "run_module")
_OWN_KIND = ("builtins", *sys.stdlib_module_names)
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def forbidden_calls(
    text: str, exercise: str, forbids: Collection[str], without: Collection[str] = ()
) -> list[str]:
    """A sentence for each forbidden name in the exercise or in a helper that it uses, but not in the definitions
    `without`; none if the text does not parse.

    Code that can never run is not reported; a branch that no test reaches is, because only the code itself says when it
    runs.
    """
    return list(_forbidden_calls(text, exercise, frozenset(forbids), frozenset(without))) if forbids else []


@lru_cache(maxsize=256)  # each test of a chapter asks for the exercises that it uses
def _forbidden_calls(text: str, exercise: str, forbids: frozenset[str], without: frozenset[str]) -> tuple[str, ...]:
    try:
        tree = parse(text)
    except SourceProblem:
        return ()
    return tuple(_Reader(tree, forbids).read(exercise, without))


@lru_cache(maxsize=16)
def reference_imports(text: str) -> tuple[str, ...]:
    """A sentence for each import of the reference, the tests or the kit in a learner's chapter."""
    try:
        tree = parse(text)
    except SourceProblem:
        return ()
    found = []
    for node in ast.walk(tree):
        for module in imported_modules(node):
            root = module.lstrip(".").partition(".")[0]
            line = f"line {getattr(node, 'lineno', 0)} imports {module}"
            if root == "exercises" and not module.startswith("."):
                found.append(f"{line}; to use your earlier chapters, write `from .chNN_name import ...`")
            elif root in FORBIDDEN_ROOTS or root in _SUITES or root.startswith("test_ch") or module.startswith(".."):
                found.append(f"{line}, which contains the answer or the tests; remove this import")
    return tuple(found)


class _Reader:
    """Reads one module for one set of forbidden names."""

    def __init__(self, tree: ast.Module, forbids: frozenset[str]) -> None:
        self.forbids = forbids
        self.definitions: dict[str, list[ast.stmt]] = {}  # the top-level statements that define or assign each name
        for statement in statements_and_expressions(tree.body):
            if isinstance(statement, ast.stmt):
                for name in bound_names(statement):
                    self.definitions.setdefault(name, []).append(statement)
        imported = {name: found for node in ast.walk(tree) for name, found in imported_paths(node)}
        bound = bindings(tree)  # an import in a `try` counts, also with a definition of that name in the `except`
        self.imported = {
            name: found for name, found in imported.items()
            if name not in self.definitions or any(map(imported_names, bound.get(name, ())))
        }  # fmt: skip
        self.found: dict[tuple[int, str], str] = {}

    def read(self, exercise: str, without: Collection[str]) -> list[str]:
        self.inside = ""
        if exercise in self.imported:  # instead of written
            path, line = self.imported[exercise]
            self._report(line, exercise, path)
        self.used, self.known = [exercise], {exercise, *without}  # names that the exercise uses
        read: set[ast.stmt] = set()
        for name in self.used:  # it grows meanwhile
            self.inside = "" if name == exercise else f" (in {name})"
            for statement in self.definitions.get(name, ()):
                if statement not in read:  # one statement may define thousands of names
                    read.add(statement)
                    self._visit(statement, frozenset())
        return [self.found[key] for key in sorted(self.found)]

    def _visit(self, node: ast.AST, hidden: frozenset[str]) -> None:
        """`hidden`: names that are local here, so they are not the module's."""
        if isinstance(node, _Function):
            outside = [*getattr(node, "decorator_list", ()), *node.args.defaults, *filter(None, node.args.kw_defaults)]
            self._visit_all(outside, hidden)
            body = [node.body] if isinstance(node, ast.Lambda) else _reachable(node.body)
            self._visit_all(body, hidden | _local_names(node))
        elif isinstance(node, ast.AnnAssign):
            self._visit_all(filter(None, [node.target, node.value]), hidden)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            self._visit_all(node.args[:1], hidden)
        elif not (isinstance(node, ast.Attribute | ast.Name) and self._report_name(node, hidden)):
            if isinstance(node, ast.Name) and not (node.id in hidden or node.id in self.known):
                self.known.add(node.id)
                self.used.append(node.id)
            self._visit_all(_parts_that_run(node), hidden)

    def _visit_all(self, nodes: Iterable[ast.AST], hidden: frozenset[str]) -> None:
        for node in nodes:
            self._visit(node, hidden)

    def _report_name(self, node: ast.Attribute | ast.Name, hidden: frozenset[str]) -> bool:
        """Report `torch.softmax` or an imported `softmax`, if it is forbidden."""
        base: ast.expr = node
        attributes: list[str] = []
        while isinstance(base, ast.Attribute):
            attributes.insert(0, base.attr)
            base = base.value
        if not isinstance(base, ast.Name) or base.id in hidden or base.id not in self.imported:
            return False
        path = self.imported[base.id][0]
        return self._report(node.lineno, ".".join([base.id, *attributes]), ".".join([path, *attributes]))

    def _report(self, line: int, spelled: str, path: str) -> bool:
        root, *rest = path.split(".")
        own = root in _OWN_KIND or (root[:2] == "ch" and root[2:4].isdigit())
        if own or not any(match_forbidden(part, self.forbids) for part in rest):
            return False
        what = spelled if rest[-1] in spelled else f"{spelled} ({path})"
        what = what if len(what) <= MAX_NAME_CHARACTERS else f"{what[:MAX_NAME_CHARACTERS]} ..."
        self.found[line, what] = f"line {line}{self.inside} uses {what}; this exercise is to be solved without it"
        return True


def imported_paths(node: ast.AST) -> Iterator[tuple[str, tuple[str, int]]]:
    """The names that a statement imports, each with its dotted path and its line; not from other chapters."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            root = alias.name.partition(".")[0]
            yield alias.asname or root, (alias.name if alias.asname else root, node.lineno)
    elif isinstance(node, ast.ImportFrom) and not node.level:
        for alias in node.names:
            yield alias.asname or alias.name, (f"{node.module}.{alias.name}", node.lineno)


def _local_names(function: _Function) -> set[str]:
    """The parameters of a function, and the names that are assigned in it."""
    names = {part.arg for part in ast.walk(function) if isinstance(part, ast.arg)}
    return names | {
        part.id for part in ast.walk(function) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }


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


def imported_modules(node: ast.AST) -> list[str]:
    """The modules that this node itself imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        start = "." * node.level + (node.module or "")
        return [start] if node.module else [start + alias.name for alias in node.names]
    if isinstance(node, ast.Call) and node.args:
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        name = _constant_beginning(node.args[0])
        return [name] if called in _IMPORTING and name else []
    return []


def _constant_beginning(node: ast.expr) -> str:
    """The beginning of a string expression, as far as it is one constant."""
    while isinstance(node, ast.BinOp):
        node = node.left
    first = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else node
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
