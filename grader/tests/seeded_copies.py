"""Honest courses to compare, and copies of code as somebody makes them who wants to hide that it is a copy."""

from __future__ import annotations

import ast
from collections.abc import Callable

from grader.classroom.intake.submissions import Submission
from grader.course.chapter_source import Definition
from grader.course.syllabus import ROOT

HONEST = ROOT / "grader" / "tests" / "honest"


def honest_courses() -> dict[str, dict[str, str]]:
    """Style → chapter → text."""
    folders = [folder for folder in sorted(HONEST.iterdir()) if any(folder.glob("ch*.py"))]
    return {folder.name: {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("ch*.py"))} for folder in folders}


def a_submission(name: str, sources: dict[str, str], group: str = "") -> Submission:
    return Submission(name, sources, digest=repr(sorted(sources.items())), group=group)


def rename_variables(text: str) -> str:
    """Every local name and parameter of a function gets another name; helper functions of the module, too."""
    tree = ast.parse(text)
    known = {node.name for node in tree.body if isinstance(node, Definition) and not node.name.startswith("_")}
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        bound = {part.arg for part in ast.walk(function) if isinstance(part, ast.arg)}
        bound |= {part.id for part in ast.walk(function) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        names = {name: f"v{number}" for number, name in enumerate(sorted(bound - known - {"self", "cls"}))}
        for part in ast.walk(function):
            if isinstance(part, ast.Name) and part.id in names:
                part.id = names[part.id]
            elif isinstance(part, ast.arg) and part.arg in names:
                part.arg = names[part.arg]
    return ast.unparse(tree)


def reorder_functions(text: str) -> str:
    """The definitions of the module in the opposite order, after everything else."""
    tree = ast.parse(text)
    definitions = [node for node in tree.body if isinstance(node, Definition)]
    tree.body = [node for node in tree.body if not isinstance(node, Definition)] + definitions[::-1]
    return ast.unparse(tree)


def change_comments(text: str) -> str:
    """Other comments, other docstrings, other empty lines; the code is the same."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.body.insert(0, ast.Expr(ast.Constant(f"What {node.name} does, in my own words.")))
            node.returns = ast.Name("object")
    lines = []
    for number, line in enumerate(ast.unparse(ast.fix_missing_locations(tree)).splitlines()):
        indent = line[: len(line) - len(line.lstrip())]
        lines += [f"{indent}# step {number}", line] if number % 4 == 3 and line.strip() and '"""' not in line else [line]
    return "\n\n".join(lines) + "\n"


class _Statements(ast.NodeTransformer):
    """`x += 1` becomes `x = x + 1` and the other way round; two assignments in a row that do not use each other change places."""

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if not isinstance(node.target, ast.Name):
            return node
        return ast.Assign([node.target], ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value), lineno=node.lineno)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        body, place = node.body, 0
        while place + 1 < len(body):
            first, second = body[place : place + 2]
            if isinstance(first, ast.Assign) and isinstance(second, ast.Assign) and _are_independent(first, second):
                body[place : place + 2] = [second, first]
                place += 1
            place += 1
        return node


def _are_independent(first: ast.Assign, second: ast.Assign) -> bool:
    def names(node: ast.AST, context: type) -> set[str]:
        return {ast.unparse(part) for part in ast.walk(node) if isinstance(part, ast.Name | ast.Attribute) and isinstance(part.ctx, context)}

    stored = names(first, ast.Store), names(second, ast.Store)
    return not (stored[0] & (names(second, ast.Load) | stored[1]) or stored[1] & names(first, ast.Load))


def change_statements(text: str) -> str:
    return ast.unparse(ast.fix_missing_locations(_Statements().visit(ast.parse(text))))


def do_everything(text: str) -> str:
    return change_comments(reorder_functions(rename_variables(change_statements(text))))


CHANGES: dict[str, Callable[[str], str]] = {
    "renamed variables": rename_variables,
    "reordered functions": reorder_functions,
    "changed comments": change_comments,
    "changed statements": change_statements,
    "all of these": do_everything,
}
