"""Writes the chapters that loose code defines: a notebook's cells, or one file with the exercises of several chapters.

A chapter gets what its exercises need: their definitions, and the helpers, constants and imports that these use,
directly or through others. So code of another exercise (which may use what this chapter forbids) is not part of it. If
a function or class is defined several times, the last definition counts, as in a notebook that was run from top to
bottom. Exercises that are not defined keep their stub. Exercises of earlier chapters are imported from these chapters,
as in the stubs, so that a mistake in one costs its own points only.

Everything else (a call, a loop, training) would run whenever the chapter is imported, so only these statements of the
top level are kept: imports, functions and classes, with their decorators; and assignments of constant values, which are
literals, names, arithmetic, lambdas, and calls that only make a value (`float("-inf")`, `torch.device("cpu")`).
"""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from grader.classroom.sanitize import shorten
from grader.course.source import Definition, SourceProblem, bound_names, imported_names, parse, split_lines
from grader.course.stubs import reference_stub
from grader.course.syllabus import Chapter, load_syllabus
from grader.execution.names_used import globals_in

MAKES_A_VALUE = frozenset(
    "abs bool chr dict float frozenset int len list max min ord range round set slice sorted str sum tuple namedtuple "
    "collections.namedtuple NewType TypeVar partial functools.partial re.compile "
    "torch.device torch.finfo torch.iinfo torch.tensor torch.Size".split()
)
_IMPORTS = (ast.Import, ast.ImportFrom)
_DEFINED = re.compile(r"^(?:(?:async[ \t]+)?def[ \t]+|class[ \t]+)(\w+)|^(\w+)[ \t]*=(?!=)", re.MULTILINE)
_FOLDERS = ("exercises", "solutions")  # people import chapters as `exercises.ch03_attention`, too


@dataclass(frozen=True)
class Cell:
    number: int  # counted from the top, from 1, with the cells of text
    text: str


@dataclass(frozen=True)
class Statement:
    node: ast.stmt
    text: str
    cell: int = 0  # of a notebook, counted from 1; 0 for code that is not from a cell
    is_kept: bool = True
    binds: frozenset[str] = frozenset()
    uses: frozenset[str] = frozenset()  # global names, also those inside functions

    @property
    def is_import(self) -> bool:
        return isinstance(self.node, _IMPORTS)

    @property
    def is_future(self) -> bool:
        return isinstance(self.node, ast.ImportFrom) and self.node.module == "__future__"


@dataclass
class LooseCode:
    """Statements in order, and the sentences about what could not be read."""

    statements: list[Statement] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def exercises(self) -> dict[str, list[str]]:
        """The exercises that the kept statements define, by module."""
        kept = [statement for statement in self.statements if statement.is_kept and not statement.is_import]
        return _exercises_among({name for statement in kept for name in statement.binds})


@dataclass(frozen=True)
class WrittenChapter:
    text: str
    cells: dict[str, int]  # exercise → the cell that defines it (0 in a file)
    missing: dict[str, int]  # a name that the exercises use → the cell that sets it by running code

    def describe_cells(self) -> str:
        """ "softmax from cell 3, causal_mask and padding_mask from cell 4"."""
        by_cell: dict[int, list[str]] = {}
        for name, cell in self.cells.items():
            by_cell.setdefault(cell, []).append(name)
        return ", ".join(f"{' and '.join(map(shorten, names))} from cell {cell}" for cell, names in by_cell.items())


def find_defined(text: str) -> dict[str, list[str]]:
    """The exercises that this text seems to define, by module. It need not be valid Python."""
    return _exercises_among({name for groups in _DEFINED.findall(text) for name in groups if name})


