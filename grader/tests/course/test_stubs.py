"""Solutions become stubs, and no learner's work is lost."""

import ast
import importlib
import sys

import pytest
from grader.course.source import SourceProblem, definition
from grader.course.stubs import (
    check_stubs,
    fingerprint,
    modified_chapters,
    read_fingerprints,
    reference_stub,
    stub_text,
    write_stubs,
)
from grader.course.syllabus import SOLUTIONS, load_syllabus

MODULES = [chapter.name for chapter in load_syllabus().chapters if (SOLUTIONS / f"{chapter.name}.py").exists()]

SOLUTION = '''"""Adding.

More about it.
"""

import math


### BEGIN SOLUTION
def _helper():
    return math.pi


### END SOLUTION
def add(a, b):
    """The sum."""
    # TODO 1: add
    ### BEGIN SOLUTION
    if a:
        return a + b
    return b
    ### END SOLUTION


class Counter:
    def __init__(self):
        # TODO 1: start at 0
        ### BEGIN SOLUTION
        self.n = 0
        ### END SOLUTION

    def count(self):
        # TODO 2: one more
        ### BEGIN SOLUTION
        self.n += 1
        return self.n
        ### END SOLUTION
'''


@pytest.fixture
def folders(tmp_path):
    exercises, solutions = tmp_path / "exercises", tmp_path / "solutions"
    exercises.mkdir()
    solutions.mkdir()
    (solutions / "ch01_adding.py").write_text(SOLUTION)
    return exercises, solutions


def write(folders):
    return write_stubs(*folders, modules=["ch01_adding", "ch02_missing"])


def check(folders):
    return check_stubs(*folders, modules=["ch01_adding", "ch02_missing"])


def test_blocks_become_not_implemented_and_steps_stay():
    stub = stub_text(SOLUTION, "ch01_adding")
    assert "SOLUTION" not in stub and "_helper" not in stub and "self.n" not in stub
    assert definition(stub, "add").text == 'def add(a, b):\n    """The sum."""\n    # TODO 1: add\n    raise NotImplementedError\n'
    assert stub.count("        raise NotImplementedError\n") == 2 and "# TODO 2: one more" in stub
    assert "import math" in stub and "\n\n\n\n" not in stub


def test_the_stub_says_what_to_do():
    docstring = ast.get_docstring(ast.parse(stub_text(SOLUTION, "ch01_adding")))
    assert docstring.startswith("Adding.\n\nMore about it.\n\nWrite your own code") and "ch01_adding.md" in docstring
    assert "Write your own code" in ast.get_docstring(ast.parse(stub_text("x = 1\n", "ch01_adding")))
    assert "Write your own code" in ast.get_docstring(ast.parse(stub_text('"""Short."""\nx = 1\n', "ch01_adding")))


def test_the_stub_states_the_rules_that_all_tests_check():
    """Dtype and gradients only if tensors are involved, the state dict only if there is a module."""
    with_tensors = SOLUTION + "\n\nimport torch\n"
    with_a_module = with_tensors + "from torch import nn\n\n\nclass Adder(nn.Module):\n    size = 1\n"
    texts = (SOLUTION, with_tensors, with_a_module)
    docstrings = [" ".join(ast.get_docstring(ast.parse(stub_text(text, "ch01_adding"))).split()) for text in texts]
    rules = {
        "Do not change an argument in place": (True, True, True),
        'raise ValueError(f"d_model = {d_model} is not possible with n_heads = {n_heads}")': (True, True, True),
        "Compute float64 input in float64": (False, True, True),
        "Gradients reach every input": (False, True, True),
        "persistent=False": (False, False, True),
    }
    for rule, stated in rules.items():
        assert tuple(rule in docstring for docstring in docstrings) == stated, rule


def test_line_ends_of_the_solution_do_not_matter():
    crlf = SOLUTION.replace("\n", "\r\n")
    assert stub_text(crlf, "ch01_adding") == stub_text(SOLUTION, "ch01_adding")
    assert fingerprint(crlf) == fingerprint(SOLUTION)


