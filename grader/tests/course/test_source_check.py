"""What the source check finds, and what it accepts."""

import pytest
from grader.course.source import read_source
from grader.course.source_check import forbidden_calls, reference_imports
from grader.course.syllabus import SOLUTIONS, load_syllabus

FORBIDS = ("softmax", "log_softmax", "Softmax")

SHORTCUTS = {
    "called on torch": "import torch\ndef softmax(x):\n    return torch.softmax(x,-1)\n",
    "through an alias of the module": "import torch.nn.functional as F\ndef softmax(x):\n    return F.softmax(x,-1)\n",
    "imported under another name": "from torch.nn.functional import softmax as s\ndef softmax(x):\n    return s(x,-1)\n",
    "through nn": "from torch import nn\ndef softmax(x):\n    return nn.functional.softmax(x,-1)\n",
    "the module class": "from torch import nn\ndef softmax(x):\n    return nn.Softmax(-1)(x)\n",
    "an assignment at the top": """\
import torch
s = torch.softmax
def softmax(x):
    return s(x,-1)
""",
    "assigned and not written": "import torch\nsoftmax = torch.softmax\n",
    "imported and not written": "from torch import softmax\n",
    "imported inside": """\
def softmax(x):
    import torch as t
    f = t.special
    return f.softmax(x,-1)
""",
    "in a helper function": """\
import torch
def _h(x):
    return torch.softmax(x,-1)
def softmax(x):
    return _h(x)
""",
    "in a helper class": """\
import torch
class H:
    def go(self, x):
        return torch.log_softmax(x,-1)
def softmax(x):
    return H().go(x).exp()
""",
    "in a constant": """\
from torch import nn
S = nn.Softmax(dim=-1)
def softmax(x):
    return S(x)
""",
    "below a condition that is sometimes true": "import torch\ndef softmax(x, check=False):\n    if check:\n        return torch.softmax(x, -1)\n    return x\n",
    "below a condition that is always true": "import torch\ndef softmax(x):\n    if 1:\n        return torch.softmax(x, -1)\n    return x\n",
    "beside a return": "import torch\ndef softmax(x):\n    if x is None:\n        return x\n    return torch.softmax(x, -1)\n",
    "as a method of torch.Tensor": "import torch\ndef softmax(x):\n    return torch.Tensor.softmax(x,-1)\n",
    "through torch.ops": "import torch\ndef softmax(x):\n    return torch.ops.aten._softmax.default(x,-1,False)\n",
    "through partial": """\
import torch, functools
sm = functools.partial(torch.softmax, dim=-1)
def softmax(x):
    return sm(x)
""",
    "in a lambda": "import torch\nsoftmax = lambda x, dim=-1: torch.softmax(x, dim)\n",
    "as a default": "import torch\ndef softmax(x, f=torch.softmax):\n    return f(x)\n",
    "as a base class": "from torch import nn\nclass softmax(nn.Softmax): pass\n",
    "patched in afterwards": "from torch import nn\nclass softmax(nn.Module): pass\nsoftmax.forward = nn.Softmax.forward\n",
    "in a decorator": """\
import torch
def w(f):
    return torch.softmax
@w
def softmax(x): pass
""",
    "from another library": "from scipy.special import softmax as z\ndef softmax(x): return z(x)\n",
    "after a star import": "from torch.nn.functional import *\ndef softmax(x): return log_softmax(x).exp()\n",
    "in a comprehension": "import torch\ndef softmax(x): return [torch.softmax(y) for y in x]\n",
    "in a method": "import torch\nclass softmax:\n    def f(self): return torch.softmax\n",
    "in a nested function": """\
import torch
def softmax(x):
    def g():
        return torch.softmax(x)
    return g()
""",
    "annotated alias": "import torch\nt: object = torch\ndef softmax(x): return t.softmax(x)\n",
    "unpacked": "import torch\na, b = torch.softmax, 3\ndef softmax(x): return a(x)\n",
}

