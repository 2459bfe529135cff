"""What the source check finds, and what it accepts."""

import pytest
from grader.course.source_check import forbidden_calls, reference_imports

FORBIDS = ("softmax", "log_softmax", "Softmax")

SHORTCUTS = {
    "called on torch": "import torch\ndef softmax(x):\n    return torch.softmax(x,-1)\n",
    "through an alias of the module": "import torch.nn.functional as F\ndef softmax(x):\n    return F.softmax(x,-1)\n",
    "imported under another name": "from torch.nn.functional import softmax as s\ndef softmax(x):\n    return s(x,-1)\n",
    "the module class": "from torch import nn\ndef softmax(x):\n    return nn.Softmax(-1)(x)\n",
    "an assignment at the top": """\
import torch
s = torch.softmax
def softmax(x):
    return s(x,-1)
""",
    "imported and not written": "from torch import softmax\n",
    "in a helper function": """\
import torch
def _h(x):
    return torch.softmax(x,-1)
def softmax(x):
    return _h(x)
""",
    "below a condition that is sometimes true": "import torch\ndef softmax(x, check=False):\n    if check:\n        return torch.softmax(x, -1)\n    return x\n",
    "below a condition that is always true": "import torch\ndef softmax(x):\n    if 1:\n        return torch.softmax(x, -1)\n    return x\n",
    "beside a return": "import torch\ndef softmax(x):\n    if x is None:\n        return x\n    return torch.softmax(x, -1)\n",
    "through torch.ops": "import torch\ndef softmax(x):\n    return torch.ops.aten._softmax.default(x,-1,False)\n",
    "in a lambda": "import torch\nsoftmax = lambda x, dim=-1: torch.softmax(x, dim)\n",
    "as a default": "import torch\ndef softmax(x, f=torch.softmax):\n    return f(x)\n",
    "as a base class": "from torch import nn\nclass softmax(nn.Softmax): pass\n",
    "in a decorator": """\
import torch
def w(f):
    return torch.softmax
@w
def softmax(x): pass
""",
    "from another library": "from scipy.special import softmax as z\ndef softmax(x): return z(x)\n",
    "in a method": "import torch\nclass softmax:\n    def f(self): return torch.softmax\n",
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
    "a module that does not parse": "def softmax(x:\n",
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
    "an attribute and a method": "class outer:\n    def __init__(self):\n        self.grad = 0.0\n    def backward(self):\n        self.grad += 1.0\n",
}
OF_TORCH = {
    "imported instead of written": "from torch._C._nn import gelu_backward\ndef outer(x):\n    return gelu_backward(x, x)\n",
    "autograd": "import torch\ndef outer(x):\n    return torch.autograd.grad(x.sum(), x)\n",
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


@pytest.mark.parametrize(
    "text",
    [
        "import solutions\n",
        "from solutions.ch03_attention import softmax\n",
        "from ..solutions import ch03_attention\n",
        "from . import solutions\n",
        "from grader.verdict.comparing import close\n",
        "import strategies\n",
        "from test_ch03_attention import tensor\n",
        "from exercises.ch01_tokenizer import build_vocab\n",
        "import importlib\ndef f(n):\n    return importlib.import_module('solutions.' + n)\n",
        "from importlib import import_module\nimport_module('tests.test_ch03_attention')\n",
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


def test_an_import_in_a_try_is_found_also_where_the_except_defines_the_name():
    text = "try:\n    from torch import softmax\nexcept ImportError:\n    def softmax(x, dim): return x\n\ndef head(x):\n    return softmax(x, -1)\n"
    assert forbidden_calls(text, "softmax", ["softmax"]) == ["line 2 uses softmax; this exercise is to be solved without it"]
    assert forbidden_calls(text, "head", ["softmax"]) == ["line 7 uses softmax; this exercise is to be solved without it"]
    own = text.replace("from torch import softmax", "def softmax(x, dim): return x")
    assert forbidden_calls(own, "head", ["softmax"]) == []


def test_a_definition_that_is_replaced_is_not_read_wherever_it_is():
    text = "import torch\nif True:\n    def weights(x): return torch.softmax(x, -1)\n    def head(x): return weights(x)\n"
    assert len(forbidden_calls(text, "head", ["softmax"])) == 1
    assert forbidden_calls(text, "head", ["softmax"], without={"weights"}) == []
    assert len(forbidden_calls(text + "    def other(x): return torch.softmax(x, 0)\n    head = lambda x: other(x)\n", "head", ["softmax"], without={"weights"})) == 1
