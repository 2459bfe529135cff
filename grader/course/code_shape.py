"""Compares code apart from how it is written down: comments, blank lines, line breaks and docstrings do not count."""

from __future__ import annotations

import ast

from grader.course.source import Definition, bound_names, parse


def same_code(one: str, other: str) -> bool:
    """Whether two valid texts do the same by their syntax. SourceProblem for a text that is not valid Python."""
    return one == other or code_shape(parse(one)) == code_shape(parse(other))


def code_by_name(tree: ast.Module) -> dict[str, str]:
    """The code of each definition of a module, by its name; of several with one name, that of the last."""
    return {name: code for node in tree.body for code in [code_shape(node)] for name in bound_names(node)}


def code_shape(part: object) -> str:
    """Like `ast.dump`, but without docstrings and without fields that are empty, which differ between versions of Python."""
    if isinstance(part, list):
        return f"[{','.join(map(code_shape, part))}]"
    if not isinstance(part, ast.AST):
        return repr(part)
    fields = dict(ast.iter_fields(part))
    fields.pop("ctx", None)
    if isinstance(part, Definition | ast.Module) and ast.get_docstring(part, clean=False) is not None:
        fields["body"] = part.body[1:]
    return f"{type(part).__name__}({','.join(f'{name}={code_shape(value)}' for name, value in fields.items() if value not in (None, []))})"
