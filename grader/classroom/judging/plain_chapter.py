"""Decides whether a chapter is plain: none of its definitions can influence another one, except where that one uses it by name.

A plain chapter consists of imports, constants, functions and classes in their ordinary form. Anything that could connect two definitions in another way
makes a chapter unusual: state that outlives a call, changes of torch or of a class, names that are looked up at run time, other code that runs during
the import. The rule lists what is allowed, where it can, and what it does not know is unusual. An unusual chapter is not wrong: its exercises are only
judged again where a plain chapter's would not be.
"""

from __future__ import annotations

import ast
import symtable
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache

from grader.classroom.judging.plain_names import (
    BASES,
    CHANGING,
    CHANGING_PREFIXES,
    DECORATORS,
    ENUMS,
    METHODS,
    MODULES,
    OTHER_PARTS,
    PARTS,
    READERS,
    READING,
)
from grader.classroom.judging.plain_syntax import (
    BUILTINS,
    assigned,
    bound_at_top,
    dotted_name,
    is_constant,
    is_docstring,
    is_hidden,
    is_main_guard,
    is_table,
    is_type,
    path,
)
from grader.course.source import Definition, SourceProblem, parse
from grader.execution.names_used import globals_in

LONGEST = 60_000  # characters; the longest chapter of the reference has 14,000
MOST_NODES = 12_000  # of the syntax tree; the longest chapter of the reference has 1,500


@lru_cache(maxsize=64)
def is_plain(text: str) -> bool:
    """Whether no definition of this chapter can influence another one, except where that one uses it by name."""
    if len(text) > LONGEST:
        return False
    try:
        tree = parse(text)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "the file", "exec", dont_inherit=True)  # a text that parses may not compile: `return` outside a function
            names = globals_in([symtable.symtable(text, "the file", "exec")])
    except (SourceProblem, SyntaxError, ValueError, RecursionError, MemoryError, SystemError, OverflowError):
        return False
    return sum(1 for _ in ast.walk(tree)) <= MOST_NODES and _Chapter(tree).is_plain(names)