def _exercises_among(names: Collection[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for exercise in load_syllabus().exercises:
        if exercise.name in names:
            found.setdefault(exercise.module, []).append(exercise.name)
    return found


# ---- statements


def read_code(cells: Iterable[Cell], file: str) -> LooseCode:
    """The statements of all cells. A cell that is not valid Python is left out, with a sentence."""
    code = LooseCode()
    for cell in cells:
        try:
            tree = parse(cell.text, f"cell {cell.number} of {file}")
            code.statements += _split_statements(tree, cell.text, cell.number)
        except SourceProblem as problem:
            code.problems.append(f"{problem} (this cell was left out)")
        except SyntaxError as error:  # Python parses it and does not compile it, such as `return`
            code.problems.append(f"cell {cell.number} of {file}: {error.msg} (this cell was left out)")
    return code


def _split_statements(tree: ast.Module, text: str, cell: int = 0) -> list[Statement]:
    return [_describe(node, _text_of(node, tree, text), cell) for node in tree.body]


def _describe(node: ast.stmt, text: str, cell: int) -> Statement:
    if not _may_run(node):
        return Statement(node, text, cell, False, _find_bound(node))
    uses = globals_in([symtable.symtable(text, "cell", "exec")])
    return Statement(node, text, cell, True, _find_bound(node), frozenset(uses))


def _text_of(node: ast.stmt, tree: ast.Module, text: str) -> str:
    """The lines of a statement; if it shares them with another one, the statement written again."""
    decorators = [decorator.lineno for decorator in getattr(node, "decorator_list", ())]
    start, end = min([node.lineno, *decorators]), node.end_lineno or node.lineno
    if any(other is not node and other.lineno <= end and (other.end_lineno or 0) >= start for other in tree.body):
        return ast.unparse(node) + "\n"
    return "".join(split_lines(text)[start - 1 : end]).rstrip() + "\n"


def _may_run(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        plain = ast.Name | ast.Tuple | ast.List
        return all(isinstance(one, plain) for one in node.targets) and _is_constant(node.value)
    if isinstance(node, ast.AnnAssign):
        return node.value is not None and isinstance(node.target, ast.Name) and _is_constant(node.value)
    return isinstance(node, Definition | ast.Import | ast.ImportFrom) or type(node).__name__ == "TypeAlias"


def _is_constant(value: ast.expr) -> bool:
    """Does computing this value only make a value? A lambda does: its body runs later."""
    waiting: list[ast.AST] = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Lambda):
            waiting += [*node.args.defaults, *(default for default in node.args.kw_defaults if default)]
            continue
        if isinstance(node, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr):
            return False
        if isinstance(node, ast.Call) and not _makes_a_value(node.func):
            return False
        waiting += ast.iter_child_nodes(node)
    return True


def _makes_a_value(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Constant):
        return True  # "a b c".split()
    name = ast.unparse(function)
    return name in MAKES_A_VALUE or name.startswith("math.")


def _find_bound(node: ast.stmt) -> frozenset[str]:
    """The names that this statement defines at the top level; of one that is left out, all that it sets."""
    if isinstance(node, _IMPORTS):
        return frozenset(imported_names(node))
    leaves = [leaf for leaf in ast.walk(node) if isinstance(leaf, ast.Name) and isinstance(leaf.ctx, ast.Store)]
    return frozenset(bound_names(node) or {leaf.id for leaf in leaves})


# ---- chapters


def write_chapter(code: LooseCode, module: str) -> WrittenChapter:
    """The text of one chapter."""
    chapter = load_syllabus().chapter(module)
    stub = reference_stub(module)
    base = _split_statements(parse(stub), stub)
    before = [other for other in load_syllabus().chapters if other.number < chapter.number]
    earlier = {exercise.name: exercise.module for other in before for exercise in other.exercises}
    kept = [statement for statement in code.statements if statement.is_kept]
    statements = [*base, *filter(None, (_adapt(statement, chapter, earlier) for statement in kept))]
    last = {name: place for place, statement in enumerate(statements) for name in statement.binds}
    chosen, unbound = _select(statements, [name for one in base if not one.is_import for name in one.binds])
    parts = [statements[place] for place in sorted(chosen, key=lambda place: (not statements[place].is_future, place))]
    texts = [part.text for part in parts]
    futures = sum(part.is_future for part in parts)
    texts[futures:futures] = [f"from .{earlier[name]} import {name}\n" for name in sorted(unbound & set(earlier))]
    left_out = {name: one.cell for one in code.statements if not one.is_kept for name in one.binds}
    own = [exercise.name for exercise in chapter.exercises if last.get(exercise.name, 0) >= len(base)]
    missing = {name: left_out[name] for name in sorted(unbound - set(earlier)) if name in left_out}
    return WrittenChapter("\n".join(texts), {name: statements[last[name]].cell for name in own}, missing)


def _select(statements: Sequence[Statement], roots: Iterable[str]) -> tuple[set[int], set[str]]:
    """The places of the statements that define these names and all that they need, and the names that none defines.

    Of several functions or classes with one name only the last is needed. All imports and values of a name are, because
    a definition between two of them uses the first.
    """
    binding: dict[str, list[int]] = {}
    for place, statement in enumerate(statements):
        for name in statement.binds:
            others = [] if isinstance(statement.node, Definition) else binding.get(name, [])
            binding[name] = [*others, place]
    chosen = {place for place, statement in enumerate(statements) if statement.is_future or "*" in statement.binds}
    waiting, seen = list(roots), set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            chosen.update(binding.get(name, ()))
            waiting += [used for place in binding.get(name, ()) for used in statements[place].uses]
    return chosen, {name for name in seen if name not in binding}


def _adapt(statement: Statement, chapter: Chapter, earlier: Collection[str]) -> Statement | None:
    """The statement as this chapter may have it, if it may: not a definition of an earlier chapter's exercise.

    Imports from earlier chapters become relative; other imports of chapters are left out.
    """
    node, own = statement.node, {exercise.name for exercise in chapter.exercises}
    numbers = {other.name: other.number for other in load_syllabus().chapters}
    if not statement.is_import:
        return None if statement.binds & set(earlier) else statement
    if isinstance(node, ast.ImportFrom) and (module := _chapter_of(node.module or "")) in numbers:
        if numbers[module] >= chapter.number:
            return None
        text = ast.unparse(ast.ImportFrom(module, node.names, 1)) + "\n"
        return replace(statement, text=text, binds=statement.binds - own)
    if isinstance(node, ast.Import) and any(_chapter_of(alias.name) in numbers for alias in node.names):
        return None
    is_own = statement.binds and statement.binds <= own  # `from torch import softmax` below one's own softmax
    return None if is_own else statement


def _chapter_of(name: str) -> str:
    """ "ch03_attention" for `exercises.ch03_attention`; any other name unchanged."""
    folder, _, module = name.rpartition(".")
    return module if folder in _FOLDERS else name
