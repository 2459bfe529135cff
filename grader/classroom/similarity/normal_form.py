"""The normal form of a chapter: one way of writing what its code does, to be compared and never run.

Local variables get unique names, helpers that are called once move to their call, comprehensions become loops, names
that are read once become their values, and what changes nothing is left out. The order of evaluation may change.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import count
from typing import Any

from grader.course.chapter_source import Definition, scope_statements, statements_and_expressions

ROUNDS = 3  # each leaves more names that are read once
MAX_CONSTANT_NODES = 8  # a longer value of the module does not move to where it is read
BUILTINS = frozenset(dir(builtins))
WITHOUT_EFFECT = BUILTINS - {"setattr", "delattr", "exec", "eval", "next", "input", "open", "__import__"}
LOCAL = "'"  # between a local variable and its number
Function = ast.FunctionDef | ast.AsyncFunctionDef
LEAVES = ast.Return | ast.Raise | ast.Break | ast.Continue


def normal_definitions(
    tree: ast.Module, exercises: Collection[str], known: Collection[str], fixed: Mapping[str, str]
) -> dict[str, list[ast.stmt]]:
    """The last definition of each exercise, and under "" the other definitions that these use.

    `known` are names of methods that learners do not choose, and `fixed` those of imports and of Python.
    """
    top: dict[str, Any] = {}
    constants: dict[str, ast.expr] = {}
    renamer = _Renamer()
    for node in map(_plain_assignment, scope_statements(tree.body)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                top[name] = renamer.copy(node, {})
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                constants[name] = renamer.copy(value, {})
                if found := _find_alias(constants[name], top):
                    top[name] = found
                    found.name = name
    simplifier = _Simplifier(top, constants, exercises, known, fixed)
    for _ in range(ROUNDS):
        for name in simplifier.reached:
            if name not in simplifier.inlined:
                [top[name]] = simplifier.visit_top(name)
        before, simplifier = simplifier, _Simplifier(top, constants, exercises, known, fixed)
        if (before.reads, before.stores) == (simplifier.reads, simplifier.stores):
            break
    reached = simplifier.reached
    others = [top[name] for name in reached if name not in exercises]
    return {name: [top[name]] for name in reached if name in exercises} | ({"": others} if others else {})


def _find_alias(value: ast.expr, top: Mapping[str, Any]) -> Any:
    """A copy of the definition that this value is, or None."""
    match value:
        case ast.Lambda():
            return _as_function("", value)
        case ast.Name(id=name) if name in top:
            return _copy(top[name])
        case ast.Attribute(value=ast.Name(id=name) | ast.Call(func=ast.Name(id=name)), attr=attribute):
            methods = [entry for entry in getattr(top.get(name), "body", ()) if isinstance(entry, Function)]
            for method in [_copy(entry) for entry in methods if entry.name == attribute]:
                method.args = _copy(method.args)
                method.args.args = [arg for arg in method.args.args if arg.arg != "self"]
                return method
    return None


def _copy(node: Any) -> Any:
    new: Any = ast.AST.__new__(type(node))  # copy.copy takes ten times as long
    new.__dict__.update(node.__dict__)
    return new


def _as_function(name: str, value: ast.Lambda) -> ast.FunctionDef:
    line = ast.copy_location(ast.Return(value.body), value)
    return ast.copy_location(ast.FunctionDef(name, value.args, [line], []), value)


def _plain_assignment(node: ast.AST) -> ast.AST:
    """`x: int = 1` as `x = 1`, and `x += 1` as `x = x + 1`; any other node as it is."""
    match node:
        case ast.AnnAssign(target=target, value=value):
            return ast.copy_location(ast.Assign([target], value) if value else ast.Pass(), node)
        case ast.AugAssign(target=target, op=op, value=value):
            read = ast.Name(target.id, ast.Load()) if isinstance(target, ast.Name) else target
            return ast.copy_location(ast.Assign([target], ast.copy_location(ast.BinOp(read, op, value), node)), node)
    return node


# ---- unique names


class _Renamer:
    """Copies a tree without annotations. In the copy, each local variable has a name of its own, and so has each value
    of a variable that is only assigned at the level of its function."""

    def __init__(self) -> None:
        self._numbers = count()

    def copy(self, node: Any, names: Mapping[str, str], is_method: bool = False) -> Any:
        new = _copy(_plain_assignment(node))
        inner, straight = dict(names), Counter[str]()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                bound, straight = _bound_names(node)
                inner |= self._fresh(bound)
                first = [*node.args.posonlyargs, *node.args.args][:1]
                if is_method and first and not _has_decorator(node, "staticmethod"):
                    inner[first[0].arg] = "self"
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                targets = [part for each in node.generators for part in ast.walk(each.target)]
                inner |= self._fresh(part.id for part in targets if isinstance(part, ast.Name))
        for part, value in ast.iter_fields(new):
            if part in ("annotation", "returns"):
                setattr(new, part, None)
            elif isinstance(value, ast.AST):
                setattr(new, part, self.copy(value, inner))
            elif isinstance(value, list):
                entries: list[Any] = []
                for entry in value:
                    is_node = isinstance(entry, ast.AST)
                    entries.append(self.copy(entry, inner, isinstance(node, ast.ClassDef)) if is_node else entry)
                    name = _assigned_name(entry)
                    if part == "body" and name in straight:
                        inner |= self._fresh([name])
                        entries[-1].targets = [ast.copy_location(ast.Name(inner[name], ast.Store()), entry)]
                setattr(new, part, entries)
            elif isinstance(node, ast.Name | ast.arg | Definition) and part in ("id", "arg", "name") and not is_method:
                setattr(new, part, names.get(value, value))
        return new

    def _fresh(self, names: Iterable[str]) -> dict[str, str]:
        return {name: f"{name}{LOCAL}{next(self._numbers)}" for name in names}


def _bound_names(function: Any) -> tuple[set[str], Counter[str]]:
    """The local names of a function, and those of them that only the statements of its own level assign."""
    bound = {part.arg for part in ast.walk(function.args) if isinstance(part, ast.arg)}
    if isinstance(function, ast.Lambda):
        return bound, Counter()
    parts = list(statements_and_expressions(function.body))
    stored = Counter(part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))
    outer = {name for part in parts if isinstance(part, ast.Global | ast.Nonlocal) for name in part.names}
    straight = Counter(filter(None, map(_assigned_name, function.body)))
    bound |= {*stored, *(part.name for part in parts if isinstance(part, Definition))}
    return bound - outer, Counter({name: times for name, times in straight.items() if times == stored[name]})


def _assigned_name(node: Any) -> str:
    """The name in a statement that assigns to one name, or ""."""
    match _plain_assignment(node):
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return ""


def _has_decorator(node: Any, name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in getattr(node, "decorator_list", ()))


# ---- simpler statements


class _Simplifier:
    """One round: counts what the exercises reach, then simplifies definitions in place."""

    def __init__(
        self, top: dict[str, Any], constants: Mapping[str, ast.expr], exercises: Collection[str],
        known: Collection[str], fixed: Mapping[str, str],
    ) -> None:  # fmt: skip
        self._top, self._constants, self._exercises, self._fixed = top, constants, exercises, fixed
        self.reads, self._calls, self.stores = Counter[str](), Counter[str](), Counter[str]()
        self._functions: dict[str, Any] = {}
        self.reached = [name for name in top if name in exercises]
        for owner in self.reached:  # grows
            for node in ast.walk(top[owner]):
                self._count(node, owner)
        once = [name for name in self._functions if self.reads[name] == self._calls[name] == 1]
        self.inlined = {name for name in once if name not in exercises and self._can_move(name, known)}
        self._before: list[ast.stmt] = []  # statements that belong before the one that is visited
        self._values: dict[str, ast.expr] = {}
        self._owner = ""

    def _count(self, node: ast.AST, owner: str) -> None:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                self.stores[name] += 1
            case ast.Name(id=name):
                if name in self._top and not self.reads[name] and name not in self._exercises:
                    self.reached.append(name)
                self.reads[name] += 1
            case ast.Attribute():
                self.reads[_key(node, owner)] += 1
            case ast.Call(func=func):
                self._calls[_key(func, owner)] += 1
            case ast.NamedExpr(target=ast.Name(id=name)):
                self.reads[name] += 1
            case ast.Assign(targets=[ast.Name(id=name), *more]):
                self.reads[name] += len(more)
            case ast.ClassDef(name=name, body=body):
                self._functions |= {f"{name}.{entry.name}": entry for entry in body if isinstance(entry, Function)}
            case ast.FunctionDef(name=name) if LOCAL in name or node is self._top.get(name):
                self._functions[name] = node

    def _can_move(self, key: str, known: Collection[str]) -> bool:
        owner, _, method = key.rpartition(".")
        is_interface = method.startswith("__") or (owner in self._exercises and method in known)
        parts = ast.walk(self._functions[key])
        return not (owner and is_interface) and not any(isinstance(part, ast.Yield | ast.YieldFrom) for part in parts)

    def visit_top(self, name: str) -> list[ast.stmt]:
        """This definition; a class gets the body of its base, if nothing else uses this base."""
        self._owner, node = name, self._top[name]
        match getattr(node, "bases", ()):
            case [ast.Name(id=base)] if self.reads[base] == 1 and base in self._top and base not in self._exercises:
                own = {getattr(entry, "name", "") for entry in node.body}
                inherited = self._top[base]
                node.body = [entry for entry in inherited.body if getattr(entry, "name", None) not in own] + node.body
                node.bases = getattr(inherited, "bases", [])
        return self.visit(node)

    def _visit_block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        outer, self._before = self._before, []
        for node in body:
            new = self.visit(node)
            found += [*self._before, *new]
            self._before = []
            if found and isinstance(found[-1], LEAVES):
                break
        self._before = outer
        return found

    def _visit_fields(self, node: Any) -> Any:
        for part, value in ast.iter_fields(node):
            if isinstance(value, ast.AST):
                setattr(node, part, self.visit(value))
            elif isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, part, self._visit_block(value))
            elif isinstance(value, list) and part != "decorator_list":
                setattr(node, part, [self.visit(entry) if isinstance(entry, ast.AST) else entry for entry in value])
        return node

    def visit(self, node: Any) -> Any:
        """The node in normal form; of a statement, the list of statements that it becomes."""
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                return self._values.get(name) or self._constant(name) or node
            case ast.NamedExpr(target=ast.Name(id=name) as target, value=value):
                self._before += self._assign(target, value)
                return self.visit(ast.copy_location(ast.Name(name, ast.Load()), node))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._visit_made(node)
            case ast.Call(func=ast.Lambda(args=arguments) as function):
                return self._inline(node, arguments, _as_function("", function).body, self._owner)
            case ast.Call(func=func) if (key := _key(func, self._owner)) in self.inlined:
                function = self._functions[key]
                return self._inline(node, function.args, function.body, key.rpartition(".")[0] or self._owner)
            case ast.IfExp(test=test, body=body, orelse=orelse) if (is_true := _truth(test)) is not None:
                return self.visit(body if is_true else orelse)
            case ast.Pass() | ast.Assert() | ast.Import() | ast.ImportFrom() | ast.Global() | ast.Nonlocal():
                return []
            case ast.Expr(value=value):
                node.value = self.visit(value)
                return [] if self._is_pure(node.value) else [node]
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda() as value):
                return self.visit(_as_function(name, value))
            case ast.Assign(targets=[ast.Name(id=name), *more], value=value) if more:
                values = [value, *(ast.Name(name, ast.Load()) for _ in more)]
                return [line for target, one in zip(node.targets, values) for line in self._assign(target, one)]
            case ast.Assign(targets=[ast.Tuple(elts=to)], value=ast.Tuple(elts=of)) if len(to) == len(of) and not any(
                isinstance(part, ast.Starred) for part in (*to, *of)
            ):
                return [line for target, value in zip(to, of) for line in self._assign(target, value)]
            case ast.Assign(targets=[ast.Name(id=name)]) if LOCAL in name and self.stores[name] == 1:
                return self._visit_single(node, name)
            case ast.If(test=test, body=body, orelse=orelse) if (is_true := _truth(test)) is not None:
                return self._visit_block(body if is_true else orelse)
            case ast.If():
                return self._visit_if(node)
            case ast.While(test=test, orelse=orelse) if _truth(test) is False:
                return self._visit_block(orelse)
            case ast.FunctionDef(name=name) if name in self.inlined or (LOCAL in name and not self.reads[name]):
                return []
            case ast.ClassDef(name=name, body=body):
                node.body = [one for one in body if f"{name}.{getattr(one, 'name', '')}" not in self.inlined]
        return [self._visit_fields(node)] if isinstance(node, ast.stmt) else self._visit_fields(node)

    def _assign(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        return self.visit(ast.copy_location(ast.Assign([target], value), value))

    def _visit_single(self, node: ast.Assign, name: str) -> list[ast.stmt]:
        """An assignment to a name that nothing else assigns to."""
        value = node.value = self.visit(node.value)
        is_atom = isinstance(value, ast.Constant) or (isinstance(value, ast.Name) and self.stores[value.id] <= 1)
        if not self.reads[name]:
            return [] if self._is_pure(value) else [ast.copy_location(ast.Expr(value), node)]
        if self.reads[name] == 1 or is_atom:
            self._values[name] = value
            return []
        return [node]

    def _visit_if(self, node: ast.If) -> list[ast.stmt]:
        node = self._visit_fields(node)
        if isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not) and node.orelse:
            node.test, node.body, node.orelse = node.test.operand, node.orelse, node.body
        if not node.body and not node.orelse and self._is_pure(node.test):
            return []
        after = node.orelse if node.body and isinstance(node.body[-1], LEAVES) else []
        node.orelse = [] if after else node.orelse
        return [node, *after]

    def _visit_made(self, node: Any) -> ast.expr:
        """The name of what a comprehension makes; the loop that makes it comes before."""
        made = ast.Name(f"made{LOCAL}{node.lineno}:{node.col_offset}", ast.Load())
        if isinstance(node, ast.DictComp):
            line: Any = ast.Assign([ast.Subscript(made, node.key, ast.Store())], node.value)
        else:
            method = "add" if isinstance(node, ast.SetComp) else "append"
            line = ast.Expr(ast.Call(ast.Attribute(made, method, ast.Load()), [node.elt], []))
        for each in reversed(node.generators):
            for test in reversed(each.ifs):
                line = ast.If(test, [line], [])
            line = ast.For(each.target, each.iter, [line], [])
        empty = {ast.DictComp: "{}", ast.SetComp: "set()"}.get(type(node), "[]")
        start = ast.Assign([ast.Name(made.id, ast.Store())], ast.parse(empty, mode="eval").body)
        self._before += self._visit_block([ast.copy_location(one, node) for one in (start, line)])
        return ast.copy_location(made, node)

    def _inline(self, call: ast.Call, arguments: ast.arguments, body: list[ast.stmt], owner: str) -> ast.expr:
        """The value of this call; the statements of the function come before."""
        names = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args) if arg.arg != "self"]
        values = dict(zip(reversed(names), reversed(arguments.defaults)))
        values |= {arg.arg: value for arg, value in zip(arguments.kwonlyargs, arguments.kw_defaults) if value}
        if not any(isinstance(value, ast.Starred) for value in call.args):
            values |= dict(zip(names, call.args))
        given = {name.partition(LOCAL)[0]: name for name in (*names, *(arg.arg for arg in arguments.kwonlyargs))}
        values |= {given[each.arg]: each.value for each in call.keywords if each.arg in given}
        for name, value in values.items():
            self._before += self._assign(ast.Name(name, ast.Store()), value)
        before, self._owner = self._owner, owner
        lines = self._visit_block(body)
        self._owner = before
        last: Any = lines.pop() if lines and isinstance(lines[-1], ast.Return) else None
        self._before += lines
        return (last and last.value) or ast.copy_location(ast.Constant(None), call)

    def _constant(self, name: str) -> ast.expr | None:
        """The value of a name of the module, if it is short and made of constants."""
        parts = list(ast.walk(self._constants[name])) if name in self._constants and name not in self._top else []
        variables = {part.id for part in parts if isinstance(part, ast.Name)} - self._fixed.keys()
        is_short = len(parts) <= MAX_CONSTANT_NODES and not any(isinstance(part, ast.Call) for part in parts)
        return self._constants[name] if parts and is_short and not variables else None

    def _is_pure(self, value: ast.expr) -> bool:
        """Whether computing this value changes nothing, as far as its text says."""
        calls = [ast.unparse(part.func) for part in ast.walk(value) if isinstance(part, ast.Call)]
        imports = [name for name in calls if name.partition(".")[0] in self._fixed and "." in name and name[-1] != "_"]
        return all(name in WITHOUT_EFFECT or name in imports for name in calls)


def _key(function: ast.AST, owner: str) -> str:
    """The name of a function, or "Class.name" of a method, as far as the text says which one it is."""
    match function:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=name) | ast.Call(func=ast.Name(id=name)), attr=attribute):
            return f"{owner if name == 'self' else name}.{attribute}"
    return ""


def _truth(test: ast.expr) -> bool | None:
    """Whether a condition always holds; None where its text does not say it."""
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return None if (value := _truth(operand)) is None else not value
    return None
