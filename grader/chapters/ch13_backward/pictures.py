"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

from types import ModuleType

import torch
from grader.chapters.ch09_sampling.pictures import FIVE_WORDS
from grader.teaching.drawing import CURVES, EMPTY, FAINT, box, card, heatmap, paint, write

WIDE, TALL = 164, 58  # of a node


def ch13_diagram(chapter: ModuleType) -> str:
    """Draw a calculation of five numbers: values upwards, gradients downwards, and the slope at each arrow."""
    a, b = chapter.Scalar(2), chapter.Scalar(-3)
    c = a * b
    d = c + a
    e = d**2
    e.backward()
    nodes = {
        "e = d²": (e, 34, 76),
        "d = c + a": (d, 34, 190),
        "c = a · b": (c, 34, 304),
        "b": (b, 34, 430),
        "a": (a, 242, 430),
    }
    to_d, to_c, to_b = dict(e.made_of)[d], dict(d.made_of)[c], dict(c.made_of)[b]
    through_d, through_c = dict(d.made_of)[a], dict(c.made_of)[a]
    marks = [
        write(20, 58, "values and gradients, shape ()", colour=FAINT, size=15),
        *_arrow("M116,136 L116,178", (116, 188), to_d, (128, 166)),
        *_arrow("M116,250 L116,292", (116, 302), to_c, (128, 280)),
        *_arrow("M116,364 L116,418", (116, 428), to_b, (128, 400)),
        *_arrow("M200,219 C330,222 350,300 350,418", (350, 428), through_d, (342, 276)),
        *_arrow("M200,333 C260,338 288,360 288,418", (288, 428), through_c, (200, 384)),
    ]
    for name, (node, x, y) in nodes.items():
        marks.append(box(x, y, WIDE, TALL, EMPTY))
        marks.append(write(x + 12, y + 23, f"{name} = {node.value:g}", size=15, bold=True))
        marks.append(write(x + 12, y + 46, f"gradient {node.grad:g}", size=15))
    paths = f"({c.grad:g}) · ({through_c:g}) + ({d.grad:g}) · {through_d:g}"
    marks.append(write(20, 524, f"Two paths reach a: {paths} = {a.grad:g}", size=15))
    return card(marks, 440, 546, "Gradients come back down every path")


def _arrow(way: str, end: tuple[int, int], slope: float, label: tuple[int, int]) -> list[str]:
    """Return an arrow that points down, and the slope at its side."""
    x, y = end
    return [
        f'<path d="{way}" {paint(None, CURVES[1])} stroke-width="2.5"/>',
        f'<polygon points="{x},{y} {x - 6},{y - 11} {x + 6},{y - 11}" {paint(CURVES[1])}/>',
        write(*label, f"times {slope:g}", size=15),
    ]


def ch13_backward(chapter: ModuleType) -> str:
    weights = torch.tensor(list(FIVE_WORDS.values())).expand(len(FIVE_WORDS), -1)
    slopes = chapter.softmax_backward(weights, torch.eye(len(FIVE_WORDS)))
    title = "How much each weight grows with each score"
    return heatmap(slopes, list(FIVE_WORDS), list(FIVE_WORDS), title, row_name="weight", column_name="score")
