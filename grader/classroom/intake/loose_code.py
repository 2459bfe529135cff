"""Writes the chapters that loose code defines: a notebook's cells, or one file with the exercises of several chapters.

A chapter gets what its exercises need: their definitions, and the helpers, constants and imports that these use, directly or through others. So code of
another exercise (which may use what this chapter forbids) is not part of it. If a name is defined several times, the last definition counts, as in a
notebook that was run from top to bottom. Exercises that are not defined keep their stub. Exercises of earlier chapters are imported from these
chapters, as in the stubs, so that a mistake in one costs its own points only.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from grader.classroom.intake.code_statements import Statement, split_statements
from grader.classroom.intake.notebooks import Cell
from grader.classroom.sanitize import shorten
from grader.course.source import SourceProblem, parse
from grader.course.stubs import reference_stub
from grader.course.syllabus import Chapter, load_syllabus

_DEFINED = re.compile(r"^(?:(?:async[ \t]+)?def[ \t]+|class[ \t]+)(\w+)|^(\w+)[ \t]*=(?!=)", re.MULTILINE)
_FOLDERS = ("exercises", "solutions")  # people import chapters as `exercises.ch03_attention`, too


@dataclass
class LooseCode:
    """Statements in order, and the sentences about what could not be read."""

    statements: list[Statement] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class WrittenChapter:
    text: str
    cells: dict[str, int]  # exercise → the cell that defines it (0 in a file)
    missing: dict[str, int]  # a name that the exercises use → the cell that sets it with a statement that was left out


def read_code(cells: Iterable[Cell], file: str) -> LooseCode:
    """The statements of all cells. A cell that is not valid Python is left out, with a sentence."""
    code = LooseCode()
    for cell in cells:
        try:
            code.statements += split_statements(parse(cell.text, f"cell {cell.number} of {file}"), cell.text, cell.number)
        except SourceProblem as problem:
            code.problems.append(f"{problem} (this cell was left out)")
        except SyntaxError as error:
            code.problems.append(f"cell {cell.number} of {file}: {error.msg} (this cell was left out)")
    return code


def find_defined(text: str) -> dict[str, list[str]]:
    """The exercises that this text seems to define, by module. It need not be valid Python."""
    names = {name for groups in _DEFINED.findall(text) for name in groups if name}
    chapters = {chapter.name: [exercise.name for exercise in chapter.exercises if exercise.name in names] for chapter in load_syllabus().chapters}
    return {module: found for module, found in chapters.items() if found}


def find_chapters(code: LooseCode) -> dict[str, list[str]]:
    """The exercises that the kept statements define, by module."""
    names = {name for statement in code.statements if statement.is_kept and not statement.is_import for name in statement.binds}
    chapters = {chapter.name: [exercise.name for exercise in chapter.exercises if exercise.name in names] for chapter in load_syllabus().chapters}
    return {module: found for module, found in chapters.items() if found}


def write_chapter(code: LooseCode, module: str, mark: bool = True) -> WrittenChapter:
    """The text of one chapter. With `mark`, a comment at the end of each line names its cell."""
    chapter = load_syllabus().chapter(module)
    stub = reference_stub(module)
    base = split_statements(parse(stub), stub)
    own = {exercise.name for exercise in chapter.exercises}
    earlier = {exercise.name: exercise.module for other in load_syllabus().chapters if other.number < chapter.number for exercise in other.exercises}
    usable = [adapted for statement in code.statements if statement.is_kept and (adapted := _adapt(statement, chapter, own, earlier))]
    statements = [*base, *usable]
    last = {name: place for place, statement in enumerate(statements) for name in statement.binds}
    chosen, unbound = _select(statements, last, [name for statement in base if not statement.is_import for name in statement.binds])
    imports = [f"from .{earlier[name]} import {name}\n" for name in sorted(unbound & set(earlier))]
    left_out = {name: statement.cell for statement in code.statements if not statement.is_kept for name in statement.binds}
    parts = [statements[place] for place in sorted(chosen, key=lambda place: (not _is_future(statements[place]), place))]
    texts = [part.text if not part.cell or not mark else _mark_lines(part.text, part.cell) for part in parts]
    futures = sum(map(_is_future, parts))
    text = _join(texts[:futures] + imports + texts[futures:])
    cells = {name: statements[last[name]].cell for name in (exercise.name for exercise in chapter.exercises) if last.get(name, 0) >= len(base)}
    return WrittenChapter(text, cells, {name: left_out[name] for name in sorted(unbound - set(earlier)) if name in left_out})


def _select(statements: list[Statement], last: dict[str, int], roots: Iterable[str]) -> tuple[set[int], set[str]]:
    """The places of the statements that define these names and all that they need, and the names that no statement defines."""
    chosen = {place for place, statement in enumerate(statements) if _is_future(statement) or "*" in statement.binds}
    unbound, waiting, seen = set(), list(roots), set()
    changes = [(place, statement) for place, statement in enumerate(statements) if statement.changes]

    def choose(place: int) -> None:
        if place in chosen:
            return
        chosen.add(place)
        statement = statements[place]
        waiting.extend(statement.uses)
        for name in statement.uses_now:
            if last.get(name, -1) > place:  # the last definition comes too late for this statement, so an earlier one is kept too
                before = [other for other in range(place) if name in statements[other].binds]
                if before:
                    choose(before[-1])

    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name not in last:
            unbound.add(name)
            continue
        choose(last[name])
        for place, statement in changes:
            if name in statement.changes:
                choose(place)
    return chosen, unbound


def _adapt(statement: Statement, chapter: Chapter, own: Collection[str], earlier: Collection[str]) -> Statement | None:
    """The statement as this chapter may have it: a definition of an earlier chapter's exercise is not, and imports of chapters become relative."""
    if not statement.is_import:
        return None if statement.binds & set(earlier) else statement
    node = statement.node
    modules = {other.name: other.number for other in load_syllabus().chapters}
    if isinstance(node, ast.ImportFrom):
        module = _chapter_of(node.module or "")
        if module in modules:
            if modules[module] >= chapter.number:
                return None
            text = ast.unparse(ast.ImportFrom(module, node.names, 1)) + "\n"
            return replace(statement, text=text, binds=statement.binds - set(own))
    elif any(_chapter_of(alias.name) in modules for alias in node.names):  # type: ignore[attr-defined]
        kept = [alias for alias in node.names if modules.get(_chapter_of(alias.name), chapter.number) < chapter.number]  # type: ignore[attr-defined]
        lines = [f"from . import {_chapter_of(alias.name)} as {alias.asname or alias.name}\n" for alias in kept if alias.asname or "." not in alias.name]
        return replace(statement, text="".join(lines)) if lines else None
    return None if statement.binds and statement.binds <= set(own) else statement  # `from torch import softmax` below one's own softmax


def _chapter_of(name: str) -> str:
    """"ch03_attention" for `exercises.ch03_attention`; any other name unchanged."""
    folder, _, module = name.rpartition(".")
    return module if folder in _FOLDERS else name


def _is_future(statement: Statement) -> bool:
    return isinstance(statement.node, ast.ImportFrom) and statement.node.module == "__future__"


def _mark_lines(text: str, cell: int) -> str:
    """The text with the cell as a comment at the end of its lines: a failure shows the line where it happened, and so the cell, too."""
    lines = text.split("\n")
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.NEWLINE, tokenize.NL) and lines[token.start[0] - 1].strip():
                lines[token.start[0] - 1] = f"{lines[token.start[0] - 1].rstrip()}  # cell {cell}"
        marked = "\n".join(lines)
        return marked if ast.dump(ast.parse(marked)) == ast.dump(ast.parse(text)) else text
    except (tokenize.TokenError, SyntaxError):
        return text


def _join(texts: list[str]) -> str:
    """One text, with empty lines around definitions."""
    out = ""
    for text in texts:
        is_long = text.count("\n") > 1 or text.startswith(("def ", "class ", "@", "async "))
        was_long = out.endswith("\n\n\n")
        out += ("" if was_long or not out or not is_long else "\n\n") + text + ("\n\n" if is_long else "")
    return out.rstrip() + "\n"


def describe_cells(written: WrittenChapter) -> str:
    """"softmax from cell 3, causal_mask and padding_mask from cell 4"."""
    by_cell: dict[int, list[str]] = {}
    for name, cell in written.cells.items():
        by_cell.setdefault(cell, []).append(name)
    return ", ".join(f"{' and '.join(shorten(name) for name in names)} from cell {cell}" for cell, names in by_cell.items())
