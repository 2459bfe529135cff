"""Writes the requests of an example as Python statements on the learner's own objects."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from grader.course.chapter_source import scope_statements
from grader.course.source import SourceProblem, parse
from grader.execution.values import pack, unpack
from grader.reproduction.example import Request
from grader.verdict.value_text import NotCode, value_code
from torch import Tensor

FAILED = "  # the failed call"  # `headway repro --pdb` stops there
LINE_WIDTH = 110
MAX_WRITTEN_NUMBERS = 30  # of a tensor; a larger one is saved in a file
MAX_INLINE_CHARACTERS = 40  # of an argument that is written in the call


@dataclass(frozen=True)
class Ref:
    """An object of the implementation, by its number."""

    number: int
    label: str


@dataclass
class Statements:
    """The statements so far, and what they use."""

    chapter: str  # the variable of the opened chapter
    parameters: dict[str, list[str]]  # of each function, and of each method as "Class.method"
    lines: list[str] = field(default_factory=list)
    helpers: list[str] = field(default_factory=list)  # sources of the test's helpers
    saved: dict[str, Any] = field(default_factory=dict)  # values in the file next to the script
    code: dict[int, str] = field(default_factory=dict)  # of each object
    labels: dict[int, str] = field(default_factory=dict)  # of each object: its class, its function, or "Class.method"
    known: dict[str, str] = field(default_factory=dict)  # the code of a value, or the source of a helper → its name
    taken: set[str] = field(default_factory=lambda: {*keyword.kwlist, *dir(builtins)})

    def write(self, request: Request, reply: dict, result: str = "", check: bool = False) -> str:
        """Write one request; the code of its result.

        `result` is the variable for it if it is a failed request. `check` has the rules for all calls checked.
        """
        op, tree, buffers = request
        target, *others = unpack(tree, buffers, lambda handle: Ref(handle[0], str(handle[1])))
        owner = self._value(target, "target") if op not in ("get", "bring") else ""
        match op:
            case "get":
                code = f"{self.chapter}.{target}"
            case "bring":
                code = self._bring(target, others[0])
            case "call" | "gradients":
                code = self._call(op, owner, target, others, check)
            case "attribute":
                code = f"{owner}.{others[0]}"
            case "item":
                code = f"{owner}[{self._value(others[0], 'index')}]"
            case "list" | "len":
                code = f"{op}({owner})"
            case "contains":
                code = f"{self._value(others[0], 'item')} in {owner}"
            case "set_attribute":
                code = f"{owner}.{others[0]} = {self._value(others[1], others[0])}"
            case "set_item":
                code = f"{owner}[{self._value(others[0], 'index')}] = {self._value(others[1], 'value')}"
            case "fill":
                code = f"set_parameters({owner}, {self.variable(others[0], 'values')})"
            case _:
                code = f"{'parameters' if op == 'shapes' else op}({owner})"
        made = reply.get("value")
        if op in ("set_attribute", "set_item", "fill"):
            self.lines.append(code + FAILED * bool(result))
            return "None"
        if result or (op in ("call", "gradients") and "handle" in repr(made)):
            label = made["handle"][1] if isinstance(made, dict) and "handle" in made else "result"
            name = result or self.new_name(_variable_name(label))
            self.lines.append(f"{name} = {code}{FAILED * bool(result)}")
            code = name
        elif op in ("call", "gradients"):
            self.lines.append(code)
        self._register(made, code, f"{self.labels.get(target.number, '')}.{others[0]}" if op == "attribute" else "")
        return code

    def _register(self, tree: Any, code: str, label: str = "") -> None:
        """Note the code of each object in a reply."""
        if isinstance(tree, dict) and "handle" in tree:
            number, kind = tree["handle"]
            self.code.setdefault(number, code)
            self.labels.setdefault(number, label if label.endswith(f".{kind}") else kind)
            return
        items = tree.get("tuple", ()) if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
        for key, part in [*enumerate(items), *(tree.get("dict", ()) if isinstance(tree, dict) else ())]:
            self._register(part, f"{code}[{key!r}]")

    def _bring(self, name: str, source: str) -> str:
        if source not in self.known:
            self.known[source] = self.new_name(name)
            self.helpers.append(re.sub(rf"\b{name}\b", self.known[source], source))
            self.parameters |= parameter_names([source])
        return self.known[source]

    def _call(self, op: str, owner: str, target: Any, others: list, check: bool) -> str:
        """`softmax(x, dim=1)`, or with a function of the kit `gradients(softmax, x)`."""
        args, options, *cotangent = others
        label = self.labels.get(target.number, "") if isinstance(target, Ref) else ""
        # an object, not a function or a class
        called = re.fullmatch(r"\w+", owner) and owner not in self.known.values()
        wanted = ([f"{label}.forward"] if called else []) + [label, f"{label}.__init__"]
        names = next((self.parameters[name] for name in wanted if name in self.parameters), ["x", "y", "z"])
        parts = [self._value(value, (names[at:] or ["value"])[0]) for at, value in enumerate(args)]
        parts += [f"{name}={self._value(value, name)}" for name, value in options.items()]
        if cotangent and cotangent[0] is not None:
            parts.append(f"cotangent={self._value(cotangent[0], 'cotangent')}")
        if op == "gradients" or check:
            return f"{'gradients' if op == 'gradients' else 'check_call'}({', '.join([owner, *parts])})"
        return f"{owner}({', '.join(parts)})"

    # ---- values

    def new_name(self, wish: str) -> str:
        """A name that is not in use: the wish, or the wish with a number."""
        wish = wish if wish.isidentifier() and wish.isascii() else "value"
        name, number = wish, 2
        while name in self.taken:
            name, number = f"{wish}_{number}", number + 1
        self.taken.add(name)
        return name

    def _value(self, value: Any, name: str) -> str:
        """The code of an argument: short values are written in the call, others are variables."""
        if isinstance(value, Ref):
            return self.code.get(value.number, value.label)
        if _contains(value, Ref):
            if isinstance(value, dict):
                items = (f"{self._value(key, name)}: {self._value(part, str(key))}" for key, part in value.items())
                return f"{{{', '.join(items)}}}"
            inside = ", ".join(self._value(part, name) for part in value)
            return f"[{inside}]" if isinstance(value, list) else f"({inside},)" if len(value) == 1 else f"({inside})"
        text = _literal(value)
        short = 0 < len(text) <= MAX_INLINE_CHARACTERS and not _contains(value, Tensor)
        return text if short else self.variable(value, name)

    def variable(self, value: Any, name: str) -> str:
        text = _literal(value)
        key = text or repr(pack(value, lambda part: [0, repr(part)]))
        if key not in self.known:
            variable = self.known[key] = self.new_name(name)
            self.lines.append(f"{variable} = {text or self.save(value, variable)}")
        return self.known[key]

    def save(self, value: Any, name: str) -> str:
        """The code of a value that is in the file next to the script."""
        self.saved[name] = value
        return f'saved["{name}"]'

    def literal(self, value: Any, name: str) -> str:
        """The code of a value that no variable has."""
        return _literal(value) or self.save(value, name)


def parameter_names(texts: Iterable[str]) -> dict[str, list[str]]:
    """The parameters of each function in these modules, and of each method as "Class.method"."""
    found: dict[str, list[str]] = {}
    for text in texts:
        try:
            body = list(scope_statements(parse(text).body))
        except SourceProblem:
            continue
        functions = [(node.name, node, 0) for node in body if isinstance(node, ast.FunctionDef)]
        for node in (node for node in body if isinstance(node, ast.ClassDef)):
            methods = (part for part in node.body if isinstance(part, ast.FunctionDef))
            functions += [(f"{node.name}.{part.name}", part, 1) for part in methods]
        found |= {name: [part.arg for part in function.args.args][bound:] for name, function, bound in functions}
    return found


def _variable_name(label: str) -> str:
    """`MultiHeadAttention` → `multi_head_attention`, `KVCache` → `kv_cache`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", label).lower()


def _literal(value: Any) -> str:
    """The value as code, on lines of a readable width; empty if it is too large for code."""
    try:
        text = value_code(value, MAX_WRITTEN_NUMBERS)
    except NotCode:
        return ""
    if len(text) <= LINE_WIDTH or "'" in text or '"' in text:
        return text
    if _contains(value, Tensor) and len(text) > 3 * LINE_WIDTH:
        return ""
    lines = [""]
    for piece in re.split(r"(?<=, )", text):
        if len(lines[-1]) + len(piece) > LINE_WIDTH:
            lines.append("    ")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def _contains(value: Any, kind: type) -> bool:
    """Is the value, or a part of it, of this kind?"""
    if isinstance(value, dict):
        return any(_contains(part, kind) for part in value.values())
    parts = value if isinstance(value, list | tuple | set) else ()
    return isinstance(value, kind) or any(_contains(part, kind) for part in parts)
