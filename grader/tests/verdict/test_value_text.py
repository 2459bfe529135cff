"""The text of any value is narrow, short, harmless and quick to compute."""

from __future__ import annotations

import torch
from grader.verdict.value_text import WIDTH, first_difference, format_value
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)
dtypes = st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64])


@st.composite
def tensors(draw) -> Tensor:
    shape = draw(st.lists(st.integers(0, 6), max_size=5))
    tensor = torch.randn(shape, generator=torch.Generator().manual_seed(draw(st.integers(0, 99)))) * 10 ** draw(st.floats(-20, 20))
    tensor = tensor.clamp(-100, 100).to(draw(dtypes)) if draw(st.booleans()) else tensor
    if tensor.numel() and tensor.is_floating_point():
        tensor.view(-1)[0] = draw(st.floats(width=16))
    return tensor


@settings(max_examples=60, deadline=None)
@given(st.one_of(plain, tensors(), st.lists(plain | tensors(), max_size=4), st.dictionaries(st.text(), tensors() | plain, max_size=4)))
def test_any_value_is_narrow_and_harmless(value):
    text = format_value(value)
    lines = text.split("\n")
    assert text and len(lines) < 60
    for line in lines:
        assert len(line) <= WIDTH
        assert line.isprintable()


def test_small_tensors_whole_and_aligned():
    assert format_value(torch.tensor([[0.25, -1.5], [10.0, 3.14159]])) == "[[ 0.25, -1.50],\n [10.00,  3.14]]"
    assert format_value(torch.arange(8).view(2, 2, 2)) == "[[[0, 1],\n  [2, 3]],\n [[4, 5],\n  [6, 7]]]"
    assert format_value(torch.tensor([[0.0, -torch.inf], [torch.nan, 1]])) == "[[   0, -inf],\n [ nan,    1]]"
    assert format_value(torch.ones(2, 2, dtype=torch.bool).tril()) == "[[ True, False],\n [ True,  True]]"
    assert format_value(torch.tensor([[0.5, 0.00004], [0.25, 0.0]])) == "[[0.5000,  4e-05],\n [0.2500, 0.0000]]"
    assert format_value(torch.tensor(3.14159)) == "3.142"
    assert format_value(torch.zeros(0, 3)) == "an empty tensor (0, 3) float32"


def test_large_tensors_are_summarised():
    x = torch.zeros(10, 20)
    x[0, 0], x[0, 1], x[3, 3] = torch.nan, torch.inf, 198
    assert format_value(x) == "tensor (10, 20) float32: mean 1, std 14.04, min 0, max 198, 1 NaN, 1\ninfinite"
    assert format_value(torch.ones(20, 20, dtype=torch.bool).tril()) == "tensor (20, 20) bool: 210 of 400 True"
    assert format_value(torch.arange(12), limit=4).startswith("tensor (12,) int64: mean 5.5")


def test_strings_are_escaped():
    assert format_value("a\x1b[31mb\nc") == r"'a\x1b[31mb\nc'"
    assert format_value("\u202eab\u2028") == r"'\u202eab\u2028'"
    assert format_value("naïve 猫") == "'naïve 猫'"

    class Handle:
        def __repr__(self) -> str:
            return "\x1b]0;title\x07Linear(\n  3)"

    assert format_value(Handle()) == r"\x1b]0;title\x07Linear(\n  3)"


def test_containers():
    text = format_value({"output": torch.tensor([1.0, 2.0]), "weights": torch.zeros(30, 30), "n": 3})
    assert text.startswith("dict of 3:\n  'output': [1, 2]\n  'weights': tensor (30, 30) float32: mean 0")
    assert format_value((torch.tensor([1.0, 2.0]), None)) == "tuple of 2:\n  [0]: [1, 2]\n  [1]: None"
    assert format_value([1, 2.5, "x", (3,), {}]) == "[1, 2.5, 'x', (3,), {}]"
    assert format_value({(97, 98): 256}) == "{(97, 98): 256}"
    assert format_value(list(range(1000))).endswith("...\n(1000 in all)]")
    assert "and 2 more" in format_value([torch.zeros(5, 5) for _ in range(6)])


def test_odd_and_huge_objects():
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    class Sly(torch.Tensor):
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert format_value(Broken()) == "<Broken whose repr raises RuntimeError>"
    assert format_value(torch.ones(2).as_subclass(Sly)) == "[1, 1]"
    assert format_value(torch.empty(2, 3, device="meta")) == "tensor (2, 3) float32 on the device meta, which stores no values"
    assert format_value(10**1000) == "an integer of 3322 bits"
    loop: list = []
    loop.append(loop)
    for value in (loop, "x" * 10**6, b"x" * 10**6, list(range(10**5)), {i: i for i in range(10**5)}, torch.zeros(1000, 1000), [torch.ones(3)] * 10**4):
        assert len(format_value(value)) < 2000


def test_first_difference():
    x = torch.zeros(3, 4, 5)
    x[:] = torch.arange(60.0).view(3, 4, 5) / 100
    y = x.clone()
    y[1, 0, 2:] += 0.42
    assert first_difference(y, x, 1e-5) == "first differs at [1, 0, 2]: got 0.64, expected 0.22; 3 of 60 values differ, by at most 0.42"
    assert first_difference(x, x.clone(), 1e-5) == ""
    y = x.clone()
    y[2, 3, 4] = 0.6
    assert first_difference(y, x, 1e-5) == "first differs at [2, 3, 4]: got 0.6, expected 0.59; 1 of 60 values differs, by 0.01"
    y[2, 3, 4] = 0.59003
    assert "got 0.59003, expected 0.59;" in first_difference(y, x, 1e-5)
    assert first_difference(torch.tensor([1, 2]), torch.tensor([1, 3]), 0.0) == "first differs at [1]: got 2, expected 3; 1 of 2 values differs, by 1"
    assert "True, expected False; 1 of 2" in first_difference(torch.tensor([True, True]), torch.tensor([True, False]), 0.0)
    assert first_difference(torch.tensor(torch.nan), torch.tensor(1.0), 1e-5) == "differs: got nan, expected 1"
    assert first_difference(x[0], x, 1e-5) == "the shapes differ: got (4, 5), expected (3, 4, 5)"
    assert first_difference(x.double() + 1e-9, x, 0.0) == ""


@given(tensors(), tensors())
def test_first_difference_of_anything(a, b):
    text = first_difference(a, b, 1e-5)
    assert "\n" not in text and len(text) < 200
