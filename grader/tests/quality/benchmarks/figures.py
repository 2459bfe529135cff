"""What benchmarks and proofs share: they run by name, and print the machine, figures, times and tables."""

from __future__ import annotations

import importlib
import os
import pkgutil
import platform
import sys
from io import TextIOWrapper
from types import ModuleType

import torch
from grader.counts import format_count


def print_figure(sentence: str) -> None:
    """Print a figure to be quoted."""
    print(f"→ {sentence}", flush=True)


def print_goal(sentence: str, goal: str, met: bool) -> None:
    """Print a figure, and whether it reaches its goal."""
    print_figure(f"{sentence}; the goal is {goal}: {'met' if met else 'not met'}.")


def machine() -> str:
    """One line; other load on the machine makes all times longer."""
    load = f", load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    system = f"{platform.system()} {platform.machine()}"
    return f"{system}, {os.cpu_count()} processors{load}, Python {platform.python_version()}, torch {torch.__version__}"


def format_seconds(seconds: float) -> str:
    """ "4.12 s" or "180 ms"."""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def table(heads: list[str], rows: list[list[str]], words: int) -> str:
    """A Markdown table with aligned columns; the first `words` of them have words, the others numbers."""
    widths = [max(4, *map(len, column)) for column in zip(heads, *rows)]
    return "\n".join([*_heads(heads, widths, words), *(_line(row, widths, words) for row in rows)])


class GrowingTable:
    """Such a table, printed row by row as they are measured. `longest` is the longest word of each column of words."""

    def __init__(self, heads: list[str], *longest: str) -> None:
        self.words = len(longest)
        self.widths = [max(len(head), 8) for head in heads]
        self.widths[: self.words] = [max(len(head), len(word)) for head, word in zip(heads, longest)]
        print(*_heads(heads, self.widths, self.words), sep="\n", flush=True)

    def add(self, row: list[str]) -> None:
        print(_line(row, self.widths, self.words), flush=True)


def _heads(heads: list[str], widths: list[int], words: int) -> list[str]:
    separators = [*["---"] * words, *["---:"] * (len(heads) - words)]
    return [_line(heads, widths, words), _line(separators, widths, words)]


def _line(row: list[str], widths: list[int], words: int) -> str:
    cells = [cell.ljust(width) for cell, width in zip(row[:words], widths)]
    cells += [cell.rjust(width) for cell, width in zip(row[words:], widths[words:])]
    return f"| {' | '.join(cells)} |"


def run_by_name(package: ModuleType, kind: str, arguments: list[str]) -> int:
    """Run all modules of the package that have a function `run`, or the one named, with the other arguments. The first
    line says how long that takes.

    Returns the worst exit status.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # each row is seen when it is measured, also through a pipe
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("__"))
    modules = {name: importlib.import_module(f"{package.__name__}.{name}") for name in names}
    known = {name: module for name, module in modules.items() if hasattr(module, "run")}
    if arguments and arguments[0] not in known:
        print(f"there is no {kind} called {arguments[0]}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    chosen = {arguments[0]: known[arguments[0]]} if arguments else known
    print(_announcement({name: module.MINUTES for name, module in chosen.items()}, arguments[1:]))
    if arguments:
        return int(known[arguments[0]].run(arguments[1:]))
    status = 0
    for module in known.values():
        status = max(status, module.run([]))
        print()
    return status


def _announcement(minutes: dict[str, int], options: list[str]) -> str:
    """How long these modules take together, and each of them."""
    total, parts = sum(minutes.values()), ", ".join(f"{name} {count}" for name, count in minutes.items())
    long = f"{total / 60:.1f} hours" if total >= 90 else format_count(total, "minute")
    each = f" (in minutes: {parts})" if len(minutes) > 1 else ""
    unless = " without these options" if options else ""
    return f"This takes about {long}{unless} on two idle processors, by MINUTES in each module{each}."
