"""The text of a chapter: reads it as Python does, finds the definition of an exercise in it, and shows why it is not
valid Python."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import unicodedata
import warnings
from codecs import BOM_UTF8, lookup
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from grader.course.chapter_source import (
    Bindings,
    bindings,
    bound_names,
    hidden_binding,
    imported_names,
    scope_statements,
)
from grader.files import UserProblem, write_whole

MAX_FILE_BYTES = 200_000  # the longest reference chapter has 14,000
MAX_TREE_LEVELS = 150  # ordinary chapters have about 20; a recursive function calls itself once or twice a level
MAX_TREE_NODES = 50_000  # about 40 MB; the longest reference chapter has 1,500

# Encodings that editors save programs in. Python knows many more: rot13, hex and zlib turn bytes into other bytes,
# punycode takes quadratic time, and unicode_escape and utf-7 hide what the program says.
ENCODINGS = frozenset({
    "utf-8", "utf-8-sig", "ascii", *(f"iso8859-{part}" for part in range(1, 17) if part != 12),
    *(f"cp125{page}" for page in range(9)), "cp437", "cp850", "cp866", "cp932", "cp949", "cp950",
    "koi8-r", "koi8-u", "mac-roman",
    "gb2312", "gbk", "gb18030", "big5", "shift_jis", "euc_jp", "euc_kr",
})  # fmt: skip
DECLARATION_ADVICE = "save the file as UTF-8 and delete the line that declares it"


class SourceProblem(UserProblem, ValueError):
    """A chapter that cannot be read or understood; the message is one sentence naming file and line."""

    exit_status = 1

    def __init__(
        self, message: str, *, file: str = "", line: int | None = None, column: int | None = None, width: int = 1,
        reason: str = "",
    ):  # fmt: skip
        super().__init__(message)
        self.file = file
        self.line = line
        self.column = column  # where in the line, counted from 1
        self.width = width  # characters from there that belong to the problem
        self.reason = reason or message  # without the place and the code


class TooComplex(SourceProblem):
    """A chapter whose syntax tree would take too much memory, or too many levels, to be read."""


@dataclass(frozen=True)
class Segment:
    """One definition in a module: its decorators and the comment lines directly above it belong to it."""

    name: str
    start: int  # the first line, counted from 1
    end: int  # the last line
    text: str  # those lines, line ends included, as at the left margin
    line: int  # the line of `def` or `class`
    indent: str = ""  # the spaces before each line, which `text` lacks
    is_alone: bool = True  # False if its first line has other code before it, as in `if fast: f = g`


def read_source(path: Path) -> str:
    """The text of a Python file, without its byte order mark, with its line ends. SourceProblem if it is unreadable."""
    return decode_source(read_bytes(path), path.name)


def read_bytes(path: Path) -> bytes:
    """A file's bytes; SourceProblem where it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise SourceProblem(f"there is no file {path.name} in {path.parent}", file=path.name) from None
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise SourceProblem(f"{path.name} cannot be read: {reason}", file=path.name) from None


def decode_source(data: bytes, file: str = "the file") -> str:
    """Bytes to text by Python's own rules: UTF-8, or the encoding declared in the first two lines.

    SourceProblem for unusual encodings and long texts.
    """
    if len(data) > MAX_FILE_BYTES:
        raise too_large(file)
    encoding = _encoding(data, file)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"byte {data[error.start]:#04x} is not valid {error.encoding.upper()}"
        message = f"{file}, line {line}: {what}; save the file as UTF-8"
        raise SourceProblem(message, file=file, line=line) from None


def too_large(file: str) -> SourceProblem:
    advice = "the limit for a chapter; remove everything except the code of its exercises"
    return SourceProblem(f"{file} is larger than {MAX_FILE_BYTES // 1000} KB, {advice}", file=file)


def write_source(path: Path, text: str) -> None:
    """Write `text` whole, in the encoding (and with the byte order mark) of the file there. May raise OSError."""
    encoding = _encoding(path.read_bytes(), path.name) if path.exists() else "utf-8"
    try:
        encoded = text.encode(encoding)
    except UnicodeEncodeError as error:
        what = f"{path.name} declares the encoding {encoding}, which has no {text[error.start]!r}"
        raise SourceProblem(f"{what}; save the file as UTF-8", file=path.name) from None
    write_whole(path, encoded)


