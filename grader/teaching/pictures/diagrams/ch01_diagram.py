"""From text to ids and back, with words and with byte pairs."""

from __future__ import annotations

from grader.teaching.drawing.flow.draw import flow
from grader.teaching.drawing.flow.items import Box, Column, Item, Panel, Split


def draw() -> str:
    words: list[Item] = [
        Box("split", "lower-case words"),
        "list[str]",
        Box("vocabulary", "from build_vocab", kind="learned"),
    ]
    byte_pairs: list[Item] = [
        Box("UTF-8", "bytes 0 to 255"),
        "list[int]",
        Box("merges", "from train_bpe", kind="learned"),
    ]
    items: list[Item] = [
        Box("text", kind="data", wide=320),
        "str",
        Split([(-85, words), (85, byte_pairs)]),
        "list[int]",
        Box("ids", kind="data", wide=320),
        "list[int]",
        Box("decode", "look up, join"),
        "str",
        Box("text", "from words: in lower case", kind="data", wide=320, key="decoded"),
    ]
    return flow("Text to ids, and back", [Panel([Column(200, items, wide=150)], upward=False)])
