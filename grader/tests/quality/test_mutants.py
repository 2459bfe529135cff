"""The mechanical mutants: each kind of change is made, and a mutant's result is what its suite decides."""

import ast
import textwrap

import pytest
from grader.course.syllabus import load_syllabus
from grader.execution.target import reference_of
from grader.tests.quality.proof.mutants import classify, explanations, try_mutants
from grader.tests.quality.proof.mutator import Mutant, mutants
from grader.tests.quality.proof.running import parsed, parser

HEAD = "import math\n\nimport torch\n\n\n"
EXPRESSIONS = {  # an expression → some of the expressions that may stand in its place
    "x - y * 2": "x + y * 2; x; y * 2; y * 2 - x; x - y / 2; x - y * 3; x - y * 0",
    "(x + y) @ y": "(x - y) @ y; (x + y) * y; y @ (x + y); x @ y; x + y",
    "x < y": "x <= y; x >= y",
    "0 < x <= y": "0 <= x <= y; 0 < x < y; 1 < x <= y",
    "x is None or not y": "x is None and not y; x is not None or not y; x is None; x is None or y",
    "0.5 * x": "1.0 * x; 0.0 * x",
    "x == 'rope' and True": "x == 'ropex' and True; x == 'rope' and False; x != 'rope' and True",
    "x.sum(dim=-1)": "x.sum(dim=-2); x.sum(dim=0); x.sum(dim=1); x.sum(); x; x.mean(dim=-1)",
    "x.transpose(1, 2)": "x.transpose(2, 1); x.transpose(1, 3); x.transpose(1); x",
    "torch.sin(x)": "torch.cos(x); x",
    "torch.where(mask, x, y)": "torch.where(x, mask, y); torch.where(mask, y, x); torch.where(mask, x); mask",
    "x[:-1, y]": "x; x[1:-1, y]; x[:, y]; x[:-2, y]; x[:0, y]; x[y, :-1]",
    "x[2:]": "x[:]; x[2:-1]; x[3:]",
    "[i for i in range(2, y) if i in x]": (
        "[i for i in range(2, y) if True]; [i for i in range(2, y - 1) if i in x]; "
        "[i for i in range(2, y) if i not in x]; [i for i in range(y, 2) if i in x]"
    ),
    "(x, y)": "x; y; (y, x)",
    "x if y else None": "x; None",
    "self.ln(x)": "x",
}
STATEMENTS = [
    ("x = x + 1\nreturn x", ["pass\nreturn x"]),
    ("if y:\n    raise ValueError('y')", ["if True:\n    raise ValueError('y')", "if y:\n    pass"]),
    ("if y:\n    return y\nreturn x", ["if False:\n    return y\nreturn x"]),
    ("for i in x:\n    y += i", ["for i in list(x)[1:]:\n    y += i", "pass", "for i in x:\n    y -= i"]),
    ("with torch.no_grad():\n    return x", ["if True:\n    return x"]),
    (
        "try:\n    return x()\nfinally:\n    y()",
        [
            "if True:\n    if True:\n        return x()\n    if True:\n        y()",
            "try:\n    return x()\nfinally:\n    pass",
        ],
    ),
]


def changes(body, signature="f(x, y, mask=None)"):
    """The function with this body, once for each change; returns only what changed in the body."""
    text = HEAD + f"def {signature}:\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n"
    found = mutants(text, "f")
    for mutant in found:
        compile(mutant.in_chapter(text), "chapter", "exec")
    return [textwrap.dedent(mutant.text.partition("\n")[2]).strip() for mutant in found]


def plain(code):
    return ast.unparse(ast.parse(code))


RETURNS = [(f"return {one}", [f"return {new}" for new in new.split("; ")]) for one, new in EXPRESSIONS.items()]


@pytest.mark.parametrize(("body", "some"), [*RETURNS, *STATEMENTS])
def test_each_kind_of_change_is_made(body, some):
    found, wanted = changes(body), set(map(plain, some))
    assert wanted <= set(found), f"{sorted(wanted - set(found))} are not among {found}"
    assert len(found) == len(set(found))


