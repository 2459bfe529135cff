"""Resolves names in a learner's source to dotted paths, through imports and assignments."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterable, Iterator

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Scoped = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | Comprehension

MAX_PATHS = 30  # of one name; in ordinary programs there are one or two
MAX_PATH_CHARACTERS = 300


class Scope:
    """The names bound in a module, class, function or comprehension, and the scope around it."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.paths: dict[str, frozenset[str]] = {}  # what each name bound here may mean; nothing if it is the author's
        self.stars: list[str] = []  # modules imported with *
        self.module: Scope = outer.module if outer else self

    def bind(self, name: str, paths: Iterable[str] = ()) -> None:
        """At module level a later binding replaces an earlier one; in a function, every binding counts."""
        known = self.paths.get(name, frozenset()) if self.outer else frozenset()
        short = sorted(path for path in known.union(paths) if len(path) <= MAX_PATH_CHARACTERS)
        self.paths[name] = frozenset(short[:MAX_PATHS])

    def owner(self, name: str) -> Scope | None:
        """The innermost scope from here outwards that binds `name`."""
        scope: Scope | None = self
        while scope is not None and name not in scope.paths:
            scope = scope.outer
        return scope


def scope_of(body: list[ast.stmt], outer: Scope | None = None, arguments: ast.arguments | None = None) -> Scope:
    """The scope that these statements bind names in."""
    scope = Scope(outer)
    for argument in ast.walk(arguments) if arguments else ():
        if isinstance(argument, ast.arg):
            scope.bind(argument.arg)
    for node in statements_and_expressions(body):
        _bind(scope, node)
    return scope


def comprehension_scope(node: ast.Lambda | Comprehension, outer: Scope) -> Scope:
    """The scope of a comprehension or lambda."""
    if isinstance(node, ast.Lambda):
        return scope_of([], outer, node.args)
    scope = Scope(outer)
    for generator in node.generators:
        _bind_names(scope, generator.target)
    return scope


def statements_and_expressions(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Every node of these statements in order, but not the inside of functions, classes and comprehensions."""
    for node in body:
        yield node
        if not isinstance(node, Scoped | ast.ClassDef):
            yield from statements_and_expressions(ast.iter_child_nodes(node))


def resolve(node: ast.expr | None, scope: Scope) -> frozenset[str]:
    """The paths that a name or attribute may mean: `F.softmax` -> {"torch.nn.functional.softmax"}; empty if unknown."""
    if isinstance(node, ast.Attribute):
        return frozenset(f"{base}.{node.attr}" for base in resolve(node.value, scope))
    if not isinstance(node, ast.Name):
        return frozenset()
    if owner := scope.owner(node.id):
        return owner.paths[node.id]
    modules = ["builtins"] if hasattr(builtins, node.id) else scope.module.stars[:MAX_PATHS]
    return frozenset(f"{module}.{node.id}" for module in modules)


def _bind(scope: Scope, node: ast.AST) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            root = alias.name.partition(".")[0]
            scope.bind(alias.asname or root, [alias.name if alias.asname else root])
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            if alias.name == "*":
                scope.stars += [node.module] if not node.level and node.module else []
            else:
                scope.bind(alias.asname or alias.name, [] if node.level else [f"{node.module}.{alias.name}"])
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        scope.bind(node.name)
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name) and node.value is not None:
                scope.bind(target.id, resolve(node.value, scope))
            elif node.value is not None:
                _bind_names(scope, target)
    elif isinstance(node, ast.For | ast.AsyncFor):
        _bind_names(scope, node.target)
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        _bind_names(scope, node.optional_vars)
    elif isinstance(node, ast.ExceptHandler) and node.name:
        scope.bind(node.name)


def _bind_names(scope: Scope, target: ast.expr) -> None:
    for leaf in ast.walk(target):
        if isinstance(leaf, ast.Name) and isinstance(leaf.ctx, ast.Store):
            scope.bind(leaf.id)


def canonical_name(name: str) -> str:
    """The common name of torch's variants of one operation: `_softmax`, `softmax_`, `_safe_softmax`."""
    name = name.strip("_")
    for prefix in ("special_", "native_", "safe_"):
        name = name.removeprefix(prefix)
    return name


def match_forbidden(name: str, forbids: Collection[str]) -> str | None:
    """The forbidden name that this name matches, or None."""
    return name if name in forbids else spelled if (spelled := canonical_name(name)) in forbids else None
