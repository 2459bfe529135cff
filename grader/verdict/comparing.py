"""Assertions that store the compared values, so that a failure can be explained to the learner.

Where one result has several parts, put each comparison into its own `with check:` (pytest-check), so that all
mismatches are reported. Call no implementation within it.

A `Mismatch` is cheap to raise (hypothesis raises hundreds while it looks for the smallest example); its explanation is
computed only for output.
"""

from __future__ import annotations

import math
import numbers as abstract
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from grader.execution.errors import LearnerError
from grader.execution.proxy import Handle
from grader.verdict.error_sentences import Naming, list_values, missing_values, raise_line
from grader.verdict.failed_calls import current_moments
from torch import Tensor

_equal = torch.equal  # saved before any learner's code can replace it


@dataclass
class Example:
    """The running example: its sizes by name, and its mismatches, several within `with check:`."""

    sizes: dict[str, int] = field(default_factory=dict)
    mismatches: list[Mismatch] = field(default_factory=list)
    saw_error: bool = False  # has a call raised the error that it should?


current = Example()


def new_test() -> None:
    """Clear the sizes and mismatches of the last test."""
    current.sizes.clear()
    new_example()


def new_example() -> None:
    """Forget what happened in the last example. Its sizes stay: they are drawn before an example begins."""
    current.mismatches.clear()
    current.saw_error = False


def sizes(**named: int | None) -> None:
    """Name the sizes of this example, shown to the learner as `B=2 T=3`. None removes a name."""
    for name, size in named.items():
        current.sizes.pop(name, None)  # the newest sizes come last, in the given order
        if size is not None:
            current.sizes[name] = size


