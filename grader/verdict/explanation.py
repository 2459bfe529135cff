"""Explains a failed test: the promise, the smallest example, the wrong and the right value, and how they differ."""

from __future__ import annotations

import contextlib
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import torch
from grader.counts import format_count
from grader.execution.errors import (
    ChapterBroken,
    HostDied,
    LearnerError,
    OutOfTime,
    RuleBroken,
    WrongResult,
    printable,
)
from grader.execution.proxy import Boundary, Call, Handle, ObjectName
from grader.verdict.comparing import Example, Mismatch, begins_with_code
from grader.verdict.error_sentences import NO_MEMORY, NO_SUPER, describe_known_error, returned_none
from grader.verdict.failed_calls import MAX_SHOWN_CALLS, find_calls, moments_of
from grader.verdict.relations import explain
from grader.verdict.relations.pair import Locating
from grader.verdict.results import Failure
from grader.verdict.sequences import explain_plain
from grader.verdict.value_text import MAX_SHOWN_NUMBERS, NotCode, first_difference, format_value, value_code
from torch import Tensor

VALUE_COLUMNS = 67  # columns to the right of a label
MAX_VALUE_LINES = 12  # lines of one value; a longer one is only described
MAX_CALL_LINES = 4  # of one call's arguments
MAX_SHOWN_ITEMS = 4  # of a list for which there is no code
MAX_SENTENCES = 4  # about the mismatches of one example


def explain_failure(
    problem: BaseException | None, promise: str, boundary: Boundary | None, example: Example, printed: str = "",
    about_error: bool = False,
) -> Failure:  # fmt: skip
    """The explanation of what ended the test, and of the mismatches that `with check:` caught before. `about_error`:
    the promise is about an error, so a wrong value before it was raised says nothing about the promise."""
    calls = _calls_to_show(problem, boundary, example)
    call = calls[-1] if calls else None
    sizes, called = _named(example.sizes), _lines_of_calls(calls)
    common: dict[str, Any] = dict(promise=promise, sizes=sizes, called=called, printed=printed)

    def failure(text: str, capital: bool = False, reached: bool = True) -> Failure:
        where, note = getattr(problem, "where", None), getattr(problem, "note", "")
        late = isinstance(problem, OutOfTime) or isinstance(problem, ChapterBroken) and problem.timed_out
        message = _sentence(text, capital, note)
        return Failure(message=message, where=str(where or ""), was_late=late, reached=reached, **common)

    if isinstance(problem, OutOfTime | HostDied):
        return failure(str(problem), capital=True, reached=False)
    is_flaky = "Flaky" in type(problem).__name__
    problem = is_flaky and _broken_rule(problem) or problem
    if isinstance(problem, ChapterBroken):
        text = describe_known_error(*problem.message.partition(": ")[::2])
        common = dict(promise="")
        return failure(f"importing it {text}" if text else problem.message, capital=True)
    mismatches = example.mismatches or ([problem] if isinstance(problem, Mismatch) else [])
    is_result_missing = call is not None and call.returned_none and not _was_read_after(call, boundary)
    if is_result_missing and (mismatches[0].lacks_value if mismatches else "NoneType" in str(problem)):
        return Failure(message=_sentence(returned_none(_name(call)), capital=False), **common)
    if mismatches:
        common["sizes"] = _named(_sizes_seen(example.sizes, call, mismatches[0]))
        return _explain_mismatch(mismatches, call, common, reached=example.saw_error or not about_error)
    if isinstance(problem, WrongResult):
        return failure(problem.message, capital=True)
    if isinstance(problem, RuleBroken):
        named = call is None or problem.message.startswith(call.what.partition("(")[0])
        return failure(problem.message if named or call is None else f"{call.what}: {problem.message}", reached=False)
    if isinstance(problem, LearnerError):
        text = describe_known_error(problem.type_name, problem.message, problem.where is not None)
        text = text or f"raised {_error_text(problem)}"
        helper_raised = problem.where is None and call is not None and call is not problem.call
        if helper_raised and NO_SUPER not in text:  # a helper of the test raised it, after the call
            text = f"returned a value with which the test cannot continue ({_error_text(problem)})"
        return failure(f"{_name(call, is_own=problem.where is not None)} {text}", reached=False)
    if is_flaky:
        again = "The same call gave different results when it was repeated"
        return failure(f"{again}. Look for state that survives between calls, or for random numbers", capital=True)
    if is_out_of_memory(problem):
        too_large = "returned a value that is too large to compare in memory"
        return failure(f"{_name(call)} {too_large}; return a result of the expected size")
    if isinstance(problem, AssertionError) and str(problem):
        return failure(str(problem).split("\n")[0], capital=True)
    if isinstance(problem, NameError | ImportError):
        text = f"the test itself has an error, which is not about your code ({type(problem).__name__}: {problem})"
        return failure(f"{text}; please report it", capital=True, reached=False)
    returned = f"{_name(call)} returned {format_value(call.result)[:200]}; " if call else ""
    return failure(f"{returned}the test cannot continue with this value ({type(problem).__name__}: {problem})")


