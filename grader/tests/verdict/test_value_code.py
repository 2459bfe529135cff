"""A value printed as code evaluates to exactly this value."""

import math

import pytest
import torch
from grader.execution.proxy import Call
from grader.verdict.explanation import VALUE_COLUMNS, call_lines
from grader.verdict.value_text import NotCode, number_texts, value_code
from hypothesis import given
from hypothesis import strategies as st

SPACE = {"torch": torch, "math": math}
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_keep_every_bit(dtype):
    generator = torch.Generator().manual_seed(0)
    wide = torch.randn(2_000, generator=generator, dtype=torch.float64) * torch.exp(torch.randn(2_000, generator=generator, dtype=torch.float64) * 8)
    numbers = wide.to(dtype)
    numbers = numbers[numbers.isfinite()]
    assert torch.equal(torch.tensor([eval(text) for text in number_texts(numbers)], dtype=dtype), numbers)


def test_the_fewest_digits_are_written():
    assert value_code(torch.tensor([0.1, -2.5, 3.0])) == "torch.tensor([0.1, -2.5, 3.0])"
    assert value_code(torch.tensor([0.1], dtype=torch.float16)) == "torch.tensor([0.1], dtype=torch.float16)"


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor(2.5), torch.tensor([[1, 2], [3, 4]]), torch.tensor([True, False]), torch.zeros(3, 5), torch.ones(9, dtype=torch.int32), torch.empty(2, 0),
        torch.tensor([-0.0, math.inf, -math.inf]), torch.tensor([1 + 2j]), torch.full((6,), -0.0),
        [1, (2.5,), {"a": {1, 2}}, None, -math.inf, "it's\n", b"x", torch.float16, slice(1, None), torch.device("cpu"), (), set()],
    ],
    ids=str,
)  # fmt: skip
def test_values_of_every_kind(value):
    again = eval(value_code(value), SPACE)
    if isinstance(value, torch.Tensor):
        assert again.dtype == value.dtype and again.shape == value.shape and torch.equal(again, value)
        assert value.is_complex() or torch.equal(again.signbit(), value.signbit())
    else:
        assert again == value


def test_no_code_for_what_is_too_large_or_is_an_object():
    for value in (torch.arange(13.0), object(), list(range(100))):
        with pytest.raises(NotCode):
            value_code(value)


@given(st.lists(st.one_of(st.text(max_size=5), st.integers(), st.lists(st.floats(-9, 9), max_size=2)), max_size=4), st.integers(1, 6))
def test_a_call_is_code_that_fits_the_page(arguments, size):
    seen = []
    call = Call("f", (*arguments, torch.arange(2.0 * size) / 7), {"dim": -1})
    text = call_lines(call)[0]
    eval(text, SPACE | {"f": lambda *args, **options: seen.append((args, options))})
    assert list(seen[0][0][:-1]) == arguments and torch.equal(seen[0][0][-1], call.args[-1]) and seen[0][1] == {"dim": -1}
    assert all(len(line) <= VALUE_COLUMNS or "'" in line or '"' in line for line in text.split("\n"))


def test_a_short_list_of_large_tensors_shows_its_items():
    large, small = torch.arange(20.0).reshape(4, 5), torch.ones(())
    lines = call_lines(Call("clip", ([large, small], 1.0), {}))
    assert lines[0] == "clip([tensor 4x5, torch.tensor(1.0)], 1.0)" and lines[1].startswith("argument 1[0] =\n  [[")
    assert call_lines(Call("clip", ([torch.rand(9, 9)] * 3,), {})) == ["clip([tensor 9x9, tensor 9x9, tensor 9x9])"]
