"""Finds the names that each definition of a module uses, and all definitions that it reaches through them, also in
other modules."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path

from grader.course.chapter_source import Definition, bindings, bound_names, scope_statements, without_blocks
from grader.course.source import parse, read_source

Name = tuple[str, str]  # a module, and a name defined at its top level


@dataclass(frozen=True)
class NamesUsed:
    statements: dict[str, ast.stmt]  # name → the last statement in the module's scope that binds it
    imported: dict[str, Name]  # name here → the definition that it may be, of another module
    modules: dict[str, str]  # name here → the module that it is
    stars: tuple[str, ...]  # modules of which all names are imported
    # By each statement in the module's scope, the names that it uses. `a.softmax` is both "a.softmax" and "softmax"
    # where `a` is imported.
    # when its code runs, by Python's rules of scope: a parameter `dropout` is not the exercise `dropout`
    used: dict[ast.stmt, frozenset[str]]
    written: dict[ast.stmt, frozenset[str]]  # all that are written in it: annotations and local names too
    # used by statements that define nothing, and by decorators: this code runs when the chapter is imported
    run_at_import: frozenset[str]
    needed_at_import: frozenset[str]  # without these names the chapter does not import


def closure(names: NamesUsed, roots: Iterable[str], without: Collection[str] = (), written: bool = False) -> set[str]:
    """The names of this module that these names use, directly or through others, and the names themselves; `without`
    are not followed."""
    found = reachable([("", name) for name in roots if name in names.statements], {"": names}.get, without, written)
    return {name for _, name in found}


def names_reached(names: NamesUsed, name: str) -> set[str]:
    """All names that are written in this definition and in those of the module that it reaches, also names that nothing
    defines."""
    return {word for there in closure(names, [name], written=True) for word in names.written[names.statements[there]]}


def reachable(
    starts: Iterable[Name],
    read: Callable[[str], NamesUsed | None],
    without: Collection[str] = (),
    written: bool = False,
) -> set[Name]:
    """These definitions and all that they use (or with `written`, that occur in them), directly or through others, of
    all modules that `read` knows."""
    read = cache(read)
    found = set(starts)
    waiting, seen = list(found), set()
    while waiting:
        module, name = waiting.pop()
        names = read(module)
        statement = names.statements.get(name) if names else None
        if names is None or statement is None or statement in seen:
            continue
        seen.add(statement)  # one statement may define thousands of names
        words = (names.written if written else names.used)[statement].difference(without)
        origins = {origin for word in words for origin in _origins(names, module, word)}
        new = {
            (other, there) for other, there in origins if (known := read(other)) and there in known.statements
        } - found
        found |= new
        waiting += new
    return found


def reachable_in(folder: Path, starts: Iterable[Name], without: Collection[str] = ()) -> set[Name]:
    """The same for modules of this folder, with all names that are written in them."""
    return reachable(starts, partial(names_in_file, folder), without, written=True)


@cache
def names_in_file(folder: Path, module: str) -> NamesUsed | None:
    """The names in a module of this folder; None if it is not there."""
    path = folder / f"{module}.py"
    return names_used(read_source(path)) if path.is_file() else None


def _origins(names: NamesUsed, module: str, word: str) -> list[Name]:
    """The definitions that a name in this module may be."""
    if word in names.statements:
        return [(module, word)]
    owner, _, attribute = word.rpartition(".")
    if owner:
        return [(names.modules[owner], attribute)] if owner in names.modules else []
    return [names.imported[word]] if word in names.imported else [(star, word) for star in names.stars]


def code_of(text: str, exercise: str) -> list[str]:
    """The code that decides how an exercise behaves, without comments: its definition, all that it uses in its chapter,
    and what runs at import.

    SourceProblem if the text cannot be read.
    """
    names = names_used(text)
    used = closure(names, {exercise, *names.run_at_import})
    left_out = set(names.statements.values()) - {names.statements[name] for name in used}
    return [ast.dump(without_blocks(node)) for node in names.used if node not in left_out]


@lru_cache(maxsize=64)
def names_used(text: str) -> NamesUsed:
    """The names that this module's definitions use. SourceProblem if the text cannot be read."""
    tree = parse(text)
    try:
        tables = _tables(symtable.symtable(text, "the file", "exec"))
    # it parses and does not compile: `return` outside a function
    except (SyntaxError, RecursionError, ValueError, MemoryError, SystemError, OverflowError):
        tables = {}
    # each statement with all that is in it, but not what is below an `if` or a loop: that has its own entries
    parts = {node: list(ast.walk(without_blocks(node))) for node in scope_statements(tree.body)}
    importing = [part for inner in parts.values() for part in inner if isinstance(part, ast.Import | ast.ImportFrom)]
    # "" for `import a`, `from . import a`
    imports = [(_last_part(getattr(node, "module", None) or ""), alias) for node in importing for alias in node.names]
    modules = {
        alias.asname or alias.name.partition(".")[0]: _last_part(alias.name) for module, alias in imports if not module
    }
    imported = {alias.asname or alias.name: (module, alias.name) for module, alias in imports if module}
    stars = tuple(module for module, alias in imports if alias.name == "*")
    attributes = {node: _attributes_in(inner, modules.keys() | imported.keys()) for node, inner in parts.items()}
    used = {node: frozenset(attributes[node] | _used(node, tables)) for node in parts}
    written = {
        node: frozenset(attributes[node] | {part.id for part in inner if isinstance(part, ast.Name)})
        for node, inner in parts.items()
    }
    at_import = frozenset().union(*(_run_at_import(node) for node in parts)) if parts else frozenset()
    needed = at_import.union(*(_needed_at_import(node, tables) for node in parts if isinstance(node, Definition)))
    statements = {name: node for node in parts for name in bound_names(node)}
    for name, alternatives in bindings(tree).items():  # in branches: the last one uses what any of them uses
        for node in alternatives if name in statements else ():
            used[statements[name]] |= used[node]
            written[statements[name]] |= written[node]
    return NamesUsed(statements, imported, modules, stars, used, written, at_import, needed)