@pytest.mark.parametrize(
    ("solution", "words"),
    [
        ("def f():\n    ### BEGIN SOLUTION\n    return 1\n", "line 2: ### BEGIN SOLUTION without ### END"),
        ("def f():\n    return 1\n    ### END SOLUTION\n", "line 3: ### END SOLUTION without ### BEGIN"),
        ("def f():\n    ### BEGIN SOLUTION\n    ### BEGIN SOLUTION\n", "line 3: ### BEGIN SOLUTION inside the block that begins in line 2"),
        ("class A:\n    ### BEGIN SOLUTION\n    def f(self): pass\n    ### END SOLUTION\n", "outside its methods"),
        ("def f(:\n", "the stub of ch01_adding.py, line 1"),
    ],
)
def test_marks_that_do_not_pair_are_named_with_their_line(solution, words):
    with pytest.raises(SourceProblem, match=words):
        stub_text(solution, "ch01_adding")


def test_a_stub_is_written_once_then_unchanged(folders):
    assert [outcome.state for outcome in write(folders)] == ["written"]
    assert check(folders) == []
    assert [outcome.state for outcome in write(folders)] == ["unchanged"]
    assert modified_chapters(["ch01_adding"], folders[0]) == []


def test_a_new_solution_reaches_an_untouched_stub(folders):
    write(folders)
    (folders[1] / "ch01_adding.py").write_text(SOLUTION.replace("TODO 1: add", "TODO 1: add both"))
    assert "is older than its solution" in check(folders)[0]
    assert [outcome.state for outcome in write(folders)] == ["written"]
    assert check(folders) == [] and "add both" in (folders[0] / "ch01_adding.py").read_text()


def test_a_checkout_with_other_line_ends_is_still_untouched(folders):
    write(folders)
    path = folders[0] / "ch01_adding.py"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert check(folders) == [] and modified_chapters(["ch01_adding"], folders[0]) == []


@pytest.mark.parametrize("work", [b"def add(a, b):\n    return a + b\n", b"def (", b"\xff\xfe"])
def test_a_learners_code_is_never_overwritten(folders, work):
    write(folders)
    path = folders[0] / "ch01_adding.py"
    path.write_bytes(work)
    for solution in (SOLUTION, SOLUTION.replace("TODO 1", "TODO 9")):
        (folders[1] / "ch01_adding.py").write_text(solution)
        outcome = write(folders)[0]
        assert outcome.state == "kept" and "was edited" in outcome.sentence
        assert path.read_bytes() == work
        assert len(check(folders)) == 1
    assert modified_chapters(["ch01_adding"], folders[0]) == ["ch01_adding"]


def test_without_a_lock_nothing_is_overwritten(folders):
    write(folders)
    (folders[0] / ".stubs.toml").write_text("this is = = no toml")
    (folders[1] / "ch01_adding.py").write_text(SOLUTION.replace("TODO 1", "TODO 9"))
    assert read_fingerprints(folders[0]) == {}
    assert write(folders)[0].state == "kept"


def test_a_missing_stub_and_a_broken_solution_are_one_sentence_each(folders):
    assert "is missing" in check(folders)[0]
    (folders[1] / "ch01_adding.py").write_text("    ### END SOLUTION\n")
    assert write(folders)[0].state == "failed"
    assert not (folders[0] / "ch01_adding.py").exists()


def test_every_stub_of_the_course_can_be_imported_first(tmp_path, monkeypatch):
    (tmp_path / "stubs_to_import").mkdir()
    for module in MODULES:
        (tmp_path / "stubs_to_import" / f"{module}.py").write_text(reference_stub(module), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for module in MODULES:
        for name in [name for name in sys.modules if name.startswith("stubs_to_import.")]:
            del sys.modules[name]
        importlib.import_module(f"stubs_to_import.{module}")
