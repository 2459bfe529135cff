"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType

import torch
from grader.chapters.ch06_blocks.measurements import measure_way
from grader.teaching.drawing import FAINT, FLOW, SHORTCUT, Colour, box, card, curves, paint, shade, text_on, write
from torch import Tensor, nn

STREAM, PART = 62, 226  # left ends of the vectors in the stream and in the parts, px
CELL, TALL, STEP = 28, 24, 42  # a number's cell, and the distance from a vector to the next, px


def ch06_blocks(chapter: ModuleType) -> str:
    """Draw how much gradient reaches the input of each of 24 blocks, one draw of weights a line."""
    ways = [("pre-norm", "pre-norm", 0), ("post-norm", "post-norm", 0)]
    ways += [(f"no residuals, draw {seed + 1}", "no residuals", seed) for seed in (0, 1)]  # these two differ
    ways += [("no residuals, no norms", "neither", 0)]
    lines = {name: list(enumerate(measure_way(chapter, way, seed).sizes, start=1)) for name, way, seed in ways}
    title = "A gradient of norm 1, backpropagated through 24 blocks"
    return curves(lines, title, x_name="at the input of block", y_name="norm of the gradient", log=True)


def ch06_diagram(chapter: ModuleType) -> str:
    """Draw the worked example's position 0 in both blocks: its stream, and what each part computes and adds."""
    classes = (chapter.PreNormBlock, chapter.PostNormBlock)
    pre, post = (_with_easy_weights(block(4, 1, 4, activation="relu")) for block in classes)
    x = torch.tensor([[[4.0, 0, 4, 0]]])
    read = pre.ln1(x)
    middle = x + pre.attn(read)
    again = pre.ln2(middle)
    marks = [write(20, 58, "The stream is (B, T, D); here one vector of 4.", colour=FAINT)]
    stream = [("x", x), None, ("sum", middle), None, ("out", pre(x))]
    parts = [("ln1", read), ("attn", pre.attn(read)), ("ln2", again), ("ffn", pre.ffn(again)), None]
    marks += _block(90, "PreNormBlock: adds only", stream, parts)
    first = x + post.attn(x)
    normed = post.ln1(first)
    second = normed + post.ffn(normed)
    stream = [("x", x), None, ("sum", first), ("ln1", normed), None, ("sum", second), ("ln2", post(x))]
    parts = [None, ("attn", post.attn(x)), None, None, ("ffn", post.ffn(normed)), None, None]
    marks += _block(338, "PostNormBlock: adds, then rescales", stream, parts)
    return card(marks, 390, 660, "Position 0 of the worked example")


def _with_easy_weights(block: nn.Module) -> nn.Module:
    """Give a block the worked example's weights: W_q and W_k are zero, all other matrices the identity, biases zero."""
    for name, parameter in block.named_parameters():
        if parameter.dim() == 2:
            nn.init.zeros_(parameter) if "W_q" in name or "W_k" in name else nn.init.eye_(parameter)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return block


Row = Sequence[tuple[str, Tensor] | None]


def _block(top: float, title: str, stream: Row, parts: Row) -> Iterator[str]:
    """Draw the stream from top to bottom, and at its right the parts; the stream has a plus sign where it has None."""
    yield write(20, top, title, bold=True)
    middle, top = STREAM + 2 * CELL, top + 14
    for row, (here, part) in enumerate(zip(stream, parts)):
        y = top + STEP * row
        across = y + TALL / 2
        if row:
            start = y - STEP + (TALL if stream[row - 1] else 22)
            colour = FLOW if here and here[0].startswith("ln") else SHORTCUT  # a norm ends the direct path
            yield _way([(middle, start), (middle, y if here else y + 2)], colour)
        if here:
            yield from _vector(STREAM, y, here[1])
            yield write(STREAM - 8, across + 4, here[0], anchor="end", colour=FAINT)
        else:
            yield f'<circle cx="{middle:g}" cy="{across:g}" r="10" {paint(None, SHORTCUT)} stroke-width="1.6"/>'
            yield write(middle, across + 5, "+", anchor="middle", size=15, bold=True)
            yield _way([(PART, across), (middle + 14, across)])
        if part:
            yield from _vector(PART, y, part[1])
            yield write(PART + 4 * CELL + 6, across + 4, part[0], colour=FAINT)
    for row, part in enumerate(parts):
        y = top + STEP * row
        if part and stream[row]:
            yield _way([(STREAM + 4 * CELL, y + TALL / 2), (PART, y + TALL / 2)])
            yield _way([(PART + 2 * CELL, y + TALL), (PART + 2 * CELL, y + STEP)])
        elif part and not parts[row - 1]:
            yield _way(
                [(STREAM + 4 * CELL, y - STEP + TALL / 2), (PART + 2 * CELL, y - STEP + TALL / 2), (PART + 2 * CELL, y)]
            )


def _vector(x: float, y: float, vector: Tensor) -> Iterator[str]:
    for place, number in enumerate(vector[0, 0].tolist()):
        fill, left = shade(number, -8.0, 8.0), x + CELL * place
        yield box(left, y, CELL, TALL, fill)
        yield write(left + CELL / 2, y + TALL / 2 + 5, f"{number:.0f}", anchor="middle", colour=text_on(fill))


def _way(points: Sequence[tuple[float, float]], colour: Colour = FLOW) -> str:
    """Draw a line through the points with an arrowhead at its end."""
    (x, y), (end_x, end_y) = points[-2:]
    step = max(abs(end_x - x), abs(end_y - y))
    along_x, along_y = (end_x - x) / step, (end_y - y) / step
    base_x, base_y = end_x - 7 * along_x, end_y - 7 * along_y
    corners = [
        (end_x, end_y),
        (base_x + 4 * along_y, base_y + 4 * along_x),
        (base_x - 4 * along_y, base_y - 4 * along_x),
    ]
    line, head = (" ".join(f"{a:g},{b:g}" for a, b in shape) for shape in ([*points[:-1], (base_x, base_y)], corners))
    return (
        f'<polyline points="{line}" {paint(None, colour)} stroke-width="2"/><polygon points="{head}" {paint(colour)}/>'
    )