class Mismatch(AssertionError):
    """A law is violated. `sentence` says how; `got` and `expected` are the two values, if there are two."""

    def __init__(
        self, sentence: str, got: Any = None, expected: Any = None, tol: float = 0.0, compared: bool = False,
        looked_at: Any = None, about_error: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(sentence)
        self.sentence, self.got, self.expected, self.tol, self.compared = sentence, got, expected, tol, compared
        self.looked_at = got if looked_at is None else looked_at  # the very object that the assertion was given
        # None came, or the law looked at something that it does not show
        self.lacks_value = got is None and not about_error
        self.moments = current_moments()
        current.mismatches.append(self)


def close(got: Any, expected: Any, what: str = "the result", tol: float | None = None) -> None:
    """`got` is the tensor, number or container `expected`, up to rounding relative to its size."""
    __tracebackhide__ = True
    if isinstance(expected, Tensor):
        _close_tensor(got, expected, what, tol)
    elif isinstance(expected, bool) or not isinstance(expected, float | list | tuple | dict):
        same(got, expected, what)
    elif isinstance(expected, float):
        _close_number(got, expected, what, tol)
    else:
        _check_container(got, expected, what)
        keys = expected if isinstance(expected, dict) else range(len(expected))
        for key in keys:
            close(got[key], expected[key], f"{what}[{key!r}]", tol)


def same(got: Any, expected: Any, what: str = "the result") -> None:
    """Exactly equal: ids, strings, lists, dicts with their order, tensors of integers or booleans."""
    if isinstance(expected, Tensor):
        _close_tensor(got, expected, what, 0.0)
        return
    given, got = got, _whole_number(got) if isinstance(expected, int) else got
    if isinstance(got, Tensor):
        equal = False
    elif isinstance(expected, dict) and isinstance(got, dict):
        equal = list(got.items()) == list(expected.items())
    else:
        equal = got == expected
    same_kind = isinstance(got, bool) == isinstance(expected, bool) and isinstance(got, list) >= isinstance(
        expected, list
    )
    if not equal or not same_kind:
        raise Mismatch(f"{_capitalize(what)} came out wrong", got, expected, compared=True, looked_at=given)


def shaped(got: Any, shape: tuple[int, ...], what: str = "the result", dtype: torch.dtype | None = None) -> Tensor:
    """`got` is a tensor of this shape (and dtype); returns it for further computation."""
    if not isinstance(got, Tensor):
        wanted = f"{_capitalize(what)} should be a tensor of shape {tuple(shape)}"
        raise Mismatch(f"{wanted}; it is {describe_value(got)}", got)
    if tuple(got.shape) != tuple(shape):
        raise Mismatch(f"{_capitalize(what)} has shape {tuple(got.shape)}; it should be {tuple(shape)}", got)
    if dtype is not None and got.dtype != dtype:
        raise Mismatch(f"{_capitalize(what)} has dtype {_name(got.dtype)}; it should be {_name(dtype)}", got)
    return got


def holds(condition: Any, sentence: str) -> None:
    """Any other law; the sentence says to the learner what is wrong."""
    if not condition:
        raise Mismatch(sentence)


def refuses(
    call: Callable[[], Any],
    naming: Naming = (),
    errors: tuple[type[Exception], ...] = (ValueError, AssertionError),
    because: str = "these arguments cannot work",
    example: str | None = None,
) -> None:
    """`call()` raises one of `errors`, and its message names each value of `naming`.

    `naming` maps the learner's name of a value to the value, {"d_head": 7}; the failure then shows a line to copy.
    `example` is the text of that line, if the default does not fit: "the input is longer than max_len = {max_len}".
    """
    kind = " or ".join(error.__name__ for error in errors if error is not AssertionError) or "AssertionError"
    wanted = f"{because}, so the call should raise {kind}"
    wanted += f" with {list_values(naming)} in its message" if naming else ""
    line = f"For example: `{raise_line(kind, naming, because, example)}`"
    try:
        result = call()
    except LearnerError as problem:
        said = f"{problem.type_name}: {problem.message}".rstrip(". ")
        said = said if problem.message else f"{problem.type_name} without a message"
        missing = missing_values(problem.message, naming) if isinstance(problem, errors) else []
        if isinstance(problem, errors) and not missing:
            current.saw_error = True
            return
        said += f", and the message does not contain {' and '.join(missing)}" if missing and problem.message else ""
        raise Mismatch(f"{wanted}. It raised {said}. {line}", looked_at=problem.call, about_error=True) from None
    raise Mismatch(f"{wanted}. It returned {_short(result)}. {line}", looked_at=result, about_error=True)


def _short(value: Any) -> str:
    """The value itself if it is short, else a description."""
    if isinstance(value, list | tuple | dict | str) and len(value) <= 8:
        text = repr(value)
        return text if len(text) <= 40 and "tensor" not in text else describe_value(value)
    return describe_value(value)


def _close_tensor(got: Any, expected: Tensor, what: str, tol: float | None) -> None:
    if not isinstance(got, Tensor):
        missing = ""
        if got is None:
            missing = ": no gradient reaches it" if "gradient" in what.lower() else " (is a `return` missing?)"
        sentence = f"{_capitalize(what)} should be a tensor; it is {describe_value(got)}{missing}"
        raise Mismatch(sentence, got, expected, compared=True)
    if got.shape != expected.shape:
        sentence = f"{_capitalize(what)} has shape {tuple(got.shape)}; it should be {tuple(expected.shape)}"
        raise Mismatch(sentence, got, expected, compared=True)
    if got.dtype != expected.dtype:
        sentence = f"{_capitalize(what)} has dtype {_name(got.dtype)}; it should be {_name(expected.dtype)}"
        raise Mismatch(sentence, got, expected, compared=True)
    if got.device != expected.device:
        raise Mismatch(f"{_capitalize(what)} is on device {got.device}; it should be on {expected.device}")
    if expected.device.type == "meta":
        return
    limit = tolerance(expected) if tol is None else tol
    if not _values_agree(got, expected, limit):
        raise Mismatch(f"{_capitalize(what)} came out wrong", got, expected, limit, compared=True)


def tolerance(expected: Tensor) -> float:
    """The rounding error allowed for a tensor of this dtype, relative to its size."""
    errors = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
    return errors.get(expected.dtype, 0.0)


def _values_agree(got: Tensor, expected: Tensor, tol: float) -> bool:
    if got.numel() == 0:
        return True
    if not expected.is_floating_point():
        return bool(_equal(got, expected))
    finite = expected.isfinite()
    if not _equal(got.isfinite(), finite):
        return False
    if not finite.all():
        if not _equal(got[~finite].nan_to_num(), expected[~finite].nan_to_num()):
            return False
        got, expected = got[finite], expected[finite]
    if got.numel() == 0:
        return True
    got, expected = got.double(), expected.double()
    scale = max(float(expected.abs().max()), 1e-2)
    return bool(((got - expected).abs() <= tol * (scale + expected.abs())).all())


def _close_number(got: Any, expected: float, what: str, tol: float | None) -> None:
    value = got.item() if isinstance(got, Tensor) and got.numel() == 1 else got
    limit = 1e-5 if tol is None else tol
    is_number = isinstance(value, abstract.Real) and not isinstance(value, bool)
    if not is_number or not math.isclose(value, expected, rel_tol=limit, abs_tol=limit):
        raise Mismatch(f"{_capitalize(what)} came out wrong", value, expected, compared=True, looked_at=got)


def _check_container(got: Any, expected: Any, what: str) -> None:
    if isinstance(expected, dict):
        fits, wanted = isinstance(got, dict) and list(got) == list(expected), f"a dict with the keys {list(expected)}"
    else:
        fits = isinstance(got, list | tuple) and len(got) == len(expected)
        wanted = f"a {type(expected).__name__} of length {len(expected)}"
    if not fits:
        sentence = f"{_capitalize(what)} should be {wanted}; it is {describe_value(got)}"
        raise Mismatch(sentence, got, expected, compared=True)


def _whole_number(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 and not value.is_floating_point() else value


def _capitalize(what: str) -> str:
    """Capitalise the start of a sentence, unless it is a name from the code."""
    return what if begins_with_code(what) else what[:1].upper() + what[1:]


def begins_with_code(text: str) -> bool:
    """Does it begin with a name or an expression, such as `x`, `a / b` or `layer.weight`, and not with a word?"""
    first, _, rest = text.partition(" ")
    return any(mark in first for mark in "_.([`=") or (len(first) == 1 and (first != "a" or rest[:1] in tuple("+-*/=")))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def describe_value(value: Any) -> str:
    """A value as a noun: "None", "a list of length 3", "a tensor of shape (2, 3)", "an object (generator)"."""
    if value is None:
        return "None"
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, list | tuple | dict | set):
        return f"a {type(value).__name__} of length {len(value)}"
    if isinstance(value, bool | int | float):
        return f"the number {value!r}" if not isinstance(value, bool) else repr(value)
    if isinstance(value, str):
        return f"the string {value[:40]!r}"
    if isinstance(value, Handle):
        return f"an object ({value._handle[1]})"  # its class or name
    return repr(value)[:80]
