"""`headway measure`: a learner repeats the lessons' measured tables."""

import ast

import pytest
from grader.cli.commands.measure import MEASUREMENTS, known

pytestmark = pytest.mark.thorough

TOY = '''"""Measure a toy.

More about it.
"""
import sys

if __name__ == "__main__":
    print("measured", sys.argv[1:])
    sys.exit(3)
'''


def test_every_measurement_is_listed_with_what_it_measures(kit):
    out = " ".join(kit.run("measure").split())
    for name, path in known().items():
        first = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).partition("\n")[0]
        assert f"{name} {first}" in out
    assert "headway measure NAME" in out and "extrapolation" in known()


def test_a_measurement_is_run_with_its_options_and_its_status_is_ours(kit):
    (kit.root / "grader" / "teaching" / "measurements" / "toy.py").write_text(TOY)
    assert "toy Measure a toy. " in " ".join(kit.run("measure").split()) and "More about it" not in kit.run("measure")
    assert "measured ['--seed', '5']" in kit.run("measure", "toy", "--seed", "5", status=3)


@pytest.mark.parametrize(
    ("name", "said"),
    [("extrapolatoin", "did you mean extrapolation?"), ("xyzzy", "`headway measure` lists them all"), ("__init__", "no measurement")],
)
def test_an_unknown_name_is_one_sentence(kit, name, said):
    assert said in kit.run("measure", name, status=2)


@pytest.mark.parametrize("path", known().values(), ids=lambda path: path.stem)
def test_every_measurement_says_what_it_is_and_can_be_run(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(tree) and path.parent == MEASUREMENTS
    assert any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body)
    assert '__name__ == "__main__"' in path.read_text(encoding="utf-8")


def test_the_help_of_a_measurement_is_its_own(kit):
    said = " ".join(kit.run("measure", "scores", "--help").split())
    assert said.startswith("usage: headway measure scores [-h] [--seed SEED]") and "Lesson 3" in said
    assert kit.run("measure", "-h") == kit.run("measure", "--help") != kit.run("measure", "cache", "-h")
    assert "headway measure NAME --help" in kit.run("measure", "--help")
