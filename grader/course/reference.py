"""The reference: the chapters in solutions/. A handout has them in reference/ instead, compressed.

`reference/chNN_name.sealed` is a chapter, `chNN_name.mistakes` has its known mistakes, `chNN_name.stub` is its stub,
for `headway reset`. Compression hides the reference from a glance, a search and an editor's "go to definition". It does
not protect it: what must stay secret is not in the handout (`--hidden`).
"""

from __future__ import annotations

import json
import zlib
from functools import cache
from typing import Any

from grader.course.chapter_source import ChapterSource
from grader.course.source import SourceProblem, read_bytes, read_source
from grader.course.syllabus import REFERENCE, SOLUTIONS


def seal(text: str) -> bytes:
    return zlib.compress(text.encode(), 9)


def is_sealed(module: str) -> bool:
    return (REFERENCE / f"{module}.sealed").is_file()


@cache
def reference_of(module: str) -> ChapterSource | None:
    """A chapter of the reference; None if it is missing. SourceProblem if its file is damaged."""
    path = SOLUTIONS / f"{module}.py"
    if path.is_file():
        return ChapterSource(module, read_source(path), str(path))
    if is_sealed(module):
        return ChapterSource(module, _unseal(f"{module}.sealed"), str(REFERENCE / path.name), sealed=True)
    return None


@cache
def read_sealed_mistakes(module: str) -> dict[str, Any]:
    """The tables of a chapter's known mistakes and bases in a handout; empty if it has none."""
    return json.loads(_unseal(f"{module}.mistakes")) if (REFERENCE / f"{module}.mistakes").is_file() else {}


def read_sealed_stub(module: str) -> str:
    """The original stub of the handout; SourceProblem if it is missing."""
    path = REFERENCE / f"{module}.stub"
    if not path.is_file():
        raise SourceProblem(f"{module} is not part of this handout, so there is no stub of it", file=path.name)
    return read_source(path)


def _unseal(name: str) -> str:
    try:
        return zlib.decompress(read_bytes(REFERENCE / name)).decode()
    except (zlib.error, UnicodeDecodeError):
        message = f"reference/{name} is damaged, so the tests have no reference; copy this file again from the handout"
        raise SourceProblem(message, file=name) from None
