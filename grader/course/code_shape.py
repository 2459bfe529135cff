"""Compares code apart from comments, layout and docstrings, and says which parts of an exercise are written."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from grader.course.source import Definition, SourceProblem, bound_names, find_definition, parse


def same_code(one: str, other: str) -> bool:
    """Whether two valid texts do the same by their syntax. SourceProblem for a text that is not valid Python."""
    return one == other or code_shape(parse(one)) == code_shape(parse(other))


def code_by_name(tree: ast.Module) -> dict[str, str]:
    """The code of each definition of a module, by its name; of several with one name, that of the last."""
    return {name: code for node in tree.body for code in [code_shape(node)] for name in bound_names(node)}


def code_shape(part: object) -> str:
    """Like `ast.dump`, but without docstrings and empty fields, which differ between versions of Python."""
    if isinstance(part, list):
        return f"[{','.join(map(code_shape, part))}]"
    if not isinstance(part, ast.AST):
        return repr(part)
    fields = dict(ast.iter_fields(part))
    fields.pop("ctx", None)
    if isinstance(part, Definition | ast.Module) and ast.get_docstring(part, clean=False) is not None:
        fields["body"] = part.body[1:]
    shapes = [f"{name}={code_shape(value)}" for name, value in fields.items() if value not in (None, [])]
    return f"{type(part).__name__}({','.join(shapes)})"


# ---- an exercise that is begun


@dataclass(frozen=True)
class _Part:
    """A function, or a method of a class."""

    name: str
    has_code: bool  # besides what the stub has: the docstring, `super().__init__()` and the raise
    raising: int | None  # the line of the file that raises NotImplementedError


def describe_written(text: str, name: str) -> str:
    """What is written and what is still to do, in one sentence; "" if nothing is written, or nothing is to do."""
    try:
        found = find_definition(text, name)
        tree = ast.parse(text) if found else None
    except (SourceProblem, SyntaxError, ValueError, RecursionError):
        return ""
    node = next((each for each in tree.body if getattr(each, "name", "") == name), None) if tree else None
    if isinstance(node, ast.FunctionDef):
        part = _part(node)
        return f"{name} has code, but {_still(part)}." if part.has_code and part.raising else ""
    if not isinstance(node, ast.ClassDef):
        return ""
    parts = [_part(each) for each in node.body if isinstance(each, ast.FunctionDef)]
    todo = [part for part in parts if part.raising]
    if not todo or not any(part.has_code for part in parts):
        return ""
    written = [f"`{part.name}`" for part in parts if part.has_code and not part.raising]
    begun = [f"`{part.name}` has code, but {_still(part)}" for part in todo if part.has_code]
    empty = [f"`{part.name}`" for part in todo if not part.has_code]
    return "; ".join([*_are(written, "written"), *begun, *_are(empty, "not implemented yet")]) + "."


def _part(node: ast.FunctionDef) -> _Part:
    found = [each for each in ast.walk(node) if isinstance(each, ast.Raise) and each.exc]
    raises = [each.lineno for each in found if each.exc and ast.unparse(each.exc).startswith("NotImplementedError")]
    return _Part(node.name, any(map(_is_code, node.body)), raises[0] if raises else None)


def _is_code(statement: ast.stmt) -> bool:
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    if is_constant or isinstance(statement, ast.Pass | ast.Raise):
        return False
    return not ast.unparse(statement).startswith("super().__init__(")


def _still(part: _Part) -> str:
    return f"line {part.raising} still raises NotImplementedError: remove that line when the code is complete"


def _are(names: list[str], what: str) -> list[str]:
    listed = " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
    return [f"{listed} {'is' if len(names) == 1 else 'are'} {what}"] if names else []
