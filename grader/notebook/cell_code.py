"""What the cells of a notebook define, as text, and what of it an exercise needs."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from grader.course.source import SourceProblem, bound_names, find_definition, parse
from grader.course.syllabus import Exercise, load_syllabus
from grader.execution.names_used import NamesUsed, names_used
from grader.notebook.shell import notebook_shell

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
            nodes = parse(cell).body
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


def exercises_in(cell: str) -> list[Exercise]:
    """The exercises that a cell defines, in the order of the course."""
    nodes = parse(notebook_shell().transform_cell(cell), "the cell").body
    names = {name for node in nodes for name in bound_names(node)}
    return [exercise for exercise in load_syllabus().exercises if exercise.name in names]


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
