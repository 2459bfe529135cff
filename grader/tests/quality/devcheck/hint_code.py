"""Finds code of the reference in an exercise's hints: the last hint says how to write the line, the learner writes it.

A hint may name functions, arguments, shapes and their order. It may not contain what a statement computes: the value
that is assigned or returned, the call, the condition, or what a loop goes through. Spaces, quotation marks, names of
variables, receivers (`self.`, `torch.`, `x.`) and the names of keyword arguments are ignored, so `exp(scores - m)` is
the same code as `torch.exp(x - largest)`.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator

from grader.course.source import find_definition
from grader.course.syllabus import Exercise
from grader.tests.quality.devcheck.subjects import solution_of

MIN_STATEMENT_TOKENS = 4  # `sorted(words)` has four, `x + rows` three
MIN_PART_TOKENS = 12  # of an expression inside a longer one
BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
RECEIVER = re.compile(r"(?<![\w.])(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])")
KEYWORD = re.compile(r"\b[A-Za-z_]\w*\s*=(?!=)")
TOKEN = re.compile(r"""\d+(?:\.\d+)?|\w+|"[^"\n]*"|'[^'\n]*'|\*\*|//|[=!<>]=|[^\s\w`]""")
VARIABLE = "_"
TRIVIAL = frozenset({VARIABLE, ",", "(", ")", "[", "]", "not", "is", "None"})  # `x is not None` gives nothing away


def code_in_hints(exercise: Exercise) -> Iterator[str]:
    """A sentence for each hint that contains code of the reference: the longest piece of it."""
    pieces = reference_code(solution_of(exercise), exercise.name)
    for number, hint in enumerate(exercise.hints, start=1):
        code = longest_code(hint, pieces)
        if code is not None:
            yield (
                f"hint {number} contains code of the reference, `{code}`; "
                "name the functions, their order, the shapes and the trap, and let the learner write the line"
            )


def longest_code(hint: str, pieces: dict[tuple[str, ...], str]) -> str | None:
    """The longest of the pieces of code that the hint contains."""
    text = f"\n{_lines(normalised(hint))}\n"
    found = [(len(tokens), code) for tokens, code in pieces.items() if f"\n{_lines(tokens)}\n" in text]
    return max(found)[1] if found else None


def _lines(tokens: tuple[str, ...]) -> str:
    return "\n".join(tokens)  # no token contains a line break


def reference_code(text: str, name: str) -> dict[tuple[str, ...], str]:
    """What the statements of the exercise's solution compute, and their longer parts: normalised tokens -> code."""
    found = find_definition(text, name)
    pieces: dict[tuple[str, ...], str] = {}
    if found is None:
        return pieces
    written = _solution_lines(found.text)
    for function in ast.walk(ast.parse(found.text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for statement in ast.walk(function):
            if isinstance(statement, ast.stmt) and statement.lineno in written:
                for computed in _computed(statement):
                    _add(pieces, computed, MIN_STATEMENT_TOKENS)
                    for part in ast.walk(computed):
                        if isinstance(part, ast.expr):
                            _add(pieces, part, MIN_PART_TOKENS)
    return pieces


def _add(pieces: dict[tuple[str, ...], str], node: ast.expr, min_tokens: int) -> None:
    code = ast.unparse(node)
    for generator in (ast.unparse(part) for part in ast.walk(node) if isinstance(part, ast.GeneratorExp)):
        code = code.replace(f"({generator})", generator)  # f((x for x in y)) is written f(x for x in y)
    tokens = normalised(code)
    if len(tokens) >= min_tokens and not TRIVIAL.issuperset(tokens):
        pieces.setdefault(tokens, code)


def normalised(text: str) -> tuple[str, ...]:
    """The tokens of a text, with one placeholder for all names that are not called."""
    tokens = TOKEN.findall(KEYWORD.sub("", RECEIVER.sub("", text)))
    found = []
    for token, following in zip(tokens, [*tokens[1:], ""]):
        if re.match(r"[^\W\d]", token) and following != "(" and not keyword.iskeyword(token):
            found.append(VARIABLE)
        elif token[0] in "\"'":
            found.append(f"'{token[1:-1]}'")
        else:
            found.append(re.sub(r"^(\d+)\.0+$", r"\1", token))
    return tuple(found)


def _solution_lines(segment: str) -> set[int]:
    """The lines between the marks of a solution, counted from 1; the last mark may be behind the definition."""
    inside, found = False, set()
    for number, line in enumerate(segment.splitlines(), start=1):
        inside = (inside or BEGIN in line) and END not in line
        if inside:
            found.add(number)
    return found


def _computed(statement: ast.stmt) -> list[ast.expr]:
    """The value, error or condition of a statement, and what it loops over or enters."""
    found = [getattr(statement, field, None) for field in ("value", "exc", "test", "iter")]
    found += [manager.context_expr for manager in getattr(statement, "items", ())]
    return [each for each in found if each is not None]