class _Chapter:
    """A chapter's names, and the checks that need them."""

    def __init__(self, tree: ast.Module) -> None:
        self.body = [node for node in tree.body if not is_main_guard(node)]
        self.nodes = nodes = [part for node in self.body for part in ast.walk(node)]
        imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
        self.modules = {alias.asname or alias.name.partition(".")[0] for node in imports if isinstance(node, ast.Import) for alias in node.names}
        self.modules |= {alias.asname or alias.name for node in imports if isinstance(node, ast.ImportFrom) for alias in node.names if alias.name in PARTS}
        self.imported = {name for node in imports for name in bound_at_top(node)}
        self.defined = {node.name for node in self.body if isinstance(node, Definition)}
        self.bases = self.defined | {name for node in imports if isinstance(node, ast.ImportFrom) and node.level for name in bound_at_top(node)}
        self.bound = [name for node in self.body for name in bound_at_top(node)]
        self.shared = {*self.bound, *self.imported, *BUILTINS}
        self.enums: set[str] = set()  # classes of the chapter
        self.constants: set[str] = set()  # names of unchangeable values
        self.tables: set[str] = set()  # names of dicts, lists and sets, which are only read
        for names, value in filter(None, map(assigned, self.body)):
            if is_constant(value, self.constants):
                self.constants.update(names)
            elif is_table(value, self.constants) and not isinstance(value, ast.Tuple):
                self.tables.update(names)
        self.allowed = {id(node) for part in nodes for node in _positions_of_shared_values(part)}
        self.read = {id(node) for part in nodes for node in _positions_of_read_tables(part)}
        self.sets_own_attributes_only = self._sets_own_attributes_only()

    def is_plain(self, global_names: set[str]) -> bool:
        once = len(set(self.bound)) == len(self.bound)
        return once and global_names <= self.shared | {"__name__"} and all(map(self._is_plain_statement, self.body)) and all(map(self._is_plain_node, self.nodes))

    def _sets_own_attributes_only(self) -> bool:
        """Whether code sets attributes of `self` only, the object of a method: then no class and no function is changed, whatever variable has it as its value."""
        methods = {id(part) for node in self.nodes if isinstance(node, ast.ClassDef) for part in node.body}
        functions = [node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.Lambda) and id(node) not in methods]
        stored = [node for node in self.nodes if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)]
        other_self = any(argument.arg == "self" for node in functions for argument in ast.walk(node.args) if isinstance(argument, ast.arg))
        return all(map(_is_own_attribute, stored)) and not other_self

    # ---- the statements of the top level and of classes, which run during the import

    def _is_plain_statement(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.FunctionDef):
            defaults = [*node.args.defaults, *(default for default in node.args.kw_defaults if default)]
            if "classmethod" in map(dotted_name, node.decorator_list) and [argument.arg for argument in node.args.args][:1] != ["cls"]:
                return False
            return self._has_plain_decorators(node) and all(is_constant(default, self.constants) for default in defaults)
        if isinstance(node, ast.ClassDef):
            bases = {dotted_name(base) for base in node.bases}
            if bases & (ENUMS | self.enums) and not self._is_plain_enum(node, bases):
                return False
            return bases <= BASES | self.bases and self._has_plain_decorators(node) and all(map(self._is_plain_part_of_class, node.body))
        if found := assigned(node):
            return is_constant(found[1], self.constants) or is_table(found[1], self.constants) or is_type(found[1])
        return isinstance(node, ast.Import | ast.ImportFrom) or is_docstring(node)

    def _is_plain_enum(self, node: ast.ClassDef, bases: set[str]) -> bool:
        """All code shares an enumeration's members, so nothing may set their attributes."""
        self.enums.add(node.name)
        sets = any(isinstance(part, ast.Attribute) and not isinstance(part.ctx, ast.Load) for part in ast.walk(node))
        return bases <= ENUMS | self.enums | {"str", "int"} and not sets and "setattr" not in {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}

    def _is_plain_part_of_class(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.FunctionDef):
            return self._is_plain_statement(node)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and (node.value is None or self._is_plain_field(node.value)):
            return True
        if found := assigned(node):  # a class has no table, which its objects could change
            return is_constant(found[1], self.constants)
        return isinstance(node, ast.Pass) or is_docstring(node)

    def _is_plain_field(self, node: ast.expr) -> bool:
        """`field(default=0)`, `field(default_factory=list)` of a dataclass."""
        if not isinstance(node, ast.Call) or dotted_name(node.func) not in ("field", "dataclasses.field") or node.args:
            return False
        return all(keyword.arg and (is_constant(keyword.value, self.constants) or dotted_name(keyword.value) in BUILTINS) for keyword in node.keywords)

    def _has_plain_decorators(self, node: ast.FunctionDef | ast.ClassDef) -> bool:
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call):
                if decorator.args or not all(keyword.arg and is_constant(keyword.value) for keyword in decorator.keywords):
                    return False
                decorator = decorator.func
            if dotted_name(decorator) not in DECORATORS:
                return False
        return True

    # ---- code at any depth

    def _is_plain_node(self, node: ast.AST) -> bool:
        match node:
            case ast.Global() | ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                return False
            case ast.Import():
                return all(alias.name in MODULES for alias in node.names)
            case ast.ImportFrom():
                return self._is_plain_import(node)
            case ast.ClassDef():
                return not node.keywords and all(dotted_name(base) in BASES or isinstance(base, ast.Name) for base in node.bases)
            case ast.FunctionDef():
                return not is_hidden(node.name) or node.name in METHODS
            case ast.Attribute():
                return self._is_plain_attribute(node)
            case ast.Subscript(ctx=ast.Store() | ast.Del()):
                return self._may_be_changed(node.value)
            case ast.Name(ctx=ast.Load()):
                known = node.id not in ("type", "getattr", "setattr") or id(node) in self.allowed
                return known and (node.id not in self.tables or id(node) in self.read) and self._is_plain_value(node)
            case ast.Name():
                return (not is_hidden(node.id) or node.id == "__slots__") and node.id not in ("self", "cls")
            case ast.Call():
                return self._is_plain_call(node)
            case ast.Constant(value=str() as words):
                return "__" not in words or words in ("__main__", "__init__")
        return True

    def _is_plain_import(self, node: ast.ImportFrom) -> bool:
        names = [alias.name for alias in node.names]
        if "*" in names:
            return False
        if node.level:  # another chapter
            return node.level == 1 and str(node.module).startswith("ch") and "." not in str(node.module)
        return node.module in MODULES and not any(_changes(name) or name in OTHER_PARTS for name in names)

    def _is_plain_attribute(self, node: ast.Attribute) -> bool:
        if is_hidden(node.attr) and node.attr not in METHODS | {"__name__"}:
            return False
        if isinstance(node.ctx, ast.Store | ast.Del):
            return self._may_be_changed(node.value)
        if isinstance(node.value, ast.Call) and dotted_name(node.value.func) == "type" and node.attr != "__name__":
            return False
        names = path(node)
        if names and names[0] in self.modules:
            unknown = any(part not in PARTS and not part[:1].isupper() for part in names[1:-1])
            if unknown or any(_changes(part) or part in OTHER_PARTS for part in names[1:]):
                return False
        if isinstance(node.value, ast.Name) and node.value.id in self.defined and not self.sets_own_attributes_only:
            return False  # an attribute of a function or class, which all code shares
        return self._is_plain_value(node)

    def _may_be_changed(self, owner: ast.expr) -> bool:
        """Whether a statement may change a part of this: of a local variable or an argument, not of something that all code shares."""
        while isinstance(owner, ast.Attribute | ast.Subscript):
            if isinstance(owner, ast.Attribute) and is_hidden(owner.attr):
                return False
            owner = owner.value
        return isinstance(owner, ast.Name) and owner.id not in self.shared and owner.id != "cls"

    def _is_plain_call(self, node: ast.Call) -> bool:
        """`type(x)` gives a class, of which only the name may be used. A method, called by its class, gets no class as its `self`."""
        if dotted_name(node.func) == "type":
            return id(node) in self.allowed and len(node.args) == 1 and not node.keywords
        if dotted_name(node.func) == "setattr":
            return self.sets_own_attributes_only and bool(node.args) and dotted_name(node.args[0]) == "self"
        by_class = isinstance(node.func, ast.Attribute) and self._is_shared(path(node.func.value))
        return not by_class or not any(self._is_shared(path(argument)) for argument in node.args)

    def _is_plain_value(self, node: ast.expr) -> bool:
        """Whether this is no module, and no class or function where that could be changed."""
        names = path(node)
        if id(node) in self.allowed or not names:
            return True
        is_module = names[0] in self.modules and (len(names) == 1 or names[-1] in PARTS)
        return not is_module and (self.sets_own_attributes_only or not self._is_shared(names))

    def _is_shared(self, names: tuple[str, ...]) -> bool:
        """Whether `a.b` is a class of a module, or a function or class of the chapter or of another one."""
        if names and names[0] in self.modules:
            return len(names) > 1 and names[-1][:1].isupper()
        return len(names) == 1 and names[0] in self.defined | self.imported


