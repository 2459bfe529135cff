"""Makes the stubs that learners start from out of the solutions, and a table from the syllabus; neither is written by
hand. Keeps the learner's code where a stub replaces it.

A solution reads from top to bottom, uses the names of the paper, and has the shape in a comment where it changes. Each
exercise is one top-level function or class. The lines between `### BEGIN SOLUTION` and `### END SOLUTION` become `raise
NotImplementedError` in the stub; the numbered TODO steps above them stay. A class has one such block in each method.
Chapters import earlier ones relatively: `from .ch03_attention import split_heads`.
"""

from __future__ import annotations

import ast
import hashlib
import re
import textwrap
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from grader.course.chapter_source import hidden_binding
from grader.course.code_shape import code_shape
from grader.course.reference import is_sealed, read_sealed_stub
from grader.course.source import (
    SourceProblem,
    bindings_in,
    find_statement,
    has_stub_line,
    parse,
    read_source,
    split_lines,
)
from grader.course.syllabus import EXERCISES, ROOT, SOLUTIONS, Exercise, is_handout, load_syllabus
from grader.course.torch_operators import chapter_rule, describe_forbidden, families_of
from grader.files import problem, short_path, write_whole

BEGIN = "### BEGIN SOLUTION"
END = "### END SOLUTION"
FINGERPRINTS = ".stubs.toml"
Documented = ast.Module | ast.FunctionDef | ast.ClassDef

STUB_INTRODUCTION = """\
Write your own code wherever NotImplementedError is raised, from top to bottom. The TODO steps say what to do, the
lesson {name}.md explains why, and `headway check` tests what you have written.
"""

RULES = """\
Rules for all exercises of this chapter; the tests check them:
- Do not change an argument in place, unless the docstring says so.
"""

GRADIENT_RULE = """\
- Gradients reach every input and parameter and are finite, unless the docstring says "without gradient".
"""

WITHOUT_AUTOGRAD_RULE = """\
- Your functions do not use autograd, and the tests call them where it records nothing (torch.inference_mode).
"""

TENSOR_RULES = f"""\
- `...` in a shape means any number of axes, also none. An argument may be a view (not contiguous), and so may a result.
- The result has the dtype and device of the input, unless the docstring says otherwise. Compute float64 input in
  float64.
{GRADIENT_RULE}"""

STATE_RULE = """\
- The state dict holds the parameters that the docstring names and nothing else: register a mask or a table as a buffer
  with persistent=False.
"""

ERROR_RULE = """\
- A ValueError names the values that do not fit, as in
  raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}").
  It may be raised when an object is made or at the first call. An assert with such a message is accepted too.
"""

FINGERPRINTS_HEADER = """\
# Made by `headway stubs`: the fingerprint (sha256) of every stub as it was made. A chapter whose fingerprint is another
# has been worked on, and is never overwritten.
"""


@dataclass(frozen=True)
class StubOutcome:
    """The result for one chapter's stub: "written", "unchanged", "kept" (it was edited) or "failed"."""

    chapter: str
    state: str
    sentence: str


def stub_text(solution: str, name: str) -> str:
    """The stub of a chapter: solution blocks become `raise NotImplementedError`; those without indentation
    disappear."""
    file = f"{name}.py"
    lines, out, opened = split_lines(solution), [], 0
    for number, line in enumerate(lines, start=1):
        mark = line.strip()
        if mark == BEGIN:
            if opened:
                message = f"{file}, line {number}: {BEGIN} inside the block that begins in line {opened}"
                raise SourceProblem(message, file=file, line=number)
            opened = number
            indent = line[: len(line) - len(line.lstrip())]
            if indent:
                out.append(f"{indent}raise NotImplementedError\n")
        elif mark == END:
            if not opened:
                raise SourceProblem(f"{file}, line {number}: {END} without {BEGIN} above it", file=file, line=number)
            opened = 0
        elif not opened:
            out.append(line)
    if opened:
        raise SourceProblem(f"{file}, line {opened}: {BEGIN} without {END} below it", file=file, line=opened)
    text = re.sub(r"\n{4,}", "\n\n\n", re.sub(r"\r\n?", "\n", "".join(out)))
    tree = parse(text, f"the stub of {file}")
    _check_blocks_are_in_methods(tree, file)
    return _with_docstring(text, tree, name).rstrip("\n") + "\n"


