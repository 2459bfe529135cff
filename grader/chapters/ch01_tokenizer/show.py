"""How often letters are neighbours."""

from __future__ import annotations

import torch
from grader.execution.proxy import Implementation
from grader.teaching.show.panel_makers import make_grid
from grader.teaching.show.panels import Panel
from grader.verdict.comparing import Mismatch

TEXT = "the cat sat on the mat"


def count_pairs(side: Implementation) -> list[Panel]:
    letters = sorted(set(TEXT))
    counts = side.count_pairs([letters.index(letter) for letter in TEXT])
    if not isinstance(counts, dict):
        raise Mismatch(f"count_pairs should return a dict; it returned {type(counts).__name__}")
    table = torch.zeros(len(letters), len(letters))
    for (first, second), count in counts.items():
        table[first, second] = count
    labels = ["_" if letter == " " else letter for letter in letters]
    return [make_grid(f'"{TEXT}"', table, labels, labels, ("letter", "the next (_ is a space)"))]
