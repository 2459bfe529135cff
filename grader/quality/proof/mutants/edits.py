"""Every small change to one exercise of the reference: an operator, a number, an axis, an argument, a call or a statement at a time.

A mutant is the exercise's own text with one piece of it replaced. Changes that Python compiles to the same code as the original, or as
another change of the exercise, are left out, because they would test the same thing twice.
"""

from __future__ import annotations
import __future__

import ast
import hashlib
import types
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from grader.course.source import definition, replace_definition, split_lines
from grader.quality.proof.mutants.expressions import of_expression
from grader.quality.proof.mutants.places import Change, Places
from grader.quality.proof.mutants.statements import of_statement

LEFT_ALONE = {"annotation", "returns", "decorator_list", "exc", "type_params", "ctx"}  # fields without code of the exercise, and messages


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
    places = Places(text)
    lines = split_lines(text)
    known = {_compiled(text)}
    found: list[Mutant] = []
    many: Counter[tuple[str, str]] = Counter()
    for change in sorted(_changes(places), key=lambda change: change.start):
        changed = text[: change.start] + change.new + text[change.end :]
        code = _compiled(changed)
        if code is None or code in known:
            continue
        known.add(code)
        number = text.count("\n", 0, change.start) + 1
        line = lines[number - 1].partition("  #")[0].strip()
        edit = f"{_short(text[change.start : change.end])} -> {_short(change.new) or 'nothing'}"
        many[line, edit] += 1
        found.append(Mutant(exercise, number, line, edit if many[line, edit] == 1 else f"{edit} #{many[line, edit]}", changed))
    return found


def _changes(places: Places) -> Iterator[Change]:
    waiting: list[tuple[ast.AST, ast.AST | None]] = [(places.tree.body[0], None)]
    while waiting:
        node, parent = waiting.pop()
        if isinstance(node, ast.stmt):
            yield from of_statement(node, places)
        elif isinstance(node, ast.expr):
            yield from of_expression(node, parent, places)
        if _whole(node):
            continue
        for field, value in ast.iter_fields(node):
            if field not in LEFT_ALONE:
                waiting += [(child, node) for child in (value if isinstance(value, list) else [value]) if isinstance(child, ast.AST)]


def _whole(node: ast.AST) -> bool:
    """Whether this is changed as a whole or not at all: docstrings, f-strings and negative numbers."""
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)
    return docstring or negative or isinstance(node, ast.JoinedStr)


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if "\n" not in text or len(words) < 100 else f"{text.partition(chr(10))[0]} ..."


def _compiled(text: str) -> bytes | None:
    """What the text is compiled to, independent of its line numbers; None if it is not valid Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(text, "mutant", "exec", flags=__future__.annotations.compiler_flag, dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    digest = hashlib.sha256()
    for part in _parts(code):
        digest.update(part)
    return digest.digest()


def _parts(code: types.CodeType) -> Iterator[bytes]:
    yield repr((code.co_name, code.co_argcount, code.co_kwonlyargcount, code.co_flags, code.co_names, code.co_varnames, code.co_freevars)).encode()
    yield code.co_code
    yield code.co_exceptiontable
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _parts(constant)
        else:
            yield repr(constant).encode()