def find_failed_calls(problem: BaseException | None, boundary: Boundary, example: Example) -> list[Call]:
    """The calls that the failure is about, as the test made them."""
    if isinstance(problem, OutOfTime | HostDied):
        return boundary.calls[-1:]
    mismatch = example.mismatches[0] if example.mismatches else problem
    if isinstance(mismatch, Mismatch):
        return find_calls(boundary, mismatch.looked_at, mismatch.moments)
    if isinstance(problem, LearnerError):
        return [problem.call] if problem.call else boundary.calls[-1:]
    return find_calls(boundary, None, moments_of(problem.__traceback__ if problem else None))


def _calls_to_show(problem: BaseException | None, boundary: Boundary | None, example: Example) -> list[Call]:
    """The calls that the failure is about; for a helper of the test, the call of the learner's code that it made."""
    if boundary is None:
        return []
    calls = find_failed_calls(problem, boundary, example)
    if isinstance(problem, OutOfTime | HostDied):
        return calls
    shown = [_inner_call(boundary, call) or call for call in calls]
    own = [call for call in shown if not call.is_helpers]
    functions = [call for call in shown if call.what.isidentifier()]  # and not methods of objects that a helper made
    return own or [call for call in boundary.calls if not call.is_helpers][-1:] or functions or shown


def _inner_call(boundary: Boundary, call: Call) -> Call | None:
    """The last call of the implementation's own code that a helper of the test made during this call; None if `call`
    called no helper."""
    if not call.is_helpers:
        return None
    try:
        found = boundary.unrecorded("inner_call", call.number)
        if not found:
            return None
        what, args, options, returned_none = found
        named = {printable(name, 80): value for name, value in options.items()}
        return Call(printable(what, 200), tuple(args), named, returned_none=returned_none is True)
    except (Exception, HostDied, OutOfTime):  # the host has ended, or its answer is malformed
        return None


def _was_read_after(call: Call, boundary: Boundary | None) -> bool:
    """Did the test read a value from an object after this call? Then it may have no result, as `step`."""
    if boundary is None:
        return False
    made = boundary.calls.index(call) + 1 if call in boundary.calls else len(boundary.calls)
    # gradients are read from the function
    return any(reading.calls_before >= made and reading.owner is not call.callee for reading in boundary.readings)


def _broken_rule(flaky: BaseException | None) -> RuleBroken | None:
    """The rule that only the first call broke: the second time, a leftover thread already exists."""
    return next((problem for problem in getattr(flaky, "exceptions", ()) if isinstance(problem, RuleBroken)), None)


def is_out_of_memory(problem: BaseException | None) -> bool:
    """Whether the tests themselves, not the learner's code, ran out of memory."""
    if isinstance(problem, LearnerError):
        return False
    if isinstance(problem, RuntimeError):
        return bool(NO_MEMORY.search(str(problem)))
    return isinstance(problem, MemoryError)


def _error_text(problem: LearnerError) -> str:
    return f"{problem.type_name}: {problem.message}" if problem.message.strip() else problem.type_name


