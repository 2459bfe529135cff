"""Cuts the code out of a text that explains an exercise, and puts it into the exercise as a solution.

A piece is what can be read as Python: a line or several lines together, a definition's body, and in a sentence the
longest runs of words and signs that are an expression or a statement. A candidate is the body of one function: a piece
alone, with what it computes returned; a piece after the assignments that it needs; or all pieces one after another.
One name that the function does not know is read as each of its arguments. Dropped are pieces that are only names or
values, code with other unknown names, code that uses none of the arguments, and a call of the exercise itself.
"""

from __future__ import annotations

import ast
import builtins
import copy
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import permutations

from grader.course.source import definition, module_names, split_lines
from grader.course.stubs import BEGIN, END

MOST_LINES = 30  # of a piece; the longest solution of one function has fewer
MAX_UNKNOWN_NAMES = 1  # in a piece of code; each argument is tried in their place
NUMBERS = {"inf", "nan"}  # as values are printed
SIGNS = str.maketrans("·×−", "**-")  # of a formula
WORD = re.compile(r"""\d+(?:\.\d+)?(?:e-?\d+)?(?!\w)|\w+|"[^"\n]*"|'[^'\n]*'|\S""")
SPAN_ENDS = re.compile(r"`|[.;:!?](?=\s|$)")  # of code in a sentence, and of the sentence
CELL_ENDS = re.compile(r"[|`]")
OPERATIONS = (
    ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.Call, ast.Subscript, ast.IfExp, ast.Attribute, ast.Lambda,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip
GLUE = (ast.BoolOp, ast.Compare, ast.IfExp, ast.Tuple)  # in a sentence, their signs may be words or commas of it

Piece = list[ast.stmt]


@dataclass(frozen=True)
class Block:
    """A part of an exercise that the learner writes: the lines of the chapter from `start` to before `end`."""

    function: str
    start: int
    end: int
    indent: str
    known: frozenset[str] = field(compare=False)  # names that code there may use
    arguments: frozenset[str] = field(compare=False)

    def filled(self, chapter: str, body: str) -> str:
        lines = split_lines(chapter)
        return "".join([*lines[: self.start], textwrap.indent(f"{body}\n", self.indent), *lines[self.end :]])


def blocks(solution: str, stub: str, exercise: str) -> list[Block]:
    """The blocks of an exercise's solution, each with the names that the stub's chapter and its function give it."""
    segment = definition(solution, exercise)
    lines, found, start = split_lines(solution), [], 0
    globally = set(dir(builtins)) | module_names(stub)
    functions = [node for node in ast.walk(ast.parse(solution)) if isinstance(node, ast.FunctionDef)]
    for number in range(segment.start, min(segment.end + 1, len(lines)) + 1):
        if BEGIN in lines[number - 1]:
            start = number
        elif END in lines[number - 1] and start:
            around = [node for node in functions if node.lineno < start and (node.end_lineno or 0) > start]
            function = max(around, key=lambda node: node.lineno)
            before = [node for node in function.body if node.lineno < start]
            arguments = {node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)}
            known = frozenset(globally | arguments | _stored(before))
            indent = lines[start - 1][: -len(lines[start - 1].lstrip())]
            found.append(Block(function.name, start - 1, number, indent, known, frozenset(arguments)))
    return found


# ---- pieces of a text


@lru_cache(maxsize=64)  # a lesson is cut once for all its exercises
def pieces(text: str) -> list[Piece]:
    """The code in a text, in its order."""
    lines = [re.sub(r"^(\s*)(>>> |\.\.\. |# (?=TODO))", r"\1", line) for line in text.translate(SIGNS).splitlines()]
    found, number = [], 0
    while number < len(lines):
        if not lines[number].strip() or lines[number].lstrip().startswith("```"):
            number += 1
            continue
        count, block = _longest_block(lines[number : number + MOST_LINES])
        spans = (CELL_ENDS if lines[number].startswith("|") else SPAN_ENDS).split(lines[number])
        found += [block] if block else [piece for span in spans for piece in _in_sentence(span)]
        number += count
    return [piece for piece in found if any(map(_computes, piece))]


