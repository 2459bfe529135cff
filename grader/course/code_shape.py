"""Compares code apart from comments, layout and docstrings, and says which parts of an exercise are written, and which
differ from the stub's."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass

from grader.course.chapter_source import Definition, bindings, imported_names, without_blocks
from grader.course.source import SourceProblem, find_statement


def code_by_name(tree: ast.Module) -> dict[str, str]:
    """The code of each definition of a module, by its name; of several with one name, that of the last, and where
    branches have alternatives, all of theirs. Imports do not count."""
    found = bindings(tree)
    statements = dict.fromkeys(node for nodes in found.values() for node in nodes if not imported_names(node))
    shapes = {node: code_shape(without_blocks(node)) for node in statements}
    named = {name: [shapes[node] for node in nodes if node in shapes] for name, nodes in found.items()}
    return {name: "".join(codes) for name, codes in named.items() if codes}


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
        node = find_statement(text, name)
    except SourceProblem:
        return ""
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


# ---- an exercise whose `def` was changed


def describe_changed_def(text: str, stub: str, name: str) -> str:
    """A sentence if a function of the exercise cannot be called as the stub's can, or has another default; or ""."""
    try:
        own, original = (_functions(find_statement(each, name)) for each in (text, stub))
    except SourceProblem:
        return ""
    for path, function in original.items():
        if path in own and not _is_called_alike(own[path].args, function.args):
            return (
                f"Your `def` of {path} differs from the stub's: `def {function.name}({_without_types(function.args)})`."
            )
    return ""


def _functions(node: ast.stmt | None) -> dict[str, ast.FunctionDef]:
    """The function itself, or the methods of a class by names such as `GPT.forward`."""
    if isinstance(node, ast.FunctionDef):
        return {node.name: node}
    if isinstance(node, ast.ClassDef):
        return {f"{node.name}.{each.name}": each for each in node.body if isinstance(each, ast.FunctionDef)}
    return {}


def _is_called_alike(own: ast.arguments, original: ast.arguments) -> bool:
    if own.vararg or own.kwarg:
        return True
    mine, theirs = _defaults(own), _defaults(original)
    places = _places(original)
    return (
        _places(own)[: len(places)] == places
        and theirs.keys() <= mine.keys()
        and all(default for name, default in mine.items() if name not in theirs)
        and all(_is_same_default(mine[name], default) for name, default in theirs.items() if default)
    )


def _places(arguments: ast.arguments) -> list[str]:
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args)]


def _defaults(arguments: ast.arguments) -> dict[str, ast.expr | None]:
    places = _places(arguments)
    defaults = [None] * (len(places) - len(arguments.defaults)) + arguments.defaults
    by_name = {each.arg: default for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults)}
    return dict(zip(places, defaults)) | by_name


def _is_same_default(own: ast.expr | None, original: ast.expr) -> bool:
    try:
        return own is not None and bool(ast.literal_eval(own) == ast.literal_eval(original))
    except ValueError:  # not a literal, such as the name of a constant
        return True


def _without_types(arguments: ast.arguments) -> str:
    bare = copy.deepcopy(arguments)
    for each in (*bare.posonlyargs, *bare.args, *bare.kwonlyargs):
        each.annotation = None
    return ast.unparse(bare)
