"""Ways to hide that a chapter is a copy. Each takes the text of a chapter and returns one that does the same."""

from __future__ import annotations

import ast
from collections.abc import Callable
from itertools import count

from grader.course.chapter_source import Definition, statements_and_expressions
from seeded_copies import change_comments, change_statements, rename_variables, reorder_functions


def _edit(text: str, transformer: ast.NodeTransformer) -> str:
    return ast.unparse(ast.fix_missing_locations(transformer.visit(ast.parse(text))))


def _statements(code: str) -> list[ast.stmt]:
    return ast.parse(code).body


def _expression(code: str) -> ast.expr:
    return ast.parse(code, mode="eval").body


def _is_plain(function: ast.FunctionDef) -> bool:
    """Whether it is no method and no generator, and has no decorator."""
    names = [arg.arg for arg in function.args.args[:1]]
    inside = [isinstance(part, ast.Yield | ast.YieldFrom) for part in ast.walk(function)]
    return names not in (["self"], ["cls"]) and not function.decorator_list and not any(inside)


def _local_names(function: ast.FunctionDef) -> set[str]:
    """Parameters and assigned names of this function, without those of functions inside."""
    parts = statements_and_expressions(function.body)
    stored = {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    arguments = function.args
    star = [arg for arg in (arguments.vararg, arguments.kwarg) if arg]
    return stored | {arg.arg for arg in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *star]}


def _passed_on(function: ast.FunctionDef) -> str:
    """The parameters, as a call of the same function has them."""
    arguments = function.args
    words = [arg.arg for arg in [*arguments.posonlyargs, *arguments.args]]
    words += [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    words += [f"{arg.arg}={arg.arg}" for arg in arguments.kwonlyargs]
    return ", ".join(words + ([f"**{arguments.kwarg.arg}"] if arguments.kwarg else []))


def reorder_everything(text: str) -> str:
    """The definitions of the module and the methods of each class in the opposite order."""
    tree = ast.parse(reorder_functions(text))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            node.body = [entry for entry in node.body if not isinstance(entry, ast.FunctionDef)] + [
                entry for entry in node.body if isinstance(entry, ast.FunctionDef)
            ][::-1]
    properties = "@property" in text and ".setter" in text  # a setter has to follow its property
    return reorder_functions(text) if properties else ast.unparse(tree)


def wrap_functions(text: str) -> str:
    """Each function only calls another one that has its code; each class only inherits from one that has its code."""
    tree, body = ast.parse(text), []
    for node in tree.body:
        body.append(node)
        if isinstance(node, ast.FunctionDef) and _is_plain(node):
            call = f"def {node.name}({ast.unparse(node.args)}):\n    return _do_{node.name}({_passed_on(node)})"
            node.name = f"_do_{node.name}"
            body += _statements(call)
        elif isinstance(node, ast.ClassDef) and not node.decorator_list and "super(" not in ast.unparse(node):
            body += _statements(f"class {node.name}(_Base{node.name}):\n    pass")
            node.name = f"_Base{node.name}"
    tree.body = body
    return ast.unparse(tree)


class _Extract(ast.NodeTransformer):
    """The right side of each assignment in a function moves into a function (or a lambda) that is called once."""

    def __init__(self, as_lambda: bool) -> None:
        self.as_lambda, self.number, self.helpers = as_lambda, count(), []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        local = _local_names(node)
        for statement in statements_and_expressions(node.body):
            if not isinstance(statement, ast.Assign | ast.Return) or statement.value is None:
                continue
            parts = list(ast.walk(statement.value))
            if (
                len(parts) < 6
                or any(isinstance(part, ast.NamedExpr | ast.Yield | ast.YieldFrom | ast.Lambda) for part in parts)
                or "super(" in ast.unparse(statement.value)
            ):
                continue
            words = dict.fromkeys(
                part.id
                for part in parts
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load) and part.id in local
            )
            name, code = f"_part_{next(self.number)}", ast.unparse(statement.value)
            if self.as_lambda:
                statement.value = _expression(f"(lambda {', '.join(words)}: {code})({', '.join(words)})")
            elif "self" not in words and "cls" not in words:
                self.helpers += _statements(f"def {name}({', '.join(words)}):\n    return {code}")
                statement.value = _expression(f"{name}({', '.join(words)})")
        return node

    def visit_Module(self, node: ast.Module) -> ast.AST:
        self.generic_visit(node)
        node.body += self.helpers
        return node


def extract_helpers(text: str) -> str:
    return _edit(text, _Extract(as_lambda=False))


def extract_lambdas(text: str) -> str:
    return _edit(text, _Extract(as_lambda=True))


