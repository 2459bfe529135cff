"""Ids become vectors that contain their positions."""

from __future__ import annotations

from grader.teaching.drawing.flow.draw import flow
from grader.teaching.drawing.flow.items import Box, Column, Item, Panel, Sign, Split


def draw() -> str:
    tokens: list[Item] = [Box("ids", kind="data"), "(B, T)", Box("TokenEmbedding", "one row per token", kind="learned"), "(B, T, D)"]
    places: list[Item] = [Box("0 … T - 1", kind="data"), "T rows", Box("positions", "learned or sinusoidal", kind="learned"), "(T, D)"]
    items: list[Item] = [Split([(-94, tokens), (94, places)]), Sign("+"), "(B, T, D)", Box("first block", kind="text")]
    return flow("Token vectors plus position vectors", [Panel([Column(200, items, wide=178)])])
