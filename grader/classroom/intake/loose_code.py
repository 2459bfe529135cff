"""Writes the chapters that loose code defines: a notebook's cells, or one file with the exercises of several chapters.

A chapter gets what its exercises need: their definitions, and the helpers, constants and imports that these use,
directly or through others. So code of another exercise (which may use what this chapter forbids) is not part of it. If
a name is defined several times, the last definition counts, as in a notebook that was run from top to bottom. Exercises
that are not defined keep their stub. Exercises of earlier chapters are imported from these chapters, as in the stubs,
so that a mistake in one costs its own points only.

Everything else (a call, a loop, training) would run whenever the chapter is imported, so only these statements of the
top level are kept:

- imports, functions and classes, with their decorators;
- assignments of constant values: literals, names, arithmetic, lambdas, and calls that only make a value
  (`float("-inf")`, `torch.device("cpu")`);
- such assignments to an attribute or an entry: `Block.forward = forward`, `CONFIG["heads"] = 4`;
- `try` with only such statements inside, as for an optional import.
"""

from __future__ import annotations

import ast
import re
import symtable
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from grader.classroom.intake.notebooks import Cell, mark_lines
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
class Statement:
    node: ast.stmt
    text: str
    cell: int = 0  # of a notebook, counted from 1; 0 for code that is not from a cell
    is_kept: bool = True
    binds: frozenset[str] = frozenset()
    changes: frozenset[str] = frozenset()  # names whose attributes or entries it sets
    uses: frozenset[str] = frozenset()  # global names, also those inside functions
    uses_now: frozenset[str] = frozenset()  # those of them that must exist when the statement runs

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
    targets = node.targets if isinstance(node, ast.Assign) else []
    binds, changes = _find_bound(node), frozenset(filter(None, map(_find_root, targets)))
    if not _may_run(node):
        return Statement(node, text, cell, False, binds, changes)
    scopes = [symtable.symtable(text, "cell", "exec")]
    uses, uses_now = globals_in(scopes), globals_in(scopes, without=["function"])
    return Statement(node, text, cell, True, binds, changes, frozenset(uses), frozenset(uses_now))


def _text_of(node: ast.stmt, tree: ast.Module, text: str) -> str:
    """The lines of a statement; if it shares them with another one, or is indented, the statement written again."""
    decorators = [decorator.lineno for decorator in getattr(node, "decorator_list", ())]
    start, end = min([node.lineno, *decorators]), node.end_lineno or node.lineno
    shares = any(other is not node and other.lineno <= end and (other.end_lineno or 0) >= start for other in tree.body)
    if shares or node.col_offset:
        return ast.unparse(node) + "\n"
    return "".join(split_lines(text)[start - 1 : end]).rstrip() + "\n"


def _may_run(node: ast.stmt) -> bool:
    if isinstance(node, Definition | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.Assign):
        plain = ast.Name | ast.Tuple | ast.List
        return all(isinstance(one, plain) or _find_root(one) for one in node.targets) and _is_constant(node.value)
    if isinstance(node, ast.AnnAssign):
        return node.value is not None and isinstance(node.target, ast.Name) and _is_constant(node.value)
    if isinstance(node, ast.Try):
        handled = [part for handler in node.handlers for part in handler.body]
        inside = [*node.body, *node.orelse, *node.finalbody, *handled]
        return all(isinstance(part, ast.Pass) or (not isinstance(part, ast.Try) and _may_run(part)) for part in inside)
    return type(node).__name__ == "TypeAlias"


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
    """The names that this statement defines at the top level, with those of imports."""
    names = set(bound_names(node))
    for part in ast.walk(node) if isinstance(node, ast.Try) else (node,):
        if isinstance(part, _IMPORTS):
            names.update(imported_names(part))
        elif isinstance(part, ast.stmt):
            names |= bound_names(part)
    if isinstance(node, ast.AugAssign | ast.For | ast.With | ast.If | ast.While):  # left out, so its names are missing
        names |= {leaf.id for leaf in ast.walk(node) if isinstance(leaf, ast.Name) and isinstance(leaf.ctx, ast.Store)}
    return frozenset(names)


