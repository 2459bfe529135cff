"""How the next token is chosen, and the check of each value that a user types."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from grader.files import UserProblem

MAX_TOKENS = 10_000
OFF = ("off", "none")


class PlayProblem(UserProblem):
    """The user asked for something that is not possible; the message is a sentence."""

    exit_status = 1


@dataclass(frozen=True)
class Settings:
    temperature: float = 0.8
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int = 0
    length: int = 100

    def changed(self, name: str, typed: str) -> Settings:
        """These settings with one value as the user typed it. PlayProblem if it is not possible."""
        setting = SETTINGS[name]
        word = typed.strip().lower()
        if setting.can_be_off and word in OFF:
            return self._with(name, None)
        value = setting.read(word)
        if value is None:
            raise PlayProblem(f"{setting.command} takes {setting.takes}, not {typed.strip()!r}")
        return self._with(name, value)

    def _with(self, name: str, value: Any) -> Settings:
        changes: dict[str, Any] = {name: value}
        return replace(self, **changes)

    def shown(self, name: str) -> str:
        value = getattr(self, name)
        return "off" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Setting:
    command: str
    takes: str
    read: Callable[[str], Any]  # the value, or None if it is not one
    can_be_off: bool = False


def _number(low: float, high: float, above: bool = False) -> Callable[[str], float | None]:
    def read(word: str) -> float | None:
        try:
            value = float(word)
        except ValueError:
            return None
        fits = math.isfinite(value) and low <= value <= high and not (above and value == low)
        return value if fits else None

    return read


def _count(low: int, high: int) -> Callable[[str], int | None]:
    def read(word: str) -> int | None:
        return int(word) if word.isascii() and word.isdigit() and len(word) < 20 and low <= int(word) <= high else None

    return read


def _temperature(word: str) -> float | None:
    value = _number(0, 100)(word)
    return None if value is None or 0 < value < 0.01 else value


SETTINGS = {
    "temperature": Setting(
        "/temperature", "0, which always takes the likeliest token, or a number from 0.01 to 100", _temperature
    ),
    "top_k": Setting("/top-k", "a whole number from 1, or `off`", _count(1, 10**9), can_be_off=True),
    "top_p": Setting("/top-p", "a number above 0 and at most 1, or `off`", _number(0, 1, above=True), can_be_off=True),
    "min_p": Setting("/min-p", "a number from 0 to 1, or `off`", _number(0, 1), can_be_off=True),
    "seed": Setting("/seed", "a whole number from 0", _count(0, 2**63 - 1)),
    "length": Setting("/length", f"a whole number from 1 to {MAX_TOKENS}", _count(1, MAX_TOKENS)),
}
