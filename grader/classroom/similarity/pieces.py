"""Pieces of code that can be compared: each run of RUN_LENGTH tokens in a statement becomes a number.

The code is in normal form (normal_form.py). In a run, a variable is the distance to its previous use in the same run:
its name does not matter, but its use does. No run has tokens of two statements, so the order of statements makes no
difference. The numbers are the same on every machine.

Two people may both have pieces that the course explains without having seen each other's work: those of the reference,
the stubs, the code in the lessons, and the correct variants in tests/variants (where the kit has them).
"""

from __future__ import annotations

import ast
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from struct import Struct
from textwrap import dedent

from grader.classroom.intake.submissions import Submission
from grader.classroom.similarity.normal_form import BUILTINS, normal_definitions
from grader.course.chapter_source import Definition, scope_statements
from grader.course.source import SourceProblem, check_shape, module_names, parse, read_source
from grader.course.stubs import reference_stub
from grader.course.syllabus import EXERCISES, SOLUTIONS, TESTS, Exercise, load_syllabus

# ---- tokens
#
# A definition in normal form becomes tokens without names that a learner chooses: parameters, local names, helper
# functions, attributes of `self` that the reference does not use. Names of exercises, of torch and of Python stay.



Token = tuple[str, int]  # its text and its line; the text of a variable begins with VARIABLE
VARIABLE = "$"
END = ""  # the token between two statements
MAX_WORD_LENGTH = 20  # a longer text is a sentence, which says nothing about the code
SKIPPED = frozenset({"ctx", "annotation", "returns", "type_comment", "type_params", "kind"})


@dataclass(frozen=True)
class NormalDefinition:
    first: int  # its lines in the file; tokens of helpers that moved into it have others
    end: int
    tokens: list[Token]


def find_definitions(tree: ast.Module, exercises: Collection[str] = ()) -> dict[str, list[NormalDefinition]]:
    """In normal form: the last definition of each exercise, and under "" the others that these use.

    SourceProblem if they are nested too deeply.
    """
    fixed = fixed_names(tree)
    found: dict[str, list[NormalDefinition]] = {}
    try:
        every = normal_definitions(tree, exercises or _exercise_names(), _known_attributes(), fixed)
        for name, node in ((name, node) for name, nodes in every.items() for node in nodes):
            check_shape(ast.Module([node], []), "the file")
            reader = _TokenReader(fixed)
            reader.visit(node, 0)
            lines = [node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))]
            one = NormalDefinition(min(lines), node.end_lineno or node.lineno, reader.found)
            found.setdefault(name, []).append(one)
    except RecursionError:
        raise SourceProblem("it calls too many functions inside each other") from None
    return found


@lru_cache(maxsize=128)  # a pair of complete courses has 42 chapters
def read_definitions(text: str) -> dict[str, list[NormalDefinition]]:
    """Those of a chapter. SourceProblem if it is not valid Python, or nested too deeply."""
    return find_definitions(parse(text))


@cache
def _exercise_names() -> frozenset[str]:
    return frozenset(exercise.name for exercise in load_syllabus().exercises)


