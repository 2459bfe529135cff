"""Which exercises are equal: what may differ around them, and what must not be shared. No test here runs a learner's code."""

import json
import os
import subprocess
import sys

import pytest
from grader.classroom.judging.equal_exercises import exercise_fingerprint
from grader.classroom.judging.names_in_tests import names_in_tests
from grader.classroom.judging.plain_chapter import is_plain
from grader.classroom.judging.seeds import SETS, exercise_seed, pool_of_seeds
from grader.course import source
from grader.course.known_mistakes import misconceptions
from grader.course.source import replace_definition
from grader.course.syllabus import EXERCISES, ROOT, SOLUTIONS, load_syllabus
from grader.execution.names_used import names_used
from grader.verdict.replay import text_with_mistake
from pytest_runs import environment

MODULE = "ch03_attention"
RIGHT = (SOLUTIONS / f"{MODULE}.py").read_text(encoding="utf-8")
STUBS = (EXERCISES / f"{MODULE}.py").read_text(encoding="utf-8")
OWN_SOFTMAX = """
def softmax(x, dim=-1):
    weights = helper(x, dim)
    return weights / weights.sum(dim, keepdim=True)


def helper(x, dim):
    return (x - x.amax(dim, keepdim=True)).exp()
"""


def fingerprint(text: str, name: str = "softmax") -> str | None:
    return exercise_fingerprint(text, load_syllabus().exercise(name))


def with_softmax(text: str) -> str:
    return replace_definition(RIGHT, "softmax", text.strip("\n"))


def mistaken(name: str) -> str:
    return text_with_mistake(MODULE, misconceptions(MODULE, name)[0])


def equal_exercises(one: str, other: str) -> set[str]:
    names = [exercise.name for exercise in load_syllabus().chapter("ch03").exercises]
    return {name for name in names if fingerprint(one, name) == fingerprint(other, name) is not None}


def test_a_fingerprint_does_not_depend_on_what_was_read_meanwhile():
    text = RIGHT + "\n# more\n"
    names_used(text)
    for read in (source._parse_short, source._parse_long):  # as after many other texts
        read.cache_clear()
    assert fingerprint(text) == fingerprint(RIGHT) is not None


# ---- what may differ


def test_comments_and_places_make_no_difference():
    moved = RIGHT.replace("\n\n\n", "\n\n\n# a comment\n\n\n").replace("import math\n", "import math\n\n\n\n")
    assert moved != RIGHT and fingerprint(moved) == fingerprint(RIGHT) is not None
    last = RIGHT.replace("def causal_mask", "def unused(x):\n    return x\n\n\ndef causal_mask")
    assert equal_exercises(last, RIGHT) == {exercise.name for exercise in load_syllabus().chapter("ch03").exercises}


def test_a_changed_exercise_differs_with_all_that_use_it_and_no_other():
    names = {exercise.name for exercise in load_syllabus().chapter("ch03").exercises}
    different = names - equal_exercises(mistaken("softmax"), RIGHT)
    users = {"softmax", "scaled_dot_product_attention", "SelfAttentionHead", "MultiHeadAttention", "FusedSelfAttention", "fuse_qkv", "split_qkv"}
    assert different == users
    assert names - equal_exercises(mistaken("split_qkv"), RIGHT) == {"split_qkv"}


def test_a_stub_is_equal_whatever_it_is_surrounded_by():
    begun = replace_definition(STUBS, "softmax", OWN_SOFTMAX.strip())
    assert equal_exercises(begun, STUBS) == {exercise.name for exercise in load_syllabus().chapter("ch03").exercises} - {"softmax"}


# ---- what must not be shared