HONEST = {
    "own code with the word in strings and comments": """\
import torch
def softmax(x):
    '''torch.softmax'''
    # torch.softmax
    e = torch.exp(x)
    return e/e.sum()
""",
    "a method of the same name": "class softmax:\n    def softmax(self, x): return x\n    def forward(self, x): return self.softmax(x)\n",
    "the exercise itself": "import torch\ndef softmax(x): return softmax(x)\n",
    "imported and used elsewhere only": """\
import torch
from torch.nn.functional import softmax as s
def other(x): return s(x)
def softmax(x): return x
""",
    "from an earlier chapter": "from .ch02 import softmax as s\ndef softmax(x): return s(x)\n",
    "from an earlier chapter, absolutely": "from ch03_attention import softmax as s\ndef softmax(x): return s(x)\n",
    "shadowed by the learner's own": """\
import torch
from torch.nn.functional import softmax
def softmax(x): return x
def g(): return softmax(1)
""",
    "a parameter that hides the module": """\
import torch.nn.functional as F
class K:
  def softmax(self): pass
def softmax(x, F=None): return F.softmax(x)
""",
    "an annotation": """\
from torch import nn
def softmax(x: nn.Softmax) -> nn.Softmax:
    y: nn.Softmax = x
    return y
""",
    "a question about a type": "from torch import nn\ndef softmax(x):\n    return isinstance(x, nn.Softmax)\n",
    "a string": "def softmax(x): return 'torch.softmax(x)'\n",
    "a module that does not parse": "def softmax(x:\n",
    "a local variable of the same name": """\
import torch
def softmax(x):
    softmax = x.exp()
    return softmax
""",
    "below a condition that is always false": """\
import torch
def softmax(x):
    if False:
        return torch.softmax(x, -1)
    return torch.softmax(x) if 0 else x
""",
    "behind a return": """\
import torch
def softmax(x):
    for y in x:
        continue
        torch.softmax(y, -1)
    return x
    return torch.softmax(x, -1)
""",
    "a helper that only such code calls": "import torch\ndef h(x): return torch.softmax(x)\ndef softmax(x):\n    while None:\n        h(x)\n    return x\n",
    "own code after a star import": "from torch.nn.functional import *\ndef softmax(x): return x\ndef h(x): return softmax(x)\n",
}


@pytest.mark.parametrize("text", SHORTCUTS.values(), ids=SHORTCUTS)
def test_a_shortcut_is_found(text):
    (sentence, *_) = forbidden_calls(text, "softmax", FORBIDS)
    assert sentence.startswith("line ") and sentence.endswith("this exercise is to be solved without it")


@pytest.mark.parametrize("text", HONEST.values(), ids=HONEST)
def test_honest_code_is_accepted(text):
    assert forbidden_calls(text, "softmax", FORBIDS) == []


def test_the_sentence_names_the_line_and_the_helper():
    text = SHORTCUTS["in a helper function"]
    assert forbidden_calls(text, "softmax", FORBIDS) == ["line 3 (in _h) uses torch.softmax; this exercise is to be solved without it"]
    renamed = SHORTCUTS["imported under another name"]
    assert "line 3 uses s (torch.nn.functional.softmax)" in forbidden_calls(renamed, "softmax", FORBIDS)[0]


def test_only_what_is_forbidden_is_forbidden():
    assert forbidden_calls(SHORTCUTS["called on torch"], "softmax", ()) == []
    assert forbidden_calls(SHORTCUTS["called on torch"], "softmax", ("logsumexp",)) == []


OWN_NAMES = {
    "a function that is called like torch's": "import torch\ndef gelu_backward(x, g):\n    return g * x\ndef outer(x):\n    return gelu_backward(x, x)\n",
    "imported from an earlier chapter": "from .ch13_backward import gelu_backward\ndef outer(x):\n    return gelu_backward(x, x)\n",
    "an attribute and a method": "class outer:\n    def __init__(self):\n        self.grad = 0.0\n    def backward(self):\n        self.grad += 1.0\n",
    "a method of an object of its own": "def outer(node):\n    node.backward()\n    return node.grad\n",
    "a parameter and a variable": "def outer(grad, func):\n    backward = func(grad)\n    return backward\n",
}
OF_TORCH = {
    "an operator of the same name": "import torch\ndef outer(x):\n    return torch.ops.aten.gelu_backward(x, x)\n",
    "imported instead of written": "from torch._C._nn import gelu_backward\ndef outer(x):\n    return gelu_backward(x, x)\n",
    "autograd": "import torch\ndef outer(x):\n    return torch.autograd.grad(x.sum(), x)\n",
    "a method through its class": "import torch\ndef outer(x):\n    torch.Tensor.backward(x)\n",
}


