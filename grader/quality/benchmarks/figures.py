"""What every benchmark prints: the machine it ran on, medians, and times as a person reads them."""

from __future__ import annotations

import os
import platform
from statistics import median

import torch

MARK = "→ "
ratios: list[str] = []  # what this process has found, in the order it came


def ratio(sentence: str) -> None:
    """Print a figure to be quoted; all of a run stand together at its end."""
    print(MARK + sentence, flush=True)
    ratios.append(sentence)


def machine() -> str:
    """One line; a load beside ours makes all times longer."""
    load = f", load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    system = f"{platform.system()} {platform.machine()}"
    return f"{system}, {os.cpu_count()} processors{load}, Python {platform.python_version()}, torch {torch.__version__}"


def middle(seconds: list[float]) -> float:
    return median(seconds) if seconds else float("nan")


def shown(seconds: float) -> str:
    """"4.12 s", "180 ms", and nothing where nothing was measured."""
    if seconds != seconds:
        return ""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def table(heads: list[str], rows: list[list[str]], words: int) -> str:
    """Columns as wide as they need; the first `words` of them stand on the left."""
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(len(heads))]
    lines = []
    for row in [heads, *rows]:
        cells = [cell.ljust(width) if column < words else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
