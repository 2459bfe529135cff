"""What benchmarks and proofs share: they run by name, and print the machine, figures, times and tables."""

from __future__ import annotations

import importlib
import os
import pkgutil
import platform
import sys
from statistics import median
from types import ModuleType

import torch

MARK = "→ "
printed_figures: list[str] = []  # the figures printed by this process, in order


def print_figure(sentence: str) -> None:
    """Print a figure to be quoted; all figures of a run are repeated at its end."""
    print(MARK + sentence, flush=True)
    printed_figures.append(sentence)


def print_goal(sentence: str, goal: str, met: bool) -> None:
    """Print a figure, and whether it reaches its goal."""
    print_figure(f"{sentence}; the goal is {goal}: {'met' if met else 'not met'}.")


def machine() -> str:
    """One line; other load on the machine makes all times longer."""
    load = f", load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    system = f"{platform.system()} {platform.machine()}"
    return f"{system}, {os.cpu_count()} processors{load}, Python {platform.python_version()}, torch {torch.__version__}"


def median_or_nan(seconds: list[float]) -> float:
    return median(seconds) if seconds else float("nan")


def format_seconds(seconds: float) -> str:
    """ "4.12 s" or "180 ms"; an empty string for NaN, when nothing was measured."""
    if seconds != seconds:
        return ""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def table(heads: list[str], rows: list[list[str]], words: int) -> str:
    """Columns as wide as their longest cell; the first `words` of them are left-aligned, the others right-aligned."""
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    lines = []
    for row in [heads, *rows]:
        cells = [cell.ljust(width) for cell, width in zip(row[:words], widths)]
        cells += [cell.rjust(width) for cell, width in zip(row[words:], widths[words:])]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def run_by_name(package: ModuleType, kind: str, arguments: list[str]) -> int:
    """Run all modules of the package that have a function `run`, or the one named, with the other arguments.

    Returns the worst exit status. After all of them, their figures are repeated.
    """
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("__"))
    modules = {name: importlib.import_module(f"{package.__name__}.{name}") for name in names}
    known = {name: module.run for name, module in modules.items() if hasattr(module, "run")}
    if arguments and arguments[0] not in known:
        print(f"there is no {kind} called {arguments[0]}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    if arguments:
        return known[arguments[0]](arguments[1:])
    status = 0
    for run in known.values():
        status = max(status, run([]))
        print(flush=True)
    if printed_figures:
        print("Summary:", *printed_figures, sep="\n- ")
    return status
