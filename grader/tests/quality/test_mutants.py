"""The mechanical mutants: each kind of change is correct, and a mutant's result is what its suite decides."""

import ast
import textwrap

import pytest
from grader.course.syllabus import load_syllabus
from grader.execution.target import reference_of
from grader.quality.proof.mutants import classify, explanations, try_mutants
from grader.quality.proof.mutator import Mutant, mutants
from grader.quality.proof.running import parsed, parser

pytestmark = pytest.mark.thorough

HEAD = "import math\n\nimport torch\n\n\n"


def changes(body, signature="f(x, y, mask=None)"):
    """The function with this body, once for each change; returns only what changed in the body."""
    text = HEAD + f"def {signature}:\n" + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n"
    found = mutants(text, "f")
    for mutant in found:
        compile(mutant.in_chapter(text), "chapter", "exec")
    return [textwrap.dedent(mutant.text.partition("\n")[2]).strip() for mutant in found]


@pytest.mark.parametrize(
    "body, some",
    [
        ("return x - y * 2", ["return x + (y * 2)", "return x", "return y * 2", "return (y * 2) - x", "return x - (y / 2)", "return x - y * 3", "return x - y * 0"]),
        ("return (x + y) @ y", ["return (x - y) @ y", "return (x + y) * y", "return y @ (x + y)", "return (x) @ y", "return x + y"]),
        ("return x < y", ["return x <= y", "return x >= y"]),
        ("return 0 < x <= y", ["return 0 <= x <= y", "return 0 < x < y", "return 1 < x <= y"]),
        ("return x is None or not y", ["return (x is None) and (not y)", "return x is not None or not y", "return x is None", "return x is None or y"]),
        ("return 0.5 * x", ["return 1.0 * x", "return 0.0 * x"]),
        ("return x == 'rope' and True", ["return x == \"ropex\" and True", "return x == 'rope' and False", "return x != 'rope' and True"]),
        ("return x.sum(dim=-1)", ["return x.sum(dim=-2)", "return x.sum(dim=0)", "return x.sum(dim=1)", "return x.sum()", "return x", "return x.mean(dim=-1)"]),
        ("return x.transpose(1, 2)", ["return x.transpose(2, 1)", "return x.transpose(1, 3)", "return x.transpose(1)", "return x"]),
        ("return torch.sin(x)", ["return torch.cos(x)", "return x"]),
        ("return torch.where(mask, x, y)", ["return torch.where(x, mask, y)", "return torch.where(mask, y, x)", "return torch.where(mask, x)", "return mask"]),
        ("return x[:-1, y]", ["return x", "return x[1:-1, y]", "return x[:, y]", "return x[:-2, y]", "return x[:0, y]", "return x[y, :-1]"]),
        ("return x[2:]", ["return x[:]", "return x[2:-1]", "return x[3:]"]),
        ("return [i for i in range(2, y) if i in x]", ["return [i for i in range(2, y) if True]", "return [i for i in range(2, y - 1) if i in x]",
                                                       "return [i for i in range(2, y) if i not in x]", "return [i for i in range(y, 2) if i in x]"]),
        ("return x, y", ["return x", "return y", "return y, x"]),
        ("return x if y else None", ["return x", "return None"]),
        ("x = x + 1\nreturn x", ["pass\nreturn x"]),
        ("if y:\n    raise ValueError('y')\nreturn x", ["if True:\n    raise ValueError('y')\nreturn x", "if y:\n    pass\nreturn x"]),
        ("if y:\n    return y\nreturn x", ["if False:\n    return y\nreturn x"]),
        ("for i in x:\n    y += i\nreturn y", ["for i in list(x)[1:]:\n    y += i\nreturn y", "pass\nreturn y", "for i in x:\n    y -= i\nreturn y"]),
        ("with torch.no_grad():\n    return x", ["if True:\n    return x"]),
        ("try:\n    return x()\nfinally:\n    y()", ["if True:\n    if True:\n        return x()\n    if True:\n        y()",
                                                        "try:\n    return x()\nfinally:\n    pass"]),
        ("return self.ln(x)", ["return x"]),
    ],
)  # fmt: skip
def test_each_kind_of_change_is_made(body, some):
    found, wanted = changes(body), {ast.unparse(ast.parse(each)) for each in some}
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
    same = ast.unparse(ast.parse(textwrap.dedent(body)))
    error = """raise ValueError(f"{y + 1} is not 'good'")"""
    edited = [same.replace("if z", "if True"), same.replace("if z", "if False"), same.replace(error, "pass")]
    assert changes(body, "f(x: 'a', y: 'b') -> 'c'") == edited


def test_what_python_compiles_to_the_same_is_no_change():
    slices = ["x", "x[:2]", "x[0:]", "x[1:2]", "x[-1:2]", "x[0:3]", "x[0:1]", "x[0:0]"]
    assert changes("return x[0:2]") == [f"return {each}" for each in slices]
    assert changes("return max(x, x)") == ["return max(x)", "return x", "return min(x, x)"]


def test_a_change_is_identified_by_its_line_and_not_by_its_number():
    text = HEAD + "def f(x):\n    x = x + 1  # first\n    x = x + 1\n    return x\n"
    first = mutants(text, "f")
    moved = mutants(text.replace("def f(x):\n", 'def f(x):\n    """New words."""\n'), "f")
    assert [mutant.key for mutant in first] == [mutant.key for mutant in moved]
    assert len({mutant.key for mutant in first}) == len(first)
    assert ("f", "x = x + 1", "x + 1 -> x - 1") in [mutant.key for mutant in first]
    assert ("f", "x = x + 1", "x + 1 -> x - 1 #2") in [mutant.key for mutant in first]


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
    changes = mutants(reference_of(exercise.module).text, exercise.name) + strange
    found = try_mutants({exercise: changes}, parsed(parser("mutants", ""), ["--fresh", "-j", "1"]))
    return exercise, found[exercise]


def test_mutants_run_against_the_suite(met):
    exercise, found = met
    ends = {each.mutant.edit: each for each in found}
    assert len(found) > 8
    assert not ends["x.transpose(1, 2) -> x.transpose(2, 1)"].by
    assert ends["x.transpose(1, 2) -> x"].outcome == "failed"
    assert ends["x.transpose(1, 2) -> x"].by.startswith("test_")
    assert [ends[name].outcome for name in ("loops", "eats memory", "dies")] == ["timeout", "failed", "error"]


def test_survivors_are_explained_and_stale_explanations_are_found(met):
    exercise, found = met
    known = {key: why for key, why in explanations(exercise.module).items() if key[0] == exercise.name}
    classified = classify(exercise, found, known)
    assert not classified.unexplained and not classified.stale and classified.caught + len(classified.equivalent) == classified.total == len(found)
    survivor = classified.equivalent[0]
    assert [each.key for each in classify(exercise, found, {**known, survivor.key: " "}).unexplained] == [survivor.key]
    caught = next(each.mutant for each in found if each.by)
    stale = classify(exercise, found, {**known, caught.key: "it is not", (exercise.name, "return y", "y -> x"): "it was once"}).stale
    assert len(stale) == 2
    assert "which test_" in stale[0] and "there is no such change" in stale[1]