@pytest.mark.parametrize(
    "old, new",
    [
        (".exp()", ".exp2()"),  # in a helper
        ("def helper(x, dim):", "def helper(x, dim=0):"),
        ("import math\n", "import math\n\nPair = Tensor[int]\n"),  # code that runs during the import
        ("import torch\n", "import torch as torch\n"),
        ("def softmax(x, dim=-1):", "@torch.no_grad()\ndef softmax(x, dim=-1):"),
        ("import math\n", "import math\n\n\ndef sum(x):\n    return 0\n\n\nabs = 3\n"),
        ("def helper", "class Base(nn.Linear):\n    pass\n\n\ndef helper"),  # an unusual base class may end the import
        ("from __future__ import annotations\n", ""),  # then annotations run
        ("def helper", "class Base(softmax):\n    pass\n\n\ndef helper"),
        ("def helper", "class Base(Other):\n    pass\n\n\nclass Other:\n    pass\n\n\ndef helper"),
        ("def helper", "TABLE = {1: unknown_so_far}\n\n\ndef unknown_so_far(x):\n    return x\n\n\ndef helper"),
        ("def helper", "HALF = 1 / 2\n\n\ndef helper"),
    ],
)
def test_a_difference_that_may_matter_is_a_difference(old, new):
    text = with_softmax(OWN_SOFTMAX)
    assert old in text and fingerprint(text) is not None
    assert fingerprint(text.replace(old, new, 1)) != fingerprint(text)


def test_a_name_that_the_tests_use_belongs_to_the_exercise():
    """The tests of fuse_qkv make a MultiHeadAttention, which fuse_qkv itself does not name."""
    assert "MultiHeadAttention" in names_in_tests(load_syllabus().exercise("fuse_qkv"))
    assert fingerprint(mistaken("MultiHeadAttention"), "fuse_qkv") != fingerprint(RIGHT, "fuse_qkv")
    defined_again = RIGHT.replace("from torch import Tensor, nn\n", "from torch import Tensor, nn\n\nclose = 1\n")
    assert fingerprint(defined_again) != fingerprint(RIGHT)


NOTING = """
import json
from grader.runner.graded_run import GradedRun

used, record_test = {}, GradedRun.record_test

def note(self, test, *arguments):
    used.setdefault(test.exercise.name, set()).update(self.trial.names)
    return record_test(self, test, *arguments)

GradedRun.record_test = note

def pytest_unconfigure():
    with open("used.json", "w") as file:
        json.dump({name: sorted(names) for name, names in used.items()}, file)
"""


@pytest.mark.thorough
def test_no_test_uses_a_name_that_its_suite_does_not_show(tmp_path):
    """All tests run on the reference, and what they ask for is compared with what is read from their text."""
    (tmp_path / "noting.py").write_text(NOTING, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "noting", "-c", ROOT / "pyproject.toml", "--rootdir", ROOT, "--target", "solutions", ROOT / "tests"]
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run(list(map(str, command)), cwd=tmp_path, env=environment(PYTHONPATH=paths), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:]
    used = json.loads((tmp_path / "used.json").read_text(encoding="utf-8"))
    assert used.keys() == {exercise.name for exercise in load_syllabus().exercises} and sum(map(len, used.values())) > 100
    shown = {name: {name, *names_in_tests(load_syllabus().exercise(name))} for name in used}
    assert {name: unknown for name, names in used.items() if (unknown := set(names) - shown[name])} == {}


def test_an_exercise_that_uses_a_later_one_is_judged_in_each_submission():
    later = replace_definition(RIGHT, "softmax", "def softmax(x, dim=-1):\n    causal_mask(3)\n    return x")
    assert fingerprint(later) is None and fingerprint(later, "causal_mask") is not None


