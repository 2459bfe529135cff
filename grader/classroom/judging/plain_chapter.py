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

from grader.course.source import Definition, SourceProblem, bound_names, parse

LONGEST = 60_000  # characters; the longest chapter of the reference has 14,000
MOST_NODES = 12_000  # of the syntax tree; the longest chapter of the reference has 1,500

# Modules without state that a chapter could change, apart from torch's (below) and random's, which is seeded before every example.
MODULES = frozenset({
    "__future__", "torch", "torch.nn", "torch.nn.functional", "torch.nn.init", "math", "typing", "collections", "collections.abc", "dataclasses",
    "functools", "itertools", "operator", "re", "string", "heapq", "bisect", "copy", "random", "numbers", "hashlib", "contextlib",
})  # fmt: skip
PARTS = frozenset({"nn", "functional", "init", "linalg", "special"})  # modules of torch whose attributes may be used
OTHER_PARTS = frozenset({  # the others: some change torch for all code
    "amp", "ao", "autograd", "backends", "classes", "compiler", "cpu", "cuda", "distributed", "distributions", "export", "fft", "func", "futures", "fx",
    "grad", "hub", "jit", "library", "masked", "math", "modules", "mps", "mtia", "multiprocessing", "nested", "ops", "optim", "os", "overrides", "package",
    "parallel", "parameter", "platform", "profiler", "qat", "quantization", "quantizable", "quantized", "random", "serialization", "signal", "sparse",
    "storage", "sys", "testing", "torch", "types", "utils", "version", "warnings", "xpu",
})  # fmt: skip
# Functions of those modules that change what all code shares, or that keep something between calls.
CHANGING = frozenset({
    "autocast", "cache", "cached_property", "compile", "default_generator", "initial_seed", "import_ir_module", "lru_cache", "manual_seed", "purge", "seed",
    "setstate", "singledispatch", "singledispatchmethod", "total_ordering", "use_deterministic_algorithms", "vmap", "wraps", "update_wrapper",
})  # fmt: skip
CHANGING_PREFIXES = ("_", "set_", "register_", "enable_", "disable_")
DECORATORS = frozenset({"staticmethod", "property", "torch.no_grad", "torch.inference_mode", "dataclass", "dataclasses.dataclass", "contextmanager"})
BASES = frozenset({"object", "nn.Module", "torch.nn.Module", "Module", "NamedTuple", "typing.NamedTuple"})
METHODS = frozenset({
    "__init__", "__post_init__", "__call__", "__len__", "__getitem__", "__iter__", "__next__", "__contains__", "__repr__", "__str__", "__eq__", "__bool__",
})  # fmt: skip
BUILTINS = frozenset({
    "abs", "all", "any", "bool", "bytes", "callable", "chr", "dict", "divmod", "enumerate", "filter", "float", "format", "frozenset", "getattr", "hasattr", "int",
    "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "next", "object", "ord", "pow", "print", "property", "range", "repr", "reversed",
    "round", "set", "slice", "sorted", "staticmethod", "str", "sum", "super", "tuple", "type", "zip", "NotImplemented", "Ellipsis", "Exception",
    "ArithmeticError", "AssertionError", "AttributeError", "IndexError", "KeyError", "LookupError", "NotImplementedError", "OverflowError", "RuntimeError",
    "StopIteration", "TypeError", "ValueError", "ZeroDivisionError",
})  # fmt: skip
CONSTANTS = frozenset({"math.inf", "math.pi", "math.e", "torch.float32", "torch.float64", "torch.long", "torch.int64", "torch.bool"})


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
            names = set(_global_names(symtable.symtable(text, "the file", "exec")))
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
        self.allowed = {id(node) for part in nodes for node in _positions_of_shared_values(part)}
        methods = {id(part) for node in nodes if isinstance(node, ast.ClassDef) for part in node.body}
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.Lambda) and id(node) not in methods]
        stored = [node for node in nodes if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)]
        # whether code sets attributes of `self` only, the object of a method: then no class is changed, whatever variable has it as its value
        self.sets_own_attributes_only = all(_is_own_attribute(node) for node in stored) and not any(
            argument.arg == "self" for node in functions for argument in ast.walk(node.args) if isinstance(argument, ast.arg)
        )

    def is_plain(self, global_names: set[str]) -> bool:
        once = len(set(self.bound)) == len(self.bound)
        return once and global_names <= self.shared | {"__name__"} and all(map(self._is_plain_statement, self.body)) and all(map(self._is_plain_node, self.nodes))

    # ---- the statements of the top level and of classes, which run during the import

    def _is_plain_statement(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.FunctionDef):
            return self._is_plain_function(node)
        if isinstance(node, ast.ClassDef):
            bases = all(dotted_name(base) in BASES | self.bases for base in node.bases)
            return bases and _has_plain_decorators(node) and all(map(self._is_plain_part_of_class, node.body))
        if isinstance(node, ast.Assign):
            return all(isinstance(target, ast.Name) for target in node.targets) and (is_constant(node.value) or _is_type(node.value))
        if isinstance(node, ast.AnnAssign):
            return isinstance(node.target, ast.Name) and node.value is not None and is_constant(node.value)
        return isinstance(node, ast.Import | ast.ImportFrom) or _is_docstring(node)

    def _is_plain_function(self, node: ast.FunctionDef) -> bool:
        defaults = [*node.args.defaults, *(default for default in node.args.kw_defaults if default)]
        return _has_plain_decorators(node) and all(map(is_constant, defaults))

    def _is_plain_part_of_class(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.AnnAssign):
            return isinstance(node.target, ast.Name) and (node.value is None or is_constant(node.value))
        return isinstance(node, ast.Pass) or (not isinstance(node, ast.ClassDef | ast.Import | ast.ImportFrom) and self._is_plain_statement(node))

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
                return not _is_hidden(node.name) or node.name in METHODS
            case ast.Attribute():
                return self._is_plain_attribute(node)
            case ast.Subscript(ctx=ast.Store() | ast.Del()):
                return self._may_be_changed(node.value)
            case ast.Name(ctx=ast.Load()):
                return self._is_plain_value(node) and (node.id not in ("type", "getattr") or id(node) in self.allowed)
            case ast.Name():
                return not _is_hidden(node.id) and node.id != "self"
            case ast.Call():
                return self._is_plain_call(node)
        return True

    def _is_plain_import(self, node: ast.ImportFrom) -> bool:
        names = [alias.name for alias in node.names]
        if "*" in names:
            return False
        if node.level:  # another chapter
            return node.level == 1 and str(node.module).startswith("ch") and "." not in str(node.module)
        return node.module in MODULES and not any(_changes(name) or name in OTHER_PARTS for name in names)

    def _is_plain_attribute(self, node: ast.Attribute) -> bool:
        if _is_hidden(node.attr) and node.attr not in METHODS | {"__name__"}:
            return False
        if isinstance(node.ctx, ast.Store | ast.Del):
            return self._may_be_changed(node.value)
        if isinstance(node.value, ast.Call) and dotted_name(node.value.func) == "type" and node.attr != "__name__":
            return False
        path = _path(node)
        if path and path[0] in self.modules:
            unknown = any(part not in PARTS and not part[:1].isupper() for part in path[1:-1])
            if unknown or any(_changes(part) or part in OTHER_PARTS for part in path[1:]):
                return False
        if isinstance(node.value, ast.Name) and node.value.id in self.defined:  # an attribute of a function or class, which all code shares
            return False
        return self._is_plain_value(node)

    def _may_be_changed(self, owner: ast.expr) -> bool:
        """Whether a statement may change a part of this: of a local variable or an argument, not of something that all code shares."""
        while isinstance(owner, ast.Attribute | ast.Subscript):
            if isinstance(owner, ast.Attribute) and _is_hidden(owner.attr):
                return False
            owner = owner.value
        return isinstance(owner, ast.Name) and owner.id not in self.shared and owner.id != "cls"

    def _is_plain_call(self, node: ast.Call) -> bool:
        """A function or class of the chapter gets no other one: it could change what that one does. `type(x)` gives a class, and only its name may be used."""
        if dotted_name(node.func) == "type":
            return id(node) in self.allowed and len(node.args) == 1 and not node.keywords
        if dotted_name(node.func) == "getattr":
            name = node.args[1] if len(node.args) > 1 else None
            return isinstance(name, ast.Constant) and isinstance(name.value, str) and not _is_hidden(name.value)
        if isinstance(node.func, ast.Name) and node.func.id in self.defined:
            arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
            return not any(isinstance(argument, ast.Name) and argument.id in self.defined | self.imported for argument in arguments)
        return True

    def _is_plain_value(self, node: ast.expr) -> bool:
        """Whether this is no module, and no class where that could be changed."""
        path = _path(node)
        if id(node) in self.allowed or not path:
            return True
        if path[0] in self.modules:
            is_module, is_class = len(path) == 1 or path[-1] in PARTS, path[-1][:1].isupper()
        else:
            is_module, is_class = False, len(path) == 1 and path[0] in self.defined | self.imported and path[0][:1].isupper()
        return not is_module and (self.sets_own_attributes_only or not is_class)


