"""What a word such as `rope`, `heads=1` or `moe` changes in a training. Several changes are one word with commas:
`rope,heads=1`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from grader.models.design import KINDS, NORMS, POSITIONS, PRESETS, DesignProblem
from grader.models.training.settings import Settings

TOKENS = ("words", "bpe")

_VALUES: dict[str, tuple[str, tuple[str, ...]]] = {  # name in a word -> (field of Settings, its values)
    "positions": ("positions", POSITIONS),
    "norm": ("norm", NORMS),
    "model": ("kind", KINDS),
    "tokens": ("tokens", TOKENS),
    "preset": ("size", tuple(PRESETS)),
}
_WHOLE_NUMBERS: dict[str, tuple[str, int, int]] = {  # name in a word -> (field of Settings, smallest, largest)
    "heads": ("heads", 1, 1024),
    "layers": ("layers", 1, 100),
    "batch": ("rows", 1, 1024),
    "warmup": ("warmup", 0, 100_000),
}
ALONE = {value: {field: value} for field, values in _VALUES.values() for value in values} | {"dense": {"kind": "gpt"}}
EXAMPLES = (
    "learned, sinusoidal, rope, alibi, pre, post, dense, moe, heads=1, layers=2, dropout=0.1, batch=8, warmup=0, "
    "words, bpe, mini, tiny, small"
)


def is_design(word: str) -> bool:
    """Whether every part of the word is a change of the design, possible or not."""
    return all(
        part in ALONE or part.partition("=")[0] in (*_VALUES, *_WHOLE_NUMBERS, "dropout") and "=" in part
        for part in word.lower().split(",")
    )


def settings_for(word: str, base: Settings) -> Settings:
    """The base with the changes that the word names. DesignProblem if a value is not possible."""
    changes: dict[str, Any] = {}
    for part in word.lower().split(","):
        for field, value in _changes(part).items():
            if changes.get(field, value) != value:
                raise DesignProblem(f"{word} says two different things about {_name_of(field)}; keep one of them")
            changes[field] = value
    settings = replace(base, **changes)
    settings.design()  # raises DesignProblem where the choices do not fit together
    return settings


def nearest_word(word: str, checkpoints: Iterable[str]) -> str | None:
    """The checkpoint or the design that is written most like this word."""
    return next(iter(get_close_matches(word, [*checkpoints, *ALONE], n=1)), None)


def _changes(part: str) -> dict[str, Any]:
    if part in ALONE:
        return ALONE[part]
    name, _, value = part.partition("=")
    if name in _WHOLE_NUMBERS:
        field, smallest, largest = _WHOLE_NUMBERS[name]
        if not (re.fullmatch(r"[0-9]{1,9}", value) and smallest <= int(value) <= largest):
            raise DesignProblem(f"{name} is a whole number from {smallest} to {largest}, not {value!r}")
        return {field: int(value)}
    if name == "dropout":
        if not re.fullmatch(r"0(\.[0-9]{1,9})?", value):
            raise DesignProblem(f"dropout is a number from 0 up to but not including 1, such as 0.1, not {value!r}")
        return {"dropout": float(value)}
    field, values = _VALUES[name]
    if value not in values:
        raise DesignProblem(f"{name} can be {', '.join(values[:-1])} or {values[-1]}, not {value!r}")
    return {field: value}


def _name_of(field: str) -> str:
    return next((name for name, (own, _) in _VALUES.items() if own == field), field)