def _longest_block(lines: list[str]) -> tuple[int, Piece]:
    """The statements that most of these lines together are, with the number of lines; none if the first is no code."""
    until = next((number for number, line in enumerate(lines) if line.lstrip().startswith("```")), len(lines))
    if _parsed(lines[0].strip().rstrip(":") if lines[0].strip().endswith(":") else lines[0].strip()) or re.match(
        r"\s*(def|class|for|if|while|with|try|return|@)\b", lines[0]
    ):
        for count in range(until, 0, -1):
            if lines[count - 1].strip() and (block := _parsed(textwrap.dedent("\n".join(lines[:count])))):
                return count, block
    return 1, []


def _in_sentence(text: str) -> Iterator[Piece]:
    """The longest runs of words and signs that are Python; also the parts of one that are joined by words."""
    words = list(WORD.finditer(text))
    start = 0
    while start < len(words):
        for end in range(min(len(words), start + 60), start + 1, -1):
            run = text[words[start].start() : words[end - 1].end()]
            if run.isascii() and (piece := _parsed(run)) and len(piece) == 1 and _computes(piece[0]):
                yield piece
                for part in _parts(piece[0].value) if isinstance(piece[0], ast.Expr) else ():
                    if _computes(part):
                        yield [ast.Expr(part)]
                start = end - 1
                break
        start += 1


def _parts(value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(value, GLUE):
        for part in ast.iter_child_nodes(value):
            if isinstance(part, ast.expr):
                yield part
                yield from _parts(part)


def _parsed(code: str) -> Piece:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _computes(node: ast.AST) -> bool:
    return any(isinstance(part, (*OPERATIONS, ast.Assign, ast.AugAssign, ast.Return)) for part in ast.walk(node))


# ---- bodies made of pieces


def bodies(found: list[Piece], block: Block, exercise: str) -> dict[str, None]:
    """The bodies for the block that these pieces of one text give, alone and joined, without duplicates."""
    bodies: dict[str, None] = {}
    before: list[ast.stmt] = []  # the statements whose names are known there
    known = set(block.known)
    for piece in found:
        inside = _body_of(piece, block.function)
        for code in (inside, *_renamed(inside, block)):
            _add(bodies, code, block, exercise)
        for statement in inside:
            if not _free([statement]) <= known or _calls(statement, exercise):
                continue
            needed = _needed(before, statement)
            _add(bodies, [*needed, statement], block, exercise)
            before.append(statement)
            known |= _stored([statement])
    without_values = [each for each in before if not isinstance(each, ast.Expr) or isinstance(each.value, ast.Call)]
    for joined in (without_values, [each for each in before if not isinstance(each, ast.Return | ast.Expr)]):
        _add(bodies, joined, block, exercise)
    return bodies


def _body_of(piece: Piece, function: str) -> Piece:
    """The body of the function of that name, if the piece defines it; else the piece, without definitions."""
    for node in piece:
        for part in ast.walk(node):
            if isinstance(part, ast.FunctionDef) and part.name == function:
                return part.body
    return [node for node in piece if not isinstance(node, ast.FunctionDef | ast.ClassDef)]


def _renamed(code: Piece, block: Block) -> Iterator[Piece]:
    """The code with its unknown name read as an argument; not if words join it, or the name is called, as in prose."""
    unknown = sorted(_free(code) - block.known)
    nodes = [node for statement in code for node in ast.walk(statement)]
    heads = [node.func if isinstance(node, ast.Call) else getattr(node, "value", None) for node in nodes
             if isinstance(node, ast.Call | ast.Subscript)]  # fmt: skip
    prose = any(isinstance(node, ast.BoolOp | ast.In | ast.NotIn | ast.Is | ast.IsNot | ast.Not) for node in nodes)
    prose = prose or any(isinstance(head, ast.Name) and head.id in unknown for head in heads)
    if 0 < len(unknown) <= MAX_UNKNOWN_NAMES and not prose and not NUMBERS.issuperset(unknown):
        for chosen in permutations(sorted(block.arguments - {"self"}), len(unknown)):
            names = dict(zip(unknown, chosen))
            renamed = copy.deepcopy(code)
            for node in (node for statement in renamed for node in ast.walk(statement)):
                if isinstance(node, ast.Name):
                    node.id = names.get(node.id, node.id)
            yield renamed


def _add(bodies: dict[str, None], code: list[ast.stmt], block: Block, exercise: str) -> None:
    """Add the code; and with what its last statement computes returned."""
    used = {name for each in code for name in _loaded(each)}
    if not code or not _free(code) <= block.known or _calls(code[-1], exercise) or block.arguments.isdisjoint(used):
        return
    *first, last = code
    if isinstance(last, ast.Expr) or (isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name)):
        bodies[_text([*first, ast.Return(last.value)])] = None  # `y = f(x)` and `return y` is `return f(x)`
    if isinstance(last, ast.AugAssign):
        bodies[_text([*code, ast.Return(last.target)])] = None  # a target is written as a value is
    if not isinstance(last, ast.Expr) and any(map(_has_effect, code)):
        bodies[_text(code)] = None


