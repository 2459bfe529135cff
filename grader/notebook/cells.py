"""What the cells of a notebook define; writes exercises of it into the files of their chapters, with what they need.

Written code that this replaces is kept.
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from grader.course.chapter_source import bound_names, scope_statements
from grader.course.source import (
    SourceProblem,
    append_definition,
    find_definition,
    is_written,
    module_names,
    newline_of,
    parse,
    read_source,
    replace_definition,
    split_lines,
    write_source,
)
from grader.course.status import short_path
from grader.course.stubs import is_stub, keep, same_text
from grader.course.syllabus import EXERCISES, Exercise, load_syllabus
from grader.execution.names_used import NamesUsed, names_used
from grader.files import problem
from grader.verdict.results import join_names


def notebook_shell() -> Any:
    """IPython's shell, which runs the cells; None outside IPython."""
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def command(text: str) -> str:
    """Text with the commands in it as they are typed here: `check("softmax")`; in a cell, a command of the shell begins
    with an exclamation mark."""
    text = re.sub(r"\bheadway (check|hint|repro) (\w+)", r'\1("\2")', text)
    return re.sub(r"(?<!!)\bheadway (?=[a-z])", "!headway ", text) if notebook_shell() else text


RUNNING = ("check", "time", "capture")  # cell magics that run the cell below them as Python in the notebook