def reference_stub(module: str, solutions: Path = SOLUTIONS) -> str:
    """The stub of a chapter: made from its solution, or read from a handout. SourceProblem if it is missing."""
    if solutions == SOLUTIONS and is_sealed(module):
        return read_sealed_stub(module)
    return _stub_of(read_source(solutions / f"{module}.py"), module)


@lru_cache(maxsize=32)
def _stub_of(solution: str, module: str) -> str:
    return with_rules(stub_text(solution, module), module)


def with_rules(stub: str, module: str) -> str:
    """A chapter's stub with a sentence in each docstring for what the syllabus forbids."""
    chapter = next((chapter for chapter in load_syllabus().chapters if chapter.name == module), None)
    if chapter is None:
        return stub
    if any(family.name == "gradient" for family in families_of(chapter.forbids)):
        stub = stub.replace(GRADIENT_RULE, WITHOUT_AUTOGRAD_RULE)
    for exercise in chapter.exercises:
        if exercise.own_forbids:
            sentence = f"Write it yourself, without {describe_forbidden(exercise.own_forbids)}."
            tree = parse(stub, f"the stub of {module}.py")
            node = next((node for node in tree.body if getattr(node, "name", None) == exercise.name), None)
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                stub = _with_sentence(stub, node, sentence, f"{module}.py")
    if chapter.forbids:
        stub = _with_sentence(stub, parse(stub), chapter_rule(chapter.forbids), f"{module}.py")
    return stub


def is_stub(exercise: Exercise, text: str) -> bool:
    """Whether the chapter with this text has the exercise's stub, unchanged in its code. False if it is unreadable."""
    if "NotImplementedError" not in text:
        return False
    try:
        present = bindings_in(text).get(exercise.name, [])
        if not present or not all(map(has_stub_line, present)) or hidden_binding(parse(text), exercise.name):
            return False
        stub = find_statement(reference_stub(exercise.module), exercise.name)
        return all(code_shape(node) == code_shape(stub) for node in present)
    except (SourceProblem, OSError):
        return False


def fingerprint(text: str) -> str:
    """The sha256 of a stub, independent of its line ends."""
    return hashlib.sha256(re.sub(r"\r\n?", "\n", text).encode("utf-8", "surrogatepass")).hexdigest()


def write_stubs(
    exercises: Path = EXERCISES, solutions: Path = SOLUTIONS, modules: Iterable[str] | None = None
) -> list[StubOutcome]:
    """Write the stubs that were not edited, and the file of fingerprints; one outcome for each chapter."""
    fingerprints, outcomes = read_fingerprints(exercises), []
    made = dict(fingerprints)
    for module in _modules(modules, solutions):
        shown = f"{exercises.name}/{module}.py"
        try:
            text, state = _state(module, exercises, solutions, fingerprints)
            if state in ("missing", "older"):
                write_whole(exercises / f"{module}.py", text)
            made[module] = fingerprint(text)
        except SourceProblem as error:
            outcomes.append(StubOutcome(module, "failed", str(error)))
        except OSError as error:
            outcomes.append(StubOutcome(module, "failed", problem(error, f"write {shown}")))
        else:
            kept = f"{shown} was edited, so it was not changed; `headway reset {module[:4]}` restores the stub"
            done = {"unchanged": ("unchanged", f"{shown} is already the stub"), "edited": ("kept", kept)}
            outcomes.append(StubOutcome(module, *done.get(state, ("written", f"{shown} written"))))
    if made != fingerprints:
        try:
            lines = "".join(f'{name} = "{made[name]}"\n' for name in sorted(made))
            write_whole(exercises / FINGERPRINTS, FINGERPRINTS_HEADER + lines)
        except OSError as error:
            sentence = problem(error, f"write {exercises.name}/{FINGERPRINTS}")
            outcomes.append(StubOutcome(FINGERPRINTS, "failed", sentence))
    return outcomes


