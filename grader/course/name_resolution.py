"""Resolves names in a learner's source to dotted paths, through import aliases, assignments and getattr."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterable, Iterator

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Scoped = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | Comprehension

MAX_PATHS = 30  # of one name; in ordinary programs there are one or two
MAX_PATH_CHARACTERS = 300
MAX_DEPTH = 30  # names that are defined by each other; the check at run time sees calls beyond that


class Scope:
    """The names bound in a module, class, function or comprehension, and the scope around it."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.paths: dict[str, set[str]] = {}  # imported names, each with its dotted path
        self.values: dict[str, list[ast.expr]] = {}  # names with the expressions assigned to them
        self.own: set[str] = set()  # names defined here, by def, class or an argument
        self.stars: list[str] = []  # modules imported with *
        self.module: Scope = outer.module if outer else self
        self.known: dict[str, frozenset[str]] = {}  # the resolved paths of names bound here

    def bind(self, name: str, *, path: str | None = None, value: ast.expr | None = None) -> None:
        """At module level a later binding replaces an earlier one; in a function, every binding counts."""
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

    def binds(self, name: str) -> bool:
        return name in self.paths or name in self.values or name in self.own

    def owner(self, name: str) -> Scope | None:
        """The innermost scope from here outwards that binds `name`."""
        scope: Scope | None = self
        while scope is not None and not scope.binds(name):
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
    """Every node of these statements in order, but not the inside of functions, classes and comprehensions."""
    waiting = [iter(body)]
    while waiting:
        node = next(waiting[-1], None)
        if node is None:
            waiting.pop()
            continue
        yield node
        if not isinstance(node, Scoped | ast.ClassDef):
            waiting.append(ast.iter_child_nodes(node))


def resolve(node: ast.expr | None, scope: Scope, depth: int = 0) -> frozenset[str]:
    """The paths that an expression may mean: `F.softmax` -> {"torch.nn.functional.softmax"}; empty if unknown."""
    if isinstance(node, ast.Name):
        return _resolve_name(node.id, scope, depth)
    if isinstance(node, ast.Attribute):
        return _with_attribute(resolve(node.value, scope, depth), node.attr)
    if isinstance(node, ast.Call):
        return _resolve_call(node, scope, depth)
    if isinstance(node, ast.Subscript):
        return _resolve_item(node, scope, depth)
    if isinstance(node, ast.IfExp):
        return resolve(node.body, scope, depth) | resolve(node.orelse, scope, depth)
    if isinstance(node, ast.BoolOp):
        return frozenset().union(*(resolve(value, scope, depth) for value in node.values))
    if isinstance(node, ast.NamedExpr):
        return resolve(node.value, scope, depth)
    return frozenset()


def _resolve_name(name: str, scope: Scope, depth: int) -> frozenset[str]:
    owner = scope.owner(name)
    if owner is None:
        modules = ["builtins"] if hasattr(builtins, name) else scope.module.stars[:MAX_PATHS]
        return frozenset(f"{module}.{name}" for module in modules)
    if name not in owner.known and depth < MAX_DEPTH:
        owner.known[name] = frozenset()  # while it is resolved: names may be defined by each other
        found = set(owner.paths.get(name, ()))
        for value in owner.values.get(name, ()):
            found |= resolve(value, owner, depth + 1)
        owner.known[name] = frozenset(sorted(path for path in found if len(path) <= MAX_PATH_CHARACTERS)[:MAX_PATHS])
    return owner.known.get(name, frozenset())


def _resolve_call(node: ast.Call, scope: Scope, depth: int) -> frozenset[str]:
    """`getattr(torch, "softmax")`, `importlib.import_module("torch")`, `__import__("torch")`, with constant names."""
    called = resolve(node.func, scope, depth)
    first = node.args[0] if node.args else None
    if first is not None and len(node.args) > 1 and "builtins.getattr" in called:
        return _with_attribute(resolve(first, scope, depth), constant_string(node.args[1]))
    module = constant_string(first)
    if module and "importlib.import_module" in called:
        return frozenset([module])
    return frozenset([module.partition(".")[0]] if module and "builtins.__import__" in called else ())


def _resolve_item(node: ast.Subscript, scope: Scope, depth: int) -> frozenset[str]:
    """`sys.modules["torch"]`, `torch.__dict__["softmax"]` and `vars(torch)["softmax"]`, with constant names."""
    table, key = node.value, constant_string(node.slice)
    if key and "sys.modules" in resolve(table, scope, depth):
        return frozenset([key])
    if isinstance(table, ast.Attribute) and table.attr == "__dict__":
        return _with_attribute(resolve(table.value, scope, depth), key)
    if isinstance(table, ast.Call) and table.args and "builtins.vars" in resolve(table.func, scope, depth):
        return _with_attribute(resolve(table.args[0], scope, depth), key)
    return frozenset()


def _with_attribute(bases: frozenset[str], attribute: str | None) -> frozenset[str]:
    return frozenset(f"{base}.{attribute}" for base in bases) if attribute else frozenset()


def constant_string(node: ast.expr | None) -> str | None:
    """The string value of an expression of constants, else None."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = constant_string(node.left), constant_string(node.right)
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
        values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
        for element, one in zip(target.elts, values if len(values) == len(target.elts) else [None] * len(target.elts)):
            _bind_target(scope, element, one)
    elif isinstance(target, ast.Starred):
        _bind_target(scope, target.value, None)


def canonical_name(name: str) -> str:
    """The common name of torch's variants of one operation: `_softmax`, `softmax_`, `_safe_softmax`."""
    name = name.strip("_")
    for prefix in ("special_", "native_", "safe_"):
        name = name.removeprefix(prefix)
    return name


def match_forbidden(name: str, forbids: Collection[str]) -> str | None:
    """The forbidden name that this name matches, or None."""
    return name if name in forbids else spelled if (spelled := canonical_name(name)) in forbids else None