@dataclass(frozen=True)
class CellCode:
    """The last definition of each name in some cells, the earliest of them first."""

    definitions: dict[str, str]  # functions, classes and assigned variables, with the comments directly above them
    imports: dict[str, str]  # name → a statement that imports it

    @cached_property
    def _names(self) -> NamesUsed:
        # without imports, so that an attribute does not count as a name
        return names_used("\n".join(dict.fromkeys(self.definitions.values())))

    def names_reached(self, name: str, last: Collection[str]) -> set[str]:
        """All names that this definition uses, directly or through others; what the names `last` use is left out."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            word = waiting.pop()
            if word in found:
                continue
            found.add(word)
            statement = self._names.statements.get(word)
            if statement is not None and word not in last:
                waiting += self._names.used[statement] | _names_in_annotations(statement)
        return found


def code_of_cells(cells: Sequence[str]) -> CellCode:
    """What these cells define; cells that are not Python are left out."""
    definitions: dict[str, str] = {}
    imports: dict[str, str] = {}
    for cell in reversed(cells):
        try:
            nodes = list(scope_statements(parse(cell).body))
        except SourceProblem:
            continue
        for node in reversed(nodes):
            new = bound_names(node) - definitions.keys() - imports.keys()
            definitions |= {name: segment.text for name in sorted(new) if (segment := find_definition(cell, name))}
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    if name not in definitions:
                        imports.setdefault(name, _import_statement(node, alias))
    return CellCode(dict(reversed(definitions.items())), imports)


def cells_so_far() -> list[str]:
    """The cells that this notebook has run, as Python; empty outside IPython."""
    shell = notebook_shell()
    return [_below_magics(cell) for cell in shell.history_manager.input_hist_parsed] if shell else []


def names_in(cell: str) -> list[str]:
    """The names that a cell defines, in its order."""
    nodes = scope_statements(parse(notebook_shell().transform_cell(cell), "the cell").body)
    return list(dict.fromkeys(name for node in nodes for name in sorted(bound_names(node))))


def _below_magics(cell: str) -> str:
    """The Python below the cell magics of a cell as IPython keeps it: `get_ipython().run_cell_magic('check', 'softmax',
    'def softmax(...')`."""
    try:
        match parse(cell).body:
            case [
                ast.Expr(ast.Call(ast.Attribute(attr="run_cell_magic"), [ast.Constant(magic), _, ast.Constant(body)]))
            ] if magic in RUNNING:
                return _below_magics(notebook_shell().transform_cell(body))
    except SourceProblem:
        pass
    return cell


def _import_statement(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    """The import of one name. A chapter imports another one from its own folder."""
    if isinstance(node, ast.Import):
        return ast.unparse(ast.Import([alias]))
    folder, _, module = (node.module or "").partition(".")
    here = (module or None, 1) if folder == "exercises" else (node.module, node.level)
    return ast.unparse(ast.ImportFrom(here[0], [alias], here[1]))


def _names_in_annotations(node: ast.stmt) -> set[str]:
    found = (getattr(part, kind, None) for part in ast.walk(node) for kind in ("annotation", "returns"))
    return {part.id for one in filter(None, found) for part in ast.walk(one) if isinstance(part, ast.Name)}


# module and name → what this notebook wrote last: the notebook has it, so it is not kept
_written_here: dict[tuple[str, str], str] = {}


def write_exercises(exercises: Sequence[Exercise], code: CellCode) -> list[str]:
    """Write these exercises; returns sentences about what was written and what was kept. SourceProblem if a file cannot
    be used."""
    chapters: dict[str, _ChapterText] = {}
    for exercise in exercises:
        if exercise.module not in chapters:
            chapters[exercise.module] = _ChapterText(exercise.module, code)
        chapters[exercise.module].write(exercise)
    return [sentence for chapter in chapters.values() for sentence in chapter.store()]


class _ChapterText:
    """The text of a chapter's file, and what was replaced in it."""

    def __init__(self, module: str, code: CellCode) -> None:
        self.module, self.code = module, code
        self.path = EXERCISES / f"{module}.py"
        self.before = self.text = read_source(self.path)
        self.written: dict[str, str] = {}  # name → its new text
        self.replaced: dict[str, str] = {}  # name → its text in the file, where it was more than the stub

    def write(self, exercise: Exercise) -> None:
        """Write an exercise and what it needs: its helpers, the exercises of which the file has the stub only, and
        imports."""
        others = {
            other.name: other
            for other in load_syllabus().exercises
            if other.module <= self.module and other.name != exercise.name
        }
        names = self.code.names_reached(exercise.name, others.keys())
        defined = [name for name in self.code.definitions if name in names]
        for other in [others[name] for name in defined if name in others and name not in self.written]:
            stub_here = other.module == self.module and is_stub(other, self.text)
            if stub_here and is_written(self.code.definitions[other.name], other.name):
                self.write(other)
        own = [name for name in defined if name not in others and name != exercise.name]
        helpers = dict.fromkeys(self.code.definitions[name].strip("\r\n") for name in own if not self._replace(name))
        new = "\n\n\n".join([*helpers, self.code.definitions[exercise.name]])
        if not self._replace(exercise.name, new, unless_stub=exercise):
            self.text = append_definition(self.text, new)
        earlier = {
            name: f"from .{other.module} import {name}" for name, other in others.items() if other.module != self.module
        }
        imports = sorted((earlier | self.code.imports).items())
        self._import({name: statement for name, statement in imports if name in names})

    def _replace(self, name: str, new: str = "", unless_stub: Exercise | None = None) -> bool:
        """Replace a definition by that of the notebook, or by `new`; False if the file has none of this name."""
        self.written[name] = self.code.definitions[name]
        old = find_definition(self.text, name, self.path.name)
        if old is None:
            return False
        if not same_text(old.text, new or self.written[name]):
            if not (unless_stub and is_stub(unless_stub, self.text)):
                self.replaced.setdefault(name, old.text)
            self.text = replace_definition(self.text, name, new or self.written[name], self.path.name)
        return True

    def _import(self, statements: dict[str, str]) -> None:
        """Add the imports of names that the file does not have, below its first imports."""
        known = module_names(self.text)
        new = dict.fromkeys(statement for name, statement in statements.items() if name not in known)
        if not new:
            return
        heading = list(itertools.takewhile(_is_heading, parse(self.text).body))
        end = heading[-1].end_lineno or 0 if heading else 0
        lines, ending = split_lines(self.text), newline_of(self.text)
        gap = [ending] if heading and isinstance(heading[-1], ast.Expr) else []
        self.text = "".join([*lines[:end], *gap, *(statement + ending for statement in new), *lines[end:]])

    def store(self) -> list[str]:
        """Keep what was replaced, then write the file."""
        if self.text == self.before:
            return []
        said = [f"Written into {short_path(self.path)}: {join_names(list(self.written))}."]
        for name, old in self.replaced.items():
            if same_text(old, _written_here.get((self.module, name), "")):
                continue
            said.append(f"The {name} that was there is saved in {keep(f'{self.module}.{name}', old.encode())}.")
            if any(name == exercise.name for exercise in load_syllabus().chapter(self.module).exercises):
                said[-1] += command(f" To restore it: `headway reset {name} --undo`")
        try:
            write_source(self.path, self.text)
        except OSError as error:
            raise SourceProblem(
                f"Headway tested nothing, because it {problem(error, f'write {short_path(self.path)}')}"
            ) from None
        _written_here.update({(self.module, name): text for name, text in self.written.items()})
        return said


def _is_heading(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )
