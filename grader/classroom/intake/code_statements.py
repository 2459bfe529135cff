"""The statements of loose code (a notebook's cells, a file with several chapters): what each defines and uses, and whether it may run on import.

Only these are kept, because everything else (a call, a loop, training) would run whenever the chapter is imported:

- imports, functions and classes, with their decorators;
- assignments of constant values: literals, names, arithmetic, lambdas, and calls that only make a value (`float("-inf")`, `torch.device("cpu")`);
- such assignments to an attribute or an entry: `Block.forward = forward`, `CONFIG["heads"] = 4`;
- `try` with only such statements inside, as for an optional import.

A magic, a call, `if`, `for`, `while`, `with`, `assert` and `del` at the top level are left out.
"""

from __future__ import annotations

import ast
import symtable
from dataclasses import dataclass

from grader.course.source import Definition, bound_names, imported_names, split_lines
from grader.execution.names_used import globals_in

MAKES_A_VALUE = frozenset({
    "abs", "bool", "chr", "dict", "float", "frozenset", "int", "len", "list", "max", "min", "ord", "range", "round", "set", "slice", "sorted", "str", "sum", "tuple",
    "namedtuple", "collections.namedtuple", "NewType", "TypeVar", "partial", "functools.partial", "re.compile",
    "torch.device", "torch.finfo", "torch.iinfo", "torch.tensor", "torch.Size",
})  # fmt: skip
_IMPORTS = (ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class Statement:
    node: ast.stmt
    text: str
    cell: int = 0  # of a notebook, counted from 1; 0 for code that is not from a cell
    is_kept: bool = True
    binds: frozenset[str] = frozenset()
    changes: frozenset[str] = frozenset()  # names whose attributes or entries it sets
    uses: frozenset[str] = frozenset()  # global names, also those inside functions
    uses_now: frozenset[str] = frozenset()  # those of them that must exist when the statement runs

    @property
    def is_import(self) -> bool:
        return isinstance(self.node, _IMPORTS)


def split_statements(tree: ast.Module, text: str, cell: int = 0) -> list[Statement]:
    """The statements of the top level, in order. SyntaxError for one that Python parses but does not compile, such as `return`."""
    return [_describe(node, _text_of(node, tree, text), cell) for node in tree.body]


def _describe(node: ast.stmt, text: str, cell: int) -> Statement:
    binds, changes = _find_bound(node), frozenset(root for target in _targets(node) if (root := _find_root(target)))
    if not _may_run(node):
        return Statement(node, text, cell, False, binds, changes)
    return Statement(node, text, cell, True, binds, changes, *_find_used(text))


def _text_of(node: ast.stmt, tree: ast.Module, text: str) -> str:
    """The lines of a statement; if it shares them with another one, or is indented, the statement written again."""
    start, end = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))]), node.end_lineno or node.lineno
    shares = any(other is not node and other.lineno <= end and (other.end_lineno or other.lineno) >= start for other in tree.body)
    if shares or node.col_offset:
        return ast.unparse(node) + "\n"
    return "".join(split_lines(text)[start - 1 : end]).rstrip() + "\n"


def _may_run(node: ast.stmt) -> bool:
    if isinstance(node, Definition | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.Assign):
        return _is_constant(node.value) and all(isinstance(target, ast.Name | ast.Tuple | ast.List) or _find_root(target) for target in node.targets)
    if isinstance(node, ast.AnnAssign):
        return node.value is not None and isinstance(node.target, ast.Name) and _is_constant(node.value)
    if isinstance(node, ast.Try):
        inside = [*node.body, *node.orelse, *node.finalbody, *(statement for handler in node.handlers for statement in handler.body)]
        return all(isinstance(statement, ast.Pass) or (not isinstance(statement, ast.Try) and _may_run(statement)) for statement in inside)
    return type(node).__name__ == "TypeAlias"


def _is_constant(value: ast.expr) -> bool:
    """Does computing this value only make a value? A lambda does: its body runs later."""
    waiting: list[ast.AST] = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Lambda):
            waiting += [*node.args.defaults, *(default for default in node.args.kw_defaults if default)]
            continue
        if isinstance(node, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr) or (isinstance(node, ast.Call) and not _makes_a_value(node.func)):
            return False
        waiting += ast.iter_child_nodes(node)
    return True


def _makes_a_value(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Constant):
        return True  # "a b c".split()
    name = ast.unparse(function)
    return name in MAKES_A_VALUE or name.startswith("math.")


def _find_bound(node: ast.stmt) -> frozenset[str]:
    """The names that this statement defines at the top level, with those of imports."""
    names = set(bound_names(node))
    for part in ast.walk(node) if isinstance(node, ast.Try) else (node,):
        if isinstance(part, _IMPORTS):
            names.update(imported_names(part))
        elif isinstance(part, ast.stmt):
            names |= bound_names(part)
    if isinstance(node, ast.AugAssign | ast.For | ast.With | ast.If | ast.While):  # left out, so it only matters which names are missing then
        names |= {leaf.id for leaf in ast.walk(node) if isinstance(leaf, ast.Name) and isinstance(leaf.ctx, ast.Store)}
    return frozenset(names)


def _targets(node: ast.stmt) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else []


def _find_root(target: ast.expr) -> str:
    """"Block" for `Block.forward` and for `Block.heads[0]`, as the target of an assignment; "" for a name."""
    is_part = isinstance(target, ast.Attribute | ast.Subscript)
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return target.id if is_part and isinstance(target, ast.Name) else ""


def _find_used(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The global names that a statement uses, and those that it uses while it is run: not in the body of a function."""
    scopes = [symtable.symtable(text, "cell", "exec")]
    return frozenset(globals_in(scopes)), frozenset(globals_in(scopes, without=["function"]))
