"""The pictures of the lessons, drawn from what the reference computes: exercises/pictures/chNN_name.svg."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from .drawing import heatmap, token_rows
from .files import write_whole
from .graft import ChapterSource, Graft
from .source import read_source
from .syllabus import EXERCISES, SOLUTIONS

__all__ = ["heatmap", "lesson_pictures", "stale_lesson_pictures", "token_rows", "write_lesson_pictures"]

PICTURES = EXERCISES / "pictures"


def lesson_pictures() -> dict[str, str]:
    """Every lesson's picture, by file name; a chapter whose solution is not there yet has none."""
    written = sorted(path for path in SOLUTIONS.glob("ch*.py") if path.stem in _DRAWN)
    graft = Graft([ChapterSource(path.stem, read_source(path), str(path)) for path in sorted(SOLUTIONS.glob("ch*.py"))], "pictures")
    try:
        with torch.no_grad():
            return {f"{path.stem}.svg": _DRAWN[path.stem](graft.module(path.stem)) for path in written}
    finally:
        graft.close()


def write_lesson_pictures(folder: Path = PICTURES) -> list[str]:
    """Write those that are missing or differ; returns their names."""
    stale = {name: svg for name, svg in lesson_pictures().items() if _kept(folder / name) != svg}
    for name, svg in stale.items():
        write_whole(folder / name, svg)
    return list(stale)


def stale_lesson_pictures(folder: Path = PICTURES) -> list[str]:
    """The names of pictures that are missing in `folder`, or are not what the reference draws today."""
    return [name for name, svg in lesson_pictures().items() if _kept(folder / name) != svg]


def _kept(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8").replace("\r\n", "\n")
    except (OSError, UnicodeDecodeError):
        return None


def _tokenizer(chapter: ModuleType) -> str:
    """One text, cut by the tokenizer after each merge it learns."""
    text = "hot pot hotpot"
    merges = chapter.train_bpe(text, 300)
    names: dict[int, str] = {}
    rows = [("bytes", list(text))]
    for (left, right), new in merges.items():
        names[new] = names.get(left, chr(left)) + names.get(right, chr(right))
        known = {pair: number for pair, number in merges.items() if number <= new}
        tokens = [names.get(i, chr(i)) for i in chapter.BPETokenizer(known).encode(text)]
        rows.append((f"{names.get(left, chr(left))} + {names.get(right, chr(right))} → {new}", tokens))
    return token_rows(rows, f"“{text}” in bytes, and after each merge")


def _embeddings(chapter: ModuleType) -> str:
    """The first positions of the sinusoidal table."""
    table = chapter.sinusoidal_positions(32, 16)
    return heatmap(
        table,
        [str(position) for position in range(32)],
        [str(column) for column in range(16)],
        "Sinusoidal positions, 32 of them in 16 features",
        row_name="position",
        column_name="feature",
    )


def _attention(chapter: ModuleType) -> str:
    """The causal weights of the lesson's sentence."""
    words = ["fish", "for", "the", "crane"]
    x = torch.tensor([[3.0, 0, 0], [0, 0, 2], [0, 0, 1], [1, 1, 0]])
    w_q, w_k, w_v = (torch.tensor(w) for w in ([[1.0, 1, 0], [0, 0, 1]], [[1.0, 1, 0], [1, 1, 1]], [[1.0, 0, 0], [0, 1, 0]]))
    _, weights = chapter.scaled_dot_product_attention(x @ w_q.T, x @ w_k.T, x @ w_v.T, mask=chapter.causal_mask(4))
    return heatmap(_future_left_out(weights), words, words, "Who listens to whom, and how much", row_name="query", column_name="key")


def _future_left_out(weights: Tensor) -> Tensor:
    return weights.masked_fill(torch.ones_like(weights, dtype=torch.bool).triu(1), torch.nan)


_DRAWN: Mapping[str, Callable[[ModuleType], str]] = {
    "ch01_tokenizer": _tokenizer,
    "ch02_embeddings": _embeddings,
    "ch03_attention": _attention,
}