def _find_root(target: ast.expr) -> str:
    """ "Block" for `Block.forward` and for `Block.heads[0]`, as the target of an assignment; "" for a name."""
    is_part = isinstance(target, ast.Attribute | ast.Subscript)
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return target.id if is_part and isinstance(target, ast.Name) else ""


# ---- chapters


def write_chapter(code: LooseCode, module: str, mark: bool = True) -> WrittenChapter:
    """The text of one chapter. With `mark`, a comment at the end of each line names its cell."""
    chapter = load_syllabus().chapter(module)
    stub = reference_stub(module)
    base = _split_statements(parse(stub), stub)
    before = [other for other in load_syllabus().chapters if other.number < chapter.number]
    earlier = {exercise.name: exercise.module for other in before for exercise in other.exercises}
    kept = [statement for statement in code.statements if statement.is_kept]
    statements = [*base, *filter(None, (_adapt(statement, chapter, earlier) for statement in kept))]
    last = {name: place for place, statement in enumerate(statements) for name in statement.binds}
    roots = [name for statement in base if not statement.is_import for name in statement.binds]
    chosen, unbound = _select(statements, last, roots)
    parts = [statements[place] for place in sorted(chosen, key=lambda place: (not statements[place].is_future, place))]
    texts = [mark_lines(part.text, part.cell) if part.cell and mark else part.text for part in parts]
    futures = sum(part.is_future for part in parts)
    texts[futures:futures] = [f"from .{earlier[name]} import {name}\n" for name in sorted(unbound & set(earlier))]
    left_out = {name: one.cell for one in code.statements if not one.is_kept for name in one.binds}
    own = [exercise.name for exercise in chapter.exercises if last.get(exercise.name, 0) >= len(base)]
    missing = {name: left_out[name] for name in sorted(unbound - set(earlier)) if name in left_out}
    return WrittenChapter("\n".join(texts), {name: statements[last[name]].cell for name in own}, missing)


def _select(statements: list[Statement], last: dict[str, int], roots: Iterable[str]) -> tuple[set[int], set[str]]:
    """The places of the statements that define these names and all that they need, and the names that none defines."""
    chosen = {place for place, statement in enumerate(statements) if statement.is_future or "*" in statement.binds}
    changing = [(place, statement) for place, statement in enumerate(statements) if statement.changes]
    unbound, waiting, seen = set(), list(roots), set()

    def choose(place: int) -> None:
        if place in chosen:
            return
        chosen.add(place)
        statement = statements[place]
        waiting.extend(statement.uses)
        for name in statement.uses_now:
            if last.get(name, -1) > place:  # the last definition comes too late, so an earlier one is kept too
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
        for place, statement in changing:
            if name in statement.changes:
                choose(place)
    return chosen, unbound


def _adapt(statement: Statement, chapter: Chapter, earlier: Collection[str]) -> Statement | None:
    """The statement as this chapter may have it, if it may: not a definition of an earlier chapter's exercise.

    Imports of chapters become relative.
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
        modules = [(_chapter_of(alias.name), alias) for alias in node.names if alias.asname or "." not in alias.name]
        before = [(name, alias) for name, alias in modules if numbers.get(name, chapter.number) < chapter.number]
        lines = [f"from . import {name} as {alias.asname or alias.name}\n" for name, alias in before]
        return replace(statement, text="".join(lines)) if lines else None
    is_own = statement.binds and statement.binds <= own  # `from torch import softmax` below one's own softmax
    return None if is_own else statement


def _chapter_of(name: str) -> str:
    """ "ch03_attention" for `exercises.ch03_attention`; any other name unchanged."""
    folder, _, module = name.rpartition(".")
    return module if folder in _FOLDERS else name
