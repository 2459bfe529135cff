"""The index of shapes, read from the docstrings: the inputs and outputs of each exercise.

A docstring with `x (B, T, D) -> (B, H, T, d_head)` gives both. Without a shape, the types of the signature are used.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from grader.course.source import parse
from grader.course.syllabus import Exercise

_SIZE = r"(?:\.\.\.|\d+|[A-Z][a-z]?|[nd]_\w+|\w+_len|vocab_size|d|k|n)"
_AXIS = rf"{_SIZE}(?:\s*[*+/]\s*{_SIZE})*"
_AXES = rf"(?=[^)]*[A-Za-z.])(?:{_AXIS}(?:, {_AXIS})+|{_AXIS},|\.\.\.)"  # (1, 1) is a pair of numbers
SHAPE = re.compile(rf"\({_AXES}\)")
_NAMED = rf"(?:(?!and\b)\w+ ){{0,2}}(?:{SHAPE.pattern}|\(\))"
SHAPE_WITH_NAME = re.compile(rf"(?:\b(?!(?:and|from|its|the|tensor|both)\b)\w+ )?{SHAPE.pattern}")
_SIDE = rf"{_NAMED}(?:(?:,| and) {_NAMED})*"
_ARROW = re.compile(rf"({_SIDE}) -> ({_SIDE}(?: and the [\w ]+)?)")


@dataclass(frozen=True)
class Row:
    """One exercise, or one of its methods: `call` is how it is called; both sides are as the docstring has them."""

    exercise: str
    call: str
    takes: str
    gives: str

    @property
    def shapes(self) -> list[str]:
        """All shapes in order."""
        return [match[0] for side in (self.takes, self.gives) for match in SHAPE.finditer(side)]


def list_rows(exercise: Exercise, stub: str) -> list[Row]:
    """Return one row for a function, and for a class one row for each public method (of a layer, which is called, `forward`)."""
    node = parse(stub).body[-1]
    if not isinstance(node, ast.ClassDef):
        assert isinstance(node, ast.FunctionDef)
        return [_row(exercise.name, exercise.name, node, [ast.get_docstring(node) or ""])]
    methods = [child for child in node.body if isinstance(child, ast.FunctionDef) and not child.name.startswith("_")]
    about = ast.get_docstring(node) or ""
    found = []
    for method in methods:
        said = [ast.get_docstring(method) or ""]
        layer = method.name == "forward"
        found.append(_row(exercise.name, exercise.name if layer else f"{exercise.name}.{method.name}", method, [about, *said] if layer else said))
    return found


def _row(exercise: str, call: str, node: ast.FunctionDef, docstrings: list[str]) -> Row:
    """Make a row. An arrow gives both sides. Without one, the shapes in the first sentence are outputs, except inputs after `from`; else the types are used."""
    said = [re.sub(r"\s+", " ", text) for text in docstrings]
    arrow = next(filter(None, map(_ARROW.search, said)), None)
    taken, given = ([arrow[1]], [arrow[2]]) if arrow else _named_in(said[-1])
    parameters = _parameters_with_shapes(node, said[-1])
    if parameters:
        taken = parameters
    returned = _type(node.returns)
    gives = ", ".join(given)
    if gives and not arrow and "Tensor" != returned:
        gives = f"{returned}: {gives}"
    return Row(exercise, call, ", ".join(taken) or _parameters(node), gives or returned)


def _named_in(text: str) -> tuple[list[str], list[str]]:
    """Return the input shapes and output shapes of the first sentence; later sentences describe details."""
    opening = re.split(r"(?<=[a-z)\]])\. ", text, maxsplit=1)[0]
    before, *after = re.split(r"; (?:give|return) ", opening, maxsplit=1)
    if after:
        return SHAPE_WITH_NAME.findall(before), SHAPE_WITH_NAME.findall(after[0])
    taken: list[str] = []
    given: list[str] = []
    for match in SHAPE_WITH_NAME.finditer(opening):
        (taken if re.search(r"\bfrom (?:its )?$", opening[: match.start()]) else given).append(match[0])
    return taken, given


def _parameters_with_shapes(node: ast.FunctionDef, text: str) -> list[str]:
    """Return the parameters with a shape in the docstring, such as `x` (B, T, D), if the first parameter is among them."""
    names = [one.arg for one in node.args.args if one.arg != "self"]
    found = {name: match[1] for name in names if (match := re.search(rf"`{name}` ({SHAPE.pattern})", text))}
    return [f"{name} {shape}" for name, shape in found.items()] if names and names[0] in found else []


def _parameters(node: ast.FunctionDef) -> str:
    return ", ".join(f"{one.arg}: {_type(one.annotation)}" if one.annotation else one.arg for one in node.args.args if one.arg != "self") or "nothing"


def _type(node: ast.expr | None) -> str:
    said = ast.unparse(node) if node is not None else "None"
    return "nothing" if said == "None" else said.strip("'")
