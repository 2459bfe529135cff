"""Resolves names in a learner's source to dotted paths, through import aliases, assignments and getattr."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterable, Iterator

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Scoped = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | Comprehension

MOST_PATHS = 30  # of one expression; in ordinary programs there are one or two
LONGEST_PATH = 300  # characters
MOST_STEPS = 60_000  # for one module, a second or two; the longest reference chapter takes 1,000


class Scope:
    """The names bound in a module, class, function or comprehension, and the scope around it."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.paths: dict[str, set[str]] = {}  # imported names, each with its dotted path
        self.values: dict[str, list[ast.expr]] = {}  # names with the expressions assigned to them
        self.own: set[str] = set()  # names defined here, by def, class or an argument
        self.stars: list[str] = []  # modules imported with *
        self.module: Scope = outer.module if outer else self
        self.resolver: _PathResolver = outer.resolver if outer else _PathResolver()

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


def resolve(node: ast.expr, scope: Scope) -> frozenset[str]:
    """The dotted paths that an expression may refer to: `F.softmax` -> {"torch.nn.functional.softmax"}; empty if unknown."""
    return scope.module.resolver.resolve(node, scope)


_Key = tuple[Scope, str]  # a name, and the scope that binds it


class _PathResolver:
    """Finds the paths of the names and expressions of one module.

    Names may be defined by each other, also in cycles, and with two definitions for each name the number of combinations doubles at every step.
    So each name has one set of paths, which grows until nothing changes (a fixed point): a name is read again only after a name in its values
    got a new path. The sets, the paths and the steps have limits. Paths beyond them are dropped; the check at run time sees those calls.
    """

    def __init__(self) -> None:
        self.names: dict[_Key, frozenset[str]] = {}
        self.users: dict[_Key, dict[_Key, None]] = {}  # the names whose values contain this one
        self.waiting: dict[_Key, None] = {}  # names to read (again), in order
        self.known: dict[tuple[ast.expr, Scope], frozenset[str]] = {}
        self.steps = 0

    def resolve(self, node: ast.expr, scope: Scope) -> frozenset[str]:
        while True:
            found = self._read(node, scope, None)
            if not self.waiting or self.steps > MOST_STEPS:
                return found
            while self.waiting and self.steps <= MOST_STEPS:
                self._read_name(next(iter(self.waiting)))

    def _read_name(self, key: _Key) -> None:
        owner, name = key
        del self.waiting[key]
        found = set(self.names[key]).union(owner.paths.get(name, ()))
        for value in owner.values.get(name, ()):
            if len(found) >= MOST_PATHS or self.steps > MOST_STEPS:
                break
            found |= self._read(value, owner, key)
        if len(found) > len(self.names[key]):
            self.names[key] = _limited(found)
            self.waiting |= self.users[key]

    def _read(self, node: ast.expr, scope: Scope, user: _Key | None) -> frozenset[str]:
        """The paths of an expression as far as its names are resolved; `user` is the name whose value contains it."""
        settled = user is None and not self.waiting
        if settled and (node, scope) in self.known:
            return self.known[node, scope]
        self.steps += 1
        found = _limited(self._paths(node, scope, user))
        if settled and not self.waiting:
            self.known[node, scope] = found
        return found

    def _paths(self, node: ast.expr, scope: Scope, user: _Key | None) -> Collection[str]:
        if isinstance(node, ast.Name):
            return self._name(node.id, scope, user)
        if isinstance(node, ast.Attribute):
            return [f"{base}.{node.attr}" for base in self._read(node.value, scope, user)]
        if isinstance(node, ast.Call):
            return self._call(node, scope, user)
        if isinstance(node, ast.Subscript):
            return self._item(node, scope, user)
        if isinstance(node, ast.IfExp):
            return self._read(node.body, scope, user) | self._read(node.orelse, scope, user)
        if isinstance(node, ast.BoolOp):
            return set().union(*(self._read(value, scope, user) for value in node.values))
        if isinstance(node, ast.NamedExpr):
            return self._read(node.value, scope, user)
        return ()

    def _name(self, name: str, scope: Scope, user: _Key | None) -> Collection[str]:
        owner = scope.owner(name)
        if owner is None:
            return [f"builtins.{name}"] if hasattr(builtins, name) else [f"{module}.{name}" for module in scope.module.stars[:MOST_PATHS]]
        key = owner, name
        if key not in self.names:
            self.names[key], self.users[key] = frozenset(), {}
            self.waiting[key] = None
        if user is not None:
            self.users[key][user] = None
        return self.names[key]

    def _call(self, node: ast.Call, scope: Scope, user: _Key | None) -> Collection[str]:
        called = self._read(node.func, scope, user)
        first = node.args[0] if node.args else None
        if first is not None and len(node.args) > 1 and "builtins.getattr" in called:
            attribute = constant_string(node.args[1])
            return [f"{base}.{attribute}" for base in self._read(first, scope, user)] if attribute else ()
        module = constant_string(first) if called & {"importlib.import_module", "builtins.__import__"} else None
        if module and "importlib.import_module" in called:
            return [module]
        if module:
            return [module.partition(".")[0]]
        return ()

    def _item(self, node: ast.Subscript, scope: Scope, user: _Key | None) -> Collection[str]:
        key = constant_string(node.slice)
        if key is None:
            return ()
        table = node.value
        if "sys.modules" in self._read(table, scope, user):
            return [key]
        if isinstance(table, ast.Attribute) and table.attr == "__dict__":
            return [f"{base}.{key}" for base in self._read(table.value, scope, user)]
        if isinstance(table, ast.Call) and table.args and "builtins.vars" in self._read(table.func, scope, user):
            return [f"{base}.{key}" for base in self._read(table.args[0], scope, user)]
        return ()


def _limited(paths: Collection[str]) -> frozenset[str]:
    short = [path for path in paths if len(path) <= LONGEST_PATH]
    return frozenset(short if len(short) <= MOST_PATHS else sorted(short)[:MOST_PATHS])


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
        values = value.elts if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) else [None] * len(target.elts)
        for element, one in zip(target.elts, values):
            _bind_target(scope, element, one)
    elif isinstance(target, ast.Starred):
        _bind_target(scope, target.value, None)


def canonical_name(name: str) -> str:
    """The common name of torch's variants of one operation: `_softmax`, `softmax_`, `native_dropout`, `_safe_softmax`."""
    name = name.strip("_")
    for prefix in ("special_", "native_", "safe_"):
        name = name.removeprefix(prefix)
    return name


def match_forbidden(name: str, forbids: Collection[str]) -> str | None:
    """The forbidden name that this name matches, or None."""
    return name if name in forbids else spelled if (spelled := canonical_name(name)) in forbids else None