def parse(text: str, file: str = "the file") -> ast.Module:
    """The module's syntax tree, to be read only; SourceProblem if the text is not Python, or its tree is too large."""
    return (_parse_short if len(text) <= MAX_SHORT_CHARACTERS else _parse_long)(text, file)


def _parse(text: str, file: str) -> ast.Module:
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        message = f"{file}, line {line}: the file contains a null byte; save it as plain text"
        raise SourceProblem(message, file=file, line=line)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, filename=file)
    except SyntaxError as error:
        line = error.lineno or 1
        start, end = error.offset or 0, (error.end_offset or 0) if error.end_lineno == error.lineno else 0
        message, width = f"{file}, line {line}: {_plain(error)}", max(1, end - start)
        raise SourceProblem(
            message, file=file, line=line, column=start or None, width=width, reason=_reason(error)
        ) from None
    except UnicodeError:
        raise SourceProblem(f"{file} contains invalid characters; save the file as UTF-8", file=file) from None
    except (RecursionError, MemoryError, SystemError, OverflowError):
        advice = "split its longest expression into several statements"
        raise TooComplex(f"{file} is too deeply nested or too long for Python to parse; {advice}", file=file) from None
    check_shape(tree, file)
    return tree


MAX_SHORT_CHARACTERS = 20_000  # a tree of such a text takes at most 15 MB
_parse_short = lru_cache(maxsize=32)(_parse)
_parse_long = lru_cache(maxsize=4)(_parse)


def check_shape(tree: ast.Module, file: str) -> None:
    """SourceProblem where a tree is too deep for Python's stack, or takes too much memory."""
    level: list[ast.AST] = [tree]
    depth = nodes = line = 0
    while level:
        depth, nodes = depth + 1, nodes + len(level)
        line = next((node.lineno for node in level if hasattr(node, "lineno")), line)
        if depth > MAX_TREE_LEVELS:
            what = f"this is nested too deeply (more than {MAX_TREE_LEVELS} levels)"
            message = f"{file}, line {line}: {what}; split it into several statements"
            raise TooComplex(message, file=file, line=line)
        if nodes > MAX_TREE_NODES:
            what = f"it has more than {MAX_TREE_NODES:,} names, numbers and operations"
            raise TooComplex(f"{file} is too long: {what}; shorten its longest list or expression", file=file)
        level = [child for node in level for child in ast.iter_child_nodes(node)]


@lru_cache(maxsize=64)
def bindings_in(text: str, file: str = "the file") -> Bindings:
    """Of each name that a module binds, the statements of which one has bound it at the end of the import."""
    return bindings(parse(text, file))


def definition(text: str, name: str, file: str = "the file") -> Segment:
    """The definition of `name` in the module's own scope, the last of several. SourceProblem if it is missing."""
    found = find_definition(text, name, file)
    if found is None:
        raise SourceProblem(f"{file} does not define {name}", file=file)
    return found


@lru_cache(maxsize=256)
def find_definition(text: str, name: str, file: str = "the file") -> Segment | None:
    """Like `definition`, but None if it is missing."""
    found = find_statement(text, name, file)
    if found is None:
        return None
    lines = split_lines(text)
    decorators = [decorator.lineno for decorator in getattr(found, "decorator_list", ())]
    start, end = min([found.lineno, *decorators]), found.end_lineno or found.lineno
    indent = lines[start - 1][: found.col_offset]
    if indent.strip():
        code = (ast.get_source_segment(text, found) or "") + newline_of(text)
        return Segment(name, start, end, code, found.lineno, is_alone=False)
    ends = [node.end_lineno or 0 for node in scope_statements(parse(text, file).body)]
    above = max((line for line in ends if line < start), default=0)
    while start - 1 > above and lines[start - 2].startswith(indent + "#"):
        start -= 1
    inside = _lines_inside_strings(found)
    own = enumerate(lines[start - 1 : end], start)
    code = "".join(line if number in inside else line.removeprefix(indent) for number, line in own)
    return Segment(name, start, end, code, found.lineno, indent)


