"""Pictures as part of a page, so that they follow the page's theme: a picture in a file of its own follows only the reader's system."""

from __future__ import annotations

import re
from collections.abc import Mapping

from grader.teaching.drawing.palette import without_style

READABLE = 9  # pixels; a picture whose labels would be smaller on a phone is not made so narrow, and scrolls
PHONE = 288  # pixels; every phone has as many for a picture
STEPS = (20, 24, 28, 32, 36, 44, 56)  # rem; book.css has a class for each least width, because the page's policy forbids inline styles
REM = 16
_IMAGE = re.compile(r'<img src="pictures/([^"]+)" alt="([^"]*)">')


def place_pictures(html: str, pictures: Mapping[str, str]) -> str:
    """Return the page with each of its pictures in it; one that is not there gives its description."""

    def place(match: re.Match) -> str:
        svg, alt = pictures.get(match[1]), match[2]
        if svg is None:
            return f"<em>{alt}</em>"
        inside = re.sub(r"<title>.*?</title>\n?", "", without_style(svg), flags=re.DOTALL)
        return inside.strip().replace('class="drawing"', f'class="{" ".join(["drawing", *_least_width(inside)])}" aria-label="{alt}"', 1)

    return _IMAGE.sub(place, html)


def _least_width(svg: str) -> list[str]:
    """Return the class for the least width at which the labels can be read; none where every phone is as wide."""
    width = re.search(r' width="(\d+)"', svg)
    sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)"', svg)]
    least = int(width[1]) * READABLE / min(sizes) if width and sizes else 0.0
    return [f"least-{next((step for step in STEPS if step * REM >= least), STEPS[-1])}"] if least > PHONE else []
