"""Finds the line of a key in a TOML text, since Python's reader does not keep lines."""

from __future__ import annotations

import re
import tomllib

_KEY = re.compile(r"""\s*((?:"(?:[^"\\]|\\.)*"|'[^']*'|[\w-]+|\s*\.\s*)+?)\s*=(?!=)""")
Path = tuple[str | int, ...]  # keys from the top; a number counts the tables of an array


def find_line(text: str, path: Path) -> int:
    """The line of this key; or of the nearest table around it, or 1."""
    found: dict[Path, int] = {}
    table: Path = ()
    counts: dict[Path, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("["):
            keys = _parse_keys(line)
            if keys is None:  # a line of an array
                continue
            if line.lstrip().startswith("[["):
                counts[keys] = counts.get(keys, -1) + 1
                table = (*keys, counts[keys])
            else:
                table = keys
            for depth in range(1, len(table) + 1):
                found.setdefault(table[:depth], number)
        elif key := _KEY.match(line):
            keys = _parse_keys(f"{key[1]} = 0") or ()
            for depth in range(1, len(keys) + 1):
                found.setdefault((*table, *keys[:depth]), number)
    while path and path not in found:
        path = path[:-1]
    return found.get(path, 1)


def _parse_keys(line: str) -> Path | None:
    try:
        inside: object = tomllib.loads(line)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        return None
    keys: list[str] = []
    while isinstance(inside, dict | list) and inside:
        if isinstance(inside, list):
            inside = inside[0]
        else:
            key, inside = next(iter(inside.items()))
            keys.append(key)
    return tuple(keys)