def split_into_helpers(text: str) -> str:
    """The second half of each function moves into a function that is called once, at its end."""
    tree, helpers = ast.parse(text), []
    for node in tree.body:
        if (
            not isinstance(node, ast.FunctionDef)
            or not _is_plain(node)
            or len(node.body) < 3
            or any(isinstance(part, ast.Nonlocal | ast.Global) for part in ast.walk(node))
        ):
            continue
        half = len(node.body) // 2
        rest = ast.FunctionDef(
            f"_rest_of_{node.name}",
            ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]),
            node.body[half:],
            [],
            lineno=1,
        )
        before = {
            part.id
            for statement in node.body[:half]
            for part in ast.walk(statement)
            if isinstance(part, ast.Name | ast.FunctionDef) and isinstance(getattr(part, "ctx", None), ast.Store)
        }
        before |= {statement.name for statement in node.body[:half] if isinstance(statement, ast.FunctionDef)}
        given = before | {arg.arg for arg in ast.walk(node.args) if isinstance(arg, ast.arg)}
        used = [
            name
            for name in sorted(given)
            if any(
                isinstance(part, ast.Name) and part.id == name
                for statement in rest.body
                for part in ast.walk(statement)
            )
        ]
        rest.args.args = [ast.arg(name) for name in used]
        helpers.append(rest)
        node.body = [
            *node.body[:half],
            *_statements(f"def f():\n    return _rest_of_{node.name}({', '.join(used)})")[0].body,
        ]
    tree.body += helpers
    return ast.unparse(ast.fix_missing_locations(tree))


