"""Writes the chapters that loose code defines: a notebook's cells, or one file with the exercises of several chapters.

A chapter gets what its exercises need: their definitions, and the helpers, constants and imports that these use,
directly or through others. So code of another exercise (which may use what this chapter forbids) is not part of it. If
a function or class is defined several times, the last definition counts, as in a notebook that was run from top to
bottom. Exercises that are not defined keep their stub. Exercises of earlier chapters are imported from these chapters,
as in the stubs, so that a mistake in one costs its own points only.

Everything else (a call, a loop, training) would run whenever the chapter is imported, so only these statements of the
top level are kept: imports, functions and classes, with their decorators; assignments of constant values, which are
literals, names, arithmetic, lambdas, and calls that only make a value (`float("-inf")`, `torch.device("cpu")`); and
`if`, `try` and `with` around such statements alone.
"""

from __future__ import annotations

import ast
import json
import re
import symtable
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from grader.classroom.intake.submissions import UnreadableSubmission
from grader.classroom.sanitize import shorten
from grader.course.chapter_source import (
    Definition,
    bound_names,
    branches_of,
    imported_names,
    scope_statements,
    without_blocks,
)
from grader.course.source import MAX_FILE_BYTES, SourceProblem, outline, parse, split_lines
from grader.course.stubs import reference_stub
from grader.course.syllabus import Chapter, load_syllabus
from grader.execution.names_used import globals_in

MAX_NOTEBOOK_BYTES = 20_000_000  # most of them are pictures in outputs
MAX_CELLS = 5_000
MAX_REPAIRS = 100  # lines of IPython in one cell
PYTHON_MAGICS = ("time", "timeit", "capture", "prun", "memit", "writefile", "file")  # the rest of the cell is Python
_IPYTHON_LINE = re.compile(r"\s*(?:[%!?]|\w[\w.]*\s*=\s*[%!]\s*\w|[\w.]+\?{1,2}\s*$)")
MAKES_A_VALUE = frozenset(
    "abs bool chr dict float frozenset int len list max min ord range round set slice sorted str sum tuple namedtuple "
    "collections.namedtuple NewType TypeVar partial functools.partial re.compile "
    "torch.device torch.finfo torch.iinfo torch.tensor torch.Size".split()
)
_IMPORTS = (ast.Import, ast.ImportFrom)
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
        kept = scope_statements(statement.node for statement in self.statements if statement.is_kept)
        return _exercises_among({name for node in kept for name in bound_names(node)})


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
    try:
        return _exercises_among({name for node in scope_statements(parse(text).body) for name in bound_names(node)})
    except SourceProblem:
        return _exercises_among(outline(text).keys())


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
    return [_describe(node, _text_of(node, tree, text), cell) for node in _without_constant_conditions(tree.body)]


def _without_constant_conditions(block: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block; instead of `if True:` and the like, the statements below it."""
    for node in block:
        branches = branches_of(node) if isinstance(node, ast.If) else []
        yield from _without_constant_conditions(branches[0]) if len(branches) == 1 else [node]


def _describe(node: ast.stmt, text: str, cell: int) -> Statement:
    if not _may_run(node):
        return Statement(node, text, cell, False, _find_bound(node))
    uses = globals_in([symtable.symtable(text, "cell", "exec")])
    return Statement(node, text, cell, True, _find_bound(node), frozenset(uses))


def _text_of(node: ast.stmt, tree: ast.Module, text: str) -> str:
    """The lines of a statement; if it shares them with another one, or is in a block, the statement written again."""
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
    if isinstance(node, ast.If | ast.Try | ast.With):
        parts = [part for part in ast.iter_child_nodes(without_blocks(node)) if not isinstance(part, ast.ExceptHandler)]
        inner = [part for branch in branches_of(node) for part in branch if not isinstance(part, ast.Pass | ast.Raise)]
        return all(map(_is_constant, parts)) and all(map(_may_run, inner))
    return isinstance(node, Definition | ast.Import | ast.ImportFrom) or type(node).__name__ == "TypeAlias"


def _is_constant(value: ast.AST) -> bool:
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
    """The names that this statement binds in the module's scope; of one that binds none, all that it sets."""
    names = {name for part in scope_statements([node]) for name in (*bound_names(part), *imported_names(part))}
    leaves = [leaf for leaf in ast.walk(node) if isinstance(leaf, ast.Name) and isinstance(leaf.ctx, ast.Store)]
    return frozenset(names or {leaf.id for leaf in leaves})


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


# ---- notebooks: plain JSON of format 4. Outputs are not read, and magics and shell lines are left out.


def read_cells(data: bytes, file: str) -> list[Cell]:
    """The code cells that contain Python. UnreadableSubmission if this is not a notebook."""
    try:
        notebook = json.loads(data.decode(json.detect_encoding(data)))
    except (ValueError, RecursionError):
        raise UnreadableSubmission(f"{file} is not a valid notebook; save it again in Jupyter") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise UnreadableSubmission(f"{file} is not a notebook: it has no cells; save it again in Jupyter")
    if len(cells) > MAX_CELLS:
        raise UnreadableSubmission(f"{file} has more than {MAX_CELLS} cells; keep only the cells of the exercises")
    found = []
    for number, cell in enumerate(cells, start=1):
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            source = cell.get("source")
            lines = [source] if isinstance(source, str) else source if isinstance(source, list) else []
            text = "".join(line for line in lines if isinstance(line, str))
            if len(text) > MAX_FILE_BYTES:
                large = f"cell {number} of {file} is larger than {MAX_FILE_BYTES // 1000} KB"
                raise UnreadableSubmission(f"{large}; keep only the code of the exercises")
            if (python := _keep_python(text)).strip():
                found.append(Cell(number, python))
    return found


def _keep_python(text: str) -> str:
    """The cell's code without IPython's own lines; "" if a magic says that the cell is in another language."""
    text = textwrap.dedent(text.replace("\r\n", "\n").replace("\r", "\n"))
    first, _, rest = text.lstrip().partition("\n")
    if first.startswith("%%"):
        magic, *words = first[2:].split() or [""]
        is_other_file = magic in ("writefile", "file") and not (words and words[-1].endswith(".py"))
        if magic not in PYTHON_MAGICS or is_other_file:
            return ""
        return "\n" + _keep_python(rest)  # so that lines keep their numbers
    for _ in range(MAX_REPAIRS):
        try:
            parse(text)
            return text
        except SourceProblem as problem:  # perhaps because of a magic
            repaired = _leave_out_line(text, problem.line or 0)
            if repaired == text:
                break
            text = repaired
    return text


def _leave_out_line(text: str, number: int) -> str:
    """The text with `pass` for this line and those that continue it, if it is IPython's.

    So the other lines keep their numbers, and no block is empty.
    """
    lines = text.split("\n")
    place = number - 1
    if not 0 <= place < len(lines) or not _IPYTHON_LINE.match(lines[place]):
        return text
    continues = True
    while continues and place < len(lines):
        continues = lines[place].endswith("\\")
        lines[place] = lines[place][: len(lines[place]) - len(lines[place].lstrip())] + "pass"
        place += 1
    return "\n".join(lines)