def _explain_mismatch(mismatches: list[Mismatch], call: Call | None, common: dict, reached: bool) -> Failure:
    first = mismatches[0]
    sentences = list(dict.fromkeys(mismatch.sentence for mismatch in mismatches))
    message, more = " ".join(map(_sentence, sentences[:MAX_SENTENCES])), len(sentences) - MAX_SENTENCES
    if more > 0:
        message += f" {format_count(more, 'more comparison')} failed."
    got = expected = difference = ""
    if first.compared:
        got, expected = _format_for_label(first.got), _format_for_label(first.expected)
        if got == expected:  # the line about the difference has as many digits as are needed
            got = expected = ""
            if isinstance(first.got, float) and isinstance(first.expected, float):
                got, expected = repr(first.got), repr(first.expected)
        if len(sentences) > 1:
            message += " `got` and `expected` show the first one."
    explanation: list[str] = []
    if isinstance(first.got, Tensor) and isinstance(first.expected, Tensor):
        inputs = [value for value in (*call.args, *call.options.values()) if isinstance(value, Tensor)] if call else []
        # an unsupported kind of tensor, or too large: no explanation
        with contextlib.suppress(RuntimeError, NotImplementedError, MemoryError):
            explanation = explain(first.got, first.expected, first.tol or 1e-5, inputs)
        comparable = (first.got.dtype == torch.bool) == (first.expected.dtype == torch.bool)
        has_values = not (first.got.is_meta or first.expected.is_meta)
        if first.got.shape == first.expected.shape and first.got.numel() > 1 and comparable and has_values:
            difference = first_difference(first.got, first.expected, first.tol)
        said = {line: line.rstrip(".").replace("Its dtype is", "has dtype") for line in explanation}
        explanation = [line for line in explanation if said[line] not in message]
    elif first.compared and not isinstance(first.expected, Tensor) and not isinstance(first.got, Tensor):
        explanation = explain_plain(first.got, first.expected)
    if explanation and isinstance(first.got, Tensor) and got.startswith("[") and first.got.numel() <= 24:
        difference = ""  # the values are visible
    if len("\n".join([got, expected, *common["called"]]).splitlines()) > 18:
        common["called"] = common["called"][:1]
    common |= dict(got=got, expected=expected, difference=difference, explanation=" ".join(explanation))
    only_locates = " ".join(line for line in explanation if isinstance(line, Locating))
    reached = reached or not first.compared
    return Failure(message=_sentence(message), reached=reached, only_locates=only_locates, **common)


def _named(sizes: dict[str, int]) -> str:
    return " ".join(f"{name}={size}" for name, size in sizes.items())


def _sizes_seen(sizes: dict[str, int], call: Call | None, first: Mismatch) -> dict[str, int]:
    """Without the axes (B, T) that no value of a function's call has: a test may call with several shapes."""
    if call is None or not first.compared or call.is_helpers or not call.what.isidentifier():
        return sizes
    shown = (*call.args, *call.options.values(), first.got, first.expected)
    numbers = {number for value in shown for number in _numbers_in(value)}
    if None in numbers or not any(isinstance(value, Tensor) for value in shown):
        return sizes
    return {name: size for name, size in sizes.items() if not name.isupper() or size in numbers}


def _numbers_in(value: Any) -> Iterator[int | None]:
    """The numbers and sizes in a value; None for an object, whose sizes are not seen."""
    if isinstance(value, Tensor):
        yield from value.shape
    elif isinstance(value, int):
        yield value
    elif isinstance(value, list | tuple | dict):
        yield len(value)
        for item in value.values() if isinstance(value, dict) else value:
            yield from _numbers_in(item)
    elif isinstance(value, Handle | ObjectName):
        yield None


def _format_for_label(value: Any) -> str:
    """A value as text to the right of a label: complete if it is short."""
    text = format_value(value, width=VALUE_COLUMNS)
    return text if text.count("\n") < MAX_VALUE_LINES else format_value(value, limit=0, width=VALUE_COLUMNS)


