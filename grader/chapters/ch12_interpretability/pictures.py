"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

from types import ModuleType

from grader.chapters.ch12_interpretability.circuits import CAPITAL, WORDS, capitals, ids_of
from grader.teaching.drawing import CURVES, EMPTY, FAINT, INK, box, card, heatmap, paint, shade, text_on, write

CLEAN, CORRUPTED = "of france the capital is", "of italy the capital is"
LEFT, TOP, WIDE, TALL, GAP = 84, 118, 66, 46, 50  # of the grid of states


def ch12_diagram(chapter: ModuleType) -> str:
    """Draw every state of the stream with what the lens reads there, and the way that the answer takes."""
    model, ids = capitals(chapter), ids_of(CLEAN)
    chances = chapter.logit_lens(model, ids)[:, 0].softmax(-1)  # (layers + 1, T, V)
    weight = float(chapter.attention_patterns(model, ids)[1, 0, 0, -1, 1])

    def corner(state: int, position: int) -> tuple[float, float]:
        return LEFT + WIDE * position, TOP + (TALL + GAP) * state

    marks = [write(20, 58, "states (B, T, D): what the lens reads", colour=FAINT, size=15)]
    for position, word in enumerate(CLEAN.split()):
        marks.append(write(corner(0, position)[0] + WIDE / 2, TOP - 14, word, anchor="middle", size=15))
    for state, row in enumerate(chances.tolist()):
        marks.append(write(LEFT - 12, corner(state, 0)[1] + 28, f"state {state}", anchor="end", size=15))
        for position, chance in enumerate(row):
            x, y = corner(state, position)
            best = round(max(chance), 2)
            read = [WORDS[chance.index(max(chance))], f"{best:.2f}"] if best > 2 / len(WORDS) else []
            fill = shade(best, 0, 1) if read else EMPTY
            marks.append(box(x, y, WIDE, TALL, fill))
            for line, text in enumerate(read):
                marks.append(
                    write(x + WIDE / 2, y + 19 + 19 * line, text, anchor="middle", colour=text_on(fill), size=15)
                )
    way = [(0, 1), (1, 1), (2, 4), (3, 4)]  # where the answer is, as patching finds it
    said = ["block 0: nothing", f"block 1: head 0, weight {weight:.2f}", "block 2: feed-forward"]
    for (state, position), (_, target), text in zip(way, way[1:], said):
        (x, y), x_end = corner(state, position), corner(state, target)[0] + WIDE / 2
        start, end = y + TALL + 2, y + TALL + GAP - 9
        shape = f"M{x + WIDE / 2:g},{start} C{x + WIDE / 2:g},{start + 22} {x_end:g},{end - 26} {x_end:g},{end}"
        marks.append(f'<path d="{shape}" {paint(None, CURVES[1])} stroke-width="3"/>')
        head = f"{x_end:g},{end + 8} {x_end - 6:g},{end - 3} {x_end + 6:g},{end - 3}"
        marks.append(f'<polygon points="{head}" {paint(CURVES[1])}/>')
        marks.append(write(20, y + TALL + GAP / 2 + 5, text, colour=INK, size=15))
    for x, y in (corner(*place) for place in way):
        frame = f'x="{x + 1:g}" y="{y + 1:g}" width="{WIDE - 2}" height="{TALL - 2}" rx="3"'
        marks.append(f'<rect {frame} {paint(None, CURVES[1])} stroke-width="3"/>')
    return card(marks, 440, TOP + 4 * TALL + 3 * GAP + 22, "Where the answer is, layer by layer")


def ch12_interpretability(chapter: ModuleType) -> str:
    """Draw how much of the logit of paris each patched state brings back, by block and position."""
    model, clean, corrupted = capitals(chapter), ids_of(CLEAN), ids_of(CORRUPTED)
    ends = [model(ids)[0][0, -1].detach() for ids in (clean, corrupted)]

    def recovery(layer: int, position: int) -> float:
        patched = chapter.patch_residual(model, clean, corrupted, layer, position)[0, -1]
        return chapter.recovery(*ends, patched, CAPITAL)

    rows = {f"after block {layer}": [recovery(layer, position) for position in range(5)] for layer in range(3)}
    title = "Recovery of the logit of paris by one clean state in a corrupted run"
    return heatmap(list(rows.values()), list(rows), CORRUPTED.split(), title, column_name="patched position")
