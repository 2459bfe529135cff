"""Values from files: each is checked when the file is read, before anything is made of it.

A table says what a file has: the name of each value, and its kind.

    SIZES = {"heads": whole(1, 64), "rate": number(0, 1), "parts": table({"learner": list_of(string())})}

`check` names the first value that is missing or wrong. For safetensors files: one sentence for a file that cannot be
read, and the shapes without the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.files import UserProblem, problem

SHOWN_CHARACTERS = 40


class ValueProblem(UserProblem):
    """A value of a file is missing or not possible; the message is a sentence."""

    exit_status = 1


@dataclass(frozen=True)
class Kind:
    """What a value can be."""

    says: str  # "a whole number from 1 to 64"
    accepts: Callable[[Any], bool]
    inside: Mapping[str, Kind] | None = None  # of a table


ANY = Kind("anything", lambda v: True)


def whole(least: int, most: int) -> Kind:
    return Kind(f"a whole number from {least:,} to {most:,}", lambda v: type(v) is int and least <= v <= most)


def finite() -> Kind:
    return Kind("a number that is not infinite", lambda v: type(v) in (int, float) and math.isfinite(v))


def number(least: float, most: float) -> Kind:
    says = f"a number from {least:,g} to {most:,g}"
    return Kind(says, lambda v: finite().accepts(v) and least <= v <= most)


def positive(most: float = 1e9) -> Kind:
    return Kind("a number above 0", lambda v: number(0, most).accepts(v) and v > 0)


def yes_or_no() -> Kind:
    return Kind("true or false", lambda v: type(v) is bool)


def string(most: int = 4096) -> Kind:
    return Kind(f"a text of at most {most:,} characters", lambda v: isinstance(v, str) and len(v) <= most)


def file_path() -> Kind:
    return Kind("the path of a file", lambda v: string().accepts(v) and "\0" not in v)


def one_of(words: Collection[str]) -> Kind:
    names = list(words)
    says = " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return Kind(says, lambda v: isinstance(v, str) and v in names)


def list_of(kind: Kind, most: int = 10_000_000) -> Kind:
    says = f"a list; each of its values must be {kind.says}"
    return Kind(says, lambda v: type(v) in (list, tuple) and len(v) <= most and all(_fits(each, kind) for each in v))


def named(kind: Kind) -> Kind:
    says = f"a table; each of its values must be {kind.says}"
    return Kind(says, lambda v: isinstance(v, dict) and all(map(kind.accepts, v.values())))


def pair(first: Kind, second: Kind) -> Kind:
    def accepts(value: Any) -> bool:
        return type(value) in (list, tuple) and len(value) == 2 and first.accepts(value[0]) and second.accepts(value[1])

    return Kind(f"a list of {first.says} and {second.says}", accepts)


def optional(kind: Kind) -> Kind:
    return Kind(f"{kind.says}, or nothing", lambda v: v is None or kind.accepts(v))


def _fits(value: Any, kind: Kind) -> bool:
    """Whether it is of this kind, and a table has all its values."""
    inside = (kind.inside or {}).items()
    return kind.accepts(value) and all(name in value and _fits(value[name], each) for name, each in inside)


def table(kinds: Mapping[str, Kind]) -> Kind:
    return Kind("a table of named values", lambda v: isinstance(v, dict), kinds)


def check(
    data: Mapping[str, Any], kinds: Mapping[str, Kind], where: str, needed: Collection[str] = (), path: str = ""
) -> None:
    """ValueProblem if a value of these kinds is not possible, or a needed one is missing. `path` is the place of the
    table in the file; a needed name may be a path, such as "history.losses"."""
    for name, kind in kinds.items():
        if name in data and not kind.accepts(data[name]):
            raise ValueProblem(f"{where} says {path}{name} = {show(data[name])}; it must be {kind.says}")
        if name in data and kind.inside:
            check(data[name], kind.inside, where, path=f"{path}{name}.")
    for name in needed:
        value: Any = data
        for step in name.split(".") if name not in data else [name]:
            if not isinstance(value, Mapping) or step not in value:
                raise ValueProblem(f"{where} does not say {path}{name}")
            value = value[step]


def show(value: Any) -> str:
    """The value on one line, and short."""
    if isinstance(value, list | tuple | dict):
        return "{...}" if isinstance(value, dict) else "[...]"
    if isinstance(value, int) and value.bit_length() > 128:
        return "a huge number"
    return "nothing" if value is None else repr(value[:SHOWN_CHARACTERS] if isinstance(value, str) else value)


@contextmanager
def explaining_damage(where: Path | str, exception: type[UserProblem], advice: str) -> Iterator[None]:
    """Inside, the file is read; if that fails, the exception has a sentence with the advice at its end."""
    from safetensors import SafetensorError

    try:
        yield
    except OSError as error:
        raise exception(problem(error, f"read {where}")) from None
    except (SafetensorError, ValueError, OverflowError):
        raise exception(f"{where} is damaged, cut off, or no safetensors file; {advice}") from None


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118  # it is no dict


def require_finite(tensors: Mapping[str, Any], where: Path | str, exception: type[UserProblem], advice: str) -> None:
    """The exception, if a tensor does not have floating-point numbers, or has one that is infinite or NaN."""
    for name, tensor in tensors.items():
        if not (tensor.is_floating_point() and _is_finite(tensor.float())):
            raise exception(f"{where}: {name} has values that are infinite or not numbers; {advice}")


def _is_finite(values: Any) -> bool:
    """The sum answers quickly; that of huge values may be infinite."""
    return bool(values.sum().isfinite() or values.isfinite().all())