def _name(call: Call | None, is_own: bool = False) -> str:
    """What to name for a call; `is_own`: the learner's code raised an exception, so it is a function given to a
    helper, such as a kernel that a helper launched."""
    if call is None:
        return "the chapter"
    functions = [each._path for each in call.args if isinstance(each, Handle) and each._path.isidentifier()]
    if call.is_helpers and is_own and functions:
        return functions[0]
    return f"`{call.what}`, a function of the test," if call.is_helpers else call.what


def _lines_of_calls(calls: list[Call]) -> list[str]:
    """One call with its arguments below it; several calls with a line for each."""
    if len(calls) == 1:
        return call_lines(calls[0])
    lines = list(dict.fromkeys(call_lines(call)[0] for call in calls))
    if len(lines) <= MAX_SHOWN_CALLS:
        return lines if len(lines) > 1 else [*call_lines(calls[-1])] if lines else []
    return [*lines[: MAX_SHOWN_CALLS - 1], f"… and {len(lines) - MAX_SHOWN_CALLS + 1} more calls"]


def call_lines(call: Call) -> list[str]:
    """`softmax(torch.tensor([[1.5, -2.0]]), dim=0)`: the call as code; then each tensor too large for code."""
    arguments = [(f"argument {position + 1}", "", value) for position, value in enumerate(call.args)]
    arguments += [(name, f"{name}=", value) for name, value in call.options.items()]
    for most in (MAX_SHOWN_NUMBERS, MAX_SHOWN_NUMBERS // 2, 1):
        below: list[str] = []
        parts = [start + _argument(name, value, below, most) for name, start, value in arguments]
        if sum(map(len, parts)) <= MAX_CALL_LINES * VALUE_COLUMNS:
            break
    shown = below if sum(text.count("\n") + 1 for text in below) <= MAX_VALUE_LINES else []
    return [_wrap_call(f"{call.what}(", parts), *shown]


def _wrap_call(start: str, parts: list[str]) -> str:
    """The call on lines that fit; it is still code: a line is broken only after a comma, and never in a string."""
    texts = [part + (", " if number < len(parts) - 1 else ")") for number, part in enumerate(parts)] or [")"]
    cut = [[text] if "'" in text or '"' in text else re.split(r"(?<=, )", text) for text in texts]
    pieces = [piece for parts in cut for piece in parts]
    lines = [start]
    for piece in pieces:
        if len(lines[-1]) + len(piece.rstrip()) > VALUE_COLUMNS and lines[-1].strip() != "":
            lines.append("    ")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def _argument(name: str, value: Any, below: list[str], most: int) -> str:
    try:
        text = value_code(value, most, name_of_object)
        if isinstance(value, Tensor) or len(text) <= VALUE_COLUMNS:
            return text
    except NotCode:
        pass
    if isinstance(value, Tensor):
        if 0 < value.numel() <= 24:
            text = format_value(value, width=VALUE_COLUMNS - 2)
            below.append(f"{name} =\n{textwrap.indent(text, '  ')}" if "\n" in text else f"{name} = {text}")
        return f"tensor {'x'.join(map(str, value.shape)) or 'scalar'}"
    if isinstance(value, list) and len(value) <= MAX_SHOWN_ITEMS:
        return f"[{', '.join(_argument(f'{name}[{place}]', item, below, most) for place, item in enumerate(value))}]"
    text = format_value(value)
    return text if "\n" not in text and len(text) <= 60 else text.split("\n")[0][:57] + "…"


def name_of_object(value: Any) -> str | None:
    """The code that made an object of the implementation: `GPT(11, 8)`, or the name of a function or class."""
    if isinstance(value, Handle):
        return str(object.__getattribute__(value, "_path"))
    return str(value) if isinstance(value, ObjectName) else None


def _sentence(text: str, capital: bool = True, note: str = "") -> str:
    """One line with a full stop; a capital in front unless it begins with a name. A note is a sentence that follows."""
    text = re.sub(r"\s+", " ", text).strip()
    start = text[:1].upper() if capital and not begins_with_code(text) else text[:1]
    return start + text[1:] + ("" if text.endswith((".", "!", "?", ":")) else ".") + (f" {note}" if note else "")