def test_a_result_that_is_a_tensor_is_also_given_without_gradient():
    assert "return (x + y).detach()" in changes("return x + y", "f(x, y) -> Tensor")
    assert "return (x, y.detach())" in changes("return x, y", "f(x, y) -> tuple[Tensor, Tensor]")
    assert not any("detach" in found for found in changes("return x + y", "f(x, y) -> float"))


def test_messages_and_docstrings_are_not_changed():
    body = """
    '''Says 1 + 1.'''
    z: dict[str, "Pair"] = x  # 2 of them
    if z:
        raise ValueError(f"{y + 1} is not 'good'")
    return z
    """
    same, error = plain(textwrap.dedent(body)), """raise ValueError(f"{y + 1} is not 'good'")"""
    edited = [same.replace("if z", "if True"), same.replace("if z", "if False"), same.replace(error, "pass")]
    assert changes(body, "f(x: 'a', y: 'b') -> 'c'") == edited


def test_what_python_compiles_to_the_same_is_no_change():
    slices = ["x", "x[:2]", "x[0:]", "x[1:2]", "x[-1:2]", "x[0:3]", "x[0:1]", "x[0:0]"]
    assert changes("return x[0:2]") == [f"return {each}" for each in slices]
    assert changes("return max(x, x)") == ["return max(x)", "return x", "return min(x, x)"]


def test_a_change_is_identified_by_its_line_and_not_by_its_number():
    text = HEAD + "def f(x):\n    x = x + 1  # first\n    x = x + 1\n    return x\n"
    first = [mutant.key for mutant in mutants(text, "f")]
    moved = mutants(text.replace("def f(x):\n", 'def f(x):\n    """New words."""\n'), "f")
    assert first == [mutant.key for mutant in moved] and len(set(first)) == len(first)
    assert ("f", "x = x + 1", "x + 1 -> x - 1") in first and ("f", "x = x + 1", "x + 1 -> x - 1 #2") in first


@pytest.fixture(scope="module")
def met():
    """merge_heads, which consists of two calls: its own mutants, and three that cannot survive."""
    exercise = load_syllabus().exercise("merge_heads")
    bad = {
        "loops": "    while True:\n        pass\n",
        "eats memory": "    return torch.zeros(1 << 40)\n",
        "dies": "    import ctypes\n    ctypes.string_at(0)\n",
    }
    strange = [Mutant(exercise.name, 1, "", name, f"def merge_heads(x):\n{body}") for name, body in bad.items()]
    changed = mutants(reference_of(exercise.module).text, exercise.name) + strange
    found = try_mutants({exercise: changed}, parsed(parser("mutants", ""), ["-j", "1"]))
    return exercise, found[exercise]


@pytest.mark.thorough
def test_mutants_run_against_the_suite(met):
    exercise, found = met
    ends = {each.mutant.edit: each for each in found}
    assert len(found) > 8
    assert not ends["x.transpose(1, 2) -> x.transpose(2, 1)"].by
    assert ends["x.transpose(1, 2) -> x"].outcome == "failed"
    assert ends["x.transpose(1, 2) -> x"].by.startswith("test_")
    assert [ends[name].outcome for name in ("loops", "eats memory", "dies")] == ["timeout", "failed", "error"]


@pytest.mark.thorough
def test_survivors_are_explained_and_stale_explanations_are_found(met):
    exercise, found = met
    known = {key: why for key, why in explanations(exercise.module).items() if key[0] == exercise.name}
    classified = classify(exercise, found, known)
    total, caught, equivalent, unexplained = classified.numbers
    assert (total, unexplained, classified.stale) == (len(found), 0, []) and caught + equivalent == total
    survivor = classified.equivalent[0]
    assert classify(exercise, found, {**known, survivor.key: " "}).unexplained == [survivor]
    caught = next(each.mutant.key for each in found if each.by)
    wrong = {caught: "it is not equivalent", (exercise.name, "return y", "y -> x"): "it was once"}
    stale = classify(exercise, found, known | wrong).stale
    assert len(stale) == 2 and "which test_" in stale[0] and "there is no such change" in stale[1]
