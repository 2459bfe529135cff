"""Several pictures on one: each below the one before."""

from __future__ import annotations

import re
from collections.abc import Sequence

from grader.teaching.drawing.svg import card

GAP, TOP = 14, 46


def stack_pictures(pictures: Sequence[str], title: str) -> str:
    """SVG pictures as one SVG, from top to bottom."""
    marks, y, wide = [], TOP, 0
    for picture in pictures:
        size = re.search(r'viewBox="0 0 (\d+) (\d+)"', picture)
        assert size, "the kit's pictures have a viewBox"
        width, height = int(size[1]), int(size[2])
        marks.append(picture.replace("<svg ", f'<svg x="{GAP}" y="{y}" ', 1).rstrip("\n"))
        y, wide = y + height + GAP, max(wide, width)
    return card(marks, wide + 2 * GAP, y, title)
