"""Names for a script's variables: the parameters of the learner's functions, and names made from classes."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterable

from grader.course.source import SourceProblem, parse

_FALLBACK = ("x", "y", "z")


class Parameters:
    """The parameters of the functions and classes in these chapters."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.functions: dict[str, list[str]] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """The functions and classes of one more module."""
        try:
            body = parse(text).body
        except SourceProblem:
            return
        for node in body:
            if isinstance(node, ast.FunctionDef):
                self.functions[node.name] = _names(node)
            elif isinstance(node, ast.ClassDef):
                self.classes[node.name] = node

    def of(self, label: str, method: str = "") -> list[str]:
        """Of a function, of a class (its `__init__`), or of a method of a class."""
        if not method and label in self.functions:
            return self.functions[label]
        seen: set[str] = set()
        while label in self.classes and label not in seen:
            seen.add(label)
            node = self.classes[label]
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and part.name == (method or "__init__"):
                    return _names(part)[1:]
            label = next((base.id for base in node.bases if isinstance(base, ast.Name)), "")
        return []


def _names(node: ast.FunctionDef) -> list[str]:
    return [argument.arg for argument in [*node.args.posonlyargs, *node.args.args]]


class NameSpace:
    """The names that a script uses already."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = {*taken, *keyword.kwlist, *dir(builtins)}

    def new(self, wish: str) -> str:
        """A name that is not in use: the wish, or the wish with a number."""
        wish = wish if wish.isidentifier() and wish.isascii() else "value"
        name, number = wish, 2
        while name in self.taken:
            name, number = f"{wish}_{number}", number + 1
        self.taken.add(name)
        return name


def argument_name(names: list[str], position: int) -> str:
    return names[position] if position < len(names) else _FALLBACK[position] if position < len(_FALLBACK) else "value"


def object_name(label: str) -> str:
    """`MultiHeadAttention` → `multi_head_attention`, `KVCache` → `kv_cache`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", label).lower()