_Tables = dict[tuple[str, int], list[symtable.SymbolTable]]


def _tables(top: symtable.SymbolTable) -> _Tables:
    """The scope of each top-level function or class, by its name and line."""
    found: _Tables = {}
    for table in top.get_children():
        found.setdefault((table.get_name(), table.get_lineno()), []).append(table)
    return found


def _last_part(module: str) -> str:
    return module.rpartition(".")[2]


def _attributes_in(parts: Iterable[ast.AST], names: Collection[str]) -> set[str]:
    """The attributes of imported names in these parts of the code, alone and behind the name."""
    found = [
        part
        for part in parts
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id in names
    ]
    return {part.attr for part in found} | {
        f"{part.value.id}.{part.attr}" for part in found if isinstance(part.value, ast.Name)
    }


def _used(node: ast.stmt, tables: _Tables) -> set[str]:
    own = tables.get((node.name, node.lineno)) if isinstance(node, Definition) else None
    if own is None or not isinstance(node, Definition):
        return _loaded([without_blocks(node)])
    return _loaded(_evaluated_at_definition(node)) | globals_in(own)


def globals_in(tables: Iterable[symtable.SymbolTable], without: Collection[str] = ()) -> set[str]:
    """The global names that these scopes and those in them use, but not scopes of the kinds `without`."""
    words: set[str] = set()
    waiting = list(tables)
    while waiting:
        table = waiting.pop()
        if table.get_type() not in without:
            words |= {
                symbol.get_name() for symbol in table.get_symbols() if symbol.is_global() and symbol.is_referenced()
            }
            waiting += table.get_children()
    return words


def _evaluated_at_definition(node: ast.stmt) -> list[ast.AST]:
    """The expressions that are evaluated when a function or class is defined: decorators, defaults, base classes."""
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *node.keywords]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return [*node.decorator_list, *node.args.defaults, *(default for default in node.args.kw_defaults if default)]
    return []


def _loaded(nodes: Iterable[ast.AST]) -> set[str]:
    return {
        part.id
        for node in nodes
        for part in ast.walk(node)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)
    }


def _run_at_import(node: ast.stmt) -> set[str]:
    if isinstance(node, Definition):
        return _loaded(node.decorator_list)
    return _loaded([without_blocks(node)])


def _needed_at_import(node: ast.stmt, tables: _Tables) -> set[str]:
    own = tables.get((node.name, node.lineno), ()) if isinstance(node, ast.ClassDef) else ()
    return _loaded(_evaluated_at_definition(node)) | globals_in(own, without=("function", "annotation"))