UNUSUAL = {
    "state in a global variable": "calls = 0\n\n\ndef count():\n    global calls\n    calls += 1",
    "state in a list of the module": "seen = []\n\n\ndef note(x):\n    seen.append(x)",
    "state in a default value": "def note(x, seen=[]):\n    seen.append(x)",
    "state in a function": "def note(x):\n    softmax.last = x",
    "state of a class": "class Note:\n    seen = {}",
    "state of a class, by the object's type": "class Note:\n    def note(self, x):\n        type(self).last = x",
    "state of a class, by a variable": "class Note:\n    pass\n\n\ndef note(x):\n    kind = Note\n    kind.last = x",
    "state of a class, by an argument": "class Note:\n    pass\n\n\ndef note(kind, x):\n    kind.last = x\n\n\ndef keep(x):\n    note(Note, x)",
    "state of a class, by a class method": "class Note:\n    @classmethod\n    def note(cls, x):\n        cls.last = x",
    "state of a class, by an object's name": "class Note:\n    @classmethod\n    def note(self, x):\n        self.last = x",
    "state of a class that is given as an object": "class Note:\n    def note(self, x):\n        self.last = x\n\n\ndef keep(x):\n    Note.note(Note, x)",
    "state of a function that is called self": "def note(self, x):\n    self.last = x\n\n\ndef keep(x):\n    note(softmax, x)",
    "state of an enumeration": "from enum import Enum\n\n\nclass Kind(Enum):\n    A = 1\n\n    def note(self, x):\n        self.last = x",
    "state in a table": "TABLE = {'a': softmax}\n\n\ndef note(x):\n    TABLE['b'] = x",
    "state in a table, by a method": "TABLE = {'a': softmax}\n\n\ndef note(x):\n    TABLE.update(b=x)",
    "state in a table, by another name": "TABLE = {'a': softmax}\n\n\ndef note(x):\n    other = TABLE\n    other['b'] = x",
    "state in a table's entry": "TABLE = {'a': []}",
    "state of a function in a table": "TABLE = {'a': softmax}\n\n\ndef note(x):\n    for f in TABLE.values():\n        f.last = x",
    "an attribute set by name": "def note(kind, name, x):\n    setattr(kind, name, x)",
    "a cache": "import functools\n\n\n@functools.lru_cache\ndef table(n):\n    return torch.arange(n)",
    "torch's functions replaced": "def patch():\n    torch.exp = torch.exp2",
    "torch's functions replaced during the import": "torch.exp = torch.exp2",
    "a class of torch changed": "def patch():\n    torch.Tensor.exp = torch.Tensor.exp2",
    "a class of torch changed by another name": "def patch():\n    kind = torch.Tensor\n    kind.exp = None",
    "a class of torch changed in a loop": "def patch():\n    for kind in (torch.Tensor, nn.Linear):\n        kind.exp = None",
    "a module changed by another name": "def patch():\n    other = torch\n    other.exp = None",
    "a module changed as an argument": "def patch(module):\n    module.exp = None\n\n\ndef run():\n    patch(torch)",
    "a method deleted": "def patch():\n    del nn.Linear.forward",
    "torch's settings": "def settle():\n    torch.set_default_dtype(torch.float64)",
    "torch's settings, by an imported name": "from torch import set_default_dtype",
    "torch's settings, by a module": "def settle():\n    torch.backends.cudnn.deterministic = True",
    "torch's random numbers": "def settle():\n    torch.manual_seed(0)",
    "a hook for all modules": "def settle():\n    torch.nn.modules.module.register_module_forward_hook(print)",
    "names looked up in globals": "def find(name):\n    return globals()[name]",
    "names looked up by getattr": "def find(name):\n    return getattr(math, name)",
    "a value of the module, by a hidden attribute": "def find(name):\n    return softmax.__globals__[name]",
    "a hidden name in a text": "import operator\n\nfind = 'x.__class__'",
    "all values of a module": "def find():\n    return vars(math)",
    "code in a text": "def find(name):\n    return eval(name)",
    "an import by name": "def find(name):\n    return __import__(name)",
    "a module that can do anything": "import sys",
    "the time": "import time",
    "everything from a module": "from torch import *",
    "a metaclass": "class Note(metaclass=type):\n    pass",
    "a hook of subclasses": "class Note:\n    def __init_subclass__(cls):\n        cls.x = 1",
    "a descriptor": "class Note:\n    def __set_name__(self, owner, name):\n        owner.x = 1",
    "attributes made up": "def __getattr__(name):\n    return 1",
    "a decorator of one's own": "def twice(f):\n    return f\n\n\n@twice\ndef note(x):\n    return x",
    "a loop during the import": "for i in range(3):\n    pass",
    "a branch during the import": "if math.pi > 3:\n    size = 4",
    "a call during the import": "size = torch.arange(3)",
    "an attempt during the import": "try:\n    import math\nexcept ImportError:\n    pass",
    "a name bound twice": "def causal_mask(q_len, k_len=None):\n    return 1",
    "a name that is not defined": "def note(x):\n    return undefined(x)",
    "a text that does not compile": "return 3",
    "another thread": "import threading",
    "an asynchronous function": "async def note(x):\n    return x",
}