def find_statement(text: str, name: str, file: str = "the file") -> ast.stmt | None:
    """The statement that defines, assigns or imports `name`: of several alternatives the last that is written."""
    found = bindings_in(text, file).get(name, [])
    written = [node for node in found if not has_stub_line(node)]
    return [*found, *written][-1] if found else hidden_binding(parse(text, file), name)


@lru_cache(maxsize=256)
def is_written(text: str, name: str, file: str = "the file") -> bool:
    """Whether `text` binds `name`, and not to a stub. True where the text leaves it open: then the tests decide."""
    found = bindings_in(text, file).get(name, [])
    return not all(map(has_stub_line, found)) or hidden_binding(parse(text, file), name) is not None


def has_stub_line(node: ast.AST) -> bool:
    """Whether a function in this syntax tree has the line of a stub, at its own level and not behind a `return`."""
    functions = [part for part in ast.walk(node) if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
    ends = [next((line for line in each.body if isinstance(line, ast.Raise | ast.Return)), None) for each in functions]
    errors = [end.exc for end in ends if isinstance(end, ast.Raise)]
    return any(isinstance(error, ast.Name) and error.id == "NotImplementedError" for error in errors)


def replace_definition(text: str, name: str, new: str, file: str = "the file") -> str:
    """`text` with the definition of `name` exchanged for `new`. Where that is an import, has alternatives in other
    branches or shares its line, `new` is appended."""
    segment, found = definition(text, name, file), bindings_in(text, file).get(name, [])
    lines, ending = split_lines(text), newline_of(text)
    if len(found) != 1 or imported_names(found[0]) or not segment.is_alone:
        return append_definition(text, new)
    inside = _lines_inside_strings(parse(new)) if segment.indent else ()
    code = [
        line if number in inside or not line.strip() else segment.indent + line
        for number, line in enumerate(split_lines(_with_ending(new, ending).rstrip("\r\n") + ending), start=1)
    ]
    return "".join([*lines[: segment.start - 1], *code, *lines[segment.end :]])


def _lines_inside_strings(tree: ast.AST) -> set[int]:
    """The lines that begin inside a string: their spaces belong to it."""
    strings = [part for part in ast.walk(tree) if isinstance(part, ast.Constant | ast.JoinedStr)]
    return {line for part in strings for line in range(part.lineno + 1, (part.end_lineno or part.lineno) + 1)}


def append_definition(text: str, new: str) -> str:
    """`text` with `new` at its end: its definitions replace earlier ones of the same name."""
    ending = newline_of(text)
    body = text.rstrip("\r\n \t")
    gap = ending * 3 if body else ""
    return body + gap + _with_ending(new, ending).strip("\r\n") + ending


def module_names(text: str) -> set[str]:
    """All names that a module defines, assigns or imports in its own scope."""
    statements = list(scope_statements(parse(text).body))
    return {name for node in statements for name in (*bound_names(node), *imported_names(node))}


def split_lines(text: str) -> list[str]:
    """Lines as Python counts them, line ends kept (str.splitlines also breaks at form feeds and the like)."""
    return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", text)


def newline_of(text: str) -> str:
    """The line end that `text` uses."""
    found = re.search(r"\r\n|\r|\n", text)
    return found.group() if found else "\n"


def _with_ending(text: str, ending: str) -> str:
    return re.sub(r"\r\n|\r|\n", lambda _: ending, text)


def _encoding(data: bytes, file: str) -> str:
    """The encoding that Python would read this file in; SourceProblem for one that is unknown or not in ENCODINGS."""
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    except SyntaxError as error:
        if data.startswith(BOM_UTF8) or "unknown encoding" in str(error):
            message = f"{file}, line 1: {error.msg or 'unknown encoding'}; {DECLARATION_ADVICE}"
        else:
            message = f"{file} is not UTF-8 and declares no other encoding; save the file as UTF-8"
        raise SourceProblem(message, file=file, line=1) from None
    if lookup(encoding).name not in ENCODINGS:
        message = f"{file} declares the encoding {encoding}, which Headway does not read; {DECLARATION_ADVICE}"
        raise SourceProblem(message, file=file, line=1)
    return encoding


def _plain(error: SyntaxError) -> str:
    shown = (error.text or "").strip()
    return _reason(error) + (f": {shown[:60]}" if shown and not isinstance(error, IndentationError) else "")


def _reason(error: SyntaxError) -> str:
    reason = (error.msg or "invalid syntax").rstrip(".")
    if isinstance(error, TabError):
        return "tabs and spaces are mixed in the indentation; use four spaces"
    if isinstance(error, IndentationError):
        return f"the indentation is wrong ({reason})"
    return f"this is not valid Python ({reason})"


# ---- where the definitions are, also in a text that is not valid Python at the moment

_DEFINES = re.compile(
    r"(?P<indent>[ \t]*)(?:(?:async +)?def|class) +(?P<defined>\w+)|(?P<assigned>\w+) *(?::[^=]+)?=(?!=)"
)


def outline(text: str) -> dict[str, range]:
    """The lines of each definition in the module's own scope, counted from 0."""
    try:
        found = {name: find_statement(text, name) for name in bindings_in(text)}
    except SourceProblem:
        return _outline_by_indentation(split_lines(text))
    return {name: range(node.lineno - 1, node.end_lineno or node.lineno) for name, node in found.items() if node}


def _outline_by_indentation(lines: list[str]) -> dict[str, range]:
    found, inside_until = {}, 0
    for start, line in enumerate(lines):
        match = _DEFINES.match(line)
        if match is None or start < inside_until:
            continue
        after = range(start + 1, len(lines))
        end = next((number for number in after if _ends_block(lines[number], match["indent"] or "")), len(lines))
        inside_until = end
        while not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#"):
            end -= 1
        found[match["defined"] or match["assigned"]] = range(start, end)
    return found


def _ends_block(line: str, indent: str) -> bool:
    """Whether a line is code that is not further to the right than this."""
    code = line.lstrip()
    return bool(code) and len(line) - len(code) <= len(indent) and code[0] not in ")]}#"


def name_columns(line: str) -> tuple[int, int] | None:
    """Where the name is in a line that defines one; None for any other line."""
    found = _DEFINES.match(line)
    return found.span(found.lastgroup or 0) if found else None


# ---- why a chapter is not valid Python: the problem, its line, and a caret below the place

MAX_LINE_CHARACTERS = 100  # of a longer line, the part around the place is shown


def find_problem(file: Path) -> SourceProblem | None:
    """Why this file is not valid Python at the moment; None if it is."""
    try:
        text = read_source(file)
        if not text.strip():
            return SourceProblem(f"{file.name} is empty", file=file.name)
        parse(text, file.name)
    except SourceProblem as problem:
        return problem
    return None


def excerpt_of(file: Path, problem: SourceProblem) -> list[str]:
    try:
        return excerpt(read_source(file), problem)
    except SourceProblem:
        return []


def excerpt(text: str, problem: SourceProblem) -> list[str]:
    """The problem's line with its number, the line above it, and a caret; empty if the text has no such line."""
    lines = [line.rstrip("\r\n").replace("\t", " ").replace("\f", " ") for line in split_lines(text)]
    if problem.line is None or not 1 <= problem.line <= len(lines):
        return []
    column, code = problem.column or 1, lines[problem.line - 1]
    cut = max(0, column - MAX_LINE_CHARACTERS // 2) if len(code) > MAX_LINE_CHARACTERS else 0
    numbered = [(problem.line, code[cut : cut + MAX_LINE_CHARACTERS])]
    if problem.line > 1 and lines[problem.line - 2].strip() and not cut:
        numbered.insert(0, (problem.line - 1, lines[problem.line - 2][:MAX_LINE_CHARACTERS]))
    shown = [f"{number:>5} | {line}".rstrip() for number, line in numbered]
    if problem.column is not None and problem.column <= len(code) + 1:
        shown.append(" " * 8 + " " * _width(code[cut : column - 1]) + "^" * max(1, problem.width))
    return shown


def _width(text: str) -> int:
    """The columns that a text takes on a terminal."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
