"""Assembles one Python package from chapters of different authors, without copying a file.

When chapter 3 is graded, the package contains the learner's chapter 3 and the reference's chapters 1 and 2; a relative
import inside it finds the one in the package. Later chapters do not exist in it. Definitions of the learner's chapter
may be replaced by the reference's. These are in one more module, without text, and use each other there
(target.py makes it). After each statement of the learner's module that binds a replaced name, also below an
`if` or a `try`, the name is bound to the reference's definition; so it is before the first statement, and at the end.
So everything that is defined later uses that one: a class that inherits, an alias, a decorator, a default argument. The
learner's own lines keep their numbers.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.util
import itertools
import marshal
import re
import sys
import warnings
from functools import lru_cache
from types import CodeType, ModuleType

from grader.course.chapter_source import ChapterSource, statements_and_expressions

LEARNER = "learner"  # the label of a package of tested code
OFF_LIMITS = ("solutions", "exercises", "tests")  # top-level folders of the kit, which tested code does not import

_numbers = itertools.count(1)


@lru_cache(maxsize=64)
def without_text(source: ChapterSource) -> ChapterSource:
    """The chapter as code compiled by this Python, for a process that must not have the text."""
    return compile_without_text(source.name, tree_of(source))


def compile_without_text(name: str, tree: ast.Module) -> ChapterSource:
    """A module of such a tree as code. It has no comments, no source lines and no path, so no traceback can show
    them."""
    filename = f"<{name}>"
    return ChapterSource(name, "", filename, code=marshal.dumps(compile(tree, filename, "exec", dont_inherit=True)))


def tree_of(source: ChapterSource) -> ast.Module:
    """The chapter's syntax tree, without docstrings."""
    return without_docstrings(ast.parse(source.text))


def without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and ast.get_docstring(node, clean=False) is not None
        ):
            node.body = node.body[1:] or ([] if isinstance(node, ast.Module) else [ast.Pass()])
    return ast.fix_missing_locations(tree)


@lru_cache(maxsize=256)
def compiled(source: ChapterSource) -> CodeType:
    """The code of a chapter."""
    if source.code:
        return marshal.loads(source.code)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two known mistakes put together may look odd, such as `0if`
        code: str | ast.Module = source.text
        if source.replaced:
            code = bind_replacements(ast.parse(source.text, source.filename), source.name, source.replaced)
        return compile(code, source.filename, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, package: str, sources: dict[str, ChapterSource]) -> None:
        self.package, self.sources = package, sources

    def find_spec(self, fullname, path=None, target=None):
        if fullname == self.package:
            return importlib.util.spec_from_loader(fullname, self, is_package=True)
        if fullname.partition(".")[0] in OFF_LIMITS and is_learners_package(self.package):
            raise ModuleNotFoundError(
                f"{fullname} contains the answers, and cannot be imported while code is graded", name=fullname
            )
        package, _, name = fullname.rpartition(".")
        if package != self.package:
            return None
        if name not in self.sources:
            raise ModuleNotFoundError(self._missing(name), name=fullname)
        return importlib.util.spec_from_loader(fullname, self, origin=self.sources[name].filename)

    def _missing(self, name: str) -> str:
        chapters = [known for known in self.sources if not is_replacement(known)]
        latest = max(chapters)
        numbers = {known[:4] for known in chapters}
        if (
            all(re.match(r"ch\d\d_", chapter) for chapter in (name, latest))
            and name < latest
            and name[:4] not in numbers
        ):
            return (
                f"{name}.py is not in the folder of {latest}.py, which builds on it; put it there, or run without "
                "--whole"
            )
        earlier = ", ".join(known for known in sorted(chapters) if known != latest)
        return (
            f"there is no chapter {name} to import from here; "
            f"{f'this chapter may build on {earlier}' if earlier else 'no earlier chapter is here'}"
        )

    def create_module(self, spec):
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__.rpartition(".")[2]
        if module.__name__ == self.package:
            return
        source = self.sources[name]
        if not source.code:
            module.__file__ = source.filename
        exec(compiled(source), module.__dict__)


class ChapterPackage:
    """The assembled package; `module(name)` imports a chapter of it."""

    def __init__(self, sources: list[ChapterSource], label: str = "package") -> None:
        self.name = f"{label}_{next(_numbers)}"
        self.sources = {source.name: source for source in sources}
        self._finder = _Finder(self.name, self.sources)
        sys.meta_path.insert(0, self._finder)

    def module(self, name: str) -> ModuleType:
        return importlib.import_module(f"{self.name}.{name}")

    def close(self) -> None:
        """Remove the package's modules from sys.modules."""
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        for name in (self.name, *(f"{self.name}.{chapter}" for chapter in self.sources)):
            sys.modules.pop(name, None)


def is_learners_package(name: str) -> bool:
    """Is this the name of a package of tested code? No package that can be installed is called so."""
    return re.fullmatch(rf"{LEARNER}_\d+", name) is not None


def replacement_module(chapter: str) -> str:
    """The name of the module with the reference's definitions for this chapter."""
    return f"_{chapter}"


def is_replacement(module: str) -> bool:
    return module.startswith("_")


def bind_replacements(tree: ast.Module, chapter: str, names: tuple[str, ...]) -> ast.Module:
    """The module with these names bound to the reference's definitions."""
    first = next((place for place, node in enumerate(tree.body) if not _is_heading(node)), len(tree.body))
    heading = tree.body[first - 1] if first else None
    before = [_import_replacement(chapter, name, heading) for name in names]  # for a name that is missing
    body = [*tree.body[:first], *before, *_bind_in(tree.body[first:], chapter, names)]
    return ast.Module(body + [_import_replacement(chapter, name, body[-1]) for name in names], tree.type_ignores)


def _bind_in(block: list[ast.stmt], chapter: str, names: tuple[str, ...]) -> list[ast.stmt]:
    """The statements of a block, each followed by the imports of the names that it binds, and so in each branch."""
    body: list[ast.stmt] = []
    for node in block:
        here = _bound_names(node, names)
        if here and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for part in [node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())]:
                for field in ("body", "orelse", "finalbody"):
                    if getattr(part, field, None):
                        setattr(part, field, _bind_in(getattr(part, field), chapter, names))
        body += [node, *(_import_replacement(chapter, name, node) for name in names if name in here)]
    return body


def _is_heading(node: ast.stmt) -> bool:
    """A docstring, or an import from `__future__`: nothing may come before it."""
    docstring = (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _import_replacement(chapter: str, name: str, after: ast.stmt | None) -> ast.stmt:
    node = ast.ImportFrom(replacement_module(chapter), [ast.alias(name)], 1)
    if after is None:
        node.lineno = node.end_lineno = 1
        node.col_offset = node.end_col_offset = 0
        return ast.fix_missing_locations(node)
    return ast.fix_missing_locations(ast.copy_location(node, after))


def _bound_names(node: ast.stmt, names: tuple[str, ...]) -> set[str]:
    """Those of `names` that a statement in the module's scope binds, also in its branches; `import *` may bind any, and
    one that is written as a string or a keyword may be bound by `globals()`."""
    found: set[str] = set()
    for part in statements_and_expressions([node]):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(part.name)
        elif isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load):
            found.add(part.id)
        elif isinstance(part, ast.alias):
            found |= set(names) if part.name == "*" else {part.asname or part.name.partition(".")[0]}
        elif isinstance(part, ast.ExceptHandler) and part.name:
            found.add(part.name)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            found.add(part.value)
        elif isinstance(part, ast.keyword) and part.arg:
            found.add(part.arg)
    return found.intersection(names)
