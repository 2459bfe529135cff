"""The boxes-and-arrows diagrams of the lessons: exercises/pictures/chNN_name.svg.

Each diagram has a module here, named like it, whose `draw()` returns the picture. Shapes and order are those of the
solutions; `grader/tests/teaching/test_diagrams.py` looks up each shape in the chapter's lesson or code.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path


def draw_diagrams() -> dict[str, str]:
    """Return every diagram by file name."""
    return {f"{path.stem}.svg": import_module(f".{path.stem}", __name__).draw() for path in sorted(Path(__file__).parent.glob("ch*.py"))}
