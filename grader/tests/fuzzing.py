"""What fuzz tests share: how many examples to try, bytes changed at random, and values of every kind that a text format has."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

MANY = int(os.environ.get("HEADWAY_FUZZ", "0"))


def fuzzed(few: int) -> Callable[[Any], Any]:
    """A number of examples, always the same ones; with HEADWAY_FUZZ that number of examples, other ones each time."""
    return settings(max_examples=MANY or few, derandomize=not MANY, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@st.composite
def mutated(draw, whole: Sequence[bytes]) -> bytes:
    """One of these with a few bytes changed, dropped, repeated, exchanged or cut off."""
    data = bytearray(draw(st.sampled_from(whole)))
    for _ in range(draw(st.integers(1, 5))):
        if not data:
            break
        place, length = draw(st.integers(0, len(data) - 1)), draw(st.sampled_from([1, 2, 4, 16, 300, 4096]))
        match draw(st.sampled_from(["set", "set", "noise", "drop", "repeat", "exchange", "cut"])):
            case "set":
                data[place] = draw(st.sampled_from([0, 1, 0x2E, 0x2F, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
            case "noise":
                data[place : place + length] = draw(st.binary(max_size=min(length, 16)))
            case "drop":
                del data[place : place + length]
            case "repeat":
                data[place:place] = data[place : place + length]
            case "exchange":
                other = draw(st.integers(0, len(data) - 1))
                data[place : place + 8], data[other : other + 8] = data[other : other + 8], data[place : place + 8]
            case "cut":
                del data[place:]
    return bytes(data)


_numbers = st.integers() | st.floats() | st.sampled_from([0, -1, 2**31, 2**63, 2**64, 10**400, 1e308, 5e-324])
plain = st.none() | st.booleans() | _numbers | st.text(max_size=8)
values = st.recursive(plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=6)


def as_toml(table: dict[str, Any]) -> str:
    """A document with these keys; a table within is written as one, a list of tables as such. What TOML cannot express is omitted."""
    simple = {key: value for key, value in table.items() if not isinstance(value, dict) and not _tables(value)}
    lines = [f"{_key(key)} = {_value(value)}\n" for key, value in simple.items() if _value(value)]
    for key, value in table.items():
        if isinstance(value, dict):
            lines.append(f"[{_key(key)}]\n{as_toml({name: entry for name, entry in value.items() if not isinstance(entry, dict) and not _tables(entry)})}")
        elif _tables(value):
            lines += [f"[[{_key(key)}]]\n{as_toml(entry).replace('[[', f'[[{_key(key)}.')}" for entry in value]
    return "".join(lines)


def _tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, dict) for entry in value)


def _key(key: str) -> str:
    return json.dumps(key, ensure_ascii=False)


def _value(value: Any) -> str:
    if value is HUGE:
        return "0x1" + "0" * 5000
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float | datetime | date):
        return repr(value) if isinstance(value, float) else value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(filter(None, map(_value, value)))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_key(key)} = {_value(entry)}' for key, entry in value.items() if _value(entry))}}}"
    return ""


HUGE = object()  # a number that Python reads in base 16, but refuses to write in base 10
_times = st.datetimes() | st.datetimes(timezones=st.timezones()) | st.dates() | st.sampled_from([datetime(2026, 12, 1, tzinfo=UTC), date(2026, 12, 1)])
toml_values = st.recursive(
    plain | _times | st.sampled_from([HUGE, "15m", "99999d", "1 h"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3), max_leaves=4,
)  # fmt: skip