@cache
def _known_attributes() -> frozenset[str]:
    """Attributes and functions that the reference uses: learners do not choose these names."""
    trees = [parse(read_source(path), path.name) for path in sorted(SOLUTIONS.glob("ch*.py"))]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    functions = frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef))
    return functions | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def fixed_names(tree: ast.Module) -> dict[str, str]:
    """The names of exercises, of Python, and of this chapter's imports, each with its full name without an alias."""
    found = {name: name for name in BUILTINS | _exercise_names()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name.partition(".")[0]
                found[alias.asname or name] = alias.name if alias.asname else name
        elif isinstance(node, ast.ImportFrom):
            origin = "" if node.level else f"{node.module}."
            found |= {alias.asname or alias.name: origin + alias.name for alias in node.names}
    return found


class _TokenReader:
    """Walks one definition. A chapter has at most 150 levels (course/source.py), so the recursion ends."""

    def __init__(self, fixed: dict[str, str]) -> None:
        self.found: list[Token] = []
        self._fixed = fixed

    def visit(self, node: ast.AST, line: int) -> None:
        line = getattr(node, "lineno", line)
        if isinstance(node, ast.stmt):
            self.found.append((END, line))
        match node:
            case ast.Name(id=name):
                self.found.append((self._fixed.get(name) or VARIABLE + name, line))
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if name not in _known_attributes():
                self.found.append((f"{VARIABLE}self.{name}", line))
            case ast.Attribute(value=value, attr=name):
                self.found.append((f".{name}", line))
                self.visit(value, line)
            case ast.Constant(value=value):
                is_sentence = isinstance(value, str | bytes) and len(value) > MAX_WORD_LENGTH
                self.found.append(("text" if is_sentence else repr(value), line))
            case ast.JoinedStr():
                self.found.append(("text", line))
            case ast.arg(arg=name):
                self.found.append((VARIABLE + name, line))
            case ast.Expr(value=value):
                self.visit(value, line)
            case ast.BinOp(left=left, op=op, right=right):
                self._visit_all([op, left, right], line)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._visit_definition(node, line)
            case _:
                self.found.append((type(node).__name__, line))
                self._visit_fields(node, line)

    def _visit_definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, line: int) -> None:
        is_known = node.name in _known_attributes() or node.name.startswith("__")
        name = node.name if is_known else self._fixed.get(node.name) or VARIABLE + node.name
        self.found += [(type(node).__name__, line), (name, line)]
        heads = node.bases if isinstance(node, ast.ClassDef) else [node.args]
        self._visit_all([*heads, *node.body], line)

    def _visit_fields(self, node: ast.AST, line: int) -> None:
        for part in node._fields:
            value = getattr(node, part, None)
            if value is None or part in SKIPPED:
                continue
            if isinstance(value, ast.AST):
                self.visit(value, line)
            elif isinstance(value, list):
                self._visit_all([entry for entry in value if isinstance(entry, ast.AST)], line)
            else:
                self.found.append((str(value), line))

    def _visit_all(self, nodes: Iterable[ast.AST], line: int) -> None:
        for node in nodes:
            self.visit(node, line)


# ---- pieces


RUN_LENGTH = 7
MIN_RUN_LENGTH = 5  # of a whole statement
MAX_PIECES = 4000  # of one exercise; the longest one of the reference has 300
Piece = int
Run = tuple[Piece, int, int]  # its number, and the places of its tokens: from, and up to but not including
ExerciseKey = tuple[str, str]  # the chapter's module, and the exercise's name, or "" for the other definitions
WHOLE = "whole_text"
TEXT_CODES = 1 << 32  # codes from here on are texts; smaller ones are distances of variables
_pack = Struct(f"<{RUN_LENGTH}Q").pack
_FENCED = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^(?: {4}.*)?\n)+", re.MULTILINE)


@dataclass(frozen=True)
class Work:
    """What one person submitted."""

    name: str
    digest: str
    group: str = ""  # people with the same group handed in together
    pieces: Mapping[ExerciseKey, frozenset[Piece]] = field(default_factory=dict)  # that the course does not explain
    sources: Mapping[str, str] = field(default_factory=dict)  # module → text


def chapter_pieces(text: str) -> dict[str, set[Piece]]:
    """The pieces of each exercise that a chapter defines, and under "" those of its other definitions.

    SourceProblem if it is not valid Python.
    """
    read = read_definitions(text).items()
    return {name: {run[0] for one in every for run in number_runs(one.tokens)} for name, every in read}


