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
    """Return one row for a function, and for a class one row for each public method (of a layer, `forward`)."""
    node = parse(stub).body[-1]
    about = [ast.get_docstring(node) or ""] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
    if isinstance(node, ast.FunctionDef):
        return [_row(exercise.name, exercise.name, node, about)]
    assert isinstance(node, ast.ClassDef)
    found = []
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
            said, is_layer = [ast.get_docstring(method) or ""], method.name == "forward"
            call = exercise.name if is_layer else f"{exercise.name}.{method.name}"
            found.append(_row(exercise.name, call, method, about + said if is_layer else said))
    return found


def _row(exercise: str, call: str, node: ast.FunctionDef, docstrings: list[str]) -> Row:
    """Make a row: an arrow in a docstring gives both sides.

    Without one, the shapes in the first sentence are outputs, except inputs after `from`; else the types are used.
    """
    said = [re.sub(r"\s+", " ", text) for text in docstrings]
    arrow = next(filter(None, map(_ARROW.search, said)), None)
    taken, given = ([arrow[1]], [arrow[2]]) if arrow else _named_in(said[-1])
    parameters = [parameter for parameter in node.args.args if parameter.arg != "self"]
    found = {one.arg: re.search(rf"`{one.arg}` ({SHAPE.pattern})", said[-1]) for one in parameters}
    shaped = {name: match[1] for name, match in found.items() if match}
    if parameters and parameters[0].arg in shaped:
        taken = [f"{name} {shape}" for name, shape in shaped.items()]
    elif not taken:
        taken = [f"{one.arg}: {_type(one.annotation)}" if one.annotation else one.arg for one in parameters]
    returned = _type(node.returns)
    gives = ", ".join(given)
    if gives and not arrow and returned != "Tensor":
        gives = f"{returned}: {gives}"
    return Row(exercise, call, ", ".join(taken) or "nothing", gives or returned)


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


def _type(node: ast.expr | None) -> str:
    said = ast.unparse(node) if node is not None else "None"
    return "nothing" if said == "None" else said.strip("'")
