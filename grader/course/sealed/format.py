"""The format of a sealed module: its syntax tree as bytes, which every version of Python can compile.

Python's bytecode fits one version only: code compiled by 3.11 does not load in a learner's 3.12. The syntax tree is the same in all
versions. So the file contains the tree, without comments and docstrings, compressed so that a text search finds no line of it. The
learner's Python compiles it, and its text never exists.

This hides the reference and does not protect it, as with bytecode: anybody who reads this module can turn the tree back into Python.
It prevents that a glance, a search or an editor's "go to definition" shows the answer. What must stay secret is not in the handout
(`--hidden`).
"""

from __future__ import annotations

import ast
import hashlib
import marshal
import zlib
from typing import Any

_MAGIC = b"headway sealed 1\n"


class Unsealable(ValueError):
    """A sealed file that cannot be used; the message is one sentence."""


def pack(value: Any) -> bytes:
    """The contents of a file for these plain values (such as `module_bytes` makes)."""
    body = zlib.compress(marshal.dumps(value, 4), 9)
    return _MAGIC + hashlib.sha256(body).digest() + body


def unpack(data: bytes, name: str) -> Any:
    """The values that `pack` packed. Unsealable if the bytes were changed, because marshal is unsafe for other bytes."""
    digest, body = data[len(_MAGIC) : len(_MAGIC) + 32], data[len(_MAGIC) + 32 :]
    if not data.startswith(_MAGIC) or hashlib.sha256(body).digest() != digest:
        raise Unsealable(f"{name} is damaged, so the tests have no reference; copy this file again from the handout")
    return marshal.loads(zlib.decompress(body))


def module_bytes(text: str) -> bytes:
    """The syntax tree of a module as bytes, without docstrings and comments."""
    return join_statements(_node_value(without_docstrings(ast.parse(text)).body))


def split_statements(module: bytes) -> list:
    """The statements of a module from `module_bytes`, each as a plain value."""
    return marshal.loads(module)


def join_statements(body: list) -> bytes:
    return marshal.dumps(body, 4)


def read_tree(module: bytes) -> ast.Module:
    """The syntax tree, ready to compile. Its line numbers count the statements, because the author's lines are not stored."""
    tree = ast.Module(body=_TreeReader().value(marshal.loads(module)), type_ignores=[])
    return ast.fix_missing_locations(tree)


def raise_outline(module: bytes) -> str:
    """The text that may be shown: it marks only the lines that raise something."""
    raising = {node.lineno for node in ast.walk(read_tree(module)) if isinstance(node, ast.Raise)}
    return "".join("raise ...\n" if line in raising else "\n" for line in range(1, max(raising, default=0) + 1))


def _node_value(value: Any) -> Any:
    """A node as a tuple, a list as a list, and any other value unchanged."""
    if isinstance(value, ast.AST):
        fields = [part for name, child in ast.iter_fields(value) if child is not None and child != [] for part in (name, _node_value(child))]
        return (type(value).__name__, *fields)
    return [_node_value(child) for child in value] if isinstance(value, list) else value


class _TreeReader:
    """Creates the nodes; a field that this Python does not have is dropped, and a field that only it has is empty."""

    def __init__(self) -> None:
        self.line = 0

    def value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.value(child) for child in value]
        return self.node(value) if isinstance(value, tuple) else value

    def node(self, value: tuple) -> ast.AST:
        kind = getattr(ast, value[0], None)
        if kind is None:
            raise Unsealable(f"the reference uses a feature of Python ({value[0]}) that your version does not have; install a newer Python")
        place = {}
        if issubclass(kind, ast.stmt):
            self.line += 1
            place = {"lineno": self.line, "end_lineno": self.line, "col_offset": 0, "end_col_offset": 0}
        fields = {name: self.value(child) for name, child in zip(value[1::2], value[2::2]) if name in kind._fields}
        empty: dict[str, list | None] = {name: [] if name in _LISTS else None for name in kind._fields if name not in fields}
        return kind(**empty, **fields, **place)


# the fields that are lists, in every kind of node; an empty one is not stored
_LISTS = frozenset(
    """args bases body cases comparators decorator_list defaults elts finalbody generators handlers ifs items keys keywords kw_defaults kwd_attrs
    kwd_patterns kwonlyargs names ops orelse patterns posonlyargs targets type_params values""".split()
)


def without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or ([] if isinstance(node, ast.Module) else [ast.Pass()])
    return tree
