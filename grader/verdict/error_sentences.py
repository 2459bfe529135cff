"""Plain sentences for errors: of Python and torch, whose own message is hard to understand, and those that a test
expects."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from grader.counts import format_count
from grader.verdict.results import join_names

Naming = Mapping[str, Any] | tuple[Any, ...]

NO_MEMORY = re.compile("allocate memory|not enough memory|bad_alloc")
MISSING_RETURN = "Is a `return` missing? list.sort, append, set.add and dict.update also return None."
NO_SUPER = "does not call `super().__init__()`; call it first in `__init__`, before anything is assigned to self"

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_GROUPED = re.compile(r"(?<![\d.])\d{1,3}(?:[,_' ]\d{3})+(?!\d)")
_WITHOUT_SUPER = re.compile(
    r"before Module\.__init__\(\) call|has no attribute "
    r"'(_parameters|_modules|_buffers|_non_persistent_buffers_set|_\w*hooks\w*)'"
)
_ARGUMENT_COUNTS = re.compile(r"(?:\w+\.)*(\w+)\(\) takes (\d+) positional arguments? but (\d+) (?:were|was) given")
_MISSING_ARGUMENTS = re.compile(r"(?:\w+\.)*(\w+)\(\) missing \d+ required [\w-]+ arguments?: (.+)")
_UNKNOWN_ARGUMENT = re.compile(r"(?:\w+\.)*(\w+)\(\) got an unexpected keyword argument '(\w+)'")
_TWO_DTYPES = re.compile(
    r"(?:same dtype, but (?:got|found):?|source and destination dtypes match, got|expected scalar type) ([\w: ]+?)"
    r"(?: for the destination)? (?:!=|and|but found) ([\w: ]+?)(?: for the source\.)?$"
)
_SIZES_FIRST = {"empty", "ones", "rand", "randn", "zeros"}  # of torch: each further argument is a size
_DTYPES = {
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "long": "int64",
    "int": "int32",
    "char": "int8",
    "signed char": "int8",
    "byte": "uint8",
}


def _dtype(name: str) -> str:
    return _DTYPES.get(name.lower(), name.lower())


def _count(many: str, one: str) -> str:
    return format_count(int(many), one)


# A message of Python or torch, and what it means; the message itself is added in parentheses.
_MEANINGS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (
        r"The size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at non-singleton dimension (\d+)",
        r"combines tensors whose shapes do not fit: in dimension \3 their sizes are \1 and \2",
    ),
    (
        r"mat1 and mat2 shapes cannot be multiplied \((\d+x\d+) and (\d+x\d+)\)",
        r"multiplies matrices of shapes \1 and \2; the second number of the first and the first of the "
        "second should be equal",
    ),
    (
        r"shape '(\[[-\d, ]*\])' is invalid for input of size (\d+)",
        lambda it: f"gives {_count(it[2], 'number')} the shape {it[1]}, which has room for another number of them",
    ),
    (
        r"Dimension out of range \(expected to be in range of \[(-?\d+), (-?\d+)\], but got (-?\d+)\)",
        r"uses dimension \3 of a tensor that has only the dimensions \1 to \2",
    ),
    (
        r"index (-?\d+) is out of bounds for dimension (\d+) with size (\d+)",
        lambda it: f"uses index {it[1]} in dimension {it[2]}, which has only {_count(it[3], 'place')}",
    ),
    (
        r"not enough values to unpack \(expected (\d+), got (\d+)\)",
        lambda it: f"assigns {_count(it[2], 'value')} to {_count(it[1], 'name')}",
    ),
    (
        r"too many values to unpack \(expected (\d+)\)",
        lambda it: f"assigns more than {_count(it[1], 'value')} to {_count(it[1], 'name')}",
    ),
    (
        r"'Tensor' object is not callable",
        r"calls a tensor as if it were a function; is a variable followed by parentheses?",
    ),
    (
        r"NoneType",
        r"uses None as a value. It may be an argument that was left out, as `mask`, the gradient of a parameter "
        r"that has none, or the result of a function that ends without `return`",
    ),
    (
        r"result type (\w+) can't be cast to the desired output type (\w+)",
        lambda it: (
            f"changes a tensor of {_dtype(it[2])} in place by a number of {_dtype(it[1])}, which it cannot "
            f"hold; convert the tensor first, or make a new one: `x = x + 0.5` and not `x += 0.5`"
        ),
    ),
    (
        r"number of subscripts in the equation \((\d+)\) does not match the number of dimensions \((\d+)\) for "
        r"operand (\d+)",
        lambda it: (
            f"calls einsum with {_count(it[1], 'letter')} for a tensor of {_count(it[2], 'dimension')} (number "
            f"{int(it[3]) + 1} of those it gets); `...` in the equation means any number of dimensions"
        ),
    ),
    (
        r"einsum\(\): subscript (\w) has size (\d+) for operand \d+ which does not broadcast with previously seen size "
        r"(\d+)",
        r"calls einsum with tensors that do not fit: the dimension \1 is \3 in one of them and \2 in another",
    ),
    (
        r"(\w+)\(\): argument '\w+' \(position (\d+)\) must be Tensor, not (int|float|bool|list|tuple)",
        lambda it: (
            f"calls torch's `{it[1]}` with {'an' if it[3] == 'int' else 'a'} {it[3]}, and it takes tensors "
            f"only; make a tensor of it with torch.tensor{', or use math' if it[3] in ('int', 'float') else ''}"
        ),
    ),
    (
        r"not implemented for '(Long|Int|Bool)'|Input dtype must be either a floating point .* Got: (\w+)",
        lambda it: (
            f"computes with a tensor of {_dtype(it[1] or it[2])} what torch cannot do with this dtype; convert it "
            "first, for example with .float()"
        ),
    ),
    (
        r"Boolean value of Tensor with more than one value is ambiguous",
        r"uses a tensor of several values as one truth value; `if`, `and`, `or` and `not` need one: use .any(), "
        r".all(), or &, | and ~ for each value",
    ),
    (
        r"view size is not compatible with input tensor's size and stride",
        r"calls `view` on a tensor whose numbers are not in this order in memory, as after a transpose; `reshape` "
        r"copies them where it must",
    ),
    (
        r"element 0 of tensors does not require grad",
        r"computes gradients of a value that does not depend on any parameter, as far as torch recorded it; was it "
        r"detached, or computed under no_grad?",
    ),
    (
        r"a (?:view of a )?leaf Variable that requires grad is being used in an in-place operation",
        r"changes a parameter in place while gradients are recorded; compute a new tensor, or use torch.no_grad() "
        r"where that is intended",
    ),
)


def describe_known_error(type_name: str, message: str, in_code: bool = True) -> str:
    """A plain predicate for an error, "uses index 5 in dimension 0, which has only 3 places (IndexError: ...)"; or "".

    `in_code`: a line of the learner's code raised it; if not, the call itself did.
    """
    if type_name == "MemoryError" or (type_name == "RuntimeError" and NO_MEMORY.search(message)):
        many = re.search(r"tried to allocate (\d+) bytes", message)
        return "ran out of memory" + (f": it asked for {int(many[1]):,} bytes at once" if many else "")
    if type_name == "OSError" and "File too large" in message:
        return "printed or wrote too much output for one run; is there an endless loop?"
    if "reading from stdin" in message or (type_name, message) == ("EOFError", "EOF when reading a line"):
        return "asks for input, but there is no input while tests run; use an argument instead"
    if type_name == "BdbQuit":
        return "stops in the debugger, which has no input here; " + (
            f"to debug, run `{message}` in a terminal" if message else "remove that line"
        )
    if type_name == "AttributeError" and _WITHOUT_SUPER.search(message):
        return f"{NO_SUPER} ({type_name}: {message})"
    if counts := _ARGUMENT_COUNTS.search(message):
        return f"{_describe_counts(counts, in_code)} ({type_name}: {message})"
    if missing := _MISSING_ARGUMENTS.search(message):
        names = missing[2].replace("'", "`")
        call = f"calls `{missing[1]}` without {names}" if in_code else f"is called without {names}"
        return f"{call}, which its `def` demands ({type_name}: {message})"
    if unknown := _UNKNOWN_ARGUMENT.search(message):
        called, no = f"calls `{unknown[1]}` with `{unknown[2]}`, and it has", f"has no parameter `{unknown[2]}`"
        said = f"{called} no parameter of this name" if in_code else f"{no}, with which it is called"
        return f"{said} ({type_name}: {message})"
    if dtypes := _TWO_DTYPES.search(message):
        one, other = map(_dtype, dtypes.groups())
        return (
            f"combines tensors of two dtypes, {one} and {other}; convert one of them, for example with "
            f".to(x.dtype) ({type_name}: {message})"
        )
    for pattern, meaning in _MEANINGS:
        if found := re.search(pattern, message):
            said = found.expand(meaning) if isinstance(meaning, str) else meaning(found)
            return f"{said} ({type_name}: {message})"
    return ""


def returned_none(what: str) -> str:
    """The sentence about a call without a result, the same wherever the missing value is noticed."""
    return f"{what} returned None. {MISSING_RETURN}"


def _describe_counts(counts: re.Match[str], in_code: bool) -> str:
    """The predicate for a call with too many arguments; Python counts `self` as one."""
    name, takes, gets = counts[1], int(counts[2]), int(counts[3])
    if in_code and name in _SIZES_FIRST:
        return f"gives torch's `{name}` something after the sizes; write its name too, as in dtype=torch.int64"
    taken = format_count(takes, "argument")
    if in_code:
        return f"calls `{name}`, which takes {taken}, with {gets}; in a method, is `self` missing, or one too many?"
    return (
        f"takes {taken} and gets {gets}; compare the line of its `def` with the stub (in a method, is `self` missing?)"
    )


# ---- an error that a test expects, and its message


def missing_values(message: str, naming: Naming) -> list[str]:
    """The values that the message should contain but does not: "d_model = 13" if the name is known, else "13"."""
    return [_labelled(name, value) for name, value in _items(naming) if not _mentions(message, value)]


def list_values(naming: Naming) -> str:
    """All values that a message should contain: "d_model = 13 and n_heads = 4"."""
    return join_names(_labelled(name, value) for name, value in _items(naming))


def _mentions(message: str, value: Any) -> bool:
    """Whether a message contains a number or word by itself: 7 is in "(2, 7)" and "7.0", not in "17" or "7.5"."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return re.search(rf"(?<!\w){re.escape(str(value))}(?!\w)", message) is not None
    return any(math.isclose(number, value, rel_tol=1e-6, abs_tol=1e-12) for number in _numbers(message))


def raise_line(kind: str, naming: Naming, because: str, example: str | None = None) -> str:
    """A line that raises the error; if the values have names, it is an f-string that the learner can copy."""
    if example is None and isinstance(naming, Mapping) and naming:
        quoted = {name: f"{name}!r" if isinstance(value, str) else name for name, value in naming.items()}
        first, *others = (f"{name} = {{{text}}}" for name, text in quoted.items())
        example = f"{first} is not possible" + (f" with {join_names(others)}" if others else "")
    if example is not None:
        return f'raise {kind}(f"{example}")'
    return f'raise {kind}("{because}")'


def _items(naming: Naming) -> Iterable[tuple[str, Any]]:
    return naming.items() if isinstance(naming, Mapping) else (("", value) for value in naming)


def _labelled(name: str, value: Any) -> str:
    return f"{name} = {value!r}" if name else str(value)


def _numbers(message: str) -> Iterable[float]:
    """Every number in a text; with a minus sign before it, as a negative number too."""
    for match in _NUMBER.finditer(message):
        yield float(match[0])
        if message[: match.start()].endswith(("-", "\N{MINUS SIGN}")):
            yield -float(match[0])
    for match in _GROUPED.finditer(message):
        yield float(re.sub(r"\D", "", match[0]))
