"""Of an exercise that is begun, the report says what is written and what is still to do."""

from grader.course.code_shape import describe_written
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