class _Loops(ast.NodeTransformer):
    """List comprehensions with one `for` become loops, and loops that only append become list comprehensions."""

    def __init__(self) -> None:
        self.number = count()

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and not isinstance(node, ast.ClassDef | ast.Module):
                setattr(node, field, self._change(block))
        return node

    def _change(self, block: list[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for statement in block:
            match statement:
                case ast.For(
                    target=target,
                    iter=source,
                    body=[ast.Expr(ast.Call(ast.Attribute(ast.Name(id=name), "append"), [value]))],
                    orelse=[],
                ) if found and ast.unparse(found[-1]) == f"{name} = []":
                    found[-1] = ast.Assign(
                        [ast.Name(name, ast.Store())],
                        ast.ListComp(value, [ast.comprehension(target, source, [], 0)]),
                        lineno=1,
                    )
                    continue
                case ast.Assign() | ast.Return() | ast.Expr() | ast.AnnAssign() if statement.value is not None:
                    for part in [part for part in ast.walk(statement.value) if isinstance(part, ast.Call)]:
                        for place, made in enumerate(part.args):
                            part.args[place] = self._loop(made, found)
                    statement.value = self._loop(statement.value, found)
            found.append(statement)
        return found

    def _loop(self, made: ast.expr, found: list[ast.stmt]) -> ast.expr:
        if not isinstance(made, ast.ListComp) or len(made.generators) != 1:
            return made
        name, [one] = f"made_{next(self.number)}", made.generators
        line = f"{name}.append({ast.unparse(made.elt)})"
        line = f"if {' and '.join(f'({ast.unparse(test)})' for test in one.ifs)}:\n        {line}" if one.ifs else line
        found += _statements(f"{name} = []\nfor {ast.unparse(one.target)} in {ast.unparse(one.iter)}:\n    {line}")
        return ast.Name(name, ast.Load())


def exchange_loops(text: str) -> str:
    return _edit(text, _Loops())


class _DeadCode(ast.NodeTransformer):
    """Statements that change nothing, at every place of a function, and functions that nothing calls."""

    def __init__(self) -> None:
        self.number = count()

    def _dead(self) -> list[ast.stmt]:
        number = next(self.number)
        lines = [
            f"note_{number} = {number} * 3 + 1", f"if False:\n    print(sum([{number}, 2, 3]) * 5)", "pass", f"'step {number}'",
            f"assert True, {number}", f"size_{number} = len(str({number}))\nother_{number} = size_{number} + 7", "while 0:\n    break",
        ]  # fmt: skip
        return _statements(lines[number % len(lines)])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.body = [part for statement in node.body for part in (*self._dead(), statement)]
        if isinstance(node.body[-1], ast.Return):
            node.body += _statements("total = 0\nfor i in range(9):\n    total += i * i\nraise ValueError(total)")
        return node

    def visit_Module(self, node: ast.Module) -> ast.AST:
        self.generic_visit(node)
        unused = "def _unused_{0}(a, b):\n    c = [a * {0} + i for i in range(b) if i % 3]\n    return sorted(c)[::2] + [len(c), max(c) - min(c)]"
        node.body = [
            part
            for place, entry in enumerate(node.body)
            for part in (entry, *(_statements(unused.format(place)) if isinstance(entry, Definition) else ()))
        ]
        node.body += _statements("VERSION = 3\nif __name__ == '__main__':\n    print('my own work')")
        return node


def add_dead_code(text: str) -> str:
    return _edit(text, _DeadCode())


class _Types(ast.NodeTransformer):
    """Every annotation goes; every function gets other ones."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        return ast.Assign([node.target], node.value, lineno=1) if node.value else None

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        [target] = node.targets[:1]
        return (
            ast.AnnAssign(target, _expression("object"), node.value, 1)
            if isinstance(target, ast.Name) and len(node.targets) == 1
            else node
        )

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.returns = _expression("'object | None'")
        for arg in node.args.args:
            arg.annotation = None if arg.annotation else _expression("object")
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [
            self.visit(entry) if isinstance(entry, ast.FunctionDef) else entry for entry in node.body
        ]  # fields of a dataclass stay
        return node


def change_types(text: str) -> str:
    return _edit(text, _Types())


class _Merge(ast.NodeTransformer):
    """Two assignments in a row that do not use each other become one of a tuple."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        place = 0
        while place + 1 < len(node.body):
            match node.body[place : place + 2]:
                case [
                    ast.Assign(targets=[ast.Name() | ast.Attribute() as a], value=first),
                    ast.Assign(targets=[ast.Name() | ast.Attribute() as b], value=second),
                ] if ast.unparse(a) not in ast.unparse(second):
                    node.body[place : place + 2] = [
                        ast.Assign([ast.Tuple([a, b], ast.Store())], ast.Tuple([first, second], ast.Load()), lineno=1)
                    ]
            place += 1
        return node


def merge_lines(text: str) -> str:
    """Also `a = 1; b = 2` on one line."""
    tree = _Types().visit(ast.parse(text))  # an annotated assignment cannot be merged
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body = [
                ast.Assign([part.target], part.value, lineno=1) if isinstance(part, ast.AnnAssign) else part
                for part in node.body
            ]
    lines: list[str] = []
    for line in ast.unparse(ast.fix_missing_locations(_Merge().visit(tree))).splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        simple = (
            " = " in line
            and line.rstrip()[-1] not in ":([{,"
            and not line.lstrip().startswith(("@", "def", "for", "if", "return", "with", "class"))
        )
        if (
            simple
            and indent
            and lines
            and lines[-1].startswith(indent)
            and lines[-1][len(indent) :][0] != " "
            and " = " in lines[-1]
            and lines[-1][-1] != ":"
            and '"""' not in lines[-1]
        ):
            lines[-1] += "; " + line.strip()
        else:
            lines.append(line)
    return "\n".join(lines)


class _IfTrue(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        half = len(node.body) // 2
        inner = ast.If(ast.Constant(True), node.body[half:], _statements("raise RuntimeError('never')"))
        node.body = [*node.body[:half], inner] if half else [inner]
        return node


def add_if_true(text: str) -> str:
    """The second half of each function is below `if True`, and the definitions are, too."""
    changed = _edit(text, _IfTrue())
    tree = ast.parse(changed)
    first = next(place for place, node in enumerate(tree.body) if isinstance(node, Definition))
    tree.body[first:] = [ast.If(_expression("not False"), tree.body[first:], [])]
    return ast.unparse(tree) if any(isinstance(node, ast.ImportFrom) for node in tree.body[:first]) else changed


def use_lambdas(text: str) -> str:
    """Functions that only return something become lambdas, and so do parts of the others."""
    tree = ast.parse(extract_lambdas(text))
    for place, node in enumerate(tree.body):
        match node:
            case ast.FunctionDef(body=[ast.Return(value=ast.expr() as value)]) if _is_plain(node):
                for arg in [part for part in ast.walk(node.args) if isinstance(part, ast.arg)]:
                    arg.annotation = None
                tree.body[place] = ast.Assign(
                    [ast.Name(node.name, ast.Store())], ast.Lambda(node.args, value), lineno=1
                )
    return ast.unparse(ast.fix_missing_locations(tree))


def put_into_class(text: str) -> str:
    """Every function is a method of a class, half of them static, and its name an alias."""
    tree, methods, aliases, rest = ast.parse(text), [], [], []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and _is_plain(node):
            if len(methods) % 2:
                node.decorator_list = [_expression("staticmethod")]
                aliases += _statements(f"{node.name} = Toolbox.{node.name}")
            else:
                node.args.args.insert(0, ast.arg("self"))
                aliases += _statements(f"{node.name} = Toolbox().{node.name}")
            methods.append(node)
        else:
            rest.append(node)
    first = next((place for place, node in enumerate(rest) if isinstance(node, Definition)), len(rest))
    around = [ast.ClassDef("Toolbox", [], [], methods, []), *aliases] if methods else []
    return ast.unparse(ast.fix_missing_locations(ast.Module([*rest[:first], *around, *rest[first:]], [])))


class _Names(ast.NodeTransformer):
    """Each larger argument of a call gets a name in a line of its own, and so does each result."""

    def __init__(self) -> None:
        self.number = count()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        body: list[ast.stmt] = []
        for statement in node.body:
            match statement:
                case ast.Return(value=ast.expr() as value) | ast.Assign(value=value) if not isinstance(
                    value, ast.Name | ast.Constant
                ):
                    if isinstance(value, ast.Call) and not any(
                        isinstance(part, ast.NamedExpr) for part in ast.walk(value)
                    ):
                        for place, argument in enumerate(value.args):
                            if isinstance(argument, ast.Call | ast.BinOp | ast.Attribute):
                                body.append(self._name(argument))
                                value.args[place] = ast.Name(body[-1].targets[0].id, ast.Load())
                    body.append(self._name(value))
                    statement.value = ast.Name(body[-1].targets[0].id, ast.Load())
            body.append(statement)
        node.body = body
        return node

    def _name(self, value: ast.expr) -> ast.Assign:
        return ast.Assign([ast.Name(f"step_{next(self.number)}", ast.Store())], value, lineno=1)


def name_every_step(text: str) -> str:
    return _edit(text, _Names())


class _Operands(ast.NodeTransformer):
    """`a + b` becomes `b + a`, `a * b` becomes `b * a`, and `a < b` becomes `b > a`."""

    SWAPPED = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE, ast.Eq: ast.Eq, ast.NotEq: ast.NotEq}

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Add | ast.Mult):
            node.left, node.right = node.right, node.left
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) == 1 and type(node.ops[0]) in self.SWAPPED:
            node.left, node.ops, node.comparators = (
                node.comparators[0],
                [self.SWAPPED[type(node.ops[0])]()],
                [node.left],
            )
        return node


