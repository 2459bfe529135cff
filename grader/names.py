"""What a name in a learner's source stands for: import aliases, assignments and getattr followed back to dotted paths."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterable, Iterator

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Scoped = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | Comprehension


class Scope:
    """The names bound in a module, class, function or comprehension, and the scope around it."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.paths: dict[str, set[str]] = {}  # imported names, each with its dotted path
        self.values: dict[str, list[ast.expr]] = {}  # names assigned a value that may stand for something else
        self.own: set[str] = set()  # names that stand for something made here
        self.stars: list[str] = []  # modules imported with *

    def bind(self, name: str, *, path: str | None = None, value: ast.expr | None = None) -> None:
        """A later binding takes the place of an earlier one at module level; in a function, any of them may be meant."""
        if self.outer is None:
            self.paths.pop(name, None)
            self.values.pop(name, None)
            self.own.discard(name)
        if path is not None:
            self.paths.setdefault(name, set()).add(path)
        elif value is not None:
            self.values.setdefault(name, []).append(value)
        else:
            self.own.add(name)

    def holds(self, name: str) -> bool:
        return name in self.paths or name in self.values or name in self.own

    def owner(self, name: str) -> Scope | None:
        """The scope in which `name` is bound, seen from here."""
        scope: Scope | None = self
        while scope is not None and not scope.holds(name):
            scope = scope.outer
        return scope


def scope_of(body: list[ast.stmt], outer: Scope | None = None, arguments: ast.arguments | None = None) -> Scope:
    """The scope that these statements bind names in."""
    scope = Scope(outer)
    if arguments is not None:
        for argument in ast.walk(arguments):
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
        for leaf in ast.walk(generator.target):
            if isinstance(leaf, ast.Name):
                scope.bind(leaf.id)
    return scope


def statements_and_expressions(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Every node of these statements in order, without going into the scopes of functions, classes and comprehensions."""
    for node in body:
        yield node
        if not isinstance(node, Scoped | ast.ClassDef):
            yield from statements_and_expressions(ast.iter_child_nodes(node))


def resolve(node: ast.expr, scope: Scope, seen: frozenset[int] = frozenset()) -> set[str]:
    """The dotted paths that an expression may stand for: `F.softmax` -> {"torch.nn.functional.softmax"}; empty where it is anybody's guess."""
    if id(node) in seen:
        return set()
    seen = seen | {id(node)}
    if isinstance(node, ast.Name):
        return _resolve_name(node.id, scope, seen)
    if isinstance(node, ast.Attribute):
        return {f"{base}.{node.attr}" for base in resolve(node.value, scope, seen)}
    if isinstance(node, ast.Call):
        return _resolve_call(node, scope, seen)
    if isinstance(node, ast.Subscript):
        return _resolve_item(node, scope, seen)
    if isinstance(node, ast.IfExp):
        return resolve(node.body, scope, seen) | resolve(node.orelse, scope, seen)
    if isinstance(node, ast.BoolOp):
        return set().union(*(resolve(value, scope, seen) for value in node.values))
    if isinstance(node, ast.NamedExpr):
        return resolve(node.value, scope, seen)
    return set()


def text_of(node: ast.expr | None) -> str | None:
    """The string that an expression of constants spells, else None."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = text_of(node.left), text_of(node.right)
        return None if left is None or right is None else left + right
    return None


def _bind(scope: Scope, node: ast.AST) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            root = alias.name.partition(".")[0]
            scope.bind(alias.asname or root, path=alias.name if alias.asname else root)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            if alias.name == "*":
                scope.stars += [node.module] if not node.level and node.module else []
            elif node.level:
                scope.bind(alias.asname or alias.name)
            else:
                scope.bind(alias.asname or alias.name, path=f"{node.module}.{alias.name}")
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        scope.bind(node.name)
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            _bind_target(scope, target, node.value)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        _bind_target(scope, node.target, node.value)
    elif isinstance(node, ast.For | ast.AsyncFor):
        _bind_target(scope, node.target, None)
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        _bind_target(scope, node.optional_vars, None)
    elif isinstance(node, ast.ExceptHandler) and node.name:
        scope.bind(node.name)


def _bind_target(scope: Scope, target: ast.expr, value: ast.expr | None) -> None:
    if isinstance(target, ast.Name):
        scope.bind(target.id, value=value)
    elif isinstance(target, ast.Tuple | ast.List):
        values = value.elts if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) else [None] * len(target.elts)
        for element, one in zip(target.elts, values):
            _bind_target(scope, element, one)
    elif isinstance(target, ast.Starred):
        _bind_target(scope, target.value, None)


def _resolve_name(name: str, scope: Scope, seen: frozenset[int]) -> set[str]:
    owner = scope.owner(name)
    if owner is None:
        if hasattr(builtins, name):
            return {f"builtins.{name}"}
        while scope.outer is not None:
            scope = scope.outer
        return {f"{module}.{name}" for module in scope.stars}
    found = set(owner.paths.get(name, ()))
    for value in owner.values.get(name, ()):
        found |= resolve(value, owner, seen)
    return found


def _resolve_call(node: ast.Call, scope: Scope, seen: frozenset[int]) -> set[str]:
    called = resolve(node.func, scope, seen)
    first = node.args[0] if node.args else None
    if first is not None and len(node.args) > 1 and "builtins.getattr" in called:
        attribute = text_of(node.args[1])
        return {f"{base}.{attribute}" for base in resolve(first, scope, seen)} if attribute else set()
    module = text_of(first)
    if module and "importlib.import_module" in called:
        return {module}
    if module and "builtins.__import__" in called:
        return {module.partition(".")[0]}
    return set()


def _resolve_item(node: ast.Subscript, scope: Scope, seen: frozenset[int]) -> set[str]:
    key = text_of(node.slice)
    if key is None:
        return set()
    table = node.value
    if "sys.modules" in resolve(table, scope, seen):
        return {key}
    if isinstance(table, ast.Attribute) and table.attr == "__dict__":
        return {f"{base}.{key}" for base in resolve(table.value, scope, seen)}
    if isinstance(table, ast.Call) and table.args and "builtins.vars" in resolve(table.func, scope, seen):
        return {f"{base}.{key}" for base in resolve(table.args[0], scope, seen)}
    return set()


def bare(name: str) -> str:
    """The name behind torch's spellings of one operation: `_softmax`, `softmax_`, `native_dropout`, `_safe_softmax`."""
    name = name.strip("_")
    for prefix in ("special_", "native_", "safe_"):
        name = name.removeprefix(prefix)
    return name


def forbidden(name: str, forbids: Collection[str]) -> str | None:
    """Which of the forbidden names this is, if it is one."""
    return name if name in forbids else spelled if (spelled := bare(name)) in forbids else None
