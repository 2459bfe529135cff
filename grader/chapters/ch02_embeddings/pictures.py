"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

from types import ModuleType

import torch
from grader.teaching.drawing import FAINT, box, card, heatmap, shade, text_on, write


def ch02_embeddings(chapter: ModuleType) -> str:
    table = chapter.sinusoidal_positions(32, 16)
    rows, columns = ([str(number) for number in range(count)] for count in (32, 16))
    title = "Sinusoidal positions, 32 of them in 16 features"
    return heatmap(table, rows, columns, title, row_name="position", column_name="feature")


def ch02_sum(chapter: ModuleType) -> str:
    """Draw the three steps of the worked example: token vectors, position vectors, and their sums."""
    words = ["day", "by", "day"]
    tokens = torch.tensor([[2.0, 1, -1, 0], [1, -2, 0, 3], [2, 1, -1, 0]])
    positions = chapter.sinusoidal_positions(3, 4)
    wide, tall, left, top, gap = 50, 34, 84, 78, 36
    marks: list[str] = []
    tables = {"token vectors": tokens, "position vectors": positions, "sums": tokens + positions}
    for number, (name, table) in enumerate(tables.items()):
        x0 = left + number * (4 * wide + gap)
        marks.append(write(x0 + 2 * wide, top - 14, name, "middle", FAINT))
        for r, row in enumerate(table.tolist()):
            if not number:
                marks.append(write(left - 12, top + r * tall + 22, f"{r}  {words[r]}", "end"))
            for c, value in enumerate(row):
                x, y, fill = x0 + c * wide, top + r * tall, shade(value, -4, 4)
                marks.append(box(x, y, wide, tall, fill))
                marks.append(write(x + wide / 2, y + 22, f"{value:.2f}", "middle", text_on(fill)))
        if number < 2:
            between = x0 + 4 * wide + gap / 2
            marks.append(write(between, top + 1.5 * tall + 6, "+="[number], "middle", size=18, bold=True))
    title = "“day by day”: the same word becomes two vectors"
    return card(marks, left + 3 * 4 * wide + 2 * gap + 20, top + 3 * tall + 20, title)
