"""The picture of lesson 1."""

from __future__ import annotations

from types import ModuleType

from grader.teaching.drawing.diagrams import token_rows


def draw(chapter: ModuleType) -> str:
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
