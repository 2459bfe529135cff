"""What every benchmark prints: the machine it ran on, medians, and readable times."""

from __future__ import annotations

import os
import platform
from statistics import median

import torch

MARK = "→ "
printed_figures: list[str] = []  # the figures printed by this process, in order


def print_figure(sentence: str) -> None:
    """Print a figure to be quoted; all figures of a run are repeated at its end."""
    print(MARK + sentence, flush=True)
    printed_figures.append(sentence)


def machine() -> str:
    """One line; other load on the machine makes all times longer."""
    load = f", load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    system = f"{platform.system()} {platform.machine()}"
    return f"{system}, {os.cpu_count()} processors{load}, Python {platform.python_version()}, torch {torch.__version__}"


def median_or_nan(seconds: list[float]) -> float:
    return median(seconds) if seconds else float("nan")


def format_seconds(seconds: float) -> str:
    """"4.12 s" or "180 ms"; an empty string for NaN, when nothing was measured."""
    if seconds != seconds:
        return ""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def table(heads: list[str], rows: list[list[str]], words: int) -> str:
    """Columns as wide as their longest cell; the first `words` of them are left-aligned, the others right-aligned."""
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    lines = []
    for row in [heads, *rows]:
        cells = [cell.ljust(width) if column < words else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
