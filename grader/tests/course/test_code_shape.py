"""Of an exercise that is begun, the report says what is written and what is still to do; of one whose `def` was changed, how the stub has it."""

import pytest
from grader.course.code_shape import describe_changed_def, describe_written
from grader.course.stubs import reference_stub
from grader.course.syllabus import load_syllabus

INIT = "        # TODO 1: create the parameters `weight` and `bias`, and store eps\n        raise NotImplementedError\n"
SOFTMAX = "def softmax(x, dim=-1):\n    '''Words.'''\n"


def test_nothing_is_said_of_a_stub():
    for exercise in load_syllabus().exercises:
        assert describe_written(reference_stub(exercise.module), exercise.name) == "", exercise.name


def test_a_class_with_one_method_written():
    stub = reference_stub("ch05_layers")
    begun = stub.replace(INIT, "        self.weight = nn.Parameter(torch.ones(d_model))\n", 1)
    assert begun != stub
    assert describe_written(begun, "LayerNorm") == "`__init__` is written; `forward` is not implemented yet."
    assert describe_written(begun, "RMSNorm") == ""
    left = stub.replace(INIT, f"        self.eps = eps\n{INIT}", 1)
    line = left[: left.index("self.eps = eps")].count("\n") + 3
    said = f"`__init__` has code, but line {line} still raises NotImplementedError: remove that line when the code is complete; `forward` is not implemented yet."
    assert describe_written(left, "LayerNorm") == said


def test_a_function_whose_raise_was_left():
    assert describe_written(SOFTMAX + "    e = x.exp()\n    raise NotImplementedError\n", "softmax").startswith("softmax has code, but line 4 still raises")
    for text in (SOFTMAX + "    raise NotImplementedError\n", SOFTMAX + "    return x\n", SOFTMAX + "    pass\n    raise NotImplementedError('x')\n", "def f(:", ""):
        assert describe_written(text, "softmax") == ""


def test_what_is_begun_below_an_if_is_described_too():
    begun = "if True:\n    class LayerNorm:\n        def __init__(self):\n            self.x = 1\n        def forward(self, x):\n            raise NotImplementedError\n"
    assert describe_written(begun, "LayerNorm") == "`__init__` is written; `forward` is not implemented yet."
    softmax = "try:\n    def softmax(x):\n        e = x.exp()\n        raise NotImplementedError\nexcept ImportError:\n    raise\n"
    assert describe_written(softmax, "softmax").startswith("softmax has code, but line 4 still raises")


STUB = """\
def scores(x, mask=None, *, scale=1.0):
    raise NotImplementedError
class Layer:
    def __init__(self, width: int, eps: float = 1e-5) -> None:
        raise NotImplementedError
"""


@pytest.mark.parametrize(
    "parameters",
    ["mask, x, *, scale=1.0", "x, mask, *, scale=1.0", "x, *, mask=None, scale=1.0", "x, m=None, *, scale=1.0", "x, mask=None", "x, mask=None, *, scale=2.0",
     "x, more, mask=None, scale=1.0", "x, mask=None, *, scale=1.0, more"],
)  # fmt: skip
def test_a_def_that_cannot_be_called_as_the_stubs_is_shown_the_stubs(parameters):
    said = "Your `def` of scores differs from the stub's: `def scores(x, mask=None, *, scale=1.0)`."
    assert describe_changed_def(f"def scores({parameters}):\n    return x\n", STUB, "scores") == said


@pytest.mark.parametrize(
    "parameters", ["x: Tensor, mask: Tensor | None = None, *, scale=1", "x, mask=None, scale=1.0", "x, mask=None, more=2, *, scale=1.0", "*args, **options", "x, mask=NOTHING, *, scale=ONE"]
)
def test_nothing_is_said_of_a_def_that_can_be_called_alike(parameters):
    assert describe_changed_def(f"def scores({parameters}):\n    return x\n", STUB, "scores") == ""


def test_a_method_and_what_cannot_be_compared():
    changed = STUB.replace("width: int, ", "")
    assert describe_changed_def(changed, STUB, "Layer") == "Your `def` of Layer.__init__ differs from the stub's: `def __init__(self, width, eps=1e-05)`."
    for text in (STUB, "", "def (", "Layer = 3", "class Layer(Base):\n    pass\n"):
        assert describe_changed_def(text, STUB, "Layer") == ""
    for exercise in load_syllabus().exercises:
        assert describe_changed_def(reference_stub(exercise.module), reference_stub(exercise.module), exercise.name) == ""