def _is_own_attribute(node: ast.Attribute) -> bool:
    """`self.a`, or `self.a.weight`, which an embedding may share with a linear layer."""
    return dotted_name(node.value) == "self" or (node.attr in ("weight", "bias") and path(node)[:1] == ("self",))


def _positions_of_shared_values(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node where a class or a module may be: where it is called, or its attribute is used, or it only names a type."""
    match node:
        case ast.Attribute():
            yield node.value  # also `type(x)`, of which only `__name__` may be used
        case ast.Call():
            yield node.func
            if dotted_name(node.func) in ("isinstance", "issubclass"):
                yield from _inside(node.args[1:])
        case ast.arg() | ast.AnnAssign() if node.annotation:
            yield from _inside([node.annotation])
        case ast.Assign(value=ast.Subscript()) if is_type(node.value):
            yield from _inside([node.value])
        case ast.FunctionDef():
            yield from _inside([*node.decorator_list, *filter(None, [node.returns])])
        case ast.ClassDef():
            yield from _inside([*node.decorator_list, *node.bases])


def _positions_of_read_tables(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that only read what they name."""
    match node:
        case ast.Subscript(ctx=ast.Load()):
            yield node.value
        case ast.Attribute() if node.attr in READING:
            yield node.value
        case ast.Compare() if all(isinstance(operator, ast.In | ast.NotIn) for operator in node.ops):
            yield from node.comparators
        case ast.For() | ast.comprehension():
            yield node.iter
        case ast.Starred():
            yield node.value
        case ast.Call() if dotted_name(node.func) in READERS or (isinstance(node.func, ast.Attribute) and node.func.attr == "join"):
            yield from node.args


def _inside(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for node in nodes:
        yield from ast.walk(node)


def _changes(name: str) -> bool:
    return name in CHANGING or name.startswith(CHANGING_PREFIXES)
