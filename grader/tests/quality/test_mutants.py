"""The mechanical mutants: each kind of change is correct, and a mutant's result is what its suite decides."""

import textwrap

import pytest
from grader.course.syllabus import load_syllabus
from grader.execution.target import reference_of
from grader.quality.proof.mutants.edits import Mutant, mutants
from grader.quality.proof.mutants.explained import classify, explanations
from grader.quality.proof.mutants.running import try_all

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
        ("try:\n    return x()\nfinally:\n    y()", ["if True:\n    return x()\nif True:\n    y()", "try:\n    return x()\nfinally:\n    pass"]),
        ("return self.ln(x)", ["return x"]),
    ],
)  # fmt: skip
def test_each_kind_of_change_is_made(body, some):
    found = changes(body)
    assert set(some) <= set(found), f"{sorted(set(some) - set(found))} are not among {found}"
    assert len(found) == len(set(found))


def test_a_result_that_is_a_tensor_is_also_given_without_gradient():
    assert "return (x + y).detach()" in changes("return x + y", "f(x, y) -> Tensor")
    assert "return x, y.detach()" in changes("return x, y", "f(x, y) -> tuple[Tensor, Tensor]")
    assert not any("detach" in found for found in changes("return x + y", "f(x, y) -> float"))


def test_messages_and_docstrings_are_not_changed():
    body = """
    '''Says 1 + 1.'''
    z: dict[str, "Pair"] = x  # 2 of them
    if z:
        raise ValueError(f"{y + 1} is not 'good'")
    return z
    """
    assert changes(body, "f(x: 'a', y: 'b') -> 'c'") == [
        textwrap.dedent(body).strip().replace("if z", "if True"),
        textwrap.dedent(body).strip().replace("if z", "if False"),
        textwrap.dedent(body).strip().replace("""raise ValueError(f"{y + 1} is not 'good'")""", "pass"),
    ]


def test_what_python_compiles_to_the_same_is_no_change():
    assert changes("return x[0:2]") == ["return x", "return x[:2]", "return x[0:]", "return x[1:2]", "return x[-1:2]", "return x[0:3]", "return x[0:1]", "return x[0:0]"]
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
    ((_, found),) = try_all({exercise: mutants(reference_of(exercise.module).text, exercise.name) + strange}, fresh=True, processes=1)
    return exercise, found


def test_mutants_run_against_the_suite(met):
    exercise, found = met
    ends = {each.mutant.edit: each for each in found}
    assert len(found) > 8
    assert not ends["1, 2 -> 2, 1"].caught
    assert ends["x.transpose(1, 2) -> x"].outcome == "failed"
    assert ends["x.transpose(1, 2) -> x"].by.startswith("test_")
    assert (ends["loops"].outcome, ends["eats memory"].outcome, ends["dies"].outcome) == ("timeout", "failed", "died")


def test_survivors_are_explained_and_stale_explanations_are_found(met):
    exercise, found = met
    known = {key: why for key, why in explanations(exercise.module).items() if key[0] == exercise.name}
    classified = classify(exercise, found, known)
    assert classified.fine and classified.caught + len(classified.equivalent) == classified.total == len(found)
    survivor = classified.equivalent[0].mutant
    assert [each.mutant.key for each in classify(exercise, found, {**known, survivor.key: " "}).unexplained] == [survivor.key]
    caught = next(each.mutant for each in found if each.caught)
    stale = classify(exercise, found, {**known, caught.key: "it is not", (exercise.name, "return y", "y -> x"): "it was once"}).stale
    assert len(stale) == 2
    assert "which test_" in stale[0] and "there is no such change" in stale[1]