def check_stubs(
    exercises: Path = EXERCISES, solutions: Path = SOLUTIONS, modules: Iterable[str] | None = None
) -> list[str]:
    """One sentence for each stub that does not match its solution or the file of fingerprints."""
    fingerprints, problems = read_fingerprints(exercises), []
    wrong = {
        "missing": "is missing; run `headway stubs`", "older": "is older than its solution; run `headway stubs`",
        "edited": "was edited, so it is not the stub; `headway reset {chapter}` restores the stub",
    }  # fmt: skip
    for module in _modules(modules, solutions):
        try:
            text, state = _state(module, exercises, solutions, fingerprints)
        except SourceProblem as error:
            problems.append(str(error))
            continue
        if state == "unchanged" and fingerprints.get(module) != fingerprint(text):
            state = "older"
        if state in wrong:
            problems.append(f"{exercises.name}/{module}.py {wrong[state].format(chapter=module[:4])}")
    return problems


def _state(module: str, exercises: Path, solutions: Path, fingerprints: dict[str, str]) -> tuple[str, str]:
    """The stub, and whether the file is this one ("unchanged"), the recorded one ("older"), "edited" or "missing"."""
    path, text = exercises / f"{module}.py", reference_stub(module, solutions)
    if not path.exists():
        return text, "missing"
    try:
        present = fingerprint(read_source(path))
    except SourceProblem:
        return text, "edited"
    known = {fingerprints.get(module): "older", fingerprint(text): "unchanged"}
    return text, known.get(present, "edited")


