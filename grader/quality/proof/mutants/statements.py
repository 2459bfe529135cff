"""Changes to one statement: removed, its condition replaced by a constant, its `with` or `finally` removed, half of its return value dropped."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from grader.quality.proof.mutants.expressions import without_ends
from grader.quality.proof.mutants.places import Change, Places

AUGMENTED = {ast.Add: ["-=", "="], ast.Sub: ["+=", "="], ast.Mult: ["/=", "="], ast.BitOr: ["&=", "="]}
SYMBOLS = {ast.Add: "+=", ast.Sub: "-=", ast.Mult: "*=", ast.BitOr: "|="}


def of_statement(node: ast.stmt, places: Places) -> Iterator[Change]:
    """All changes to the statement as such; its children are changed separately."""
    match node:
        case ast.FunctionDef():
            yield from _function(node, places)
        case ast.Expr(value=ast.Constant()):
            pass  # a docstring
        case ast.Expr() | ast.Raise() | ast.Break() | ast.Continue():
            yield places.change(node, "pass")
        case ast.AugAssign():
            yield places.change(node, "pass")
            for other in AUGMENTED.get(type(node.op), []):
                yield places.change(node, places.source(node).replace(SYMBOLS[type(node.op)], other, 1))
        case ast.If() | ast.While():
            decided = ("True", "False") if isinstance(node, ast.If) else ("False",)
            yield from (places.change(node.test, word) for word in decided)
        case ast.For():
            yield from without_ends(node.iter, places)
            yield places.change(node, "pass")
        case ast.With():
            opening = Change(places.span(node)[0], places.span(node.items[-1].context_expr)[1], "if True")
            yield opening
        case ast.Try(handlers=[], finalbody=[first, *_]):
            yield from _unprotected(node, first, places)
        case ast.Return(value=ast.Tuple(elts=[one, other])):
            yield places.change(node, f"return {places.source(one)}")
            yield places.change(node, f"return {places.source(other)}")


def _unprotected(node: ast.Try, first: ast.stmt, places: Places) -> Iterator[Change]:
    """Execute the `finally` part only if no error was raised."""
    start, end = places.span(node)
    word = places.text.rindex("finally:", start, places.span(first)[0])
    changed = "if True:" + places.text[start + len("try:") : word] + "if True:" + places.text[word + len("finally:") : end]
    yield Change(start, end, changed)


def _function(node: ast.FunctionDef, places: Places) -> Iterator[Change]:
    for decorator in node.decorator_list:
        at = places.span(decorator)[0] - 1
        yield Change(at, places.span(decorator)[1], "# ")
    bound = {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
    for statement in _own(node.body):
        if isinstance(statement, ast.Assign):
            names = [leaf.id for target in statement.targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name) and isinstance(leaf.ctx, ast.Store)]
            if set(names) <= bound:  # without the assignment the names are still defined
                yield places.change(statement, "pass")
            bound |= set(names)
        elif isinstance(statement, ast.Return) and statement.value and node.returns:
            yield from _cut_off(statement.value, places.source(node.returns), places)


def _own(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a function in order, including nested ones, without those of inner functions."""
    for statement in body:
        yield statement
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            for field in ("body", "orelse", "finalbody"):
                yield from _own(getattr(statement, field, []))


def _cut_off(value: ast.expr, kind: str, places: Places) -> Iterator[Change]:
    """Return a tensor without its gradient."""
    if kind == "Tensor":
        yield places.change(value, f"{places.tight(value)}.detach()")
    elif kind.startswith("tuple[Tensor") and isinstance(value, ast.Tuple):
        for part in value.elts:
            if not (isinstance(part, ast.Constant) and part.value is None):
                yield places.change(part, f"{places.tight(part)}.detach()")