def is_main_guard(node: ast.stmt) -> bool:
    """Whether this is `if __name__ == "__main__":` without `else`, whose code does not run when the chapter is imported."""
    return isinstance(node, ast.If) and not node.orelse and ast.dump(node.test) == _MAIN


_MAIN = ast.dump(ast.parse('__name__ == "__main__"', mode="eval").body)


def _positions_of_shared_values(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node where a class or a module may be: where it is called, or its attribute is used, or it only names a type."""
    match node:
        case ast.Attribute():
            yield node.value
        case ast.Call():
            yield node.func
            if isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
                yield from _inside(node.args[1:])
        case ast.arg() | ast.AnnAssign() if node.annotation:
            yield from _inside([node.annotation])
        case ast.Assign(value=ast.Subscript()) if _is_type(node.value):
            yield from _inside([node.value])
        case ast.FunctionDef():
            yield from _inside([*node.decorator_list, *filter(None, [node.returns])])
        case ast.ClassDef():
            yield from _inside([*node.decorator_list, *node.bases])


def _inside(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    for node in nodes:
        yield from ast.walk(node)


def _global_names(table: symtable.SymbolTable) -> Iterator[str]:
    """The names of the module, or of Python, that code at any depth uses."""
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (symbol.is_global() or table.get_type() == "module"):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _global_names(child)


def _has_plain_decorators(node: ast.FunctionDef | ast.ClassDef) -> bool:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call):
            if decorator.args or not all(keyword.arg and is_constant(keyword.value) for keyword in decorator.keywords):
                return False
            decorator = decorator.func
        if dotted_name(decorator) not in DECORATORS:
            return False
    return True


def bound_at_top(node: ast.AST) -> Iterator[str]:
    """The names that a statement of the top level binds, those of imports too."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.stmt):
        yield from bound_names(node)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_constant(node: ast.expr) -> bool:
    """Whether an expression has the same unchangeable value each time: a number, a text, None, or a tuple of such."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and isinstance(node.operand, ast.expr) and is_constant(node.operand)
    if isinstance(node, ast.Tuple):
        return all(map(is_constant, node.elts))
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add | ast.Sub | ast.Mult) and all(isinstance(side, ast.Constant) for side in (node.left, node.right))
    return isinstance(node, ast.Constant) or dotted_name(node) in CONSTANTS


def _is_own_attribute(node: ast.Attribute) -> bool:
    """`self.a`, or `self.a.weight`, which an embedding may share with a linear layer."""
    return dotted_name(node.value) == "self" or (node.attr in ("weight", "bias") and _path(node)[:1] == ("self",))


def _is_type(node: ast.expr) -> bool:
    """Whether this names a type, like `tuple[Tensor, int]`: a module gives it a shorter name."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Name) and _is_type(node.slice)
    return all(map(_is_type, node.elts)) if isinstance(node, ast.Tuple) else isinstance(node, ast.Name)


def _path(node: ast.expr) -> tuple[str, ...]:
    """The names of `a.b.c`; empty for any other expression."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (node.id, *reversed(names)) if isinstance(node, ast.Name) else ()


def dotted_name(node: ast.expr) -> str:
    return ".".join(_path(node))


def _is_hidden(name: str) -> bool:
    return name.startswith("__")


def _changes(name: str) -> bool:
    return name in CHANGING or name.startswith(CHANGING_PREFIXES)