def swap_operands(text: str) -> str:
    return _edit(text, _Operands())


class _Choices(ast.NodeTransformer):
    """A conditional expression on the right of an assignment or a `return` becomes an `if` with an `else`."""

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if not isinstance(node.value, ast.IfExp):
            return node
        targets, choice = node.targets, node.value
        return ast.If(
            choice.test, [ast.Assign(targets, choice.body, lineno=1)], [ast.Assign(targets, choice.orelse, lineno=1)]
        )

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if not isinstance(node.value, ast.IfExp):
            return node
        return ast.If(node.value.test, [ast.Return(node.value.body)], [ast.Return(node.value.orelse)])


def write_out_choices(text: str) -> str:
    return _edit(text, _Choices())


class _Conditions(ast.NodeTransformer):
    """Dead code below a condition that has to be computed, and an assertion that is a real one."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        dead = _statements("if len('abc') > 3:\n    raise ValueError([number * 2 for number in range(3)])")
        node.body = [part for statement in node.body for part in (*dead, statement)]
        return node


def add_computed_conditions(text: str) -> str:
    return _edit(text, _Conditions())


def _several(*changes: Callable[[str], str]) -> Callable[[str], str]:
    def change(text: str) -> str:
        for one in changes:
            text = one(text)
        return text

    return change


DISGUISES: dict[str, Callable[[str], str]] = {
    "renamed variables": rename_variables,
    "statements exchanged": change_statements,
    "definitions and methods reordered": reorder_everything,
    "functions and classes wrapped": wrap_functions,
    "parts in helpers": extract_helpers,
    "halves in helpers": split_into_helpers,
    "loops for comprehensions": exchange_loops,
    "dead code": add_dead_code,
    "comments": change_comments,
    "types": change_types,
    "merged lines": merge_lines,
    "if True": add_if_true,
    "lambdas": use_lambdas,
    "a class around": put_into_class,
    "a name for every step": name_every_step,
    "seven at once": _several(exchange_loops, change_statements, extract_helpers, add_dead_code, add_if_true, rename_variables, change_comments),
    "wrapped seven times": _several(split_into_helpers, wrap_functions, add_dead_code, put_into_class, change_types, rename_variables, change_comments),
}  # fmt: skip

# These make a difference: the operation is another one, or only somebody who runs the code can see that it is the same.
PARTLY_SEEN: dict[str, Callable[[str], str]] = {
    "operands swapped": swap_operands,
    "if and else for conditional expressions": write_out_choices,
    "dead code below computed conditions": add_computed_conditions,
}
