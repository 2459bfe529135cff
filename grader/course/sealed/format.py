"""What sealing is: a module's syntax tree in bytes of our own, which every Python makes its own code of.

Python's bytecode fits one version only: sealed by 3.11 it could not be read by a learner who has 3.12, and the tests would have nothing
to compare with. The tree it is made from is the same in all of them. So the tree is what is kept, without comments and docstrings,
packed so that no search finds a line of it; the learner's Python compiles it, and no text of it exists at any time.

That is a curtain and no lock, as bytecode is: who reads this module can turn the tree back into Python. It keeps a glance, a search
and an editor's "go to definition" from giving the answer away. What must not be seen at all is not given out (`--hidden`).
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
    """Plain values (what `plain` makes of trees) as a file holds them."""
    body = zlib.compress(marshal.dumps(value, 4), 9)
    return _MAGIC + hashlib.sha256(body).digest() + body


def unpack(data: bytes, name: str) -> Any:
    """The way back. Unsealable where these are not the bytes that were packed: marshal must not be handed any others."""
    digest, body = data[len(_MAGIC) : len(_MAGIC) + 32], data[len(_MAGIC) + 32 :]
    if not data.startswith(_MAGIC) or hashlib.sha256(body).digest() != digest:
        raise Unsealable(f"{name} is damaged, so there is nothing to compare with; copy it anew from the handout")
    return marshal.loads(zlib.decompress(body))


def module_bytes(text: str) -> bytes:
    """A module's text as bytes, without docstrings and comments."""
    return join_statements(_node_value(_without_docstrings(ast.parse(text)).body))


def split_statements(module: bytes) -> list:
    """The statements of a module that `plain` gave, each as a plain value."""
    return marshal.loads(module)


def join_statements(body: list) -> bytes:
    return marshal.dumps(body, 4)


def read_tree(module: bytes) -> ast.Module:
    """The syntax tree, ready to be compiled. Its statements are numbered as lines, in order: the author's own lines are not kept."""
    tree = ast.Module(body=_TreeReader().value(marshal.loads(module)), type_ignores=[])
    return ast.fix_missing_locations(tree)


def raise_outline(module: bytes) -> str:
    """All that may be seen of it as text: which of its lines raise something."""
    raising = {node.lineno for node in ast.walk(read_tree(module)) if isinstance(node, ast.Raise)}
    return "".join("raise ...\n" if line in raising else "\n" for line in range(1, max(raising, default=0) + 1))


def _node_value(value: Any) -> Any:
    """A node as a tuple, a list as a list, and what stands in a tree itself as it is."""
    if isinstance(value, ast.AST):
        fields = [part for name, child in ast.iter_fields(value) if child is not None and child != [] for part in (name, _node_value(child))]
        return (type(value).__name__, *fields)
    return [_node_value(child) for child in value] if isinstance(value, list) else value


class _TreeReader:
    """Makes nodes again; a field that this Python does not know is left out, and one it has besides is empty."""

    def __init__(self) -> None:
        self.line = 0

    def value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.value(child) for child in value]
        return self.node(value) if isinstance(value, tuple) else value

    def node(self, value: tuple) -> ast.AST:
        kind = getattr(ast, value[0], None)
        if kind is None:
            raise Unsealable(f"the reference uses something of Python ({value[0]}) that this Python does not have; a newer one is needed")
        place = {}
        if issubclass(kind, ast.stmt):
            self.line += 1
            place = {"lineno": self.line, "end_lineno": self.line, "col_offset": 0, "end_col_offset": 0}
        fields = {name: self.value(child) for name, child in zip(value[1::2], value[2::2]) if name in kind._fields}
        empty: dict[str, list | None] = {name: [] if name in _LISTS else None for name in kind._fields if name not in fields}
        return kind(**empty, **fields, **place)


# the fields that are lists, in whichever node; an empty one is not kept
_LISTS = frozenset(
    """args bases body cases comparators decorator_list defaults elts finalbody generators handlers ifs items keys keywords kw_defaults kwd_attrs
    kwd_patterns kwonlyargs names ops orelse patterns posonlyargs targets type_params values""".split()
)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or ([] if isinstance(node, ast.Module) else [ast.Pass()])
    return tree
