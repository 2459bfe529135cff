"""Makes every small change to one exercise of the reference: one operator, number, axis, argument, call or statement.

A mutant is the exercise with one node of its syntax tree replaced (`alternatives.py`). Changes that Python compiles
to the same code as the original, or as another change of the exercise, are left out: they would test the same thing
twice.
"""

from __future__ import annotations
import __future__

import ast
import types
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from grader.course.source import definition, replace_definition, split_lines
from grader.tests.quality.proof.alternatives import Place, alternatives, changes_in_function, is_negative

UNCHANGED_FIELDS = {"annotation", "returns", "decorator_list", "exc", "type_params", "ctx"}  # no code, or only messages


@dataclass(frozen=True)
class Mutant:
    exercise: str
    number: int  # of the line, counted within the exercise
    line: str  # as in the reference, without its comment
    edit: str  # "old -> new"
    text: str  # the exercise, changed

    @property
    def key(self) -> tuple[str, str, str]:
        return self.exercise, self.line, self.edit

    def in_chapter(self, text: str) -> str:
        """The chapter with this change in it."""
        return replace_definition(text, self.exercise, self.text)


def mutants(chapter: str, exercise: str) -> list[Mutant]:
    """All changes to the exercise in this text of its chapter, in the order of its lines."""
    text = definition(chapter, exercise).text
    tree, lines = ast.parse(text), split_lines(text)
    in_functions = {id(node): new for function in ast.walk(tree) if isinstance(function, ast.FunctionDef)
                    for node, new in changes_in_function(function)}  # fmt: skip
    known, counts, found = {_compiled(ast.unparse(tree))}, Counter[tuple[str, str]](), []
    for place in sorted(_places(tree), key=lambda place: (place.node.lineno, place.node.col_offset)):
        node = place.node
        for new in [*alternatives(place), *in_functions.get(id(node), ())]:
            place.put(new)
            changed = ast.unparse(tree)
            place.put(node)
            if (code := _compiled(changed)) is None or code in known:
                continue
            known.add(code)
            line, edit = lines[node.lineno - 1].partition("  #")[0].strip(), f"{_short(node)} -> {_short(new)}"
            counts[line, edit] += 1
            edit += f" #{counts[line, edit]}" if counts[line, edit] > 1 else ""
            found.append(Mutant(exercise, node.lineno, line, edit, f"{changed}\n"))
    return found


def _places(tree: ast.AST) -> Iterator[Place]:
    """Every statement and expression that may be changed; f-strings and negative numbers only as a whole."""
    for field, value in ast.iter_fields(tree):
        if field in UNCHANGED_FIELDS:
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.stmt | ast.expr):
                yield Place(child, tree, field, index)
            docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if isinstance(child, ast.AST) and not (docstring or is_negative(child) or isinstance(child, ast.JoinedStr)):
                yield from _places(child)


def _short(node: ast.AST) -> str:
    first, *rest = ast.unparse(node).splitlines()
    return f"{first} ..." if rest else first


def _compiled(text: str) -> tuple | None:
    """What the text is compiled to, without line numbers; None if it is not valid Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            flags = __future__.annotations.compiler_flag
            return tuple(_parts(compile(text, "mutant", "exec", flags=flags, dont_inherit=True)))
    except (SyntaxError, ValueError):
        return None


def _parts(code: types.CodeType) -> Iterator[object]:
    yield code.co_name, code.co_argcount, code.co_kwonlyargcount, code.co_flags
    yield code.co_names, code.co_varnames, code.co_freevars, code.co_code, code.co_exceptiontable
    for constant in code.co_consts:
        yield from _parts(constant) if isinstance(constant, types.CodeType) else [repr(constant)]