def read_fingerprints(exercises: Path = EXERCISES) -> dict[str, str]:
    """The fingerprint of each stub when it was made; empty for an unreadable file: nothing is overwritten then."""
    try:
        data = tomllib.loads((exercises / FINGERPRINTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: value for name, value in data.items() if isinstance(value, str)}


def modified_chapters(modules: Iterable[str], exercises: Path = EXERCISES) -> list[str]:
    """The chapters whose files exist and differ from their stubs."""
    fingerprints, found = read_fingerprints(exercises), []
    for module in modules:
        path = exercises / f"{module}.py"
        if module not in fingerprints or not path.exists():
            continue
        try:
            touched = fingerprint(read_source(path)) != fingerprints[module]
        except SourceProblem:
            touched = True
        if touched:
            found.append(module)
    return found


def _modules(modules: Iterable[str] | None, solutions: Path) -> list[str]:
    """The chapters that have a solution."""
    names = modules if modules is not None else [chapter.name for chapter in load_syllabus().chapters]
    return [name for name in names if (solutions / f"{name}.py").exists()]


def _check_blocks_are_in_methods(tree: ast.Module, file: str) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any(isinstance(child, ast.Raise) for child in node.body):
            where = f"{file}: a solution block in class {node.name} is outside its methods"
            message = f"{where}; each method needs its own block"
            raise SourceProblem(message, file=file)


def _with_sentence(text: str, node: Documented, sentence: str, file: str) -> str:
    """The text with this sentence as the last paragraph of the node's docstring."""
    indent = "" if isinstance(node, ast.Module) else "    "
    paragraph = textwrap.fill(
        sentence, 120, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    if ast.get_docstring(node) is None:
        lines, start = split_lines(text), node.body[0].lineno
        return "".join(lines[: start - 1]) + f'{indent}"""{paragraph.strip()}"""\n' + "".join(lines[start - 1 :])
    return _extend_docstring(text, node, paragraph, indent, file)


def _with_docstring(text: str, tree: ast.Module, name: str) -> str:
    rules = STUB_INTRODUCTION.format(name=name) + "\n" + RULES
    if re.search(r"^(import|from) torch\b", text, re.MULTILINE):
        rules += TENSOR_RULES
    if re.search(r"^class \w+\(nn\.Module\)", text, re.MULTILINE):
        rules += STATE_RULE
    rules += ERROR_RULE
    if ast.get_docstring(tree) is None:
        return f'"""{name}\n\n{rules}"""\n\n{text}'
    return _extend_docstring(text, tree, rules.rstrip("\n"), "", f"{name}.py")


def _extend_docstring(text: str, node: Documented, paragraph: str, indent: str, file: str) -> str:
    lines, end = split_lines(text), node.body[0].end_lineno
    head = "".join(lines[:end]).rstrip()
    if not head.endswith('"""'):
        raise SourceProblem(f'{file}, line {end}: close the docstring with """', file=file, line=end)
    return head.removesuffix('"""').rstrip() + f'\n\n{paragraph}\n{indent}"""\n' + "".join(lines[end:])


# ---- the table of chapters and exercises on the page `chapters.md`

CHAPTERS_PAGE = ROOT / "grader" / "teaching" / "book" / "pages" / "chapters.md"
TABLE_HEADER = "| chapter | what you build |\n| --- | --- |\n"


def write_chapter_table(page: Path = CHAPTERS_PAGE) -> bool:
    """Write the table into the page; True when that changed it."""
    if is_handout() or not page.is_file():
        return False
    text = page.read_text(encoding="utf-8")
    current = with_table(text)
    if current != text:
        write_whole(page, current)
    return current != text


def check_chapter_table(page: Path = CHAPTERS_PAGE) -> list[str]:
    """A sentence where the page's table is not that of today's syllabus."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    if is_handout() or not text or with_table(text) == text:
        return []
    return [f"{page.name}: the table of chapters is not that of exercises/syllabus.toml; `headway stubs` writes it"]


def with_table(text: str) -> str:
    """The page's text with the table of today's syllabus. ValueError where it has no such table."""
    if TABLE_HEADER not in text:
        raise ValueError(f"{CHAPTERS_PAGE.name} has no table that begins with {TABLE_HEADER.splitlines()[0]!r}")
    before, after = text.split(TABLE_HEADER, 1)
    rows = []
    for chapter in load_syllabus().chapters:
        names = ", ".join(f"`{exercise.name}`" for exercise in chapter.exercises)
        rows.append(f"| {chapter.number} {chapter.title} | {names} |\n")
    return before + TABLE_HEADER + "".join(rows) + re.sub(r"\A(\|[^\n]*\n)*", "", after)


# ---- code that Headway replaces in the learner's files: exercises/.headway/kept/NAME.1.py, NAME.2.py, ...

KEPT = EXERCISES / ".headway" / "kept"


def keep(stem: str, data: bytes) -> str:
    """Save replaced code; returns where. SourceProblem if it cannot be saved: then do not replace it."""
    numbers = [_number(path) for path in kept_versions(stem)]
    path = KEPT / f"{stem}.{max(numbers, default=0) + 1}.py"
    try:
        write_whole(path, data)
    except OSError as error:
        why = problem(error, f"write {short_path(path)}")
        raise SourceProblem(f"nothing was changed, because your code could not be saved: {why}") from error
    return short_path(path)


def kept_versions(stem: str) -> list[Path]:
    """The files of this name, the newest last."""
    paths = [path for path in KEPT.glob(f"{stem}.*.py") if re.fullmatch(rf"{re.escape(stem)}\.\d+\.py", path.name)]
    return sorted(paths, key=_number)


def _number(path: Path) -> int:
    return int(path.name.split(".")[-2])


def same_text(one: str, other: str) -> bool:
    """Whether two pieces of code differ at most in line ends, and in space around them."""
    return fingerprint(one.strip()) == fingerprint(other.strip())
