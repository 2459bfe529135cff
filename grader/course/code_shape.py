"""Compares code apart from how it is written down: comments, blank lines, line breaks and docstrings do not count."""

from __future__ import annotations

import ast

from grader.course.source import Definition, parse


def same_code(one: str, other: str) -> bool:
    """Whether two valid texts do the same by their syntax. SourceProblem for a text that is not valid Python."""
    return one == other or code_shape(parse(one)) == code_shape(parse(other))


def code_shape(part: object) -> object:
    """A syntax tree as tuples, without positions and docstrings."""
    if isinstance(part, list):
        return tuple(map(code_shape, part))
    if not isinstance(part, ast.AST):
        return type(part), part
    fields = dict(ast.iter_fields(part))
    if isinstance(part, Definition | ast.Module) and ast.get_docstring(part, clean=False) is not None:
        fields["body"] = part.body[1:]
    return type(part), tuple(code_shape(value) for value in fields.values())