@pytest.mark.parametrize("text", OWN_NAMES.values(), ids=OWN_NAMES)
def test_a_name_of_torch_may_be_the_learners_own(text):
    assert forbidden_calls(text, "outer", ("gelu_backward", "autograd", "backward", "grad", "func")) == []


@pytest.mark.parametrize("text", OF_TORCH.values(), ids=OF_TORCH)
def test_the_same_name_is_found_where_it_comes_from_torch(text):
    assert forbidden_calls(text, "outer", ("gelu_backward", "autograd", "backward", "grad", "func")) != []


def test_another_exercise_is_checked_by_its_own_code():
    text = "import torch\ndef softmax(x):\n    return torch.softmax(x)\ndef mask(n):\n    return torch.ones(n)\n"
    assert forbidden_calls(text, "mask", FORBIDS) == []


@pytest.mark.parametrize("module", [chapter.name for chapter in load_syllabus().chapters if (SOLUTIONS / f"{chapter.name}.py").exists()])
def test_the_reference_takes_no_shortcut(module):
    text = read_source(SOLUTIONS / f"{module}.py")
    assert reference_imports(text) == ()
    for exercise in load_syllabus().chapter(module).exercises:
        assert forbidden_calls(text, exercise.name, exercise.forbids) == []


@pytest.mark.parametrize(
    "text",
    [
        "import solutions\n",
        "import solutions.ch03_attention as s\n",
        "from solutions.ch03_attention import softmax\n",
        "from ..solutions import ch03_attention\n",
        "from . import solutions\n",
        "from grader.verdict.comparing import close\n",
        "import strategies\n",
        "from masks import causal\n",
        "from test_ch03_attention import tensor\n",
        "from exercises.ch01_tokenizer import build_vocab\n",
        "def f():\n    import solutions\n",
        "import importlib\ndef f(n):\n    return importlib.import_module('solutions.' + n)\n",
        "from importlib import import_module as im\nim('tests.test_ch03_attention')\n",
        "def f(n):\n    return __import__(f'solutions.{n}')\n",
    ],
)
def test_importing_the_answer_is_found(text):
    (sentence,) = reference_imports(text)
    assert sentence.startswith("line ") and " imports " in sentence


@pytest.mark.parametrize(
    "text",
    ["from .ch01_tokenizer import build_vocab\n", "from . import ch01_tokenizer\n", "import torch\n", "x = 'import solutions'\n", "def (\n"],
)
def test_other_imports_are_accepted(text):
    assert reference_imports(text) == ()


DOUBLED = "".join(f"a{i + 1} = a{i} or a{i}\n" for i in range(200))
CHAIN = "".join(f"a{i + 1} = a{i}\n" for i in range(4000))
CIRCLES = "".join(f"    a{i} = a{(7 * i + 1) % 500} or a{(5 * i + 2) % 500} or torch\n" for i in range(500))
NAMES = ",".join(f"a{i}" for i in range(3000))
HARD_TO_FOLLOW = {
    "two meanings at each step": f"a0 = torch\n{DOUBLED}def softmax(x):\n    return a200.softmax(x, -1)\n",
    "a long chain": f"a0 = torch\n{CHAIN}def softmax(x):\n    return a4000.softmax(x, -1)\n",
    "circles": f"def softmax(x):\n{CIRCLES}    return a1.softmax(x, -1)\n",
    "assigned often": "def softmax(x):\n    f = torch\n" + "    f = f.nn or f\n" * 3000 + "    return f.softmax(x, -1)\n",
    "a statement of many names": f"{NAMES} = torch.softmax, *range(2999)\ndef softmax(x):\n    return {NAMES}\n",
    "an expression that cannot be written": "def softmax(x):\n    return torch.softmax if 0x" + "f" * 9000 + " else 0\n",
}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in HARD_TO_FOLLOW.items()])
def test_names_that_are_hard_to_follow_are_read_in_time(text):
    """They may be missed here; the check at run time sees every call."""
    assert all(len(sentence) < 500 for sentence in forbidden_calls("import torch\n" + text, "softmax", FORBIDS))