def all_pieces(text: str) -> set[Piece]:
    """Every piece of a text of the course: of its exercises, of its other definitions, and of all its statements."""
    tree = parse(text)
    whole = ast.FunctionDef(WHOLE, ast.arguments([], [], None, [], [], None, []), tree.body, [], lineno=1)
    names = {node.name for node in scope_statements(tree.body) if isinstance(node, Definition)}
    read = [find_definitions(ast.Module([*tree.body, whole], []), {*names, WHOLE})]
    read += [] if names <= _exercise_names() else [find_definitions(tree)]
    definitions = [one for found in read for every in found.values() for one in every]
    return {run[0] for one in definitions for run in number_runs(one.tokens)}


def number_runs(tokens: Sequence[Token]) -> Iterator[Run]:
    """Each run of tokens in a statement, with its number; a statement that is shorter than a run is one of its own."""
    ends = [place for place, (text, _) in enumerate(tokens) if text == END]
    for first, end in zip(ends, [*ends[1:], len(tokens)]):
        last: dict[str, int] = {}
        codes: list[int] = []
        for place, (text, _) in enumerate(tokens[first + 1 : end]):
            if text[0] == VARIABLE:
                codes.append(place - last.get(text, place))
                last[text] = place
            else:
                codes.append(TEXT_CODES | zlib.crc32(text.encode("utf-8", "surrogatepass")))
        codes += [0] * (RUN_LENGTH - len(codes) if len(codes) >= MIN_RUN_LENGTH else 0)
        for start in range(len(codes) - RUN_LENGTH + 1):
            window = codes[start : start + RUN_LENGTH]
            run = [0 if place < code < TEXT_CODES else code for place, code in enumerate(window)]
            place = first + 1 + start
            yield zlib.crc32(_pack(*run)), place, min(end, place + RUN_LENGTH)


@cache
def explained_pieces() -> frozenset[Piece]:
    """Every piece of the course's own code."""
    found: set[Piece] = set()
    for text in _course_texts():
        try:
            found |= all_pieces(text)
        except SourceProblem:  # an indented block of a lesson may be a formula
            continue
    return frozenset(found)


def _course_texts() -> Iterator[str]:
    for path in sorted(SOLUTIONS.glob("ch*.py")):
        yield read_source(path)
        yield reference_stub(path.stem)
    for path in sorted((TESTS / "variants").glob("*/*.py")):
        yield read_source(path)
    for path in sorted(EXERCISES.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        yield from _FENCED.findall(text)
        yield from (dedent(block) for block in _INDENTED.findall(text) if block.strip())


def read_works(
    submissions: Sequence[Submission], exercises: Iterable[Exercise], groups: Mapping[str, str]
) -> tuple[list[Work], list[str]]:
    """Each person's work in these exercises, and sentences on what is not compared.

    `groups` has the group of each name that has one.
    """
    explained = explained_pieces()
    modules: dict[str, set[str]] = {}
    for exercise in exercises:
        modules.setdefault(exercise.module, set()).add(exercise.name)
    works, notes = [], []
    for one in submissions:
        pieces: dict[ExerciseKey, frozenset[Piece]] = {}
        sources = {module: one.sources[module] for module in sorted(one.sources.keys() & modules.keys())}
        problems = [one.problem] if one.problem else []
        for module, text in sources.items():
            try:
                found = chapter_pieces(text)
            except SourceProblem as problem:
                where = f"{module}.py" if problem.line is None else f"{module}.py, line {problem.line}"
                problems.append(f"{where}: {problem.reason}, so the file is not compared")
                continue
            for name in [name for name in found if not name or name in modules[module]]:
                if len(found[name]) > MAX_PIECES:
                    problems.append(f"{name or 'the other code'} of {module}.py is too long to compare")
                elif rest := frozenset(found[name] - explained):
                    pieces[module, name] = rest
            for name in sorted(modules[module] & module_names(text) - found.keys()):
                problems.append(f"{name} of {module}.py is the result of a computation, so it is not compared")
        problems += [sentence for sentence in one.broken.values() if sentence != one.problem]
        notes += [f"{one.name}: {sentence}" for sentence in problems]
        works.append(Work(one.name, one.digest, groups.get(one.name) or one.group, pieces, sources))
    return works, notes
