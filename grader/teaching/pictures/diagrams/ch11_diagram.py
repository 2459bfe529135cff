"""A mixture of experts: the router chooses, the chosen experts compute, and a weighted sum joins their outputs."""

from __future__ import annotations

from grader.teaching.drawing.flow.draw import flow
from grader.teaching.drawing.flow.items import Box, Column, Item, Kind, Link, Panel, Split

TOKENS = "(B * T, D)"


def draw() -> str:
    experts: list[tuple[float, str, Kind]] = [(-97, "expert 0", "learned"), (0, "expert 1", "idle"), (97, "expert 2", "learned")]
    items: list[Item] = [
        Box("x", kind="data", wide=110),
        "(B, T, D)",
        Box("flatten", "one row per token"),
        TOKENS,
        Box("router", "D to N", kind="learned"),
        "(B * T, N)",
        Box("route", "softmax, top_k: (B * T, k)", wide=284),
        Split([(distance, [Box(name, kind=kind, wide=88), "(n, D)"]) for distance, name, kind in experts]),
        Box("weighted sum", "with the weights from route", wide=284),
        TOKENS,
        Box("reshape"),
        "(B, T, D)",
        Box("output", kind="text"),
    ]
    loss: list[Item] = [Box("aux_loss", "a scalar", wide=94)]
    links = [Link("route", "weighted sum", ("left", "left"), bend=12), Link("route", "aux_loss", ("right", "top"))]
    columns = [Column(168, items, wide=160), Column(346, loss, beside="flatten")]
    return flow("A mixture of experts", [Panel(columns, links)])
