"""What the commands show, as lines of plain text: bars, tables, two texts side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from grader.models.play.engine import Candidate
from torch import Tensor

BAR_CHARACTERS = 24
LONGEST_TOKEN = 18
MOST_ATTENTION_TOKENS = 16
EIGHTHS = " ▏▎▍▌▋▊▉"


def bar(share: float, width: int = BAR_CHARACTERS, unicode: bool = True) -> str:
    """A bar of this share of the width, padded to the width."""
    share = min(max(share, 0.0), 1.0)
    if not unicode:
        return ("#" * round(share * width)).ljust(width)
    eighths = round(share * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(width)


def percent(share: float) -> str:
    return f"{100 * share:5.1f} %"


def likeliest_lines(candidates: Sequence[Candidate], unicode: bool) -> list[str]:
    """One line for each candidate: the model's probability as a bar and a number, and the chance to be drawn."""
    width = _column([candidate.text for candidate in candidates])
    lines = [f"  {'next token'.ljust(width)}  {'the model'.ljust(BAR_CHARACTERS + 9)}  drawn"]
    for candidate in candidates:
        lines.append(
            f"  {_fit(candidate.text, width)}  {bar(candidate.probability, BAR_CHARACTERS, unicode)} "
            f"{percent(candidate.probability)}  {percent(candidate.drawn)}"
        )
    return lines


def attention_lines(tokens: Sequence[str], pattern: Tensor, unicode: bool) -> list[str]:
    """For each of the last tokens: where the head looked most, and second most. `pattern` is (T, T)."""
    first = max(0, len(tokens) - MOST_ATTENTION_TOKENS)
    width = _column(tokens[first:])
    lines = []
    for position in range(first, len(tokens)):
        weights, keys = pattern[position, : position + 1].topk(min(2, position + 1))
        looked = "   ".join(
            f"{percent(weight)} {_fit(tokens[key], 0)}" for weight, key in zip(weights.tolist(), keys.tolist())
        )
        lines.append(f"  {_fit(tokens[position], width)}  {bar(weights[0].item(), 12, unicode)} {looked}")
    return lines


def lens_lines(layers: Sequence[Sequence[Candidate]], unicode: bool) -> list[str]:
    """One line for each layer, the embeddings first: the likeliest tokens, and a bar for the first of them."""
    names = ["embeddings", *(f"layer {i}" for i in range(1, len(layers)))]
    width = max(map(len, names))
    said = [
        "   ".join(f"{_fit(c.text, 0)} {percent(c.probability).strip()}" for c in candidates) for candidates in layers
    ]
    return [
        f"  {name.ljust(width)}  {bar(candidates[0].probability, 12, unicode)}  {line}"
        for name, candidates, line in zip(names, layers, said)
    ]


def side_by_side(heads: Sequence[str], texts: Sequence[str], width: int) -> list[str]:
    """Two texts in two columns; one below the other where there is no room."""
    if width < 60:
        return [line for head, text in zip(heads, texts) for line in (head, *_wrap(text, max(width - 1, 20)), "")]
    column = (width - 4) // 2
    columns = [[head[:column], "", *_wrap(text, column)] for head, text in zip(heads, texts)]
    height = max(map(len, columns))
    left, right = ([*lines, *[""] * (height - len(lines))] for lines in columns)
    return [f"{a.ljust(column)}   {b}".rstrip() for a, b in zip(left, right)]


def _wrap(text: str, width: int) -> list[str]:
    return [line for paragraph in text.split("\n") for line in textwrap.wrap(paragraph, width) or [""]]


def _column(texts: Sequence[str]) -> int:
    return min(max([len("next token"), *map(len, texts)]), LONGEST_TOKEN)


def _fit(text: str, width: int) -> str:
    return (text if len(text) <= LONGEST_TOKEN else text[: LONGEST_TOKEN - 1] + "…").ljust(width)
