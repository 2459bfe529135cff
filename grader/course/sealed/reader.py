"""Reads the folder reference/ of a handout, which replaces solutions/ and the known mistakes.

`reference/chNN_name.sealed` is a chapter of the reference, `chNN_name.mistakes` has its known mistakes and the definitions that they change,
`chNN_name.stub` the original stub, for `headway reset`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from grader.course.chapter_source import ChapterSource
from grader.course.sealed import format as sealed_format
from grader.course.source import SourceProblem, read_bytes, read_source
from grader.course.syllabus import REFERENCE


def is_sealed(module: str) -> bool:
    return (REFERENCE / f"{module}.sealed").is_file()


@cache
def read_reference(module: str) -> ChapterSource | None:
    """A chapter of the reference, None if it is not in the handout. SourceProblem if the file is damaged."""
    if not is_sealed(module):
        return None
    return source_of_tree(module, sealed_format.join_statements(_read(f"{module}.sealed")), str(REFERENCE / f"{module}.py"))


@cache
def read_mistakes(module: str) -> dict[str, Any]:
    """What `seal_mistakes` wrote for a chapter: its tables of known mistakes and of bases, and the definitions; empty if the handout has none."""
    return _read(f"{module}.mistakes") if (REFERENCE / f"{module}.mistakes").is_file() else {}


def read_stub(module: str) -> str:
    """The original stub of the handout; SourceProblem if it is missing."""
    path = REFERENCE / f"{module}.stub"
    if not path.is_file():
        raise SourceProblem(f"{module} is not part of this handout, so there is no stub of it", file=path.name)
    return read_source(path)


def source_of_tree(module: str, sealed: bytes, filename: str) -> ChapterSource:
    try:
        return ChapterSource(module, sealed_format.raise_outline(sealed), filename, sealed)
    except sealed_format.Unsealable as problem:
        raise SourceProblem(str(problem), file=f"{module}.sealed") from None


def _read(name: str) -> Any:
    try:
        return sealed_format.unpack(read_bytes(REFERENCE / name), f"reference/{name}")
    except sealed_format.Unsealable as problem:
        raise SourceProblem(str(problem), file=name) from None