@pytest.mark.parametrize("addition", UNUSUAL.values(), ids=UNUSUAL)
def test_nothing_is_shared_in_an_unusual_chapter(addition):
    text = f"{RIGHT}\n\n{addition}\n"
    assert is_plain(RIGHT) and not is_plain(text) and fingerprint(text) is None


PLAIN = {
    "a helper": "def helper(x, scale=-0.5, dtype=torch.float32):\n    y = {}\n    y[1] = x\n    return [a for a in y]",
    "a constant": "SIZE = (3, -1.5)",
    "a class with an object's state": "class Note(nn.Module):\n    size: int = 3\n\n    def __init__(self, n):\n        self.seen = []\n        self.seen[0] = n",
    "a tied weight": "class Note(nn.Module):\n    def __init__(self, a, b):\n        self.a, self.b = a, b\n        self.b.weight = self.a.weight",
    "classes in a table": "def choose_layer(kind, n):\n    return {'a': nn.ReLU, 'b': nn.GELU}[kind](n)",
    "a table that is read": "def plus(x):\n    return x\n\n\nTABLE = {'a': plus, 'b': lambda x: x}\n\n\ndef choose_one(name):\n    return TABLE[name]",
    "a class method": "class Note:\n    @classmethod\n    def of(cls, x):\n        return cls()",
    "attributes with made names": "class Note(nn.Module):\n    def __init__(self):\n        for name in 'ab':\n            setattr(self, name, 1)",
    "what runs as a program only": 'if __name__ == "__main__":\n    torch.manual_seed(0)',
    "a name of a class in an error": 'def check(x):\n    if not isinstance(x, torch.Tensor):\n        raise ValueError(f"{type(x).__name__} is no tensor")',
    "a gradient set": "def step(parameters):\n    for p in parameters:\n        p.grad = None",
}


@pytest.mark.parametrize("addition", PLAIN.values(), ids=PLAIN)
def test_ordinary_code_is_shared(addition):
    text = f"{RIGHT}\n\n{addition}\n"
    assert fingerprint(text) == fingerprint(RIGHT) is not None


NOT_PLAIN = {"ch13", "ch14"}  # operators of a class of numbers; classes of torch.autograd.Function inside functions


def test_nearly_every_exercise_of_the_reference_and_every_stub_can_be_shared():
    """The exceptions use a later exercise, or their chapter does things while it is imported or used that could influence others: only its whole text is shared."""
    course = [exercise for exercise in load_syllabus().exercises]
    texts = {folder: {e.module: (folder / f"{e.module}.py").read_text(encoding="utf-8") for e in course} for folder in (SOLUTIONS, EXERCISES)}
    alone = {e.name for e in course if e.chapter not in NOT_PLAIN and exercise_fingerprint(texts[SOLUTIONS][e.module], e) is None}
    assert alone == {"next_token_pairs", "train_step", "fit"}
    assert [e.name for e in course if e.chapter not in NOT_PLAIN and exercise_fingerprint(texts[EXERCISES][e.module], e) is None] == []


# ---- seeds


def test_the_secret_and_the_content_choose_one_of_a_few_sets_of_examples():
    pool = pool_of_seeds("secret", 0, "softmax")
    chosen = [exercise_seed("secret", 0, "softmax", f"{content:064x}") for content in range(300)]
    assert set(chosen) == set(pool) and len(set(pool)) == SETS and 0 not in pool
    assert chosen == [exercise_seed("secret", 0, "softmax", f"{content:064x}") for content in range(300)]
    others = [pool_of_seeds("another secret", 0, "softmax"), pool_of_seeds("secret", 1, "softmax"), pool_of_seeds("secret", 0, "causal_mask")]
    assert all(set(pool).isdisjoint(other) for other in others)
    assert max(pool) < 2**56 + 1 and len(str(min(pool))) > 10