def _has_effect(statement: ast.stmt) -> bool:
    """Does it return something, or may it change something besides local names?"""
    effects = (ast.Expr, ast.Return, ast.Yield, ast.Raise, ast.AugAssign, ast.Delete)
    parts = list(ast.walk(statement))
    stores = [part for part in parts if isinstance(getattr(part, "ctx", None), ast.Store)]
    return any(isinstance(part, effects) for part in parts) or not all(isinstance(part, ast.Name) for part in stores)


def _text(code: Iterable[ast.stmt]) -> str:
    return "\n".join(map(ast.unparse, code))


def _calls(node: ast.stmt, exercise: str) -> bool:
    """Is the statement a call of the exercise itself, as in an example?"""
    value = getattr(node, "value", None)
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == exercise


def _needed(before: list[ast.stmt], statement: ast.stmt) -> list[ast.stmt]:
    """The earlier statements that define names which this one uses, directly or through others."""
    names, found = _loaded(statement), []
    for each in reversed(before):
        if _stored([each]) & names:
            found.append(each)
            names |= _loaded(each)
    return found[::-1]


def _free(code: list[ast.stmt]) -> set[str]:
    """The names that the statements use before they define them."""
    free: set[str] = set()
    bound: set[str] = set()
    for statement in code:
        own = _inner(statement)
        free |= _loaded(statement) - bound - own
        bound |= _stored([statement])
    return free


def _inner(statement: ast.stmt) -> set[str]:
    """Names that a part of the statement defines for another part: of comprehensions, loops and lambdas."""
    if isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr | ast.Return):
        targets = [node.target for node in ast.walk(statement) if isinstance(node, ast.comprehension | ast.NamedExpr)]
        names = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
        return names | {node.arg for node in ast.walk(statement) if isinstance(node, ast.arg)}
    return _stored([statement]) | {node.arg for node in ast.walk(statement) if isinstance(node, ast.arg)}


def _loaded(node: ast.AST) -> set[str]:
    names = [part for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)]
    names += [node.target] if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) else []
    return {name.id for name in names}


def _stored(code: Iterable[ast.stmt]) -> set[str]:
    parts = [part for each in code for part in ast.walk(each)]
    names = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    imports = [part for part in parts if isinstance(part, ast.Import | ast.ImportFrom)]
    return names | {alias.asname or alias.name.partition(".")[0] for each in imports for alias in each.names}
