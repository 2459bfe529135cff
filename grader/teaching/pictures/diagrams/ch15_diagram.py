"""One round of speculative decoding, and a text whose fork shares its blocks."""

from __future__ import annotations

from grader.teaching.drawing.flow.draw import flow
from grader.teaching.drawing.flow.items import Box, Column, Item, Link, Panel


def draw() -> str:
    items: list[Item] = [
        Box("text", kind="data"),
        "(1, T)",
        Box("draft", "n passes", kind="learned", chapter="7"),
        "(1, T + n)",
        Box("model", "one pass", kind="learned", chapter="7"),
        "(n + 1, V)",
        Box("accept_drafts", "keep, replace, add one"),
        "1 to n + 1 tokens",
        Box("longer text", kind="data"),
    ]
    blocks: list[Item] = [
        Box("text: blocks 7, 6, 5", kind="data", cells=(0, 10), block=4),
        "fork",
        Box("fork: blocks 7, 6, 5", kind="data", cells=(10, 0), block=4),
        "append one",
        Box("fork: blocks 7, 6, 4", kind="data", cells=(10, 1), block=4),
    ]
    links = [
        Link("draft", "accept_drafts", ("right", "right"), "(n, V)", bend=322),
        Link("longer text", "text", ("left", "left"), bend=26, faint=True),
    ]
    panels = [
        Panel([Column(165, items, wide=210)], links, upward=False),
        Panel([Column(165, blocks, wide=264, heading="Ten positions, in blocks of four")], upward=False),
    ]
    return flow("A round of guesses; shared blocks", panels)
