"""Pictures as part of a page, so that they follow the page's theme: a picture in a file of its own follows only the reader's system."""

from __future__ import annotations

import re
from collections.abc import Mapping

from grader.teaching.drawing.palette import without_style

READABLE = 480  # units; a wider picture scrolls on a phone, because its labels would be too small
_IMAGE = re.compile(r'<img src="pictures/([^"]+)" alt="([^"]*)">')


def place_pictures(html: str, pictures: Mapping[str, str]) -> str:
    """Return the page with each of its pictures in it; one that is not there gives its description."""

    def place(match: re.Match) -> str:
        svg, alt = pictures.get(match[1]), match[2]
        if svg is None:
            return f"<em>{alt}</em>"
        inside = re.sub(r"<title>.*?</title>\n?", "", without_style(svg), flags=re.DOTALL)
        width = re.search(r' width="(\d+)"', inside)
        name = "drawing wide" if width and int(width[1]) > READABLE else "drawing"
        return inside.strip().replace('class="drawing"', f'class="{name}" aria-label="{alt}"', 1)

    return _IMAGE.sub(place, html)
