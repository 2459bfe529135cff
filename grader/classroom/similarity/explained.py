"""The pieces of code that the course explains: two people may both have them without having seen each other's work.

They come from the reference, the stubs, the code in the lessons, and the correct variants in tests/variants (where the kit has them).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from textwrap import dedent

from grader.classroom.similarity.fingerprints import Piece, all_pieces
from grader.course.source import SourceProblem, read_source
from grader.course.stubs import reference_stub
from grader.course.syllabus import EXERCISES, SOLUTIONS, TESTS

_FENCED = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^(?: {4}.*)?\n)+", re.MULTILINE)


@cache
def explained_pieces() -> frozenset[Piece]:
    """Every piece of the course's own code."""
    found: set[Piece] = set()
    for text in _course_texts():
        try:
            found |= all_pieces(text)
        except SourceProblem:  # an indented block of a lesson may be a formula
            continue
    return frozenset(found)


def _course_texts() -> Iterator[str]:
    for path in sorted(SOLUTIONS.glob("ch*.py")):
        yield read_source(path)
        yield reference_stub(path.stem)
    for path in sorted((TESTS / "variants").glob("*/*.py")):
        yield read_source(path)
    for path in sorted(EXERCISES.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        yield from _FENCED.findall(text)
        yield from (dedent(block) for block in _INDENTED.findall(text) if block.strip())
